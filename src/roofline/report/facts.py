"""What every format says in words and numbers: head line, ratios, time budget, coverage. No layout."""

import msgspec

from roofline.analysis.findings import FEWEST_SAMPLES
from roofline.core.precision import Precision
from roofline.core.roof import Bound
from roofline.core.run import OpRecord, Run, UnknownOp, Verdict
from roofline.core.units import Unit, percent, show
from roofline.errors import MachineError
from roofline.report.rows import is_timed, op_time, printable

_MEANING = {
    "compute": "roof time of compute-bound ops",
    "memory": "roof time of memory-bound ops",
    "inefficiency": "op time above the roof",
    "network": "communication not hidden behind other work",
    "idle": "the device waits for the host",
}


class Ratio(msgspec.Struct, frozen=True):
    """One headline figure.

    Attributes:
        label: Its name.
        value: The figure, formatted.
        note: What it divides by what, from which bytes, or why it is unknown.
    """

    label: str
    value: str
    note: str


class Part(msgspec.Struct, frozen=True):
    """One part of a time.

    Attributes:
        name: The part.
        seconds: Its length.
        fraction: Of the whole; None if the whole is 0.
        meaning: What it is, in words.
    """

    name: str
    seconds: float
    fraction: float | None
    meaning: str


def title(run: Run) -> str:
    """What ran."""
    return printable(run.workload.get("target") or "program")


def head(run: Run) -> list[str]:
    """What ran, on what, how: target, mode, batch, precision, machine."""
    load = run.workload
    parts = [title(run)]
    if isinstance(load.get("train"), bool):
        parts.append("training" if load["train"] else "inference")
    parts += [f"{key} {printable(load[key])}" for key in ("batch", "tokens") if load.get(key) is not None]
    parts += ["compiled"] if load.get("compiled") is True else []
    precision = load.get("precision") or (run.verdict and run.verdict.precision)
    if precision:
        parts.append(printable(precision))
    parts.append(printable(run.machine.name) if run.machine else "no machine")
    return parts


def sentence(run: Run) -> str:
    """The verdict in one sentence, or why there is none."""
    if run.verdict and run.verdict.sentence:
        return printable(run.verdict.sentence)
    if run.verdict:
        certainly = "" if run.verdict.certain else " (uncertain)"
        return f"{bound_name(run.verdict.bound)}{certainly}."
    return "No verdict: no machine to judge by." if not run.machine else "No verdict: this Run has not been judged."


def bound_name(bound: Bound) -> str:
    """The bound as a heading: "Memory-bound", "Uncertain"."""
    return "Uncertain" if bound == Bound.UNCERTAIN else f"{bound.value.capitalize()}-bound"


def time_line(run: Run) -> str:
    """How long a step takes and how well that is known, or that nothing was timed."""
    if run.timing:
        t = run.timing
        steps = f"median of {plural(len(t.samples_s), 'step')}, spread {percent(t.spread_fraction)}"
        few = len(t.samples_s) < FEWEST_SAMPLES
        noisy = "" if t.stable else "; too few for a verdict" if few else "; too noisy for a verdict"
        compiled = f"; compiled in {show(t.compile_s, 's')}, not included" if t.compile_s is not None else ""
        return f"{show(t.median_s, 's')} per step ({steps}{noisy}{compiled})"
    if run.time_budget:
        return f"{show(run.time_budget.wall_s, 's')} per step"
    roof = f"at the roof it takes {show(run.verdict.roof_s, 's')}" if run.verdict else "no roof time"
    if is_timed(run):
        return f"{show(op_time(run), 's')} in ops; {roof}"
    return f"nothing was timed; {roof}"


def wall_s(run: Run) -> float | None:
    """Wall time of one step, s; None if not timed."""
    if run.timing:
        return run.timing.median_s
    return run.time_budget.wall_s if run.time_budget else None


def ratios(run: Run) -> list[Ratio]:
    """MFU, HFU where it differs, MBU, efficiency, intensity, ridge point, averaging honesty. Empty if not judged."""
    v = run.verdict
    if not v:
        return []
    peak, bandwidth = _peak(run, v), _bandwidth(run)
    found = [Ratio("MFU", _least(v.mfu_fraction, run), _over("needed FLOP/s", peak, v.mfu_fraction, run))]
    if percent(v.hfu_fraction) != percent(v.mfu_fraction):
        found.append(Ratio("HFU", _least(v.hfu_fraction, run), _over("executed FLOP/s", peak, v.hfu_fraction, run)))
    moved = f"{v.bytes_origin} bytes/s"
    found.append(Ratio("MBU", _least(v.mbu_fraction, run), _over(moved, bandwidth, v.mbu_fraction, run)))
    note = "roof time / wall time" if v.efficiency_fraction is not None else _why(run)
    found.append(Ratio("of the roof", _least(v.efficiency_fraction, run), note))
    work = "executed matrix FLOP" if run.flops.executed else "vector FLOP"
    intensity = show(v.intensity_flops_per_byte, "FLOP/B")
    found.append(Ratio("intensity", intensity, f"{work} / {v.bytes_origin} bytes"))
    of = f"{v.precision} peak / bandwidth" if v.precision else "peak / bandwidth"
    found.append(Ratio("ridge point", show(v.ridge_point_flops_per_byte, "FLOP/B"), of))
    if v.averaging_honesty_fraction is not None:
        low = v.averaging_honesty_fraction < 0.9
        advice = "one point misleads: go per op" if low else "one point tells the truth"
        found.append(Ratio("averaging honesty", percent(v.averaging_honesty_fraction), advice))
    return found


