"""Rules of backends that can't run here, called with the arguments that their schemas name."""

from collections.abc import Iterator, Mapping
from typing import Any

import pytest
import torch
import torch.nn.attention.varlen
import torch.nn.functional as F  # noqa: N812

import roofline.formulas  # noqa: F401 — fills the table
from roofline.formulas.registry import Cost, find_rule
from roofline.formulas.spec import TensorSpec

SCHEMAS = {f"{s.name}.{s.overload_name}".rstrip(".").replace("::", "."): s for s in torch._C._jit_get_all_schemas()}


def call_by_schema(name: str, values: Mapping[str, Any], out: Any = None) -> Cost:
    """Apply an op's rule to arguments by their schema names; whatever `values` lacks is None or its default."""
    args, kwargs = [], {}
    for argument in SCHEMAS[name].arguments:
        value = values.get(argument.name, argument.default_value if argument.has_default_value() else None)
        if argument.kwarg_only:
            kwargs[argument.name] = value
        else:
            args.append(value)
    rule = find_rule(name)
    assert rule is not None, name
    return rule(*args, **kwargs, out=out)


def spec(*shape: int, dtype: str = "float32") -> TensorSpec:
    return TensorSpec(shape, dtype)


def ops(words: str, *, without: str = "") -> Iterator[str]:
    names = words.split()
    yield from (n for n in SCHEMAS if ".".join(n.split(".")[:2]) in names and "out" not in n.split(".")[2:])


STRIDE, PADDING, DILATION = (2, 1), (1, 3), (3, 2)


