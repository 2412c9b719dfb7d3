"""Convolutions under their other names: composite ops, cuDNN, MIOpen, oneDNN, MPS, NNPACK and torch's own kernels.

They all cost what `conv` says; only the order of the arguments differs.
"""

from math import prod
from typing import Any

from roofline.formulas.conv import (
    Sizes,
    backward,
    conv_cost,
    conv_flops,
    conv_output,
    forward,
    forward_transposed,
    unread,
)
from roofline.formulas.matmul import matrix_precision
from roofline.formulas.registry import Cost, formula
from roofline.formulas.spec import TensorSpec

_ONE = (1,)
_ZERO = (0,)


@formula("aten.conv1d", "aten.conv2d", "aten.conv3d", "aten._convolution_mode", "prim.mkldnn_convolution")
def conv_nd(
    x: TensorSpec,
    weight: TensorSpec,
    bias: Any = None,
    stride: Sizes = _ONE,
    padding: Sizes | str = _ZERO,
    dilation: Sizes = _ONE,
    *_: Any,
    **__: Any,
) -> Cost:
    """`torch.nn.functional.conv1d` and its kin, when dispatched undivided (inference mode)."""
    return forward(x, weight.shape, bias, stride, padding, dilation)


@formula("aten.conv_transpose1d", "aten.conv_transpose2d", "aten.conv_transpose3d")
def conv_transpose_nd(
    x: TensorSpec,
    weight: TensorSpec,
    bias: Any = None,
    stride: Sizes = _ONE,
    padding: Sizes = _ZERO,
    output_padding: Sizes = _ZERO,
    groups: int = 1,
    dilation: Sizes = _ONE,
    **_: Any,
) -> Cost:
    """`torch.nn.functional.conv_transpose1d` and its kin, when dispatched undivided."""
    return forward_transposed(x, weight.shape, bias, stride, padding, dilation, output_padding, groups)


@formula("aten.cudnn_convolution")
def cudnn(
    x: TensorSpec, weight: TensorSpec, padding: Sizes, stride: Sizes, dilation: Sizes, *_: Any, **__: Any
) -> Cost:
    """Convolution through cuDNN, the bias apart."""
    return forward(x, weight.shape, None, stride, padding, dilation)


@formula(
    "aten.mkldnn_convolution", "aten.miopen_convolution", "aten.miopen_depthwise_convolution", "aten._mps_convolution"
)
def with_padding_first(
    x: TensorSpec, weight: TensorSpec, bias: Any, padding: Sizes, stride: Sizes, dilation: Sizes, *_: Any, **__: Any
) -> Cost:
    """Convolution through oneDNN, MIOpen or MPS."""
    return forward(x, weight.shape, bias, stride, padding, dilation)


@formula("aten._nnpack_spatial_convolution")
def nnpack(x: TensorSpec, weight: TensorSpec, bias: Any, padding: Sizes, stride: Sizes = _ONE, **_: Any) -> Cost:
    """Convolution through NNPACK."""
    return forward(x, weight.shape, bias, stride, padding, _ONE)


@formula("aten.cudnn_convolution_relu", "aten.miopen_convolution_relu")
def with_relu(
    x: TensorSpec, weight: TensorSpec, bias: Any, stride: Sizes, padding: Sizes, dilation: Sizes, *_: Any, **__: Any
) -> Cost:
    """Convolution with a fused ReLU, one vector FLOP per output."""
    return forward(x, weight.shape, bias, stride, padding, dilation, extra_per_output=1)


@formula("aten.cudnn_convolution_add_relu", "aten.miopen_convolution_add_relu")
def with_add_relu(
    x: TensorSpec,
    weight: TensorSpec,
    _z: Any,
    _alpha: Any,
    bias: Any,
    stride: Sizes,
    padding: Sizes,
    dilation: Sizes,
    *_: Any,
    **__: Any,
) -> Cost:
    """Convolution with a fused addition and ReLU, two vector FLOP per output."""
    return forward(x, weight.shape, bias, stride, padding, dilation, extra_per_output=2)


