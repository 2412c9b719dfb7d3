"""Attention: closed forms, and the rules of every scaled-dot-product op of torch.

Forward, two products per head, Q Kᵀ and P V: FLOP = 2 · batch · heads · pairs · (D_qk + D_v). A pair is a query and a
key that meet; heads are those of the queries, whether keys and values have as many or are shared (GQA, MQA).

Two numbers, both kept:

- executed: all S_q · S_k pairs, masked or not, the dense convention of torch's counter and of HFU figures. Kernels
  that skip masked blocks run less, so they may beat this roof.
- needed: the pairs that a causal mask or a window leaves. A mask given as a tensor isn't looked into: all needed.

Backward: five products executed (Q Kᵀ again, dP = dO Vᵀ, dV = Pᵀ dO, dQ = dS K, dK = dSᵀ Q):
2 · batch · heads · pairs · (3 · D_qk + 2 · D_v), 2.5 × forward for equal dimensions; needed are the four without the
recomputation, 2 × forward.

A causal mask aligns to the top left, as `is_causal` does in torch, or to the bottom right, as in the raw flash
kernels: the last query sees the last key.

Vector work per pair: 5 FLOP forward (scale, maximum, difference, exponential, sum; the division comes once per
output element), 6 backward (scale, difference, exponential; dP − rowsum, times P, scale). Not counted: dropout,
adding a mask or bias, its gradient.
"""

from collections.abc import Iterable
from math import prod
from typing import Any, Literal, NamedTuple

from roofline.formulas.matmul import gemm_flops, matrix_precision
from roofline.formulas.registry import Cost, formula
from roofline.formulas.spec import TensorSpec

SOFTMAX_FLOPS = 5
SOFTMAX_BACKWARD_FLOPS = 6

Align = Literal["top-left", "bottom-right"]
Window = tuple[int | None, int | None]


class Heads(NamedTuple):
    """One attention, in its own layout's terms.

    Attributes:
        batch: Sequences, or 1 where a variable-length call holds several.
        heads: Heads of the queries.
        depth: D_qk, per head.
        value_depth: D_v, per head.
    """

    batch: int
    heads: int
    depth: int
    value_depth: int


def attention_pairs(
    queries: int, keys: int, causal: bool = False, window: Window = (None, None), align: Align = "top-left"
) -> int:
    """Pairs of a query and a key that may meet: Σ over queries i of the keys in [i + o − left, i + o + right].

    o is 0, or keys − queries when aligned to the bottom right. Causal is right = 0: Σ min(i + 1, keys).

    Args:
        queries: Number of queries of one sequence.
        keys: Number of its keys.
        causal: A query sees no key behind its own position.
        window: How far a query sees to the left and right; None is without limit, so is a negative number.
        align: Which ends of queries and keys are the same position.
    """
    left, right = (None if w is None or w < 0 else w for w in window)
    right = 0 if causal else right
    offset = keys - queries if align == "bottom-right" else 0
    upper = queries * keys if right is None else _ramp(queries, keys, offset + right + 1)
    return upper - (0 if left is None else _ramp(queries, keys, offset - left))


def attention_flops(batch: int, heads: int, pairs: int, depth: int, value_depth: int | None = None) -> int:
    """FLOP of attention forward: 2 · batch · heads · pairs · (depth + value_depth).

    Args:
        batch: Sequences.
        heads: Heads of the queries.
        pairs: Pairs of a query and a key per head and sequence, from `attention_pairs`.
        depth: Of queries and keys, per head.
        value_depth: Of values, per head; None: `depth`.
    """
    return gemm_flops(pairs, 1, depth + (depth if value_depth is None else value_depth), batch * heads)


def attention_backward_flops(
    batch: int, heads: int, pairs: int, depth: int, value_depth: int | None = None, recompute: bool = True
) -> int:
    """FLOP of attention backward: 2 · batch · heads · pairs · (3 · depth + 2 · value_depth).

    Without the recomputation of the scores, which a program that kept them wouldn't do, 2 · depth.
    """
    products = (3 if recompute else 2) * depth + 2 * (depth if value_depth is None else value_depth)
    return gemm_flops(pairs, 1, products, batch * heads)


