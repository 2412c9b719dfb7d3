"""A recording as a Run: what `roofline count` says before anything is judged or timed."""

from collections import Counter
from collections.abc import Sequence
from typing import Any

import torch

from roofline.core.machine import Machine
from roofline.core.precision import Precision
from roofline.core.run import Bytes, Flops, OpRecord, Run
from roofline.core.units import show
from roofline.counter.call import OpCall
from roofline.counter.origins import cached_bytes, compulsory_bytes, operator_bytes
from roofline.counter.parallel import ranks_of
from roofline.counter.recording import Recording
from roofline.counter.rows import coverage_of, module_rows, op_rows


def counted_run(
    recording: Recording,
    machine: Machine | None,
    workload: dict[str, Any],
    *,
    seconds: Sequence[float | None] | None = None,
    fused_bytes: float | None = None,
) -> Run:
    """Turn a recording into a Run of kind "counted".

    Args:
        recording: What one step did.
        machine: Whose last-level cache the `cached` bytes assume; None leaves them out.
        workload: What ran.
        seconds: Measured time of each call, if timed.
        fused_bytes: Bytes of the fused graph, if compiled.
    """
    capacity = machine.last_level_cache_bytes if machine else 0
    cached = cached_bytes(recording.calls, capacity, recording.alive) if capacity else None
    ranks = ranks_of(recording.calls)
    ops = op_rows(_as_run(recording.calls, machine), cached, seconds)
    return Run(
        kind="counted",
        workload={**workload, "parallel": ranks} if ranks else workload,
        machine=machine,
        flops=_flops(ops),
        bytes=Bytes(
            compulsory=compulsory_bytes(recording.calls, recording.alive),
            fused=fused_bytes,
            cached=sum(cached) if cached is not None else None,
            operator=operator_bytes(recording.calls),
            module=recording.module_bytes or None,
        ),
        coverage=coverage_of(ops, recording.free_calls),
        ops=ops,
        modules=module_rows(ops, recording.kinds, recording.module_calls),
        warnings=(*_warnings(recording), *([_whose(ranks)] if ranks else [])),
    )


def _as_run(calls: Sequence[OpCall], machine: Machine | None) -> Sequence[OpCall]:
    """The calls in the precision that the machine's matrix engine runs them in, by torch's present settings.

    NVIDIA's tensor cores take FP32 convolutions as TF32 by default, and matmuls where torch allows it; on every
    other machine FP32 stays FP32.
    """
    if machine is None or Precision.TF32 not in machine.matrix:
        return calls
    matmul = torch.get_float32_matmul_precision() != "highest"
    convolution = torch.backends.cudnn.allow_tf32

    def is_tf32(c: OpCall) -> bool:
        return bool(c.cost.matrix) and c.precision == Precision.FP32 and (convolution if "conv" in c.name else matmul)

    return [c._replace(precision=Precision.TF32) if is_tf32(c) else c for c in calls]


def _flops(ops: Sequence[OpRecord]) -> Flops:
    by_precision: Counter[Precision] = Counter()
    for o in ops:
        if o.executed_flops and o.precision:
            by_precision[o.precision] += o.executed_flops  # type: ignore[assignment]
    return Flops(
        needed=sum(o.needed_flops for o in ops),
        executed=sum(o.executed_flops for o in ops),
        vector=sum(o.vector_flops for o in ops),
        by_precision=dict(by_precision),
    )


def _whose(ranks: dict[str, Any]) -> str:
    """Say whose work the figures are."""
    figures = f"figures are those of rank {ranks['rank']} of {ranks['ranks']}"
    if ranks["global"] is None:
        return f"{figures}; its stage differs from the others', so count every rank and add them up"
    return f"{figures}; all together execute {show(ranks['global']['executed_flops'], 'FLOP')} of matrix work"


def _warnings(recording: Recording) -> tuple[str, ...]:
    found = []
    if not recording.fake:
        found.append(
            f"counted over one real run, since the program can't run on fake tensors ({recording.why_real}): "
            "the counts hold for this input"
        )
    for name, why in recording.failures.items():
        found.append(f"the formula of {name} broke and its work is missing: {why}")
    return tuple(found)
