"""What the figures give away: work above a roof, noise, unknown work; each with the size of its effect."""

from roofline.core.machine import Machine
from roofline.core.roof import Bound
from roofline.core.run import OpRecord, Run
from roofline.core.units import percent, show

# Ops this far above their roof are reported; less is within the noise of timing and of measured ceilings.
_ABOVE = 1.1
# A device does not run this far above a ceiling; a timing without synchronisation does.
_IMPOSSIBLE = 5.0
# With fewer samples a spread means little.
FEWEST_SAMPLES = 5
# An op too short to be measured says nothing about a roof.
_SHORTEST_S = 10e-6


def findings(run: Run) -> tuple[str, ...]:
    """Warnings that follow from the figures of a judged Run."""
    return (*_above_roof(run), *_unstable(run), *_unknown(run), *_uneven(run))


def reason_above(ratio: float, bound: Bound | None, moved: float, machine: Machine, *, in_place: bool = False) -> str:
    """Say why work may run above a roof, the likeliest cause first.

    Args:
        ratio: Achieved / attainable, above 1.
        bound: The ceiling that was beaten.
        moved: Bytes that the work moves.
        machine: Whose ceiling it is.
        in_place: The work writes where it reads.
    """
    cache = machine.last_level_cache_bytes
    if ratio >= _IMPOSSIBLE and bound == Bound.COMPUTE:
        return "probably the timing missed a synchronisation, or the work is over-counted"
    if bound == Bound.MEMORY:
        if cache and moved <= cache:
            return f"its {show(moved, 'B')} fit into the last-level cache of {show(cache, 'B', capacity=True)}"
        update = machine.streams.get("update", 0.0)
        if in_place and machine.dram.value < update and machine.dram.value * ratio <= _ABOVE * update:
            return (
                "it updates in place and so writes no line that it has not read (no write-allocate): such traffic "
                f"was measured at {show(update, 'B/s')}, above the ceiling of {show(machine.dram.value, 'B/s')}"
            )
        return "probably part of its data stays in cache, or fewer bytes move than counted"
    if machine.boost_hz:
        clock = show(machine.boost_hz * ratio, "Hz")
        boost = show(machine.boost_hz, "Hz")
        return f"it implies a clock of {clock}: boost above the datasheet's {boost}, or a wrong peak"
    return "probably the measured ceiling is too low: calibrate again on a quiet machine"


def _above_roof(run: Run) -> tuple[str, ...]:
    machine = run.machine
    assert machine is not None
    above = [op for op in run.ops if _counts_as_above(op)]
    if not above:
        return ()
    worst = max(above, key=lambda op: op.efficiency_fraction or 0)
    total = sum(op.seconds or 0 for op in run.ops)
    share = sum(op.seconds or 0 for op in above) / total if total else None
    why = reason_above(
        worst.efficiency_fraction or 1,
        worst.bound,
        # What it asks for: what it moves past the cache may be nothing.
        max(worst.bytes.operator or 0.0, worst.bytes.best) / worst.calls,
        machine,
        in_place=worst.name.partition(".")[2].partition(".")[0].endswith("_"),
    )
    return (
        f"{len(above)} op rows ({percent(share)} of the op time) run above their roof, {worst.name} the furthest "
        f"({percent(worst.efficiency_fraction)}): {why}",
    )


def _counts_as_above(op: OpRecord) -> bool:
    return (op.efficiency_fraction or 0) > _ABOVE and (op.seconds or 0) / op.calls > _SHORTEST_S


def _unstable(run: Run) -> tuple[str, ...]:
    t = run.timing
    if t is None or t.stable:
        return ()
    if len(t.samples_s) < FEWEST_SAMPLES:
        return (
            f"only {len(t.samples_s)} timing samples, as one step takes {show(t.median_s, 's')}: the spread means "
            "little; give more --seconds or a smaller --batch",
        )
    return (
        f"too noisy for a firm verdict: the middle half of {len(t.samples_s)} samples is spread over "
        f"{percent(t.spread_fraction)} of the median (all of them: {show(min(t.samples_s), 's')} to "
        f"{show(max(t.samples_s), 's')}); close other programs and give more --seconds",
    )


def _unknown(run: Run) -> tuple[str, ...]:
    unknown = run.coverage.unknown_ops
    if not unknown:
        return ()
    names = ", ".join(f"{u.name} ×{u.calls} ({percent(u.bytes_fraction)} of bytes)" for u in unknown[:4])
    more = f" and {len(unknown) - 4} more" if len(unknown) > 4 else ""
    return (f"no formula for {names}{more}: FLOP totals are lower bounds; give one with roofline.register_formula",)


def _uneven(run: Run) -> tuple[str, ...]:
    v = run.verdict
    if v is None or v.averaging_honesty_fraction is None or v.averaging_honesty_fraction >= 0.9:
        return ()
    return (
        f"one averaged point hides {percent(1 - v.averaging_honesty_fraction)} of the per-op roof time "
        "(averaging honesty below 90 %): go per op",
    )