def budget(run: Run) -> list[Part]:
    """The parts of the wall time, in a fixed order; they add up to it. Empty if not timed."""
    b = run.time_budget
    if not b:
        return []
    return _parts(
        {
            "compute": b.compute_s,
            "memory": b.memory_s,
            "inefficiency": b.inefficiency_s,
            "network": b.network_s,
            "idle": b.idle_s,
        },
        b.wall_s,
    )


def roof_split(run: Run) -> list[Part]:
    """The roof time of all ops by the ceiling that binds them, which stands in for the budget of an untimed Run."""
    split = dict.fromkeys(("compute", "memory", "network"), 0.0)
    for op in run.ops:
        if op.roof_s is not None and op.bound in split:
            split[op.bound] += op.roof_s
    return _parts({name: s for name, s in split.items() if s}, sum(split.values()))


def plural(number: int, noun: str) -> str:
    """A count with its noun: "1 step", "1,234 steps"."""
    return f"{number:,} {noun}" if number == 1 else f"{number:,} {noun}s"


def coverage(run: Run, *, most: int | None = None) -> list[str]:
    """How much was counted, what was not, and how much of it is an estimate.

    Args:
        run: What to describe.
        most: How many unknown ops to name; the rest are only counted.
    """
    c = run.coverage
    counted = percent(c.counted_fraction)
    if counted == "100 %" and c.counted_fraction < 1:
        counted = "over 99.9 %"
    calls = sum(op.calls for op in run.ops)
    lines = [
        f"{counted} of op calls counted or free ({plural(calls, 'call')} in {plural(len(run.ops), 'row')} of ops)"
    ]
    if c.unknown_ops:
        names = [_unknown(u) for u in c.unknown_ops[:most]]
        rest = len(c.unknown_ops) - len(names)
        names += [f"and {plural(rest, 'other')}"] if rest else []
        lines.append(f"unknown: {', '.join(names)}: totals are lower bounds")
    guessed = [op for op in run.ops if op.formula == "estimate"]
    if guessed:
        lines.append(f"FLOP estimated, not exact: {plural(len(guessed), 'row')}{_share_of(guessed, run)}")
    return lines


def byte_rows(run: Run) -> list[tuple[str, float, float | None]]:
    """Known byte totals: origin, bytes, intensity of the executed matrix FLOP."""
    known = {name: getattr(run.bytes, name) for name in run.bytes.__struct_fields__}
    return [(n, b, run.flops.executed / b if b else None) for n, b in known.items() if b is not None]


def flop_rows(run: Run) -> list[tuple[str, str]]:
    """FLOP totals: what, how many. With unknown ops they are lower bounds."""
    f = run.flops
    rows: list[tuple[str, float, Unit]] = [
        ("needed matrix work", f.needed, "FLOP"),
        ("executed matrix work", f.executed, "FLOP"),
        *((f"executed in {p}", n, _op_unit(p)) for p, n in f.by_precision.items()),
        ("vector work", f.vector, "FLOP"),
    ]
    at_least = "≥ " if run.coverage.unknown_ops else ""
    return [(what, f"{at_least}{show(number, unit)}") for what, number, unit in rows]


def _op_unit(precision: Precision) -> Unit:
    return "OP" if precision.is_integer else "FLOP"


def _parts(seconds: dict[str, float], whole: float) -> list[Part]:
    return [Part(n, s, s / whole if whole else None, _MEANING[n]) for n, s in seconds.items()]


def _least(fraction: float | None, run: Run) -> str:
    """A ratio; a lower bound where ops of unknown work are missing from its numerator."""
    said = percent(fraction)
    if not run.coverage.unknown_ops or fraction is None:
        return said
    return "> 0 %" if said.startswith("<") else f"≥ {said}"


def _over(what: str, ceiling: str | None, value: float | None, run: Run) -> str:
    if value is None:
        return _why(run) if ceiling else "no ceiling known"
    return f"{what} / {ceiling}" if ceiling else what


def _why(run: Run) -> str:
    """Why a ratio has no value."""
    if not run.machine:
        return "no machine to judge by"
    return "not timed" if wall_s(run) is None else "not determined"


def _peak(run: Run, verdict: Verdict) -> str | None:
    if not run.machine or not verdict.precision:
        return None
    if sum(1 for flops in run.flops.by_precision.values() if flops) > 1:
        return "the peak of each precision in use"
    try:
        ceiling = run.machine.matrix_peak(verdict.precision)
    except MachineError:
        return None
    unit: Unit = "OP/s" if verdict.precision.is_integer else "FLOP/s"
    return f"{verdict.precision} peak {show(ceiling.value, unit)} ({ceiling.origin})"


def _bandwidth(run: Run) -> str | None:
    if not run.machine or "dram" not in run.machine.bandwidth:
        return None
    ceiling = run.machine.bandwidth["dram"]
    return f"{show(ceiling.value, 'B/s')} ({ceiling.origin})"


def _unknown(op: UnknownOp) -> str:
    time = f", {percent(op.time_fraction)} of time" if op.time_fraction is not None else ""
    return f"{printable(op.name)} ×{op.calls:,} ({percent(op.bytes_fraction)} of bytes{time})"


def _share_of(ops: list[OpRecord], run: Run) -> str:
    total = op_time(run)
    if not total:
        return ""
    timed = is_timed(run)
    share = sum((op.seconds if timed else op.roof_s) or 0 for op in ops) / total
    return f" ({percent(share)} of {'op' if timed else 'roof'} time)"
