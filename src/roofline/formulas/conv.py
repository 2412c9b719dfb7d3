"""Convolutions in any number of dimensions: strided, dilated, grouped, transposed; forward and all gradients.

    FLOP = 2 · batch · positions · numel(weight)

with the positions of the output, (B, C_out, *O*) for a weight (C_out, C_in / groups, *K*), or those of the *input*
for a transposed convolution, whose weight is (C_in, C_out / groups, *K*): each of them meets every weight of the
tensor once per item of the batch. Groups, stride and dilation are in these sizes already.

The gradients of the input and of the weight each pair the same positions with the same weights, so each costs what
the forward costs; `output_mask` says which are computed. (torch's own counter takes the weight gradient of a grouped
convolution for a dense one: groups times too much.)

Taps that fall on the padding count like others, as every published figure has it. Fast algorithms (Winograd, FFT)
execute fewer multiplications than this direct count, so they may beat the roof. A bias adds one vector FLOP per
output element, its gradient too. Workspace is counted only for torch's own im2col (slow) kernels.
"""

from collections.abc import Sequence
from math import prod
from typing import Any

from roofline.core.precision import Precision
from roofline.formulas.matmul import add_flops, mac_flops, matrix_precision
from roofline.formulas.registry import Cost, formula
from roofline.formulas.spec import TensorSpec

Sizes = Sequence[int]


def conv_flops(batch: int, positions: Sizes, weight: Sizes, dtype: str = "float32") -> int:
    """FLOP of one pass of a convolution, forward or one gradient: 2 · batch · positions · numel(weight).

    Args:
        batch: Items in the batch.
        positions: Spatial sizes of the output; of the input for a transposed convolution.
        weight: Shape of the weight as torch stores it: second dimension per group.
        dtype: torch's name; complex counts 8 FLOP per multiply-add.
    """
    return mac_flops(dtype) * batch * prod(positions) * prod(weight)