def forward(shape: Heads, pairs: int, needed_pairs: int, like: TensorSpec, exact: bool = True) -> Cost:
    """Cost of attention forward with `pairs` executed, summed over the sequences of one batch item.

    Args:
        shape: Batch, heads, depths.
        pairs: Pairs executed per head.
        needed_pairs: Those that a mask leaves.
        like: A tensor that gives the precision.
        exact: Whether the lengths are known.
    """
    return Cost(
        matrix=attention_flops(shape.batch, shape.heads, pairs, shape.depth, shape.value_depth),
        needed=attention_flops(shape.batch, shape.heads, needed_pairs, shape.depth, shape.value_depth),
        vector=SOFTMAX_FLOPS * shape.batch * shape.heads * pairs,
        precision=matrix_precision(like),
        formula="exact" if exact else "estimate",
    )


def backward(shape: Heads, pairs: int, needed_pairs: int, like: TensorSpec, exact: bool = True) -> Cost:
    """Cost of attention backward; arguments as for `forward`."""
    sizes = (shape.depth, shape.value_depth)
    return Cost(
        matrix=attention_backward_flops(shape.batch, shape.heads, pairs, *sizes),
        needed=attention_backward_flops(shape.batch, shape.heads, needed_pairs, *sizes, recompute=False),
        vector=SOFTMAX_BACKWARD_FLOPS * shape.batch * shape.heads * pairs,
        precision=matrix_precision(like),
        formula="exact" if exact else "estimate",
    )


def packed_lengths(total_q: int, total_k: int, max_q: int, max_k: int) -> list[tuple[int, int]]:
    """The sequence lengths that make the most pairs of `total` tokens, when only the longest length is known.

    As many sequences as possible have the greatest length and one has the rest: an upper bound of Σ q · k, since
    that sum is greatest where both lengths are spread least evenly.
    """
    queries, keys = _fill(total_q, max_q), _fill(total_k, max_k)
    length = max(len(queries), len(keys))
    padded = (n + [0] * (length - len(n)) for n in (queries, keys))
    return list(zip(*padded, strict=True))


def pairs_of(lengths: Iterable[tuple[int, int]], causal: bool, window: Window, align: Align) -> tuple[int, int]:
    """Pairs executed and needed over sequences of these lengths (queries, keys)."""
    known = list(lengths)
    return (
        sum(q * k for q, k in known),
        sum(attention_pairs(q, k, causal, window, align) for q, k in known),
    )


def _ramp(rows: int, top: int, start: int) -> int:
    """Σ over i < rows of (start + i) held between 0 and top."""
    first = min(max(-start, 0), rows)
    full = min(max(top - start, first), rows)
    return (full - first) * (2 * start + first + full - 1) // 2 + (rows - full) * top


