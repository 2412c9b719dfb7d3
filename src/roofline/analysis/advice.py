"""What to try, ranked; each with an upper bound from the time budget and the numbers behind it."""

from collections.abc import Callable, Iterable

from roofline.core.machine import Machine
from roofline.core.precision import Precision
from roofline.core.roof import Bound
from roofline.core.run import Advice, OpRecord, Run
from roofline.core.units import percent, show

# Advice worth less than this share of the step is noise.
_WORTH = 0.02


def advise(run: Run) -> tuple[Advice, ...]:
    """Rank what could make a judged, timed Run faster; without timing there are no bounds and so no advice."""
    if run.time_budget is None:
        return ()
    found = [a for rule in _RULES for a in rule(run)]
    worth = [a for a in found if (a.saves_at_most_s or 0) >= _WORTH * run.time_budget.wall_s]
    return tuple(sorted(worth, key=lambda a: -(a.saves_at_most_s or 0)))


def _less_overhead(run: Run) -> Iterable[Advice]:
    b, calls = run.time_budget, sum(op.calls for op in run.ops)
    assert b is not None
    gpu = run.machine is not None and run.machine.kind == "gpu"
    how = (
        "CUDA graphs or torch.compile, fewer host syncs, a larger batch"
        if gpu
        else "torch.compile, or a larger batch"
    )
    yield Advice(
        action=f"cut launch and Python overhead: {how}",
        saves_at_most_s=b.idle_s,
        evidence=f"{calls} op calls per step; the device idles {percent(b.idle_s / b.wall_s)} of it",
    )


def _keep_memory(run: Run) -> Iterable[Advice]:
    faults, b = run.timing.page_faults if run.timing else None, run.time_budget
    if faults is None or b is None:
        return
    yield Advice(
        action="keep memory from step to step: MALLOC_MMAP_THRESHOLD_=1000000000 MALLOC_TRIM_THRESHOLD_=10000000000 "
        "(glibc) or jemalloc; or give ops their output buffer",
        # No roof time can be saved by it.
        saves_at_most_s=min(faults.one_thread_s, b.inefficiency_s + b.idle_s),
        evidence=f"{faults.per_step:,} page faults per step take {show(faults.all_threads_s, 's')} if all threads "
        f"share them, {show(faults.one_thread_s, 's')} if one takes them all",
    )


def _fuse(run: Run) -> Iterable[Advice]:
    if run.workload.get("compiled"):
        return
    rows = [op for op in run.ops if op.engine != "matrix" and op.phase != "optimizer" and op.name not in _CASTS]
    yield from _advice(run, "fuse elementwise, norm and copy ops (torch.compile)", rows, _seconds, "no matrix work")


def _keep_dtype(run: Run) -> Iterable[Advice]:
    rows = [op for op in run.ops if op.name in _CASTS]
    yield from _advice(
        run, "keep weights in the compute precision instead of casting every step", rows, _seconds, "casts"
    )


def _faster_kernels(run: Run) -> Iterable[Advice]:
    for name in sorted({op.name for op in run.ops if op.engine == "matrix"}):
        rows = [op for op in run.ops if op.name == name and op.engine == "matrix"]
        how = "channels-last layout, " if "conv" in name and not run.workload.get("channels_last") else ""
        roof, spent = sum(op.roof_s or 0 for op in rows), sum(op.seconds or 0 for op in rows)
        what = f"{name} reaches {percent(roof / spent if spent else None)} of its roof"
        yield from _advice(run, f"speed up {name}: {how}shapes that fill tiles, another kernel", rows, _gap, what)


def _lower_precision(run: Run) -> Iterable[Advice]:
    machine = run.machine
    assert machine is not None
    for precision, faster in ((Precision.FP32, Precision.BF16), (Precision.TF32, Precision.BF16)):
        ratio = _speed_up(machine, precision, faster)
        if ratio is None or ratio <= 1.05:
            continue
        rows = [
            op for op in run.ops if op.precision == precision and op.bound == Bound.COMPUTE and op.engine == "matrix"
        ]
        yield from _advice(
            run,
            f"run matrix work in {faster.upper()} (autocast)",
            rows,
            lambda op, ratio=ratio: (op.seconds or 0) * (1 - 1 / ratio),  # type: ignore[misc]
            f"{faster.upper()} peak is {ratio:.1f}× that of {precision.upper()} here",
        )


def _less_waste(run: Run) -> Iterable[Advice]:
    rows = [op for op in run.ops if op.executed_flops > op.needed_flops]

    def wasted(op: OpRecord) -> float:
        return (op.seconds or 0) * (1 - op.needed_flops / op.executed_flops)

    yield from _advice(
        run,
        "avoid work that is not needed (recomputation, masked attention, padding)",
        rows,
        wasted,
        f"{percent(1 - run.flops.needed / run.flops.executed if run.flops.executed else 0)} of the FLOP",
    )


def _reuse_weights(run: Run) -> Iterable[Advice]:
    rows = [op for op in run.ops if op.engine == "matrix" and op.bound == Bound.MEMORY]
    yield from _advice(
        run,
        "raise the batch, or quantise weights: matrix ops wait for memory",
        rows,
        lambda op: min(op.seconds or 0, op.roof_s or 0),
        "memory-bound matrix ops, at their roof",
    )


def _advice(
    run: Run, action: str, rows: list[OpRecord], saving: Callable[[OpRecord], float], what: str
) -> Iterable[Advice]:
    """One piece of advice about rows of ops, with the share of op time that they take."""
    spent = sum(op.seconds or 0 for op in rows)
    total = sum(op.seconds or 0 for op in run.ops)
    if not spent or run.time_budget is None:
        return
    calls = sum(op.calls for op in rows)
    wall = run.time_budget.wall_s
    # Profiled times can add up to more than the wall; a saving can't.
    saves = min(sum(saving(op) for op in rows) * min(1.0, wall / total), wall)
    yield Advice(
        action=action,
        saves_at_most_s=saves,
        evidence=f"{what}: {calls} calls take {show(spent, 's')}, {percent(spent / total)} of the op time",
    )


def _seconds(op: OpRecord) -> float:
    return op.seconds or 0


def _gap(op: OpRecord) -> float:
    return max(0.0, (op.seconds or 0) - (op.roof_s or 0))


def _speed_up(machine: Machine, slow: Precision, fast: Precision) -> float | None:
    matrix = {**machine.vector, **machine.matrix}
    if slow not in matrix or fast not in machine.matrix:
        return None
    return machine.matrix[fast].value / matrix[slow].value


_CASTS = ("aten._to_copy",)
_RULES = (
    _less_overhead,
    _keep_memory,
    _fuse,
    _keep_dtype,
    _faster_kernels,
    _lower_precision,
    _less_waste,
    _reuse_weights,
)