def convolved(transposed: bool, groups: int = 2, dilation: tuple[int, int] = DILATION) -> tuple[Any, ...]:
    """Input, weight and result shapes of a convolution whose settings differ in each dimension."""
    x = torch.empty(2, 4, 21, 19, device="meta")
    w = torch.empty(*((4, 6 // groups) if transposed else (6, 4 // groups)), 3, 2, device="meta")
    if transposed:
        out = F.conv_transpose2d(x, w, None, STRIDE, PADDING, (0, 0), groups, dilation)
    else:
        out = F.conv2d(x, w, None, STRIDE, PADDING, dilation, groups)
    return tuple(x.shape), tuple(w.shape), tuple(out.shape)


def conv_values(x: tuple[int, ...], w: tuple[int, ...], groups: int, dilation: tuple[int, int]) -> dict[str, Any]:
    inputs = dict.fromkeys(("self", "input", "X", "qx"), spec(*x)) | dict.fromkeys(("weight", "W", "qw"), spec(*w))
    sizes = {"stride": STRIDE, "padding": PADDING, "dilation": dilation, "groups": groups, "output_padding": (0, 0)}
    return inputs | sizes | {"kernel_size": w[2:], "attr": "none", "binary_attr": "add"}


FORWARD = """aten.convolution aten._convolution aten.convolution_overrideable aten.cudnn_convolution
aten.cudnn_convolution_relu aten.cudnn_convolution_add_relu aten.miopen_convolution aten.miopen_convolution_relu
aten.miopen_convolution_add_relu aten.miopen_depthwise_convolution aten.mkldnn_convolution aten._mps_convolution
aten.conv2d mkldnn._convolution_pointwise mkldnn._convolution_pointwise_ onednn.qconv_pointwise
onednn.qconv2d_pointwise aten._conv_depthwise2d aten.slow_conv_dilated2d"""
NO_DILATION = "aten._slow_conv2d_forward aten.thnn_conv2d aten._nnpack_spatial_convolution"
TRANSPOSED = """aten.conv_transpose2d aten.cudnn_convolution_transpose aten.miopen_convolution_transpose
aten._mps_convolution_transpose aten.slow_conv_transpose2d mkldnn._convolution_transpose_pointwise"""
BACKWARD = "aten.convolution_backward aten.convolution_backward_overrideable aten.mps_convolution_backward"


@pytest.mark.parametrize("name", [n for n in ops(FORWARD) if n != "aten.conv2d.padding"])
def test_convolutions_of_every_backend(name):
    x, w, out = convolved(transposed=False)
    values = conv_values(x, w, 2, DILATION) | {"transposed": False, "other": spec(*out), "qaccum": spec(*out)}
    assert call_by_schema(name, values, spec(*out)).matrix == 2 * 2 * 6 * out[2] * out[3] * (4 // 2) * 3 * 2


@pytest.mark.parametrize("name", [n for n in ops(NO_DILATION) if not n.endswith("output")])
def test_convolutions_without_dilation(name):
    x, w, out = convolved(transposed=False, groups=1, dilation=(1, 1))
    cost = call_by_schema(name, conv_values(x, w, 1, (1, 1)), spec(*out))
    assert cost.matrix == 2 * 2 * 6 * out[2] * out[3] * 4 * 3 * 2
    if "nnpack" not in name:
        assert cost.workspace_bytes == 2 * 4 * (2 * 4 * 3 * 2 * out[2] * out[3])


@pytest.mark.parametrize("name", list(ops(TRANSPOSED)))
def test_transposed_convolutions_of_every_backend(name):
    groups = 1 if "slow" in name else 2
    x, w, out = convolved(transposed=True, groups=groups)
    values = conv_values(x, w, groups, DILATION) | {"bias": spec(6)}
    cost = call_by_schema(name, values, spec(*out))
    assert cost.matrix == 2 * 2 * 4 * 21 * 19 * (6 // groups) * 3 * 2
    assert cost.vector in (0, 2 * 6 * out[2] * out[3])


@pytest.mark.parametrize("mask", [(True, True, True), (False, True, False), (True, False, False)])
@pytest.mark.parametrize("name", [*ops(BACKWARD), "aten._slow_conv2d_backward.output_mask"])
def test_gradients_of_every_backend(name, mask):
    slow = "slow" in name
    groups, dilation = (1, (1, 1)) if slow else (2, DILATION)
    x, w, out = convolved(transposed=False, groups=groups, dilation=dilation)
    values = conv_values(x, w, groups, dilation) | {
        "grad_output": spec(*out),
        "output_mask": mask,
        "transposed": False,
    }
    if name == "aten.convolution_backward":
        values["input"] = spec(*x)
    cost = call_by_schema(name, values)
    assert cost.matrix == (mask[0] + mask[1]) * 2 * 2 * 6 * out[2] * out[3] * (4 // groups) * 3 * 2
    assert cost.vector == (2 * 6 * out[2] * out[3] if mask[2] else 0)


def test_gradients_that_are_not_asked_for_leave_their_partner_unread():
    x, w, out = convolved(transposed=False)
    values = conv_values(x, w, 2, DILATION) | {"grad_output": spec(*out), "transposed": False}
    first_layer = call_by_schema("aten.convolution_backward", values | {"output_mask": (False, True, False)})
    frozen = call_by_schema("aten.convolution_backward", values | {"output_mask": (True, False, False)})
    assert (first_layer.read, frozen.read) == ({2: 0}, {1: 0})


B, H, KV, SQ, SK, D, DV = 2, 8, 2, 5, 7, 16, 24
HEADS_FIRST = {"query": spec(B, H, SQ, D), "key": spec(B, KV, SK, D), "value": spec(B, KV, SK, DV)}
HEADS_SECOND = {"query": spec(B, SQ, H, D), "key": spec(B, SK, KV, D), "value": spec(B, SK, KV, DV)}
TOKENS = {"query": spec(12, H, D), "key": spec(14, KV, D), "value": spec(14, KV, DV)}
CAUSAL = {"is_causal": True, "custom_mask_type": 1, "max_q": SQ, "max_k": SK, "dropout_p": 0.0}
TOP_LEFT = sum(min(i + 1, SK) for i in range(SQ))
BOTTOM_RIGHT = sum(min(i + 1 + SK - SQ, SK) for i in range(SQ))

BATCHED_ATTENTION = """aten.scaled_dot_product_attention aten._scaled_dot_product_attention_math
aten._scaled_dot_product_flash_attention aten._scaled_dot_product_flash_attention_for_cpu
aten._scaled_dot_product_efficient_attention aten._scaled_dot_product_cudnn_attention
aten._scaled_dot_product_fused_attention_overrideable aten._cudnn_attention_forward
aten._scaled_dot_product_attention_math_for_mps"""
BATCHED_BACKWARD = """aten._scaled_dot_product_flash_attention_backward
aten._scaled_dot_product_flash_attention_for_cpu_backward aten._scaled_dot_product_efficient_attention_backward
aten._scaled_dot_product_cudnn_attention_backward aten._scaled_dot_product_fused_attention_overrideable_backward
aten._cudnn_attention_backward"""


def check_forward(cost: Cost, pairs: int, needed: int) -> None:
    assert cost.matrix == 2 * H * pairs * (D + DV)
    assert cost.needed == 2 * H * needed * (D + DV)
    assert cost.vector == 5 * H * pairs


def check_backward(cost: Cost, pairs: int, needed: int) -> None:
    assert cost.matrix == 2 * H * pairs * (3 * D + 2 * DV)
    assert cost.needed == 2 * H * needed * (2 * D + 2 * DV)


@pytest.mark.parametrize("causal", [True, False])
@pytest.mark.parametrize("name", list(ops(BATCHED_ATTENTION)))
def test_attention_with_heads_before_the_sequence(name, causal):
    cost = call_by_schema(name, HEADS_FIRST | CAUSAL | {"is_causal": causal})
    check_forward(cost, B * SQ * SK, B * (TOP_LEFT if causal else SQ * SK))


@pytest.mark.parametrize("causal", [True, False])
@pytest.mark.parametrize("name", list(ops(BATCHED_BACKWARD)))
def test_gradients_of_attention_with_heads_before_the_sequence(name, causal):
    cost = call_by_schema(name, HEADS_FIRST | CAUSAL | {"is_causal": causal})
    check_backward(cost, B * SQ * SK, B * (TOP_LEFT if causal else SQ * SK))


@pytest.mark.parametrize(
    "name", list(ops("aten._flash_attention_forward aten._flash_attention_forward_no_dropout_inplace"))
)
def test_raw_flash_aligns_to_the_bottom_right(name):
    check_forward(call_by_schema(name, HEADS_SECOND | CAUSAL), B * SQ * SK, B * BOTTOM_RIGHT)


def test_raw_flash_gradients_and_windows():
    cost = call_by_schema("aten._flash_attention_backward", HEADS_SECOND | CAUSAL)
    check_backward(cost, B * SQ * SK, B * BOTTOM_RIGHT)
    window = CAUSAL | {"is_causal": False, "window_size_left": 1, "window_size_right": 0}
    cost = call_by_schema("aten._flash_attention_forward", HEADS_SECOND | window)
    check_forward(cost, B * SQ * SK, B * SQ * 2)


@pytest.mark.parametrize(("mask", "needed"), [(0, SQ * SK), (1, TOP_LEFT), (2, BOTTOM_RIGHT)])
def test_raw_memory_efficient_attention_has_three_masks(mask, needed):
    values = HEADS_SECOND | CAUSAL | {"custom_mask_type": mask}
    check_forward(call_by_schema("aten._efficient_attention_forward", values), B * SQ * SK, B * needed)
    check_backward(call_by_schema("aten._efficient_attention_backward", values), B * SQ * SK, B * needed)
    windowed = call_by_schema("aten._efficient_attention_forward", values | {"window_size": 2})
    assert windowed.needed == 2 * H * (D + DV) * B * sum(
        sum(mask == 0 or j <= i + (SK - SQ) * (mask == 2) for j in range(SK) if j > i + (SK - SQ) * (mask == 2) - 2)
        for i in range(SQ)
    )


VARLEN_FORWARD = (
    "aten._flash_attention_forward aten._cudnn_attention_forward torch_attn._varlen_attn torch_attn._varlen_attn_out"
)
VARLEN_BACKWARD = "aten._flash_attention_backward aten._cudnn_attention_backward torch_attn._varlen_attn_backward"


def offsets(values: bool) -> dict[str, TensorSpec]:
    q = TensorSpec((4,), "int32", values=(0, 3, 7, 12) if values else None)
    k = TensorSpec((4,), "int32", values=(0, 5, 12, 14) if values else None)
    names = {"cum_seq_q": q, "cum_seq_k": k, "cu_seq_q": q, "cu_seq_k": k, "cu_seqlens_q": q, "cu_seqlens_k": k}
    return names | {
        "max_q": 5,
        "max_k": 7,
        "max_seqlen_q": 5,
        "max_seqlen_k": 7,
        "is_causal": False,
        "dropout_p": 0.0,
    }


KNOWN = 3 * 5 + 4 * 7 + 5 * 2
# 12 queries as 5 + 5 + 2 and 14 keys as 7 + 7.
BOUND = 5 * 7 + 5 * 7


@pytest.mark.parametrize("known", [True, False])
@pytest.mark.parametrize("name", [*ops(VARLEN_FORWARD), *ops(VARLEN_BACKWARD)])
def test_sequences_of_different_lengths(name, known):
    pairs = KNOWN if known else BOUND
    cost = call_by_schema(name, TOKENS | offsets(known))
    (check_backward if "backward" in name else check_forward)(cost, pairs, pairs)
    assert cost.formula == ("exact" if known else "estimate")
    assert KNOWN <= BOUND


def test_memory_efficient_sequences_of_different_lengths():
    values = {
        "query": spec(1, 12, H, D),
        "key": spec(1, 14, KV, D),
        "value": spec(1, 14, KV, DV),
        "custom_mask_type": 0,
    }
    check_forward(call_by_schema("aten._efficient_attention_forward", values | offsets(True)), KNOWN, KNOWN)
    check_backward(call_by_schema("aten._efficient_attention_backward", values | offsets(True)), KNOWN, KNOWN)


def test_decoding_against_pages_counts_the_keys_in_use():
    q, pages = spec(3, H, D), spec(100, 16, KV, D)
    ones = TensorSpec((4,), "int32", values=(0, 1, 2, 3))
    values = {"query": q, "key": pages, "value": pages, "cu_seq_q": ones, "max_q": 1, "max_k": 64, "is_causal": True}
    used = TensorSpec((3,), "int32", values=(10, 20, 64))
    paged = values | {"block_table": spec(3, 4, dtype="int32")}
    known = call_by_schema("torch_attn._varlen_attn", paged | {"seqused_k": used})
    bound = call_by_schema("torch_attn._varlen_attn", paged | {"seqused_k": spec(3, dtype="int32")})
    assert known.matrix == known.needed == 2 * H * (10 + 20 + 64) * 2 * D
    assert (bound.matrix, bound.formula) == (2 * H * 3 * 64 * 2 * D, "estimate")


X, W_IH, W_HH, STATE, BIAS = spec(10, 3, 8), spec(64, 8), spec(64, 16), spec(1, 3, 16), spec(64)
PRODUCTS = 2 * 10 * 3 * (64 * 8 + 64 * 16)
LSTM = {"input": X, "weight": [W_IH, W_HH, BIAS, BIAS], "hx": STATE, "cx": STATE, "mode": 2, "batch_sizes": ()}


def test_fused_recurrent_layers_count_rows_times_weights():
    for name in ("aten._cudnn_rnn", "aten.miopen_rnn"):
        assert call_by_schema(name, LSTM | {"bidirectional": False}).matrix == PRODUCTS
    layer = {"input": X, "weight0": W_IH, "weight1": W_HH, "weight2": BIAS, "weight3": BIAS, "mode": 2}
    assert call_by_schema("aten.mkldnn_rnn_layer", layer).matrix == PRODUCTS
    backward = {"input": X, "weight1": W_IH, "weight2": W_HH, "weight3": BIAS, "weight4": BIAS, "mode": 2}
    assert call_by_schema("aten.mkldnn_rnn_layer_backward", backward).matrix == 2 * PRODUCTS
    mps = {"input": X, "params": [W_IH, W_HH, BIAS, BIAS]}
    assert call_by_schema("aten._lstm_mps", mps).matrix == PRODUCTS
    assert call_by_schema("aten.lstm_mps_backward", mps).matrix == 2 * PRODUCTS


@pytest.mark.parametrize("name", ["aten._cudnn_rnn_backward", "aten.miopen_rnn_backward"])
def test_fused_recurrent_gradients_follow_their_mask(name):
    layers = {"weight": [W_IH, W_HH, BIAS, BIAS] * 2, "bidirectional": True}
    everything = call_by_schema(name, LSTM | layers | {"output_mask": (True, True, True, True)})
    first_layer = call_by_schema(name, LSTM | layers | {"output_mask": (False, False, False, True)})
    frozen = call_by_schema(name, LSTM | layers | {"output_mask": (True, True, True, False)})
    assert everything.matrix == everything.needed == 2 * 2 * PRODUCTS
    assert first_layer.matrix - first_layer.needed == 2 * (2 * 10 * 3 * 64 * 8)
    assert frozen.matrix == 2 * PRODUCTS


ROWS, N, K = 6, 48, 64
OUT = spec(2, 3, N)
ACTIVATION = spec(2, 3, K)
INT8 = TensorSpec((2, 3, K), "uint8")


@pytest.mark.parametrize(
    ("name", "values"),
    [
        ("aten._weight_int4pack_mm", {"self": spec(ROWS, K), "qGroupSize": 32, "qScaleAndZeros": spec(2, N, 2)}),
        ("aten._weight_int4pack_mm_for_cpu", {"self": spec(ROWS, K), "qScaleAndZeros": spec(2, N, 2)}),
        ("aten._weight_int4pack_mm_with_scales_and_zeros", {"self": spec(ROWS, K), "qScale": spec(2, N)}),
        ("aten._weight_int8pack_mm", {"self": spec(ROWS, K), "mat2": spec(N, K, dtype="int8"), "scales": spec(N)}),
        ("aten._dyn_quant_matmul_4bit", {"inp": spec(ROWS, K), "in_features": K, "out_features": N}),
        ("aten._mixed_dtypes_linear", {"input": ACTIVATION, "scale": spec(N)}),
        ("aten.fbgemm_linear_fp16_weight", {"input": ACTIVATION}),
        ("aten.fbgemm_linear_int8_weight", {"input": ACTIVATION, "weight": spec(N, K, dtype="int8")}),
        ("aten.mkldnn_linear", {"self": ACTIVATION, "weight": spec(N, K)}),
        ("mkldnn._linear_pointwise", {"X": ACTIVATION, "W": spec(N, K), "attr": "none"}),
        ("mkldnn._linear_pointwise.binary", {"X": ACTIVATION, "other": OUT, "W": spec(N, K), "attr": "add"}),
        ("mkl._mkl_linear", {"X": ACTIVATION, "ORI_W": spec(N, K)}),
        ("onednn.qlinear_pointwise", {"qx": INT8, "qw": spec(K, N, dtype="int8")}),
        ("onednn.qlinear_pointwise.tensor", {"qx": INT8, "qw": spec(K, N, dtype="int8")}),
        ("onednn.qlinear_pointwise.binary", {"qx": INT8, "qw": spec(K, N, dtype="int8")}),
        ("onednn.qlinear_pointwise.binary_tensor", {"qx": INT8, "qw": spec(K, N, dtype="int8")}),
        ("quantized.linear", {"X": INT8}),
        ("quantized.linear_relu_dynamic", {"X": ACTIVATION}),
        ("quantized.linear_dynamic_fp16", {"X": ACTIVATION}),
        ("aten._sparse_semi_structured_linear", {"input": ACTIVATION, "weight": spec(N, K)}),
    ],
)
def test_linear_layers_of_every_backend(name, values):
    assert call_by_schema(name, values, OUT).matrix == 2 * ROWS * N * K


@pytest.mark.parametrize("version", ["aten._scaled_mm", "aten._scaled_mm_v2"])
def test_scaled_products_find_their_bias_and_unpack_fp4(version):
    lists = version.endswith("v2")
    scale = [spec(1)] if lists else spec(1)
    values = {
        "scale_a": scale,
        "scale_b": scale,
        "recipe_a": [0],
        "recipe_b": [0],
        "swizzle_a": [0],
        "swizzle_b": [0],
    }
    fp8 = {"self": spec(16, 32, dtype="float8_e4m3fn"), "mat2": spec(32, 8, dtype="float8_e4m3fn")}
    fp4 = {"self": spec(16, 32, dtype="float4_e2m1fn_x2"), "mat2": spec(32, 8, dtype="float4_e2m1fn_x2")}
    plain, biased = (call_by_schema(version, values | fp8 | {"bias": b}) for b in (None, spec(8)))
    assert plain.matrix == biased.matrix == 2 * 16 * 8 * 32
    assert (plain.vector, biased.vector) == (0, 16 * 8)
    assert call_by_schema(version, values | fp4).matrix == 2 * 16 * 8 * 64


GROUPS = [((9, 32), (3, 32, 8), 2 * 9 * 32 * 8), ((3, 5, 32), (32, 9), 2 * 5 * 32 * 9)]
GROUPS += [((3, 5, 32), (3, 32, 8), 2 * 3 * 5 * 32 * 8), ((5, 9), (9, 8), 2 * 5 * 9 * 8)]


@pytest.mark.parametrize("name", ["aten._grouped_mm", "aten._scaled_grouped_mm", "aten._scaled_grouped_mm_v2"])
@pytest.mark.parametrize(("a", "b", "right"), GROUPS)
def test_groups_along_rows_columns_batch_or_depth(name, a, b, right):
    values = {"self": spec(*a, dtype="bfloat16"), "mat2": spec(*b, dtype="bfloat16"), "offs": spec(3, dtype="int32")}
    assert call_by_schema(name, values).matrix == right
