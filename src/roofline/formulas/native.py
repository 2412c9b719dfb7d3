"""Fused paths that torch takes by itself: multi-head attention and encoder layers in evaluation mode.

They count what the modules count when run op by op: projections 2 · tokens · E · 4E for self-attention, attention as
in `attention` (all pairs), feed-forward 2 · tokens · 2 · E · F. What lies between the parts (Q K V, scores if they
are wanted, context, hidden activations) goes through memory inside the op: workspace, written once and read once.

A batch of nested sequences (`TensorSpec.values` has their lengths, its shape is the padded one) projects its own
tokens; its attention executes the padded square and needs the squares of the lengths.
"""

from math import prod
from typing import Any

from roofline.formulas.attention import SOFTMAX_FLOPS, attention_flops
from roofline.formulas.matmul import gemm_flops, matrix_precision
from roofline.formulas.registry import Cost, formula
from roofline.formulas.spec import TensorSpec

# As `norm` counts a layer norm with affine parameters, and `activation` an erf-based GELU.
_LAYER_NORM_FLOPS = 8
_GELU_FLOPS = 5


@formula("aten._native_multi_head_attention")
def native_mha(
    q: TensorSpec,
    k: TensorSpec,
    _v: Any,
    width: int,
    heads: int,
    _qkv_weight: Any,
    _qkv_bias: Any,
    _proj_weight: Any,
    _proj_bias: Any,
    _mask: Any = None,
    need_weights: bool = True,
    *_: Any,
    **__: Any,
) -> Cost:
    """Fused multi-head attention: 2 · E² · 2 · (T_q + T_k) for the projections, then the attention between.

    Vector FLOP: biases one per projected element, softmax 5 per score, one more to average scores that are wanted.
    """
    return _attention(q, k, width, heads, need_weights)


@formula("aten._triton_multi_head_attention")
def triton_mha(q: TensorSpec, k: TensorSpec, _v: Any, width: int, heads: int, *_: Any, **__: Any) -> Cost:
    """Fused multi-head attention with a Triton kernel, without weights."""
    return _attention(q, k, width, heads, need_weights=False)


@formula("aten._transformer_encoder_layer_fwd")
def native_encoder_layer(x: TensorSpec, width: int, heads: int, *rest: Any, **_: Any) -> Cost:
    """Fused encoder layer: attention as `native_mha`, and 2 · tokens · 2 · E · F for the feed-forward part.

    Vector FLOP: biases 1, softmax 5 per score, ReLU 1 or GELU 5 per hidden activation, and per element two layer
    norms of 8 and two residual additions.
    """
    use_gelu, ffn_weight = rest[4], rest[11]
    attention = _attention(x, x, width, heads, need_weights=False)
    tokens, hidden = _tokens(x), ffn_weight.shape[0]
    activation = _GELU_FLOPS if use_gelu else 1
    between = tokens * (hidden + 4 * width)
    feed_forward = gemm_flops(tokens, 2 * hidden, width)
    return Cost(
        matrix=attention.matrix + feed_forward,
        needed=(attention.needed or 0) + feed_forward,
        vector=attention.vector + tokens * (hidden * (1 + activation) + width * (1 + 2 * _LAYER_NORM_FLOPS + 2)),
        precision=attention.precision,
        workspace_bytes=attention.workspace_bytes + 2 * between * x.item_bytes,
    )


@formula("aten._transform_bias_rescale_qkv")
def transform_bias_rescale_qkv(qkv: TensorSpec, *_: Any, **__: Any) -> Cost:
    """Add the biases and scale the queries: one vector FLOP per element and one per query element."""
    return Cost(vector=qkv.numel + qkv.numel // 3)


def _attention(q: TensorSpec, k: TensorSpec, width: int, heads: int, need_weights: bool) -> Cost:
    pairs, needed_pairs = _pairs(q, k)
    scores, projected = heads * pairs, 2 * width * (_tokens(q) + _tokens(k))
    projections = gemm_flops(projected, 1, width)
    # Q, K, V and the context; scores leave the fused attention only if they are wanted.
    between = projected + (scores if need_weights else 0)
    return Cost(
        matrix=projections + attention_flops(1, 1, pairs, width),
        needed=projections + attention_flops(1, 1, needed_pairs, width),
        vector=projected + (SOFTMAX_FLOPS + need_weights) * scores,
        precision=matrix_precision(q),
        workspace_bytes=2 * between * q.item_bytes,
    )


def _tokens(x: TensorSpec) -> int:
    return sum(x.values) if x.values is not None else prod(x.shape[:-1])


def _pairs(q: TensorSpec, k: TensorSpec) -> tuple[int, int]:
    """Pairs executed and needed: torch pads nested sequences to the longest before they meet."""
    padded = q.shape[0] * q.shape[1] * k.shape[1]
    if q.values is None or k.values is None:
        return padded, padded
    return padded, sum(a * b for a, b in zip(q.values, k.values, strict=True))
