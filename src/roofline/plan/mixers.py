"""The ops that mix tokens: attention in its forms, and recurrences."""

from collections.abc import Iterator

from roofline.formulas.attention import (
    SOFTMAX_FLOPS,
    attention_backward_flops,
    attention_flops,
    attention_pairs,
)
from roofline.formulas.conv import conv_flops
from roofline.plan.collectives import collective
from roofline.plan.dense import linear
from roofline.plan.ops import Op
from roofline.plan.parts import Attention, LatentAttention, Mamba, Matrix, Recurrent
from roofline.plan.setting import Flow, Setting


def mixer_ops(
    part: Attention | LatentAttention | Recurrent, width: int, where: str, flow: Flow, setting: Setting
) -> Iterator[Op]:
    """Ops of one mixer, its projections included."""
    if isinstance(part, Attention):
        yield from _attention_layer(part, width, where, flow, setting)
    elif isinstance(part, LatentAttention):
        yield from _latent_layer(part, width, where, flow, setting)
    else:
        yield from _recurrent_layer(part, width, where, flow, setting)


def pairs(part: Attention, flow: Flow, *, dense: bool) -> tuple[int, int]:
    """Pairs of a query and a key per head and sequence: executed and needed.

    A step of one token reads only what its window leaves, masked kernel or not.
    """
    if part.is_cross:
        return flow.queries * flow.source, flow.queries * flow.source
    queries = flow.whole_queries
    keys = flow.past + queries
    if part.window is not None and part.chunked:
        needed = _blocked(keys, part.window) - _blocked(flow.past, part.window)
    else:
        left = None if part.window is None else part.window - 1
        needed = attention_pairs(queries, keys, part.causal, (left, None), "bottom-right")
    return _per_rank(queries * keys if dense and queries > 1 else needed, flow), _per_rank(needed, flow)


def _blocked(length: int, block: int) -> int:
    """Pairs of a causal sequence cut into blocks: Σ (i mod block) + 1."""
    whole, rest = divmod(length, block)
    return whole * block * (block + 1) // 2 + rest * (rest + 1) // 2


def keys_read(part: Attention, flow: Flow) -> int:
    """Tokens of the cache that a step reads: the past, as far as the window of its earliest query reaches."""
    if part.window is None:
        return flow.past
    if part.chunked:
        return flow.past % part.window
    return min(flow.past, part.window - 1)


def _attention_layer(part: Attention, width: int, where: str, flow: Flow, setting: Setting) -> Iterator[Op]:
    first, last = part.matrices(width)
    yield linear(first, flow.tokens, where, setting)
    if part.is_cross and flow.fresh_source:
        (source,) = part.source_matrices()
        yield linear(source, flow.sequences * flow.source, where, setting)
    yield from _gathered(part.kv_elements, where, flow, setting)
    yield attention(part, where, flow, setting)
    yield linear(last, flow.tokens, where, setting)


def _gathered(elements: int, where: str, flow: Flow, setting: Setting) -> Iterator[Op]:
    """Context parallelism: every rank's keys and values go round the ring, or decode's partial results do."""
    ranks, stride = flow.split, setting.parallel.tp
    if ranks == 1 or not elements:
        return
    if flow.queries > 1:
        payload = flow.tokens * ranks * elements * setting.item
        yield collective("all_gather", where, payload, setting, ranks=ranks, stride=stride)
    else:
        payload = flow.tokens * elements * setting.item
        yield collective("all_reduce", where, payload, setting, ranks=ranks, stride=stride)


def attention(part: Attention, where: str, flow: Flow, setting: Setting) -> Op:
    """Attention proper: 4 · sequences · heads · pairs · head_dim, whatever the number of key heads."""
    ran, needed = pairs(part, flow, dense=setting.workload.dense)
    queries = flow.tokens * part.heads * part.head_dim * setting.item
    new = flow.sequences * (flow.source if part.is_cross else flow.queries)
    fresh = part.kv_heads * part.head_dim * 2 * new
    state = 0.0
    if not setting.trains and part.kv_elements:
        state = flow.sequences * _cached_read(keys_read(part, flow), flow) * part.kv_elements * setting.kv_item
        state += flow.tokens * part.kv_elements * setting.kv_item
    if part.is_cross and not flow.fresh_source:
        state = fresh * setting.kv_item
        fresh = 0
    return _core(
        part.heads, (part.head_dim, part.head_dim), (ran, needed), where, flow, setting,
        state=state, moved=(queries + fresh * setting.item, queries),
    )  # fmt: skip