@formula("aten.cudnn_convolution_transpose")
def cudnn_transpose(
    x: TensorSpec,
    weight: TensorSpec,
    padding: Sizes,
    output_padding: Sizes,
    stride: Sizes,
    dilation: Sizes,
    groups: int,
    *_: Any,
    **__: Any,
) -> Cost:
    """Transposed convolution through cuDNN, the bias apart."""
    return forward_transposed(x, weight.shape, None, stride, padding, dilation, output_padding, groups)


@formula("aten._mps_convolution_transpose")
def mps_transpose(x: TensorSpec, weight: TensorSpec, *rest: Any, **options: Any) -> Cost:
    """Transposed convolution on MPS."""
    return cudnn_transpose(x, weight, *rest, **options)


@formula("aten.miopen_convolution_transpose")
def miopen_transpose(x: TensorSpec, weight: TensorSpec, bias: Any, *rest: Any, **__: Any) -> Cost:
    """Transposed convolution through MIOpen."""
    padding, output_padding, stride, dilation, groups = rest[:5]
    return forward_transposed(x, weight.shape, bias, stride, padding, dilation, output_padding, groups)


@formula("aten.thnn_conv2d", "aten.slow_conv3d", "aten._slow_conv2d_forward", "aten.slow_conv3d_forward")
def im2col(
    x: TensorSpec,
    weight: TensorSpec,
    _kernel: Sizes,
    bias: Any = None,
    stride: Sizes = _ONE,
    padding: Sizes = _ZERO,
    **_: Any,
) -> Cost:
    """Convolution by unfolding the input: the columns (C_in · taps · positions) are written and read again."""
    cost = forward(x, weight.shape, bias, stride, padding, _ONE)
    positions = conv_output(x.shape[2 - weight.ndim :], weight.shape[2:], stride, padding, _ONE)
    columns = prod(x.shape[: x.ndim - weight.ndim + 2]) * prod(weight.shape[2:]) * prod(positions)
    return Cost(
        matrix=cost.matrix,
        vector=cost.vector,
        precision=cost.precision,
        workspace_bytes=2 * columns * x.item_bytes,
    )


@formula("aten._conv_depthwise2d", "aten.conv_depthwise3d", "aten.slow_conv_dilated2d", "aten.slow_conv_dilated3d")
def with_kernel_size(
    x: TensorSpec,
    weight: TensorSpec,
    _kernel: Sizes,
    bias: Any = None,
    stride: Sizes = _ONE,
    padding: Sizes = _ZERO,
    dilation: Sizes = _ONE,
    **_: Any,
) -> Cost:
    """Depthwise or dilated convolution by torch's own kernels."""
    return forward(x, weight.shape, bias, stride, padding, dilation)


@formula("aten.slow_conv_transpose2d", "aten.slow_conv_transpose3d")
def slow_transpose(
    x: TensorSpec,
    weight: TensorSpec,
    _kernel: Sizes,
    bias: Any = None,
    stride: Sizes = _ONE,
    padding: Sizes = _ZERO,
    output_padding: Sizes = _ZERO,
    dilation: Sizes = _ONE,
    **_: Any,
) -> Cost:
    """Transposed convolution by torch's own kernels, which know no groups."""
    return forward_transposed(x, weight.shape, bias, stride, padding, dilation, output_padding, 1)


@formula("aten._slow_conv2d_backward")
def im2col_backward(grad: TensorSpec, x: TensorSpec, weight: TensorSpec, *rest: Any, **options: Any) -> Cost:
    """Gradients of `im2col`; its out variant fills all three."""
    mask = rest[3] if len(rest) > 3 else options.get("output_mask", (True, True, True))
    return unread(backward(grad, x, weight, False, mask), mask, x=1, weight=2)


