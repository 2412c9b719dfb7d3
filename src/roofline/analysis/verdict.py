"""Who decides the bound: one place, from total work, bytes by origin, and the time budget."""

import msgspec

from roofline.analysis.sentence import sentence, unknown_share
from roofline.core.machine import Machine
from roofline.core.precision import Precision
from roofline.core.roof import Bound, averaging_honesty, roof_time
from roofline.core.run import BytesOrigin, Run, TimeBudget, Verdict
from roofline.core.work import Work
from roofline.errors import UsageError

# The best model of DRAM traffic first.
_PREFERENCE: tuple[BytesOrigin, ...] = ("measured", "fused", "cached", "operator", "compulsory", "module")
# A program whose device idles for more than half of the time is bound by overhead, whatever its ops are.
_OVERHEAD_SHARE = 0.5
# With more of the bytes than this in ops without a formula, their FLOP may decide the bound.
_UNKNOWN_SHARE = 0.02


def choose_origin(run: Run, asked: BytesOrigin | None) -> BytesOrigin:
    """Choose the count of bytes to judge by.

    Raises:
        UsageError: The Run has none of the origin asked for, or none at all.
    """
    known = [o for o in _PREFERENCE if getattr(run.bytes, o) is not None]
    if asked is None and known:
        return known[0]
    if asked in known:
        return asked
    missing = f'the Run has no "{asked}" bytes' if asked else "the Run has no count of bytes"
    hints = {"fused": "add --compile", "measured": "only counters of the hardware give it; choose another --bytes"}
    raise UsageError(missing, hints.get(asked or "", f"choose one of: {', '.join(known) or 'none is known'}"))


def decide(run: Run, budget: TimeBudget | None, origin: BytesOrigin) -> Verdict:
    """Decide which ceiling binds, from a Run whose ops have their roofs."""
    machine = run.machine
    assert machine is not None
    works = [op.work(origin, machine) for op in run.ops if op.roof_s is not None]
    moved = getattr(run.bytes, origin)
    likely = _bound(works, moved, machine, cache=True)
    bounds = {likely, *(_bound(works, b, machine, cache=False) for b in _ends(run))}
    agreed = origin == "measured" or len(bounds) == 1
    # Work that nobody counted can only move the program towards the compute roof.
    certain = agreed and (likely == Bound.COMPUTE or unknown_share(run) < _UNKNOWN_SHARE)
    if not any(w.matrix or w.vector or w.moved_bytes or w.network_bytes or w.node_bytes for w in works):
        certain = False
    bound = likely if certain else Bound.UNCERTAIN
    if budget is not None and budget.idle_s > _OVERHEAD_SHARE * budget.wall_s:
        bound, likely, certain = Bound.OVERHEAD, Bound.OVERHEAD, True
    precision = _main_precision(run)
    roof_s = sum(op.roof_s or 0.0 for op in run.ops)
    wall = run.timing.median_s if run.timing else None
    hfu = _hfu(works, machine, wall)
    verdict = Verdict(
        bound=bound,
        certain=certain,
        likely_bound=likely,
        mfu_fraction=hfu * run.flops.needed / run.flops.executed if hfu is not None else None,
        hfu_fraction=hfu,
        mbu_fraction=moved / wall / machine.dram.value if wall else None,
        bytes_origin=origin,
        intensity_flops_per_byte=_flops(run) / moved if moved else None,
        ridge_point_flops_per_byte=_ridge(machine, precision),
        precision=precision,
        roof_s=roof_s,
        efficiency_fraction=roof_s / wall if wall else None,
        averaging_honesty_fraction=averaging_honesty(works, machine),
    )
    return sentence(run, budget, verdict)


def _bound(works: list[Work], moved: float, machine: Machine, *, cache: bool) -> Bound:
    """The bound of all work together when it moves `moved` bytes, and all else passes the cache, or does not."""
    total = sum(works, Work())
    passed = total.cache_bytes if cache else 0
    total = msgspec.structs.replace(total, read_bytes=moved, written_bytes=0, cache_bytes=passed)
    return roof_time(total, machine).bound


def _ends(run: Run) -> list[float]:
    """The ends of the honest range of bytes: what any execution moves, and what eager, or fused code, asks for."""
    ends = [run.bytes.compulsory, run.bytes.operator if run.bytes.fused is None else run.bytes.fused]
    return [b for b in ends if b is not None]


def _flops(run: Run) -> float:
    """FLOP of the intensity: matrix work, or vector work in a program that has no other."""
    return run.flops.executed or run.flops.vector


def _main_precision(run: Run) -> Precision | None:
    by_precision = run.flops.by_precision
    return max(by_precision, key=lambda p: by_precision[p]) if by_precision else None


def _ridge(machine: Machine, precision: Precision | None) -> float | None:
    """Ridge of the matrix engine in the main precision; of the vector engine without matrix work."""
    if precision is not None:
        return machine.ridge_point(precision)
    return machine.vector_peak(Precision.FP32).value / machine.dram.value if machine.vector else None


def _hfu(works: list[Work], machine: Machine, wall: float | None) -> float | None:
    """Executed matrix work at the peaks of its precisions / wall time; None without a time or matrix work."""
    matrix_s = roof_time(sum(works, Work()), machine).matrix_s
    return matrix_s / wall if wall and matrix_s else None
