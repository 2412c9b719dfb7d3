"""Quantising, dequantising and fake quantising: elementwise. Products of quantised tensors are in `quantized`.

| op | formula | FLOP per element |
|---|---|---|
| quantize | clamp(round(x / s) + z) | 5 |
| dequantize | (q − z)·s | 2 |
| fake_quantize | both, one after the other | 7 |
| … learnable, backward | gradients of x (mask), scale and zero point | 10 |
| moving-average observer with fake_quantize | min, max, then 7 | 9 |
| quantized batch norm | dequantise 2, normalise and scale 4, quantise 5 | 11 |

Bytes: input and result once, each at its own width.
"""

from typing import Any

from roofline.formulas.arithmetic import aten, elements, moves, per_input
from roofline.formulas.registry import Cost, formula, free

free(*aten("qscheme q_scale q_zero_point q_per_channel_axis q_per_channel_scales q_per_channel_zero_points"))

formula(*aten("quantize_per_tensor quantize_per_channel quantize_per_tensor_dynamic"))(per_input(5))
formula(
    *aten("fake_quantize_per_tensor_affine_cachemask fake_quantize_per_channel_affine_cachemask"),
    *aten("_fake_quantize_per_tensor_affine_cachemask_tensor_qparams _fake_quantize_learnable_per_tensor_affine"),
    *aten("_fake_quantize_learnable_per_channel_affine"),
)(per_input(7))
formula(
    *aten("_fake_quantize_learnable_per_tensor_affine_backward _fake_quantize_learnable_per_channel_affine_backward"),
)(per_input(10))
formula(*aten("_fused_moving_avg_obs_fq_helper _fused_moving_avg_obs_fq_helper_functional"))(per_input(9))
formula(*aten("int_repr _make_per_tensor_quantized_tensor _make_per_channel_quantized_tensor"))(moves)


@formula("aten.dequantize")
def dequantize(*args: Any, out: Any, **_: Any) -> Cost:
    """(q − z)·s: 2 FLOP per element."""
    return Cost(vector=2 * elements(out))


@formula("aten.quantized_batch_norm")
def quantized_batch_norm(x: Any, *args: Any, out: Any, **_: Any) -> Cost:
    """Dequantise, normalise, scale, shift, quantise: 11 FLOP per element."""
    return Cost(vector=11 * elements(x))
