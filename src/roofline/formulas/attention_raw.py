"""Attention ops in their own layouts: raw flash, memory-efficient and cuDNN kernels, variable length, flex_attention.

Several sequences of different lengths travel as one: (tokens, heads, depth) with offsets into the tokens. Their pairs
are Σ q · k over the sequences if the offsets' values are known (`TensorSpec.values`); on shapes alone
`packed_lengths` gives an upper bound, and the count says "estimate". (torch's counter assumes every sequence as long
as the longest.)
"""

from collections.abc import Callable, Sequence
from itertools import pairwise
from math import prod
from typing import Any, NamedTuple

from roofline.formulas.attention import (
    Align,
    Heads,
    Window,
    backward,
    batched,
    forward,
    packed_lengths,
    pairs_of,
)
from roofline.formulas.registry import Cost, formula
from roofline.formulas.spec import TensorSpec

# custom_mask_type of the memory-efficient kernel.
_EFFICIENT_MASKS: dict[int, Align] = {1: "top-left", 2: "bottom-right"}
_UNLIMITED: Window = (None, None)
# torch describes "no mask" as one block of 2³⁰ by 2³⁰.
_UNMASKED_BLOCK = 2**30

Direction = Callable[..., Cost]


class Offsets(NamedTuple):
    """Where sequences start and end in a variable-length call.

    Attributes:
        q: Offsets of the queries, sequences + 1 of them; None in a call with a batch dimension.
        k: Offsets of the keys; None: those of the queries.
        max_q: Length of the longest query sequence.
        max_k: Length of the longest key sequence.
        used_k: Keys used of each sequence; None: all.
        paged: Keys lie in pages, so their shape doesn't tell their number.
    """

    q: TensorSpec | None
    k: TensorSpec | None
    max_q: int
    max_k: int
    used_k: TensorSpec | None = None
    paged: bool = False


@formula("aten._flash_attention_forward")
def flash(
    q: TensorSpec, k: TensorSpec, v: TensorSpec, cum_q: Any, cum_k: Any, max_q: int, max_k: int, *rest: Any, **o: Any
) -> Cost:
    """Raw flash attention, (batch, sequence, heads, depth), or (tokens, heads, depth) with offsets."""
    offsets = Offsets(cum_q, cum_k, max_q, max_k, o.get("seqused_k"), o.get("block_table") is not None)
    return _flash(forward, q, k, v, offsets, rest[1], (o.get("window_size_left"), o.get("window_size_right")))


@formula("aten._flash_attention_forward_no_dropout_inplace")
def flash_in_place(_out: Any, *args: Any, **options: Any) -> Cost:
    """Raw flash attention into a given output."""
    return flash(*args, **options)


@formula("aten._flash_attention_backward")
def flash_backward(
    _grad: Any, q: TensorSpec, k: TensorSpec, v: TensorSpec, _out: Any, _lse: Any, *rest: Any, **o: Any
) -> Cost:
    """Gradients of raw flash attention."""
    cum_q, cum_k, max_q, max_k, _dropout, causal = rest[:6]
    window = (o.get("window_size_left"), o.get("window_size_right"))
    return _flash(backward, q, k, v, Offsets(cum_q, cum_k, max_q, max_k), causal, window)


@formula("torch_attn._varlen_attn")
def varlen(
    q: TensorSpec,
    k: TensorSpec,
    v: TensorSpec,
    cum_q: Any,
    cum_k: Any,
    max_q: int,
    max_k: int,
    causal: bool = False,
    _scale: Any = None,
    window: Sequence[int] | None = None,
    _gqa: bool = False,
    used_k: Any = None,
    block_table: Any = None,
    *_: Any,
    **__: Any,
) -> Cost:
    """`torch.nn.attention.varlen`: (tokens, heads, depth) with offsets."""
    offsets = Offsets(cum_q, cum_k, max_q, max_k, used_k, block_table is not None)
    return _flash(forward, q, k, v, offsets, causal, _window(window))


@formula("torch_attn._varlen_attn_out")
def varlen_out(_out: Any, *args: Any, **options: Any) -> Cost:
    """`varlen` into a given output."""
    return varlen(*args, **options)


