"""What to know of a measured point before reading its bound: it is above its roof, or far below both ceilings."""

from typing import Literal, NamedTuple

import msgspec

from roofline.analysis.findings import reason_above
from roofline.core.roof import Bound
from roofline.core.run import OpRecord, Run
from roofline.core.units import percent, show

# What prints as more than 100 %.
_ABOVE = 1.005
# With less of the roof than this, the bound says which ceiling is nearer, and not what holds the point.
FAR_BELOW = 0.2
# A cause that is named holds at least this share of the time above the roof.
_NAMED_SHARE = 0.25
# Dispatch, allocation and the first touch of a result cost many times an empty op's launch.
_SHORT_CALL_LAUNCHES = 50

Kind = Literal["above_roof", "far_below_roof"]
Cause = Literal["cache", "traffic", "clock", "page_faults", "overhead", "short_calls", "kernels"]


class Remark(msgspec.Struct, frozen=True, kw_only=True):
    """Why the distance of a point from its roof is not what its bound suggests.

    Attributes:
        kind: Above the roof, or below a fifth of it.
        cause: What explains it, in a word.
        why: What explains it, in a sentence.
    """

    kind: Kind
    cause: Cause
    why: str


def remark(run: Run, efficiency: float | None) -> Remark | None:
    """Say what to know of a judged Run; None where there is nothing, or it was not timed.

    Args:
        run: One case.
        efficiency: Its roof time / its step time.
    """
    v = run.verdict
    if run.timing is None or v is None or efficiency is None:
        return None
    if max(efficiency, v.mbu_fraction or 0.0, v.mfu_fraction or 0.0) >= _ABOVE:
        return _above(run, efficiency)
    # An overhead bound says so itself.
    if efficiency < FAR_BELOW and v.bound != Bound.OVERHEAD:
        return _far_below(run, efficiency)
    return None


def _above(run: Run, efficiency: float) -> Remark:
    v, machine = run.verdict, run.machine
    assert v is not None and machine is not None
    # No cache explains more FLOP per second than the engine has.
    mfu = v.mfu_fraction or 0.0
    bound = Bound.COMPUTE if mfu >= _ABOVE else Bound.MEMORY
    ratio = mfu if bound == Bound.COMPUTE else max(efficiency, v.mbu_fraction or 0.0)
    # What the program works on: counts that leave out what stays in a cache would always fit into it.
    moved = max(run.bytes.operator or 0.0, getattr(run.bytes, v.bytes_origin) or 0.0)
    longest = _longest(run)
    in_place = longest is not None and longest.name.partition(".")[2].partition(".")[0].endswith("_")
    why = reason_above(ratio, bound, moved, machine, in_place=in_place)
    fits = moved <= machine.last_level_cache_bytes
    cause: Cause = "clock" if bound == Bound.COMPUTE else "cache" if fits else "traffic"
    return Remark(kind="above_roof", cause=cause, why=why)


def _far_below(run: Run, efficiency: float) -> Remark:
    t, budget, machine = run.timing, run.time_budget, run.machine
    assert t is not None and machine is not None
    gap = t.median_s * (1 - efficiency)

    def held(cause: Cause, why: str) -> Remark:
        return Remark(kind="far_below_roof", cause=cause, why=why)

    if t.page_faults is not None and t.page_faults.one_thread_s >= _NAMED_SHARE * gap:
        faults = t.page_faults
        return held(
            "page_faults",
            f"{faults.per_step:,} pages taken anew from the system at every step cost "
            f"{show(faults.all_threads_s, 's')} to {show(faults.one_thread_s, 's')} of {show(t.median_s, 's')}",
        )
    if budget is not None and budget.idle_s >= 2 * _NAMED_SHARE * gap:
        return held(
            "overhead", f"the device waits for the host {show(budget.idle_s, 's')} of {show(t.median_s, 's')}"
        )
    slowest = _slowest(run)
    if slowest is None:
        return held("kernels", "no op was timed by itself")
    if machine.launch_s is not None and slowest.call_s <= _SHORT_CALL_LAUNCHES * machine.launch_s.value:
        return held("short_calls", f"a call of {slowest.name} lasts {show(slowest.call_s, 's')}")
    return held(
        "kernels",
        f"{slowest.name} takes {percent(slowest.share)} of the op time, at {percent(slowest.efficiency)} of its roof",
    )


class _Slowest(NamedTuple):
    """All calls of one op."""

    name: str
    share: float
    efficiency: float
    call_s: float


def _slowest(run: Run) -> _Slowest | None:
    """The op that loses the most time above its roof, all its rows together."""
    rows: dict[str, list[OpRecord]] = {}
    for op in run.ops:
        if op.seconds:
            rows.setdefault(op.name, []).append(op)
    if not rows:
        return None
    seconds = {name: sum(op.seconds or 0.0 for op in own) for name, own in rows.items()}
    roofs = {name: sum(op.roof_s or 0.0 for op in own) for name, own in rows.items()}
    name = max(rows, key=lambda n: seconds[n] - roofs[n])
    calls = sum(op.calls for op in rows[name])
    return _Slowest(name, seconds[name] / sum(seconds.values()), roofs[name] / seconds[name], seconds[name] / calls)


def _longest(run: Run) -> OpRecord | None:
    """The op with the most time."""
    timed = [op for op in run.ops if op.seconds]
    return max(timed, key=lambda op: op.seconds or 0.0) if timed else None