def _per_rank(number: int, flow: Flow) -> int:
    """One rank's share of the pairs: context parallelism splits them evenly, masked ones too."""
    return -(-number // flow.split)


def _cached_read(tokens: int, flow: Flow) -> float:
    """Tokens of the cache that one rank reads: in decode its own share; in prefill all, as they come round."""
    return tokens / flow.split if flow.queries == 1 else tokens


def _core(
    heads: int,
    depths: tuple[int, int],
    counts: tuple[int, int],
    where: str,
    flow: Flow,
    setting: Setting,
    *,
    state: float,
    moved: tuple[float, float],
    name: str = "attention",
) -> Op:
    """The two products of attention, and softmax on the vector engine."""
    ran, needed = counts
    keep = setting.workload.keep_scores
    return Op(
        name=name,
        module=where,
        kind="attention",
        shapes=f"{flow.sequences}x{heads}x{flow.queries}x{depths[0]}, {ran} pairs",
        precision=setting.precision,
        matrix=attention_flops(flow.sequences, heads, ran, *depths),
        needed=attention_flops(flow.sequences, heads, needed, *depths),
        vector=SOFTMAX_FLOPS * flow.sequences * heads * ran,
        state_bytes=state,
        input_bytes=moved[0],
        output_bytes=moved[1],
        backward_matrix=attention_backward_flops(flow.sequences, heads, ran, *depths, recompute=not keep),
        backward_needed=attention_backward_flops(flow.sequences, heads, needed, *depths, recompute=False),
    )


def _latent_layer(part: LatentAttention, width: int, where: str, flow: Flow, setting: Setting) -> Iterator[Op]:
    """Latent attention, by the way that the workload names."""
    mode = setting.workload.latent
    if mode == "auto":
        mode = "absorbed" if setting.workload.phase == "decode" else "expanded"
    *before, last = part.matrices(width)
    for matrix in before:
        yield linear(matrix, flow.tokens, where, setting)
    if part.index_heads:
        yield _index_scores(part, f"{where}.indexer", flow, setting)
    yield from _gathered(part.kv_elements, where, flow, setting)
    # Keys and values of cached tokens are made anew from their latent vectors, unless absorbed.
    again = flow.past if mode == "expanded" else 0
    yield linear(part.up_projection(), flow.sequences * (flow.queries + again), where, setting)
    yield _latent_core(part, where, flow, setting, mode)
    yield linear(last, flow.tokens, where, setting)


def _latent_core(part: LatentAttention, where: str, flow: Flow, setting: Setting, mode: str) -> Op:
    whole = flow.whole_queries
    left = part.index_tokens - 1 if part.index_tokens else None
    needed = attention_pairs(whole, flow.past + whole, True, (left, None), "bottom-right")
    ran = whole * (flow.past + whole) if setting.workload.dense and whole > 1 else needed
    absorbed = mode == "absorbed"
    depths = (part.kv_rank + part.rope, part.kv_rank) if absorbed else (part.nope + part.rope, part.value)
    chosen = min(flow.past, part.index_tokens) if part.index_tokens and flow.queries == 1 else flow.past
    read = flow.sequences * _cached_read(chosen, flow) + flow.tokens
    state = 0.0 if setting.trains else read * part.kv_elements * setting.kv_item
    made = 0 if absorbed else flow.tokens * part.heads * (part.nope + part.value) * setting.item
    queries = flow.tokens * part.heads * depths[0] * setting.item
    out = flow.tokens * part.heads * depths[1] * setting.item
    counts = (_per_rank(ran, flow), _per_rank(needed, flow))
    return _core(part.heads, depths, counts, where, flow, setting, state=state, moved=(queries + made, out))


def _index_scores(part: LatentAttention, where: str, flow: Flow, setting: Setting) -> Op:
    """Scores of the indexer: one product per pair and head, 2 · index_dim; its keys have a cache of their own."""
    keys = flow.past + flow.whole_queries
    met = _per_rank(attention_pairs(flow.whole_queries, keys, True, (None, None), "bottom-right"), flow)
    read = flow.sequences * _cached_read(keys, flow)
    state = 0.0 if setting.trains else read * part.index_dim * setting.kv_item
    return Op(
        name="index_scores",
        module=where,
        kind="attention",
        shapes=f"{flow.sequences}x{part.index_heads}x{flow.queries}x{part.index_dim}, {met} pairs",
        precision=setting.precision,
        matrix=attention_flops(flow.sequences, part.index_heads, met, part.index_dim, 0),
        vector=3 * flow.sequences * part.index_heads * met,
        state_bytes=state,
        input_bytes=flow.tokens * part.index_heads * part.index_dim * setting.item,
        output_bytes=flow.sequences * met * setting.item,
    )


def _recurrent_layer(part: Recurrent, width: int, where: str, flow: Flow, setting: Setting) -> Iterator[Op]:
    *before, last = part.matrices(width)
    for matrix in before:
        yield linear(matrix, flow.tokens, where, setting)
    yield _convolution(part, where, flow, setting)
    yield _scan(part, where, flow, setting)
    yield linear(last, flow.tokens, where, setting)


def _convolution(part: Recurrent, where: str, flow: Flow, setting: Setting) -> Op:
    """The causal convolution by channel: 2 · tokens · channels · taps."""
    channels = part.conv_channels
    moved = flow.tokens * channels * setting.item
    taps = Matrix("conv1d", part.conv, channels)
    return Op(
        name="conv1d",
        module=where,
        kind="linear",
        shapes=f"{flow.sequences}x{channels}x{flow.queries}, {channels}x1x{part.conv}",
        precision=setting.precision,
        matrix=conv_flops(flow.sequences, (flow.queries,), (channels, 1, part.conv)),
        weight_bytes=taps.weights * setting.storage.base.bits / 8,
        input_bytes=moved,
        output_bytes=moved,
    )


def _scan(part: Recurrent, where: str, flow: Flow, setting: Setting) -> Op:
    """The recurrence, an estimate: kernels differ in how they block it. Its state is read and written once."""
    flops = part.scan_flops(flow.tokens, flow.queries)
    on_matrix = flow.queries > 1 and not isinstance(part, Mamba)
    state = 0.0 if setting.trains else 2 * flow.sequences * part.state_elements * setting.item
    moved = flow.tokens * part.conv_channels * setting.item
    return Op(
        name="scan",
        module=where,
        kind="scan",
        shapes=f"{flow.sequences}x{flow.queries}x{part.conv_channels}",
        precision=setting.precision,
        matrix=flops if on_matrix else 0,
        vector=0 if on_matrix else flops,
        state_bytes=state,
        input_bytes=moved,
        output_bytes=moved,
        exact=False,
    )
