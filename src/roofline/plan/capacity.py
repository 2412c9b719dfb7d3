"""Does it fit: weights, cache, activations, gradients and optimizer state of one rank, against its memory."""

from collections.abc import Callable

import msgspec

from roofline.core.machine import Machine
from roofline.errors import UsageError
from roofline.plan.architecture import Architecture
from roofline.plan.ops import Op
from roofline.plan.optimizer import STATE_BYTES
from roofline.plan.parts import Attention, Experts, LatentAttention, Matrix, Part
from roofline.plan.phases import microbatches, stage_of
from roofline.plan.setting import Setting

_LARGEST = 2**24


class Memory(msgspec.Struct, frozen=True, kw_only=True):
    """What one rank holds during a step, B.

    Attributes:
        weights_bytes: Weights, the embedding table included.
        kv_bytes: Cache of all its sequences at the end of the step, and recurrent state.
        activations_bytes: Training: what forward saves for backward; else the largest op's input and output.
        gradients_bytes: Gradients.
        optimizer_bytes: Master weights and moments.
        capacity_bytes: The device's memory; None: unknown.
    """

    weights_bytes: float
    kv_bytes: float
    activations_bytes: float
    gradients_bytes: float = 0
    optimizer_bytes: float = 0
    capacity_bytes: float | None = None

    @property
    def total_bytes(self) -> float:
        """All of it."""
        held = self.weights_bytes + self.kv_bytes + self.activations_bytes
        return held + self.gradients_bytes + self.optimizer_bytes

    @property
    def fits(self) -> bool | None:
        """Whether it fits; None where the capacity is unknown."""
        return None if self.capacity_bytes is None else self.total_bytes <= self.capacity_bytes


def memory(architecture: Architecture, ops: list[Op], setting: Setting, machine: Machine | None) -> Memory:
    """What the busiest rank holds during a step.

    Not counted: the runtime's own memory, fragmentation, workspace, CUDA graphs.
    """
    local = stage_of(architecture, setting)
    parallel = setting.parallel
    weights = weights_bytes(local, setting)
    if not setting.trains:
        return Memory(
            weights_bytes=weights,
            kv_bytes=kv_bytes(local, setting),
            activations_bytes=max((_passed(op) / op.calls for op in ops), default=0),
            capacity_bytes=machine.memory_bytes if machine else None,
        )
    params = local.params()
    return Memory(
        weights_bytes=weights / (parallel.dp if parallel.zero == 3 else 1),
        kv_bytes=0,
        activations_bytes=saved_bytes(ops, setting),
        gradients_bytes=params * setting.item / (parallel.dp if parallel.zero >= 2 else 1),
        optimizer_bytes=params * STATE_BYTES / (parallel.dp if parallel.zero >= 1 else 1)
        if setting.workload.optimizer
        else 0,
        capacity_bytes=machine.memory_bytes if machine else None,
    )


def weights_bytes(local: Architecture, setting: Setting) -> float:
    """Bytes of a rank's weights: everything in the base format, and the difference that quantised matrices make."""
    base = setting.storage.base.bits / 8
    total = local.params() * base
    stacks = [local.stack, *([local.tower.stack] if local.tower else [])]
    for stack in stacks:
        for layer, number in stack.groups():
            for part in layer.parts:
                total += number * sum(
                    times * (setting.storage.matrix_bytes(m) - m.params * base)
                    for m, times in _matrices(part, stack.width)
                )
            total += number * sum(setting.storage.matrix_bytes(m) - m.params * base for m in layer.matrices)
    if setting.storage.layers.everything:
        table = local.embedding_params + sum(m.weights for m in local.head)
        total += table * (setting.storage.layers.bits / 8 - base)
    return total


def _matrices(part: Part, width: int) -> list[tuple[Matrix, int]]:
    """The matrices of a part, each with how many there are."""
    if isinstance(part, Experts):
        experts = [msgspec.structs.replace(m, role="experts") for m in part.one().matrices(width)]
        return [(m, 1) for m in part.always(width)] + [(m, part.local) for m in experts]
    extra: tuple[Matrix, ...] = ()
    if isinstance(part, Attention):
        extra = part.source_matrices()
    elif isinstance(part, LatentAttention):
        extra = (part.up_projection(),)
    return [(m, 1) for m in (*part.matrices(width), *extra)]


def kv_bytes(local: Architecture, setting: Setting) -> float:
    """Cache of a rank's sequences when the step is over; sliding windows hold no more than their window."""
    workload, parallel = setting.workload, setting.parallel
    sequences = workload.batch // parallel.dp
    length = workload.past + workload.new_tokens
    cross = 0.0
    tokens = 0.0
    for layer, number in local.stack.groups():
        for part in layer.parts:
            kept = min(length, part.window) if isinstance(part, Attention) and part.window else length
            tokens += number * part.kv_elements * kept
            if isinstance(part, LatentAttention):
                tokens += number * part.index_dim * kept
            if isinstance(part, Attention) and part.is_cross:
                cross += number * 2 * part.kv_heads * part.head_dim * (workload.source or _source(local))
    state = local.state_elements() * setting.item
    return sequences * ((tokens / parallel.cp + cross) * setting.kv_item + state)


def _source(local: Architecture) -> int:
    return (local.tower.tokens if local.tower else None) or 0


def saved_bytes(ops: list[Op], setting: Setting) -> float:
    """Activations that one rank keeps for backward: every forward op's input, of all micro-batches in flight.

    With recomputation only the layers' inputs stay, and one layer is whole. A pipeline stage keeps at most as many
    micro-batches as it has stages.
    """
    parts = microbatches(setting)
    flying = min(parts, setting.parallel.pp)
    forward = [op for op in ops if op.phase == "forward" and op.kind != "collective"]
    total = sum(op.input_bytes for op in forward) / parts * flying
    if setting.workload.recompute == "none":
        return total
    norms = [op for op in forward if op.name == "norm" and "*" in op.module]
    layers = max((op.calls for op in norms), default=2 * parts) / 2 / parts
    inputs = sum(op.input_bytes / 2 for op in norms[:1]) / parts / 2 * flying
    return inputs + total / max(1.0, layers)


def _passed(op: Op) -> float:
    return op.input_bytes + op.output_bytes


def largest(fits: Callable[[int], bool | None], most: int = _LARGEST) -> int | None:
    """The largest whole number that fits, 0 if none does; None where nothing is known, or nothing binds.

    Args:
        fits: Monotone: what fits at n fits below.
        most: Where to stop looking.
    """
    if fits(1) is None:
        return None
    if not fits(1):
        return 0
    high = 2
    while high <= most and fits(high):
        high *= 2
    if high > most:
        return None
    low = high // 2
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if fits(middle) else (low, middle)
    return low


def tried(build: Callable[[int], Memory], n: int) -> bool | None:
    """Whether n fits; a split that does not come out even does not."""
    try:
        return build(n).fits
    except UsageError:
        return False
