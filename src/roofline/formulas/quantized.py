"""Quantised layers: int8 OP on packed weights, in torch's own engines and in oneDNN.

Counts are those of the same layer in floating point; the precision is int8, also where the input is quantised on the
way (dynamic), since that is what is multiplied. fp16 "dynamic" layers multiply in the precision of their input.

A packed weight is an object of the engine that shows no shape. A linear layer doesn't need it: features in are the
last dimension of the input, features out that of the output. A convolution asks the object to unpack. A rule that
can learn neither says so with an error rather than count zero.

Not counted: quantising, requantising, zero points.
"""

from collections.abc import Sequence
from typing import Any

from roofline.core.precision import Precision
from roofline.errors import RooflineError
from roofline.formulas import rnn
from roofline.formulas.conv import conv_cost
from roofline.formulas.conv import forward as conv_forward
from roofline.formulas.matmul import linear_cost, matmul_dims, matrix_precision, product
from roofline.formulas.registry import Cost, formula, free
from roofline.formulas.spec import TensorSpec


def linear_ops(x: TensorSpec, out: TensorSpec | None, packed: Any = None, precision: Precision | None = None) -> Cost:
    """Cost of a linear layer whose weight is packed: 2 · rows · n · k.

    Args:
        x: Input (…, k).
        out: Output (…, n); None: ask the packed weight.
        packed: The packed weight.
        precision: Of the products; None: int8.
    """
    columns = out.shape[-1] if out is not None else weight_shape(packed)[0]
    return linear_cost(x, x, columns=columns, precision=precision or Precision.INT8)


def weight_shape(packed: Any) -> tuple[int, ...]:
    """Shape of a packed weight.

    Raises:
        RooflineError: The object neither is a tensor nor unpacks.
    """
    if isinstance(packed, TensorSpec):
        return packed.shape
    if not hasattr(packed, "unpack"):
        raise RooflineError("the shape of a packed weight is not known", "count the model before it is packed")
    return tuple(packed.unpack()[0].shape)


@formula(
    *(f"quantized.linear{suffix}" for suffix in ("", "_relu", "_leaky_relu", "_tanh", "_dynamic", "_relu_dynamic")),
    "_quantized.linear",
    "_quantized.linear_dynamic",
    *(f"sparse.qlinear{suffix}" for suffix in ("", "_relu", "_dynamic", "_relu_dynamic")),
)
def quantized_linear(x: TensorSpec, packed: Any, *_: Any, out: TensorSpec | None, **__: Any) -> Cost:
    """Linear on a packed int8 weight: 2 · rows · n · k int8 OP; block-sparse ones as if dense."""
    return linear_ops(x, out, packed)


@formula(
    "quantized.linear_with_input_q_dq_qweight_dq_output_fp32",
    "quantized.linear_with_input_q_dq_qweight_dq_relu_output_fp32",
)
def quantized_linear_fp32(x: TensorSpec, *_: Any, out: TensorSpec | None, **__: Any) -> Cost:
    """Linear on a packed int8 weight between quantising and dequantising: 2 · rows · n · k int8 OP."""
    return linear_ops(x, out)


@formula("quantized.linear_dynamic_fp16", "quantized.linear_relu_dynamic_fp16")
def linear_fp16(x: TensorSpec, packed: Any, *_: Any, out: TensorSpec | None, **__: Any) -> Cost:
    """Linear on a packed fp16 weight, multiplied in the precision of x: 2 · rows · n · k."""
    return linear_ops(x, out, packed, precision=matrix_precision(x))


@formula(
    "quantized.linear_dynamic_fp16_unpacked_weight",
    "onednn.linear_dynamic_fp16",
    "onednn.linear_relu_dynamic_fp16",
)
def linear_fp16_weight(x: TensorSpec, weight: TensorSpec, bias: Any, *_: Any, **__: Any) -> Cost:
    """Linear on an fp16 weight, multiplied in the precision of x: 2 · rows · n · k."""
    return linear_cost(x, weight, bias)


@formula("aten.fbgemm_linear_fp16_weight", "aten.fbgemm_linear_fp16_weight_fp32_activation")
def fbgemm_fp16(x: TensorSpec, _packed: Any, bias: Any, *_: Any, out: TensorSpec, **__: Any) -> Cost:
    """Linear on a weight packed as fp16 by FBGEMM, in the precision of x: 2 · rows · n · k."""
    return linear_cost(x, x, bias, columns=out.shape[-1])


@formula("aten.fbgemm_linear_int8_weight", "aten.fbgemm_linear_int8_weight_fp32_activation")
def fbgemm_int8(x: TensorSpec, weight: TensorSpec, *_: Any, **__: Any) -> Cost:
    """Linear on an int8 weight by FBGEMM, its input quantised on the way: 2 · rows · n · k int8 OP."""
    return linear_cost(x, weight, precision=Precision.INT8)


@formula(
    "_quantized.wrapped_quantized_linear",
    "_quantized._wrapped_quantized_linear_prepacked",
    "aten._wrapped_quantized_linear_prepacked",
)
def wrapped_linear(x: TensorSpec, *_: Any, out: TensorSpec, **__: Any) -> Cost:
    """Linear that quantises, multiplies and dequantises: 2 · rows · n · k int8 OP."""
    return linear_ops(x, out)


