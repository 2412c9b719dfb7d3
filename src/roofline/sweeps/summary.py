"""What a sweep shows: one point per case, and the facts that follow from all of them."""

from collections.abc import Sequence
from typing import Any

import msgspec

from roofline.core.machine import Machine
from roofline.core.roof import Bound, roof_time
from roofline.core.run import BytesOrigin, Run
from roofline.core.work import Work
from roofline.sweeps import fitted, ops
from roofline.sweeps.case import Case, Outcome, Result, SweepName
from roofline.sweeps.experiments import experiment
from roofline.sweeps.remarks import Remark, remark
from roofline.sweeps.roof import roof_seconds

# A doubling of the size that gains less than this is a plateau: the knee is in the data.
_FLAT = 1.25


class Point(msgspec.Struct, frozen=True, kw_only=True):
    """One case, as tables and figures show it. What is not known is None.

    Attributes:
        series: Op, or model and mode.
        size: Elements, N, batch or tokens.
        outcome: How it ended; None of a plan, which was not run.
        timed: Whether `step_s` is a measured time; else it is the roof time.
        step_s: Time of one step, s.
        items_per_s: Tokens or images per second.
        roof_s: Least time by the machine's ceilings and the bytes judged by, s.
        fitted_s: Time by the fitted roof of the machine, s.
        flops: Matrix FLOP of a step, or vector FLOP where there is no other.
        flops_per_s: `flops` / `step_s`.
        mfu_fraction: As in the verdict; of a prediction, that of a step at the roof.
        mbu_fraction: The same.
        intensity_flops_per_byte: By the bytes judged by.
        closed_intensity_flops_per_byte: Of the op's closed form.
        ridge_point_flops_per_byte: Of the machine, in the precision of the case.
        bytes_origin: The bytes judged by.
        bound: The ceiling that binds.
        likely_bound: The one that binds by the bytes judged by, where `bound` is uncertain.
        certain: Whether every honest count of bytes says so.
        efficiency_fraction: Roof time / step time.
        remark: What to know before reading the bound.
        why: Why it has no time.
        key: The case's key.
    """

    series: str
    size: int
    outcome: Outcome | None = None
    timed: bool = False
    step_s: float | None = None
    items_per_s: float | None = None
    roof_s: float | None = None
    fitted_s: float | None = None
    flops: float | None = None
    flops_per_s: float | None = None
    mfu_fraction: float | None = None
    mbu_fraction: float | None = None
    intensity_flops_per_byte: float | None = None
    closed_intensity_flops_per_byte: float | None = None
    ridge_point_flops_per_byte: float | None = None
    bytes_origin: BytesOrigin | None = None
    bound: Bound | None = None
    likely_bound: Bound | None = None
    certain: bool | None = None
    efficiency_fraction: float | None = None
    remark: Remark | None = None
    why: str = ""
    key: str = ""


def point(result: Result) -> Point:
    """The point of a result."""
    case, run = result.case, result.run
    closed = ops.closed_intensity(case) if case.sweep == "ops" else None
    if run is None or run.verdict is None:
        return Point(
            series=case.series,
            size=case.size,
            outcome=result.outcome,
            closed_intensity_flops_per_byte=closed,
            why=result.why,
            key=case.key,
        )
    v, step_s, flops = run.verdict, step_seconds(run), run.flops.executed or run.flops.vector or None
    items = run.workload.get("items")
    moved = getattr(run.bytes, v.bytes_origin)
    machine, roof_s = run.machine, roof_seconds(run)
    efficiency = roof_s / step_s if run.timing and roof_s is not None and step_s else None
    return Point(
        series=case.series,
        size=case.size,
        outcome=result.outcome,
        timed=run.timing is not None,
        step_s=step_s,
        items_per_s=items / step_s if items and step_s else None,
        roof_s=roof_s,
        fitted_s=fitted.step_seconds(run, machine) if machine else None,
        flops=flops,
        flops_per_s=flops / step_s if flops and step_s else None,
        mfu_fraction=v.mfu_fraction if run.timing else _mfu(run, step_s),
        mbu_fraction=v.mbu_fraction
        if run.timing
        else moved / step_s / machine.dram.value
        if machine and step_s
        else None,
        intensity_flops_per_byte=v.intensity_flops_per_byte,
        closed_intensity_flops_per_byte=closed,
        ridge_point_flops_per_byte=v.ridge_point_flops_per_byte,
        bytes_origin=v.bytes_origin,
        bound=v.bound,
        likely_bound=v.likely_bound,
        certain=v.certain,
        efficiency_fraction=efficiency,
        remark=remark(run, efficiency),
        key=case.key,
    )


def step_seconds(run: Run) -> float | None:
    """Measured median of a step, else its roof time."""
    return run.timing.median_s if run.timing is not None else roof_seconds(run)


def _mfu(run: Run, step_s: float | None) -> float | None:
    """MFU of a predicted step, each precision at its own peak; None without matrix work."""
    if not run.flops.needed or not step_s or run.machine is None:
        return None
    work = sum((op.work() for op in run.ops if op.roof_s is not None), Work())
    return roof_time(work, run.machine).matrix_s / step_s * run.flops.needed / run.flops.executed


def facts(name: SweepName, cases: Sequence[Case], points: Sequence[Point], machine: Machine | None) -> dict[str, Any]:
    """What theory says of the sweep, and what its points say."""
    found: dict[str, Any] = experiment(name).facts(cases, machine)
    if name in ("decode", "train"):
        unit = "batch" if name == "decode" else "tokens"
        found |= {f"knee_{unit}": knee(points), "speedups": speedups(points)}
    return found


def knee(points: Sequence[Point]) -> float | None:
    """Where the line of the smallest size meets the plateau: best items/s · step time of the smallest / its size.

    None while throughput still rises by a quarter or more per doubling at the largest size: there is no plateau yet.
    """
    known = sorted((p for p in points if p.items_per_s and p.step_s), key=lambda p: p.size)
    if len(known) < 3:
        return None
    before, last = known[-2], known[-1]
    assert before.items_per_s and last.items_per_s and known[0].items_per_s
    gain = (last.items_per_s / before.items_per_s) ** (1 / _doublings(before.size, last.size))
    if gain >= _FLAT:
        return None
    best = max(p.items_per_s or 0.0 for p in known)
    return best / (known[0].items_per_s / known[0].size)


def speedups(points: Sequence[Point]) -> list[dict[str, float]]:
    """Throughput and step time of every size over those of the smallest."""
    known = [p for p in points if p.items_per_s and p.step_s]
    if not known:
        return []
    first = min(known, key=lambda p: p.size)
    assert first.items_per_s and first.step_s
    return [
        {
            "size": p.size,
            "throughput_ratio": (p.items_per_s or 0.0) / first.items_per_s,
            "step_ratio": (p.step_s or 0.0) / first.step_s,
        }
        for p in known
    ]


def document(
    name: SweepName,
    cases: Sequence[Case],
    results: Sequence[Result],
    machine: Machine | None,
    warnings: Sequence[str],
) -> dict[str, Any]:
    """The sweep as one JSON document (schema `roofline.sweep/1`)."""
    points = [point(result) for result in results]
    return {
        "schema": "roofline.sweep/1",
        "sweep": name,
        "machine": {"key": machine.key, "name": machine.name} if machine else None,
        "facts": facts(name, cases, points, machine),
        "points": points,
        "runs": [result.run for result in results if result.run is not None],
        "warnings": list(warnings),
    }


def _doublings(small: int, large: int) -> float:
    from math import log2

    return max(log2(large / small), 1e-9)