def conv_output(size: Sizes, kernel: Sizes, stride: Sizes, padding: Sizes | str, dilation: Sizes) -> tuple[int, ...]:
    """Spatial sizes of a convolution's output: ⌊(n + 2p − d·(k − 1) − 1) / s⌋ + 1 per dimension.

    Args:
        size: Spatial sizes of the input.
        kernel: Of the kernel.
        stride: One per dimension, or one for all; likewise `padding` and `dilation`.
        padding: Sizes, or torch's "valid" or "same".
        dilation: Distance between taps.
    """
    if padding == "same":
        return tuple(size)
    pad = [0] if isinstance(padding, str) else padding
    per_dim = zip(size, kernel, _per_dim(stride, size), _per_dim(pad, size), _per_dim(dilation, size), strict=True)
    return tuple((n + 2 * p - d * (k - 1) - 1) // s + 1 for n, k, s, p, d in per_dim)


def conv_transpose_output(
    size: Sizes, kernel: Sizes, stride: Sizes, padding: Sizes, dilation: Sizes, output_padding: Sizes
) -> tuple[int, ...]:
    """Spatial sizes of a transposed convolution's output: (n − 1)·s − 2p + d·(k − 1) + output padding + 1."""
    spread = [_per_dim(v, size) for v in (stride, padding, dilation, output_padding)]
    return tuple(
        (n - 1) * s - 2 * p + d * (k - 1) + o + 1 for n, k, s, p, d, o in zip(size, kernel, *spread, strict=True)
    )


def conv_cost(
    x: TensorSpec,
    weight: Sizes,
    *,
    positions: Sizes,
    bias: bool = False,
    outputs: int = 0,
    precision: Precision | None = None,
    extra_per_output: int = 0,
    workspace_bytes: float = 0,
) -> Cost:
    """Cost of a forward convolution.

    Args:
        x: Input (B, C_in, *spatial*), or without batch.
        weight: Shape of the weight, groups included.
        positions: See `conv_flops`.
        bias: Adds one vector FLOP per output.
        outputs: Elements of the output, for vector work.
        precision: Of the matrix work, where it is not that of x.
        extra_per_output: More vector FLOP per output: a fused activation or addition.
        workspace_bytes: Scratch traffic.
    """
    batch = prod(x.shape[: x.ndim - len(weight) + 1])
    return Cost(
        matrix=conv_flops(batch, positions, weight, x.dtype),
        vector=(bias + extra_per_output) * outputs * add_flops(x.dtype),
        precision=precision or matrix_precision(x),
        workspace_bytes=workspace_bytes,
    )


def forward(
    x: TensorSpec,
    weight: Sizes,
    bias: Any,
    stride: Sizes,
    padding: Sizes | str,
    dilation: Sizes,
    extra_per_output: int = 0,
    precision: Precision | None = None,
) -> Cost:
    """Cost of an ordinary convolution from its arguments; the output's shape isn't needed."""
    size, kernel = _spatial(x, weight), weight[2:]
    positions = conv_output(size, kernel, stride, padding, dilation)
    outputs = prod(x.shape[: x.ndim - len(weight) + 1]) * weight[0] * prod(positions)
    return conv_cost(
        x,
        weight,
        positions=positions,
        bias=bias is not None,
        outputs=outputs,
        extra_per_output=extra_per_output,
        precision=precision,
    )


def forward_transposed(
    x: TensorSpec,
    weight: Sizes,
    bias: Any,
    stride: Sizes,
    padding: Sizes,
    dilation: Sizes,
    output_padding: Sizes,
    groups: int,
    extra_per_output: int = 0,
) -> Cost:
    """Cost of a transposed convolution from its arguments; the output's shape isn't needed."""
    size, kernel = _spatial(x, weight), weight[2:]
    out = conv_transpose_output(size, kernel, stride, padding, dilation, output_padding)
    batch = prod(x.shape[: x.ndim - len(weight) + 1])
    return conv_cost(
        x,
        weight,
        positions=size,
        bias=bias is not None,
        outputs=batch * weight[1] * groups * prod(out),
        extra_per_output=extra_per_output,
    )


def backward(grad: TensorSpec, x: TensorSpec, weight: TensorSpec, transposed: bool, mask: Sequence[bool]) -> Cost:
    """Cost of the gradients that `mask` (input, weight, bias) asks for; what isn't asked for isn't read for it."""
    positions = _spatial(x if transposed else grad, weight.shape)
    batch = prod(x.shape[: x.ndim - weight.ndim + 1])
    one = conv_flops(batch, positions, weight.shape, x.dtype)
    bias = len(mask) > 2 and mask[2]
    return Cost(
        matrix=one * (mask[0] + mask[1]),
        vector=grad.numel * add_flops(grad.dtype) if bias else 0,
        precision=matrix_precision(x),
    )


def unread(cost: Cost, mask: Sequence[bool], x: int, weight: int) -> Cost:
    """`cost` with what an unwanted gradient would read marked as not read, by index of the tensor argument."""
    skipped = {} if mask[1] else {x: 0}
    if not mask[0]:
        skipped[weight] = 0
    return Cost(matrix=cost.matrix, vector=cost.vector, precision=cost.precision, read=skipped)


@formula("aten.convolution", "aten._convolution", "aten.convolution_overrideable")
def convolution(
    x: TensorSpec,
    weight: TensorSpec,
    bias: Any,
    stride: Sizes,
    padding: Sizes,
    dilation: Sizes,
    transposed: bool,
    output_padding: Sizes,
    groups: int,
    *_: Any,
    **__: Any,
) -> Cost:
    """Convolution or transposed convolution: 2 · batch · positions · numel(weight)."""
    if transposed:
        return forward_transposed(x, weight.shape, bias, stride, padding, dilation, output_padding, groups)
    return forward(x, weight.shape, bias, stride, padding, dilation)


@formula("aten.convolution_backward")
def convolution_backward(
    grad: TensorSpec,
    x: TensorSpec,
    weight: TensorSpec,
    _bias_sizes: Any,
    _stride: Sizes,
    _padding: Sizes,
    _dilation: Sizes,
    transposed: bool,
    _output_padding: Sizes,
    _groups: int,
    mask: Sequence[bool],
    **_: Any,
) -> Cost:
    """Gradients of a convolution, 2 · batch · positions · numel(weight) each for input and weight."""
    return unread(backward(grad, x, weight, transposed, mask), mask, x=1, weight=2)


@formula("aten.convolution_backward_overrideable")
def convolution_backward_overrideable(
    grad: TensorSpec, x: TensorSpec, weight: TensorSpec, *rest: Any, **options: Any
) -> Cost:
    """Like `convolution_backward`, without the sizes of the bias."""
    return convolution_backward(grad, x, weight, None, *rest, **options)


def _spatial(t: TensorSpec, weight: Sizes) -> tuple[int, ...]:
    """Spatial sizes: as many trailing dimensions as the kernel has."""
    return t.shape[t.ndim - len(weight) + 2 :]


def _per_dim(value: Sizes, like: Sizes) -> list[int]:
    """One value per dimension, where torch allows one for all."""
    return list(value) * len(like) if len(value) == 1 else list(value)