@formula("_quantized.wrapped_fbgemm_linear_fp16_weight")
def wrapped_fp16(x: TensorSpec, _weight: Any, bias: Any, *_: Any, out: TensorSpec, **__: Any) -> Cost:
    """Linear on a weight packed as fp16, in the precision of x: 2 · rows · n · k."""
    return linear_cost(x, x, bias, columns=out.shape[-1])


@formula("quantized.matmul")
def quantized_matmul(a: TensorSpec, b: TensorSpec, *_: Any, **__: Any) -> Cost:
    """Product of quantised tensors: 2 · batch · m · n · k int8 OP."""
    return product(a, b)


@formula("onednn.qlinear_pointwise")
def qlinear(x: TensorSpec, _scale: Any, _zero: Any, weight: TensorSpec, *rest: Any, **_: Any) -> Cost:
    """Linear in oneDNN, int8 or fp8, the weight as (k, n): 2 · rows · n · k."""
    _batch, _m, n, _k = matmul_dims(x.shape, weight.shape)
    return linear_cost(x, weight, rest[2], columns=n)


@formula("onednn.qlinear_pointwise.binary", "onednn.qlinear_pointwise.binary_tensor")
def qlinear_binary(x: TensorSpec, _scale: Any, _zero: Any, weight: TensorSpec, *rest: Any, **_: Any) -> Cost:
    """Linear in oneDNN with a fused addition, one vector FLOP per output."""
    _batch, _m, n, _k = matmul_dims(x.shape, weight.shape)
    return linear_cost(x, weight, rest[3], columns=n, extra_per_output=1)


@formula("onednn.qconv_pointwise", "onednn.qconv1d_pointwise", "onednn.qconv2d_pointwise", "onednn.qconv3d_pointwise")
def qconv(x: TensorSpec, _scale: Any, _zero: Any, weight: TensorSpec, *rest: Any, **_: Any) -> Cost:
    """Convolution in oneDNN, int8 or fp8: 2 · batch · positions · numel(weight)."""
    bias, stride, padding, dilation = rest[2:6]
    return conv_forward(x, weight.shape, bias, stride, padding, dilation)


@formula("onednn.qconv2d_pointwise.binary", "onednn.qconv2d_pointwise.binary_tensor")
def qconv_binary(x: TensorSpec, _scale: Any, _zero: Any, weight: TensorSpec, *rest: Any, **_: Any) -> Cost:
    """Convolution in oneDNN with a fused addition, one vector FLOP per output."""
    bias, stride, padding, dilation = rest[3:7]
    return conv_forward(x, weight.shape, bias, stride, padding, dilation, extra_per_output=1)


@formula(
    *(f"quantized.conv{dims}{suffix}" for dims in ("1d", "2d", "3d") for suffix in ("", "_relu", "_dynamic")),
    *(f"_quantized.conv{dims}{suffix}" for dims in ("2d", "3d") for suffix in ("", "_relu")),
)
def quantized_conv(x: TensorSpec, packed: Any, *_: Any, out: TensorSpec, **__: Any) -> Cost:
    """Convolution on a packed int8 weight: 2 · batch · positions · numel(weight) int8 OP."""
    return conv_cost(
        x, _unpacked(packed, x), positions=out.shape[2 - x.ndim :], precision=Precision.INT8, outputs=out.numel
    )


@formula("quantized.conv2d_add", "quantized.conv2d_add_relu")
def quantized_conv_add(x: TensorSpec, _added: Any, packed: Any, *_: Any, out: TensorSpec, **__: Any) -> Cost:
    """Convolution on a packed int8 weight with a fused addition, one vector FLOP per output."""
    cost = quantized_conv(x, packed, out=out)
    return Cost(matrix=cost.matrix, vector=out.numel, precision=cost.precision)


@formula(
    *(f"quantized.conv_transpose{dims}{suffix}" for dims in ("1d", "2d", "3d") for suffix in ("", "_dynamic")),
    "_quantized.conv_transpose1d",
    "_quantized.conv_transpose2d",
)
def quantized_conv_transpose(x: TensorSpec, packed: Any, *_: Any, **__: Any) -> Cost:
    """Transposed convolution on a packed int8 weight: 2 · batch · input positions · numel(weight) int8 OP."""
    return conv_cost(x, _unpacked(packed, x), positions=x.shape[2 - x.ndim :], precision=Precision.INT8)


@formula("mkldnn_prepacked.conv2d_run")
def prepacked_conv(x: TensorSpec, packed: Any, *_: Any, out: TensorSpec, **__: Any) -> Cost:
    """Convolution on a weight packed for oneDNN, in the precision of x: 2 · batch · positions · numel(weight)."""
    return conv_cost(x, _unpacked(packed, x), positions=out.shape[2 - x.ndim :])


_PACKING = ("prepack", "unpack")
_PACKED_CONVS = ("conv2d", "conv3d", "conv_transpose2d", "conv_transpose3d")
_SETTINGS = ("stride", "padding", "output_padding", "dilation", "groups", "transpose")