@formula("torch_attn._varlen_attn_backward")
def varlen_backward(
    _grad: Any, q: TensorSpec, k: TensorSpec, v: TensorSpec, _out: Any, _lse: Any, *rest: Any, **_: Any
) -> Cost:
    """Gradients of `varlen`."""
    cum_q, cum_k, max_q, max_k, causal = rest[:5]
    window = _window(rest[7] if len(rest) > 7 else None)
    return _flash(backward, q, k, v, Offsets(cum_q, cum_k, max_q, max_k), causal, window)


@formula("aten._efficient_attention_forward")
def efficient(
    q: TensorSpec, k: TensorSpec, v: TensorSpec, _bias: Any, cum_q: Any, cum_k: Any, *rest: Any, **o: Any
) -> Cost:
    """Raw memory-efficient attention, (batch, sequence, heads, depth); with offsets, batch is 1."""
    max_q, max_k, _dropout, mask = rest[:4]
    offsets = Offsets(cum_q, cum_k, max_q or q.shape[1], max_k or k.shape[1], o.get("seqlen_k"))
    return _efficient(forward, q, k, v, offsets, mask, o.get("window_size"))


@formula("aten._efficient_attention_backward")
def efficient_backward(
    _grad: Any, q: TensorSpec, k: TensorSpec, v: TensorSpec, _bias: Any, _out: Any, *rest: Any, **o: Any
) -> Cost:
    """Gradients of raw memory-efficient attention."""
    cum_q, cum_k, max_q, max_k = rest[:4]
    return _efficient(backward, q, k, v, Offsets(cum_q, cum_k, max_q, max_k), rest[8], o.get("window_size"))


@formula("aten._cudnn_attention_forward")
def cudnn(
    q: TensorSpec, k: TensorSpec, v: TensorSpec, _bias: Any, cum_q: Any, cum_k: Any, *rest: Any, **o: Any
) -> Cost:
    """CuDNN attention, (batch, heads, sequence, depth), or (tokens, heads, depth) with offsets."""
    max_q, max_k = rest[:2]
    causal = rest[4] if len(rest) > 4 else o.get("is_causal", False)
    offsets = Offsets(cum_q, cum_k, max_q, max_k, o.get("seqused_k"), o.get("block_table") is not None)
    return _cudnn(forward, q, k, v, offsets, causal)


@formula("aten._cudnn_attention_backward")
def cudnn_backward(_grad: Any, q: TensorSpec, k: TensorSpec, v: TensorSpec, *rest: Any, **_: Any) -> Cost:
    """Gradients of cuDNN attention."""
    cum_q, cum_k, max_q, max_k, _dropout, causal = rest[5:11]
    return _cudnn(backward, q, k, v, Offsets(cum_q, cum_k, max_q, max_k), causal)


@formula("higher_order.flex_attention")
def flex(q: TensorSpec, k: TensorSpec, v: TensorSpec, _score_mod: Any, block_mask: Any, *_: Any, **__: Any) -> Cost:
    """flex_attention, (batch, heads, sequence, depth): the blocks that its mask keeps, whole.

    Blocks are known if the mask's block counts carry values; else all of them count. Which pairs inside a block the
    mask keeps only its function knows, so all count as needed and the count says "estimate".
    """
    return _flex(forward, q, k, v, block_mask)


@formula("higher_order.flex_attention_backward")
def flex_backward(q: TensorSpec, k: TensorSpec, v: TensorSpec, *rest: Any, **_: Any) -> Cost:
    """Gradients of flex_attention."""
    return _flex(backward, q, k, v, rest[6])


def _flash(
    run: Direction, q: TensorSpec, k: TensorSpec, v: TensorSpec, offsets: Offsets, causal: bool, window: Window
) -> Cost:
    lengths, known = _lengths(q, k, offsets, q.shape[0], k.shape[0])
    return _run(run, q, v, lengths, known, causal, window, "bottom-right")


def _efficient(
    run: Direction, q: TensorSpec, k: TensorSpec, v: TensorSpec, offsets: Offsets, mask: int, window: int | None
) -> Cost:
    lengths, known = _lengths(q, k, offsets, q.shape[1], k.shape[1])
    align = _EFFICIENT_MASKS.get(mask, "top-left")
    left = window - 1 if window else None
    return _run(run, q, v, lengths, known, mask in _EFFICIENT_MASKS, (left, None), align)


