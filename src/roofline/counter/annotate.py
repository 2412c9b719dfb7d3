"""What a kernel's author knows of one call, said where it is called."""

from collections.abc import Iterator
from contextlib import contextmanager

from torch.utils._python_dispatch import _get_current_dispatch_mode_stack

from roofline.core.precision import Precision
from roofline.counter.recorder import Recorder
from roofline.errors import UsageError
from roofline.formulas.registry import Cost


@contextmanager
def annotate(
    name: str = "kernel",
    *,
    flops: float = 0,
    bytes: float = 0,
    vector_flops: float = 0,
    needed_flops: float | None = None,
    precision: str | Precision | None = None,
) -> Iterator[None]:
    """State the work of what runs in the block, in place of counting it op by op.

        with roofline.annotate("fused_mlp", flops=2 * n * k * m, bytes=2 * (n * k + k * m + n * m), precision="bf16"):
            fused_mlp_kernel[grid](x, w, out)

    While nothing is being counted the block runs as if it were not annotated. Backward runs outside the block:
    annotate it in the `backward` of the autograd function, too.

    Args:
        name: What the op is called in the Run: "annotated.NAME".
        flops: FLOP on the matrix engine that run.
        bytes: Bytes read and written, B; they count as traffic from outside.
        vector_flops: FLOP on the vector engine.
        needed_flops: Those of `flops` that a perfect program would do; None: all.
        precision: Of the matrix work; None leaves it unknown.

    Raises:
        UsageError: A number is negative or not finite.
    """
    numbers = {"flops": flops, "bytes": bytes, "vector_flops": vector_flops, "needed_flops": needed_flops or 0}
    for key, value in numbers.items():
        if not 0 <= value < float("inf"):
            raise UsageError(f"annotate: {key} is {value}", "give a finite number of at least 0")
    recorders = [mode for mode in _get_current_dispatch_mode_stack() if isinstance(mode, Recorder)]
    if not recorders:
        yield
        return
    cost = Cost(
        matrix=flops,
        needed=needed_flops,
        vector=vector_flops,
        precision=Precision(precision) if precision is not None else None,
    )
    with recorders[-1].stated(f"annotated.{name}", cost, bytes):
        yield
