"""Quantising, fake quantising, and elementwise ops on quantised tensors. Quantised products are in `quantized`.

| op | formula | FLOP per element |
|---|---|---|
| quantize | clamp(round(x / s) + z) | 5 |
| dequantize | (q − z)·s | 2 |
| fake_quantize | both, one after the other | 7 |
| … learnable, backward | gradients of x (mask), scale and zero point | 10 |
| moving-average observer with fake_quantize | min, max, then 7 | 9 |
| op on quantised tensors | dequantise each input 2, the op itself, quantise 5 | 7 + 2 per further input |
| … with relu | one more | |
| relu, relu6, clamp, max pool on quantised tensors | comparisons of integers | 0 |
| embedding of packed rows | dequantise | 2, a bag 3 |

The arithmetic runs in fp32. Bytes: input and result once, each at its own width. Packed embedding tables are opaque
to a count of tensors: the rows read stand as workspace.
"""

from typing import Any

from roofline.core.precision import Precision
from roofline.formulas.arithmetic import aten, elements, first_tensor, moves, per_input, position, results, spell
from roofline.formulas.registry import Cost, Rule, formula, free
from roofline.formulas.spec import TensorSpec

QUANTIZE = 5
DEQUANTIZE = 2
MAX_POOL = "max_pool1d max_pool2d"

free(
    *aten("qscheme q_scale q_zero_point q_per_channel_axis q_per_channel_scales q_per_channel_zero_points"),
    *spell("quantized", "make_quantized_cell_params make_quantized_cell_params_dynamic dropout"),
)

formula(*aten("quantize_per_tensor quantize_per_channel quantize_per_tensor_dynamic"))(per_input(QUANTIZE))
formula(
    *aten("fake_quantize_per_tensor_affine_cachemask fake_quantize_per_channel_affine_cachemask"),
    *aten("_fake_quantize_per_tensor_affine_cachemask_tensor_qparams _fake_quantize_learnable_per_tensor_affine"),
    *aten("_fake_quantize_learnable_per_channel_affine"),
)(per_input(QUANTIZE + DEQUANTIZE))
formula(
    *aten("_fake_quantize_learnable_per_tensor_affine_backward _fake_quantize_learnable_per_channel_affine_backward"),
)(per_input(10))
formula(*aten("_fused_moving_avg_obs_fq_helper _fused_moving_avg_obs_fq_helper_functional"))(per_input(9))
formula(*aten("int_repr _make_per_tensor_quantized_tensor _make_per_channel_quantized_tensor"))(moves)
formula(*spell("quantized", f"{MAX_POOL} relu6 clamp threshold"))(moves)
formula(*spell("quantization", "_Bfloat16QuantizedToFloat _FloatToBfloat16Quantized"))(moves)


@formula("aten.dequantize")
def dequantize(*args: Any, out: Any, **_: Any) -> Cost:
    """(q − z)·s: 2 FLOP per element."""
    return Cost(vector=DEQUANTIZE * elements(out))


def _between(flops: int, inputs: int = 1) -> Rule:
    """Make the rule of an op that dequantises its inputs, computes, and quantises its result."""
    total = DEQUANTIZE * inputs + flops + QUANTIZE

    def rule(*args: Any, out: Any, **_: Any) -> Cost:
        return Cost(vector=total * elements(first_tensor(results(args, out))), precision=Precision.FP32)

    rule.__doc__ = f"{inputs} input(s) dequantised, {flops} FLOP, quantised: {total} per element."
    return rule


for _op in ("add", "mul"):
    formula(*spell("quantized", f"{_op} {_op}_out"), f"onednn.q{_op}.tensor")(_between(1, 2))
    formula(*spell("quantized", f"{_op}_relu {_op}_relu_out"))(_between(2, 2))
    formula(*spell("quantized", f"{_op}_scalar {_op}_scalar_out"))(_between(1))
    formula(*spell("quantized", f"{_op}_scalar_relu {_op}_scalar_relu_out"))(_between(2))
formula("onednn.qadd_relu.tensor")(_between(2, 2))
formula("_quantized.add")(_between(1, 2))
formula(*spell("quantized", "cat cat_out"))(_between(0))
formula(*spell("quantized", "cat_relu cat_relu_out"))(_between(1))
formula(*spell("quantized", "leaky_relu prelu"))(_between(2))
formula(*spell("quantized", "elu celu"))(_between(3))
formula(*spell("quantized", "sigmoid"))(_between(4))
formula(*spell("quantized", "hardswish softmax"))(_between(5))
formula(*spell("quantized", "layer_norm group_norm instance_norm"))(_between(8))
formula(
    *spell("quantized", "batch_norm batch_norm1d batch_norm2d batch_norm3d"),
    "aten.quantized_batch_norm",
    "onednn.qbatch_norm2d",
)(_between(4))
formula(*spell("quantized", "batch_norm_relu batch_norm1d_relu batch_norm2d_relu batch_norm3d_relu"))(_between(5))

for _bits in ("byte", "4bit", "2bit"):
    formula(*spell("quantized", f"embedding_bag_{_bits}_prepack embedding_bag_{_bits}_unpack"))(per_input(QUANTIZE))
    formula(f"quantized.embedding_bag_{_bits}_prepack_with_rowwise_min_max")(per_input(QUANTIZE))
formula("quantized.embedding_bag_prepack")(moves)


def _packed_lookup(bytes_per_element: float, *, bag: bool) -> Rule:
    def rule(weight: Any, indices: TensorSpec, *args: Any, out: TensorSpec, **_: Any) -> Cost:
        looked_up = indices.numel * out.shape[-1]
        row_bytes = looked_up * bytes_per_element
        flops = looked_up * (DEQUANTIZE + bag)
        if isinstance(weight, TensorSpec):
            return Cost(vector=flops, precision=Precision.FP32, read={position(): min(weight.nbytes, row_bytes)})
        return Cost(vector=flops, precision=Precision.FP32, workspace_bytes=row_bytes)

    rule.__doc__ = f"Rows of {bytes_per_element:g} byte(s) per element, dequantised{' and summed' if bag else ''}."
    return rule


formula("quantized.embedding_byte")(_packed_lookup(1, bag=False))
formula("quantized.embedding_4bit")(_packed_lookup(0.5, bag=False))
formula(*spell("quantized", "embedding_bag_byte embedding_bag_byte_rowwise_offsets"))(_packed_lookup(1, bag=True))
formula(*spell("quantized", "embedding_bag_4bit embedding_bag_4bit_rowwise_offsets"))(_packed_lookup(0.5, bag=True))
formula("quantized.embedding_bag_2bit_rowwise_offsets")(_packed_lookup(0.25, bag=True))
