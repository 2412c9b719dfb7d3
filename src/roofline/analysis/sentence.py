"""The verdict in one sentence."""

import msgspec

from roofline.core.roof import Bound
from roofline.core.run import Run, TimeBudget, Verdict
from roofline.core.units import percent, show

_NAMES = {
    Bound.COMPUTE: "compute-bound",
    Bound.MEMORY: "memory-bound",
    Bound.NETWORK: "network-bound",
    Bound.OVERHEAD: "overhead-bound",
}


def sentence(run: Run, budget: TimeBudget | None, verdict: Verdict) -> Verdict:
    """Add the sentence to a verdict."""
    return msgspec.structs.replace(verdict, sentence=_what(run, verdict) + _how_far(run, budget, verdict))


def unknown_share(run: Run) -> float:
    """Share of the bytes that ops without a formula move."""
    return sum(op.bytes_fraction for op in run.coverage.unknown_ops)


def _what(run: Run, verdict: Verdict) -> str:
    where = run.machine.name if run.machine else "this machine"
    if verdict.bound == Bound.OVERHEAD:
        return f"Overhead-bound on {where}: the device waits for the host most of the time"
    if verdict.bound == Bound.UNCERTAIN:
        assert verdict.likely_bound is not None
        likely = _NAMES[verdict.likely_bound]
        if not verdict.roof_s and not run.coverage.unknown_ops:
            return f"Nothing binds on {where}: no op computes or moves bytes"
        if unknown := unknown_share(run):
            return (
                f"Uncertain on {where}: {likely} by what was counted, but ops without a formula hold "
                f"{percent(unknown)} of the bytes, and their FLOP may decide"
            )
        other = "compute-bound" if verdict.likely_bound == Bound.MEMORY else "memory-bound"
        return (
            f"Uncertain on {where}: {likely} by {verdict.bytes_origin} bytes, but the honest byte counts straddle "
            f"the ridge point and others say {other}"
        )
    return f"{_NAMES[verdict.bound].capitalize()} on {where}{_why(verdict)}"


def _why(verdict: Verdict) -> str:
    intensity, ridge = verdict.intensity_flops_per_byte, verdict.ridge_point_flops_per_byte
    if intensity is None or ridge is None or verdict.bound == Bound.NETWORK:
        return ""
    side = "above" if intensity >= ridge else "below"
    if (side == "above") != (verdict.bound == Bound.COMPUTE):
        return ": vector work, not matrix work, needs longest" if verdict.bound == Bound.COMPUTE else ""
    return (
        f": {show(intensity, 'FLOP/B')} ({verdict.bytes_origin} bytes) is {side} the ridge point of "
        f"{show(ridge, 'FLOP/B')}"
    )


def _how_far(run: Run, budget: TimeBudget | None, verdict: Verdict) -> str:
    least = "at least " if run.coverage.unknown_ops else ""
    roof = least + show(verdict.roof_s, "s")
    if budget is None:
        return f". At the roof a step takes {roof}; nothing was timed."
    wall = show(budget.wall_s, "s")
    share = percent(verdict.efficiency_fraction)
    if verdict.efficiency_fraction is not None and verdict.efficiency_fraction > 1:
        return f". A step takes {wall}, less than the {roof} of its roof ({share}): see the warnings."
    largest = max(
        ("slow kernels", budget.inefficiency_s),
        ("idle time", budget.idle_s),
        ("exposed communication", budget.network_s),
        key=lambda part: part[1],
    )
    gap = f"most of the gap is {largest[0]}, {show(largest[1], 's')}"
    return f". A step takes {wall} and reaches {share} of the roof ({roof}); {gap}."