def _fill(total: int, longest: int) -> list[int]:
    longest = max(1, min(longest, total))
    rest = total % longest
    return [longest] * (total // longest) + ([rest] if rest else [])


def batched(q: TensorSpec, k: TensorSpec, v: TensorSpec) -> Heads:
    """Layout (batch, heads, sequence, depth); whatever leads counts as batch."""
    leading = max(prod(q.shape[:-2]), prod(k.shape[:-2]))
    return Heads(1, leading, q.shape[-1], v.shape[-1])


def _squares(q: TensorSpec, k: TensorSpec, causal: bool) -> tuple[int, int]:
    lengths = (q.shape[-2], k.shape[-2])
    return lengths[0] * lengths[1], attention_pairs(*lengths, causal)


@formula(
    "aten.scaled_dot_product_attention",
    "aten._scaled_dot_product_attention_math",
    "aten._scaled_dot_product_attention_math_for_mps",
)
def sdpa_masked(q: TensorSpec, k: TensorSpec, v: TensorSpec, *rest: Any, **options: Any) -> Cost:
    """Attention undivided: 2 · batch · heads · S_q · S_k · (D_qk + D_v)."""
    return forward(batched(q, k, v), *_squares(q, k, _causal(rest, 2, options)), like=q)


@formula("aten._scaled_dot_product_flash_attention", "aten._scaled_dot_product_flash_attention_for_cpu")
def sdpa_flash(q: TensorSpec, k: TensorSpec, v: TensorSpec, *rest: Any, **options: Any) -> Cost:
    """Flash attention behind `scaled_dot_product_attention`, on GPU or CPU."""
    return forward(batched(q, k, v), *_squares(q, k, _causal(rest, 1, options)), like=q)


@formula("aten._scaled_dot_product_flash_attention.quantized")
def sdpa_flash_quantized(q: TensorSpec, k: TensorSpec, v: TensorSpec, *rest: Any, **options: Any) -> Cost:
    """Flash attention with fp8 inputs and their scales."""
    return forward(batched(q, k, v), *_squares(q, k, _causal(rest, 4, options)), like=q)


@formula("aten._scaled_dot_product_efficient_attention", "aten._scaled_dot_product_cudnn_attention")
def sdpa_biased(q: TensorSpec, k: TensorSpec, v: TensorSpec, *rest: Any, **options: Any) -> Cost:
    """Memory-efficient or cuDNN attention behind `scaled_dot_product_attention`."""
    return forward(batched(q, k, v), *_squares(q, k, _causal(rest, 3, options)), like=q)


@formula("aten._scaled_dot_product_fused_attention_overrideable")
def sdpa_overrideable(q: TensorSpec, k: TensorSpec, v: TensorSpec, *rest: Any, **options: Any) -> Cost:
    """Attention of an out-of-tree device."""
    return forward(batched(q, k, v), *_squares(q, k, _causal(rest, 2, options)), like=q)


@formula("aten._triton_scaled_dot_attention")
def sdpa_triton(q: TensorSpec, k: TensorSpec, v: TensorSpec, *_: Any, **__: Any) -> Cost:
    """Attention by torch's Triton kernel, without masks."""
    return forward(batched(q, k, v), *_squares(q, k, False), like=q)


@formula("aten._scaled_dot_product_flash_attention_backward")
def sdpa_flash_backward(_grad: Any, q: TensorSpec, k: TensorSpec, v: TensorSpec, *rest: Any, **options: Any) -> Cost:
    """Gradients of flash attention on GPU."""
    return backward(batched(q, k, v), *_squares(q, k, _causal(rest, 7, options)), like=q)


@formula("aten._scaled_dot_product_flash_attention_for_cpu_backward")
def sdpa_flash_cpu_backward(
    _grad: Any, q: TensorSpec, k: TensorSpec, v: TensorSpec, *rest: Any, **options: Any
) -> Cost:
    """Gradients of flash attention on CPU."""
    return backward(batched(q, k, v), *_squares(q, k, _causal(rest, 3, options)), like=q)


@formula("aten._scaled_dot_product_efficient_attention_backward")
def sdpa_efficient_backward(
    _grad: Any, q: TensorSpec, k: TensorSpec, v: TensorSpec, *rest: Any, **options: Any
) -> Cost:
    """Gradients of memory-efficient attention."""
    return backward(batched(q, k, v), *_squares(q, k, _causal(rest, 7, options)), like=q)


@formula("aten._scaled_dot_product_cudnn_attention_backward")
def sdpa_cudnn_backward(_grad: Any, q: TensorSpec, k: TensorSpec, v: TensorSpec, *rest: Any, **options: Any) -> Cost:
    """Gradients of cuDNN attention."""
    return backward(batched(q, k, v), *_squares(q, k, _causal(rest, 10, options)), like=q)


@formula("aten._scaled_dot_product_fused_attention_overrideable_backward")
def sdpa_overrideable_backward(
    _grad: Any, q: TensorSpec, k: TensorSpec, v: TensorSpec, *rest: Any, **options: Any
) -> Cost:
    """Gradients of attention on an out-of-tree device."""
    return backward(batched(q, k, v), *_squares(q, k, _causal(rest, 9, options)), like=q)


def _causal(rest: tuple[Any, ...], index: int, options: dict[str, Any]) -> bool:
    """The causal flag by position or name; torch leaves trailing defaults out."""
    return bool(rest[index] if len(rest) > index else options.get("is_causal"))