def _cudnn(run: Direction, q: TensorSpec, k: TensorSpec, v: TensorSpec, offsets: Offsets, causal: bool) -> Cost:
    if q.ndim == 3:
        lengths, known = _lengths(q, k, offsets, q.shape[0], k.shape[0])
        return _run(run, q, v, lengths, known, causal, _UNLIMITED, "top-left")
    pairs = pairs_of([(q.shape[-2], k.shape[-2])], causal, _UNLIMITED, "top-left")
    return run(batched(q, k, v), *pairs, like=q)


def _run(
    run: Direction,
    q: TensorSpec,
    v: TensorSpec,
    lengths: Sequence[tuple[int, int]],
    known: bool,
    causal: bool,
    window: Window,
    align: Align,
) -> Cost:
    """Cost over sequences of these lengths; the batch dimension is among them."""
    pairs = pairs_of(lengths, causal, window, align)
    return run(Heads(1, q.shape[-2], q.shape[-1], v.shape[-1]), *pairs, like=q, exact=known)


def _lengths(
    q: TensorSpec, k: TensorSpec, offsets: Offsets, tokens_q: int, tokens_k: int
) -> tuple[list[tuple[int, int]], bool]:
    """Queries and keys of every sequence, and whether they are known rather than bounded from above."""
    used, paged = offsets.used_k, offsets.paged
    limit = used is not None or paged
    keys: Sequence[int] | None = used.values if used is not None else None
    if q.ndim == 4 and not _given(offsets.q):
        batch = q.shape[0]
        longest = offsets.max_k if paged else k.shape[1]
        return list(zip([q.shape[1]] * batch, keys or [longest] * batch, strict=True)), not limit or keys is not None
    queries = _diff(offsets.q)
    keys = keys or (None if paged else _diff(offsets.k if _given(offsets.k) else offsets.q))
    if queries is not None and keys is not None:
        return list(zip(queries, keys, strict=True)), True
    if paged and offsets.q is not None:
        sequences = offsets.q.numel - 1
        return packed_lengths(tokens_q, offsets.max_k * sequences, offsets.max_q, offsets.max_k), False
    return packed_lengths(tokens_q, tokens_k, offsets.max_q, offsets.max_k), False


def _given(offsets: TensorSpec | None) -> bool:
    """Whether offsets are really there: torch passes None or an empty tensor where they aren't."""
    return offsets is not None and offsets.numel > 1


def _diff(offsets: TensorSpec | None) -> list[int] | None:
    if offsets is None or offsets.values is None:
        return None
    return [end - start for start, end in pairwise(offsets.values)]


def _window(window: Sequence[int] | None) -> Window:
    return (window[0], window[1]) if window else _UNLIMITED


def _flex(run: Direction, q: TensorSpec, k: TensorSpec, v: TensorSpec, block_mask: Any) -> Cost:
    batch_heads, square = prod(q.shape[:-2]), q.shape[-2] * k.shape[-2]
    full, shape = batch_heads * square, Heads(1, 1, q.shape[-1], v.shape[-1])
    if block_mask is None or max(_block_sizes(block_mask), default=0) >= _UNMASKED_BLOCK:
        return run(shape, full, full, like=q)
    kept = _kept_pairs(block_mask, q, k)
    pairs = full if kept is None else min(kept, full)
    return run(shape, pairs, pairs, like=q, exact=False)


def _block_sizes(block_mask: Sequence[Any]) -> list[int]:
    """Rows and columns of a block: the last two numbers of the tuple, before the mask's function."""
    return [n for n in block_mask[6:] if isinstance(n, int) and not isinstance(n, bool)]


def _kept_pairs(block_mask: Sequence[Any], q: TensorSpec, k: TensorSpec) -> int | None:
    """Pairs in the blocks that are kept, partly or in full, over all batches and heads; None if not known."""
    counts = [c for c in (block_mask[2], block_mask[4]) if isinstance(c, TensorSpec)]
    sizes = _block_sizes(block_mask)
    if not counts or any(c.values is None for c in counts) or len(sizes) != 2:
        return None
    repeats = prod(q.shape[:-2]) // prod(counts[0].shape[:-1])
    block = min(sizes[0], q.shape[-2]) * min(sizes[1], k.shape[-2])
    return repeats * block * sum(sum(c.values or ()) for c in counts)
