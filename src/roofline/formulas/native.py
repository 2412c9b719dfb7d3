"""Fused paths that torch takes by itself: multi-head attention and encoder layers in evaluation mode.

They count what the modules count when run op by op: projections 2 · tokens · E · 4E for self-attention, attention as
in `attention` (all pairs), feed-forward 2 · tokens · 2 · E · F. What lies between the parts (Q K V, scores if they
are wanted, context, hidden activations) goes through memory inside the op: workspace, written once and read once.
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


def mha_flops(batch: int, queries: int, keys: int, width: int) -> int:
    """FLOP of multi-head attention: projections of Q, K, V and the output, and the attention between.

    2 · B · E² · (2 · S_q + 2 · S_k) + 4 · B · S_q · S_k · E; the number of heads doesn't matter.

    Args:
        batch: Sequences.
        queries: Length of the queries.
        keys: Length of the keys and values.
        width: E, all heads together.
    """
    projections = gemm_flops(2 * queries + 2 * keys, width, width, batch)
    return projections + attention_flops(batch, 1, queries * keys, width)


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
    """Fused multi-head attention: `mha_flops`; biases one vector FLOP per projected element, softmax 5 per score."""
    return _attention(q, k, width, heads, need_weights)


@formula("aten._triton_multi_head_attention")
def triton_mha(q: TensorSpec, k: TensorSpec, _v: Any, width: int, heads: int, *_: Any, **__: Any) -> Cost:
    """Fused multi-head attention with a Triton kernel, without weights."""
    return _attention(q, k, width, heads, need_weights=False)


@formula("aten._transformer_encoder_layer_fwd")
def native_encoder_layer(x: TensorSpec, width: int, heads: int, *rest: Any, **_: Any) -> Cost:
    """Fused encoder layer: `mha_flops` and 2 · tokens · 2 · E · F for the feed-forward part.

    Vector FLOP: biases 1, softmax 5 per score, ReLU 1 or GELU 5 per hidden activation, and per element two layer
    norms of 8 and two residual additions.
    """
    use_gelu, ffn_weight = rest[4], rest[11]
    attention = _attention(x, x, width, heads, need_weights=False)
    tokens, hidden = prod(x.shape[:-1]), ffn_weight.shape[0]
    activation = _GELU_FLOPS if use_gelu else 1
    between = tokens * (hidden + 4 * width)
    return Cost(
        matrix=attention.matrix + gemm_flops(tokens, 2 * hidden, width),
        vector=attention.vector + tokens * (hidden * (1 + activation) + width * (1 + 2 * _LAYER_NORM_FLOPS + 2)),
        precision=attention.precision,
        workspace_bytes=attention.workspace_bytes + 2 * between * x.item_bytes,
    )


@formula("aten._transform_bias_rescale_qkv")
def transform_bias_rescale_qkv(qkv: TensorSpec, *_: Any, **__: Any) -> Cost:
    """Add the biases and scale the queries: one vector FLOP per element and one per query element."""
    return Cost(vector=qkv.numel + qkv.numel // 3)


def _attention(q: TensorSpec, k: TensorSpec, width: int, heads: int, need_weights: bool) -> Cost:
    batch, queries, keys = q.shape[0], q.shape[1], k.shape[1]
    scores = batch * heads * queries * keys
    projected = batch * width * (2 * queries + 2 * keys)
    # Q, K, V and the context; scores leave the fused attention only if they are wanted.
    between = projected + (scores if need_weights else 0)
    return Cost(
        matrix=mha_flops(batch, queries, keys, width),
        vector=projected + (SOFTMAX_FLOPS + need_weights) * scores,
        precision=matrix_precision(q),
        workspace_bytes=2 * between * q.item_bytes,
    )