free(
    *(f"quantized.{conv}_{setting}" for conv in _PACKED_CONVS for setting in _SETTINGS),
    "quantized.conv2d_unpack_sizes",
)


@formula(
    *(f"quantized.{layer}_{what}" for layer in ("conv1d", *_PACKED_CONVS, "conv_transpose1d") for what in _PACKING),
    *(f"quantized.{layer}_{what}" for layer in ("linear", "conv") for what in _PACKING),
    "quantized.linear_prepack_fp16",
    "quantized.linear_prepack_fp16_legacy",
    "quantized.linear_prepack_legacy",
    "quantized.linear_unpack_fp16",
    *(f"_quantized.{layer}_prepack" for layer in (*_PACKED_CONVS, "conv_transpose1d", "linear")),
    "_quantized.linear_prepack_fp16",
    "_quantized.linear_prepack_fp16_legacy",
    "_quantized.linear_prepack_legacy",
    "_quantized._wrapped_linear_prepack",
    "_quantized.wrapped_fbgemm_pack_gemm_matrix_fp16",
    "aten._wrapped_linear_prepack",
    "aten.fbgemm_pack_gemm_matrix_fp16",
    "aten.fbgemm_pack_quantized_matrix",
    "aten._convert_weight_to_int4pack",
    "aten._convert_weight_to_int4pack_for_cpu",
    "aten._cudnn_rnn_flatten_weight",
    "aten.mkldnn_reorder_conv2d_weight",
    "aten.mkldnn_reorder_conv3d_weight",
    "mkl._mkl_reorder_linear_weight",
    "mkldnn._reorder_convolution_transpose_weight",
    "mkldnn._reorder_convolution_weight",
    "mkldnn._reorder_linear_weight",
    "mkldnn._reorder_mkldnn_rnn_layer_weight",
    "mkldnn_prepacked.conv2d_prepack",
    "onednn.linear_prepack_fp16",
    "onednn.qconv_prepack",
    "onednn.qlinear_prepack",
    "sparse.qlinear_prepack",
    "sparse.qlinear_unpack",
)
def repack(*_: Any, **__: Any) -> Cost:
    """Bring a weight into the layout of an engine, or back: it moves bytes only."""
    return Cost()


def _unpacked(packed: Any, x: TensorSpec) -> tuple[int, ...]:
    """Shape of a packed weight with as many dimensions as x; 1-d ones are packed as 2-d with a kernel of one row."""
    shape = weight_shape(packed)
    return shape if len(shape) == x.ndim else (*shape[:2], *shape[2 + len(shape) - x.ndim :])


def _register(kind: str, op: str) -> None:
    """Register a recurrent layer whose packed cells hide their weights; the hidden state shows its features."""

    def layers(x: TensorSpec, hx: Any, count: int, bidirectional: bool, dtype: Any) -> Cost:
        hidden = (hx if isinstance(hx, TensorSpec) else hx[0]).shape[-1]
        directions = 2 if bidirectional else 1
        weights = rnn.rnn_weights(kind, x.shape[-1], hidden, count, directions)
        return rnn.forward(kind, x, weights, _dynamic_precision(x, dtype))

    @formula(f"aten.{op}.input", f"aten.{op}.input_legacy")
    def padded(x: TensorSpec, hx: Any, _params: Any, _biases: Any, count: int, *rest: Any, **options: Any) -> Cost:
        """All layers over a padded batch: 2 · T · B · Σ numel(W) int8 OP."""
        return layers(x, hx, count, rest[2], options.get("dtype"))

    @formula(f"aten.{op}.data", f"aten.{op}.data_legacy")
    def packed(x: TensorSpec, _sizes: Any, hx: Any, _params: Any, _biases: Any, *rest: Any, **options: Any) -> Cost:
        """All layers over a packed batch: 2 · rows · Σ numel(W) int8 OP."""
        return layers(x, hx, rest[0], rest[3], options.get("dtype"))


def _register_cell(kind: str, op: str) -> None:
    @formula(f"quantized.quantized_{op}_cell_dynamic", f"aten.quantized_{op}_cell")
    def cell(x: TensorSpec, hx: TensorSpec | Sequence[TensorSpec], *_: Any, **__: Any) -> Cost:
        """One step of one layer: 2 · B · gates · H · (inputs + H) int8 OP."""
        hidden = (hx if isinstance(hx, TensorSpec) else hx[0]).shape[-1]
        return rnn.forward(kind, x, rnn.rnn_weights(kind, x.shape[-1], hidden), Precision.INT8)


def _dynamic_precision(x: TensorSpec, dtype: Any) -> Precision:
    """Int8, or that of x where the weights are kept as fp16 and widened."""
    return matrix_precision(x) if "float16" in str(dtype) else Precision.INT8


for _kind in ("lstm", "gru"):
    _register(_kind, f"quantized_{_kind}")
for _kind, _op in (("lstm", "lstm"), ("gru", "gru"), ("rnn", "rnn_tanh"), ("rnn", "rnn_relu")):
    _register_cell(_kind, _op)
