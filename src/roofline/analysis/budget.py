"""The time budget: where the wall time goes, in parts that are never negative and add up to it exactly."""

import math
from collections.abc import Sequence

from roofline.core.roof import Bound
from roofline.core.run import OpRecord, Run, TimeBudget

# The launch cost is that of the cheapest op. Allocation, type promotion and wrappers make it several times that for
# others, so that a shorter op tells nothing of its kernel.
_SHORT_OP_LAUNCHES = 10
_PARTS = ("compute_s", "memory_s", "inefficiency_s", "network_s", "idle_s")
_PART_OF_BOUND = {Bound.COMPUTE: "compute_s", Bound.MEMORY: "memory_s", Bound.NETWORK: "network_s"}


def time_budget(run: Run) -> TimeBudget | None:
    """Split the median wall time of a step.

    An op that was timed gives its roof time (its own time, if that is shorter) to the ceiling that binds it, and the
    rest to inefficiency. Ops that the profiler could not be matched with share the device's remaining busy time in
    the same way. What is left of the wall time is idle: the device waits for the host. On a CPU the cost of
    dispatching each op is idle time too: the cores wait for the framework.

    Returns:
        None if the Run was not timed.
    """
    if run.timing is None:
        return None
    wall = run.timing.median_s
    parts = dict.fromkeys(_PARTS, 0.0)
    timed = [op for op in run.ops if op.seconds is not None]
    _spend(parts, timed, [op.seconds or 0.0 for op in timed])
    matched = sum(op.seconds or 0.0 for op in timed)
    _spend_unmatched(parts, [op for op in run.ops if op.seconds is None], max(0.0, _busy(run, matched) - matched))
    _shrink(parts, wall)
    dispatch = min(_dispatch_s(run, timed), parts["inefficiency_s"])
    parts["inefficiency_s"] -= dispatch
    parts["idle_s"] = max(0.0, wall - sum(parts.values()))
    return TimeBudget(wall_s=wall, **_settled(parts, wall))


def _busy(run: Run, matched: float) -> float:
    """Time in which the device ran ops. Unprofiled, it may have been busy all the time."""
    assert run.timing is not None
    if run.timing.busy_s is not None:
        return min(run.timing.busy_s, run.timing.median_s)
    return matched if matched else run.timing.median_s


def _spend(parts: dict[str, float], ops: Sequence[OpRecord], seconds: Sequence[float]) -> None:
    for op, spent in zip(ops, seconds, strict=True):
        at_roof = min(op.roof_s or 0.0, spent)
        if op.bound in _PART_OF_BOUND:
            parts[_PART_OF_BOUND[op.bound]] += at_roof
        else:
            at_roof = 0.0
        parts["inefficiency_s"] += spent - at_roof


def _spend_unmatched(parts: dict[str, float], ops: Sequence[OpRecord], seconds: float) -> None:
    """Untimed ops at their roof, shrunk to the time there is; the rest of that time is inefficiency."""
    roofs = sum(op.roof_s or 0.0 for op in ops)
    scale = min(1.0, seconds / roofs) if roofs else 0.0
    _spend(parts, ops, [(op.roof_s or 0.0) * scale for op in ops])
    parts["inefficiency_s"] += seconds - roofs * scale


def _shrink(parts: dict[str, float], wall: float) -> None:
    """Ops that overlap, or were slowed by the profiler, can add up to more than the wall: scale them to it."""
    total = sum(parts.values())
    if total > wall:
        for name in parts:
            parts[name] *= wall / total


def _dispatch_s(run: Run, timed: Sequence[OpRecord]) -> float:
    """Time that a CPU spends on dispatching ops: one launch per call; all of an op that lasts a few launches only."""
    machine = run.machine
    if machine is None or machine.kind != "cpu" or machine.launch_s is None:
        return 0.0
    launch = machine.launch_s.value
    total = 0.0
    for op in timed:
        seconds = op.seconds or 0.0
        above_roof = max(0.0, seconds - (op.roof_s or 0.0))
        is_short = seconds <= op.calls * launch * _SHORT_OP_LAUNCHES
        total += above_roof if is_short else min(op.calls * launch, above_roof)
    return total


def _settled(parts: dict[str, float], wall: float) -> dict[str, float]:
    """Round the parts so that they add up to the wall time to the last bit, in whatever order.

    Each becomes a whole number of the wall time's unit in the last place, of which all sums up to the wall time are
    exact; the largest part takes the difference.
    """
    tick = math.ulp(wall)
    ticks = {name: math.floor(part / tick) for name, part in parts.items()}
    largest = max(ticks, key=lambda name: ticks[name])
    ticks[largest] += round(wall / tick) - sum(ticks.values())
    return {name: n * tick for name, n in ticks.items()}