@formula("aten.mps_convolution_backward")
def mps_backward(x: TensorSpec, grad: TensorSpec, weight: TensorSpec, *rest: Any, **_: Any) -> Cost:
    """Gradients of a convolution on MPS."""
    return unread(backward(grad, x, weight, False, rest[4]), rest[4], x=0, weight=2)


@formula("aten.mps_convolution_transpose_backward")
def mps_transpose_backward(x: TensorSpec, grad: TensorSpec, weight: TensorSpec, *rest: Any, **_: Any) -> Cost:
    """Gradients of a transposed convolution on MPS."""
    return unread(backward(grad, x, weight, True, rest[5]), rest[5], x=0, weight=2)


@formula("mkldnn._convolution_pointwise")
def pointwise(
    x: TensorSpec,
    weight: TensorSpec,
    bias: Any,
    padding: Sizes,
    stride: Sizes,
    dilation: Sizes,
    _groups: int,
    activation: str = "none",
    *_: Any,
    **__: Any,
) -> Cost:
    """Convolution through oneDNN with a fused activation, one vector FLOP per output."""
    return forward(x, weight.shape, bias, stride, padding, dilation, extra_per_output=activation != "none")


@formula("mkldnn._convolution_pointwise.binary")
def pointwise_binary(
    x: TensorSpec,
    _other: Any,
    weight: TensorSpec,
    bias: Any,
    padding: Sizes,
    stride: Sizes,
    dilation: Sizes,
    _groups: int,
    _binary: str,
    _alpha: Any = None,
    activation: str | None = None,
    *_: Any,
    **__: Any,
) -> Cost:
    """Convolution through oneDNN with a fused addition, then perhaps an activation: one vector FLOP each."""
    fused = 1 + (activation not in (None, "none"))
    return forward(x, weight.shape, bias, stride, padding, dilation, extra_per_output=fused)


@formula("mkldnn._convolution_pointwise_.binary")
def pointwise_binary_in_place(other: TensorSpec, x: TensorSpec, *rest: Any, **options: Any) -> Cost:
    """`pointwise_binary` that accumulates into its first argument."""
    return pointwise_binary(x, other, *rest, **options)


@formula("mkldnn._convolution_transpose_pointwise")
def transpose_pointwise(
    x: TensorSpec,
    weight: TensorSpec,
    bias: Any,
    _padding: Sizes,
    _output_padding: Sizes,
    _stride: Sizes,
    _dilation: Sizes,
    groups: int,
    activation: str = "none",
    *_: Any,
    out: TensorSpec,
    **__: Any,
) -> Cost:
    """Transposed convolution through oneDNN; its weight may be reordered, so channels come from input and output."""
    dims = weight.ndim
    shape = (x.shape[1], out.shape[1] // groups, *weight.shape[2:])
    return conv_cost(
        x,
        shape,
        positions=x.shape[2 - dims :],
        bias=bias is not None,
        outputs=out.numel,
        extra_per_output=activation != "none",
    )


@formula("aten.conv_tbc")
def conv_tbc(x: TensorSpec, weight: TensorSpec, _bias: Any, pad: int = 0, **_: Any) -> Cost:
    """1-d convolution on (time, batch, channel), weight (taps, C_in, C_out): as in `conv`."""
    positions = conv_output(x.shape[:1], weight.shape[:1], _ONE, (pad,), _ONE)
    return Cost(
        matrix=conv_flops(x.shape[1], positions, weight.shape, x.dtype),
        vector=prod(positions) * x.shape[1] * weight.shape[2],
        precision=matrix_precision(x),
    )


@formula("aten.conv_tbc_backward")
def conv_tbc_backward(grad: TensorSpec, x: TensorSpec, weight: TensorSpec, *_: Any, **__: Any) -> Cost:
    """All three gradients of `conv_tbc`: twice its FLOP, and one vector FLOP per output."""
    return Cost(
        matrix=2 * conv_flops(x.shape[1], grad.shape[:1], weight.shape, x.dtype),
        vector=grad.numel,
        precision=matrix_precision(x),
    )
