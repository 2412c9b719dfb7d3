"""Forward ops → backward ops: which gradients an op has, what they compute and move."""

from collections.abc import Iterable, Iterator

import msgspec

from roofline.plan.ops import Op


def backward_ops(forward: Iterable[Op]) -> Iterator[Op]:
    """Gradients of forward ops, last first.

    A product has two gradients of its own size: of its input (reads the weights) and of its weights (reads the
    input, writes a gradient as large as the weights). Attention states its own. A vector op reads its input and the
    gradient of its output. A collective is answered by one of its size. The gradient of an embedding is as dense as
    its table.
    """
    for op in reversed(list(forward)):
        yield _gradient(op)


def recomputed(forward: Iterable[Op]) -> Iterator[Op]:
    """Forward ops run again in the backward phase: executed, not needed."""
    for op in forward:
        if op.kind not in ("embedding",):
            yield msgspec.structs.replace(op, phase="backward", name=f"{op.name} again", needed=0.0)


def _gradient(op: Op) -> Op:
    executed = 2 * op.matrix if op.backward_matrix is None else op.backward_matrix
    needed = op.backward_needed
    if needed is None:
        needed = min(executed, 2 * op.needed_matrix)
    collective = op.kind == "collective"
    return msgspec.structs.replace(
        op,
        phase="backward",
        calls=op.calls * (2 if op.kind == "linear" and op.backward_matrix is None else 1),
        matrix=executed,
        needed=needed,
        vector=op.vector * (1 if collective else 2),
        weight_bytes=op.weight_bytes * (2 if op.kind == "linear" else 1) + op.backward_bytes,
        input_bytes=op.input_bytes * (1 if collective else 2),
        output_bytes=op.output_bytes * (1 if collective else 2),
        backward_matrix=None,
        backward_needed=None,
        backward_bytes=0,
    )
