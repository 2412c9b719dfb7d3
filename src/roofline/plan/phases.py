"""A model, a workload and a split → the ops of one rank for one step."""

from collections.abc import Iterable, Iterator

import msgspec

from roofline.errors import UsageError
from roofline.plan.architecture import Architecture, Tower
from roofline.plan.backward import backward_ops, recomputed
from roofline.plan.collectives import collective
from roofline.plan.dense import linear
from roofline.plan.layers import layer_ops, stack_ops
from roofline.plan.ops import Op, merged
from roofline.plan.optimizer import data_parallel_ops, optimizer_op
from roofline.plan.parts import Matrix
from roofline.plan.setting import Flow, Setting

_TABLE = Matrix("lm_head", 1, 1, 0, "embedding")
# Maximum, difference, exponential, sum, logarithm and their gradient, per logit.
LOSS_FLOPS = 8

# A chunked prefill is planned pass by pass; more passes than this take longer than anyone waits.
_MOST_PASSES = 4096


def stage_of(architecture: Architecture, setting: Setting) -> Architecture:
    """What the busiest rank of a pipeline holds: its layers, rounded up; with all of embedding and head.

    Raises:
        UsageError: A size does not divide, or there are more stages than layers.
    """
    parallel = setting.parallel
    local = architecture.shard(parallel.tp, parallel.ep)
    layers = local.stack.layers
    if parallel.pp == 1:
        return local
    if parallel.pp > len(layers):
        raise UsageError(f"--pp {parallel.pp} is more than the {len(layers)} layers", "choose a smaller --pp")
    share = -(-len(layers) // parallel.pp)
    return msgspec.structs.replace(local, stack=msgspec.structs.replace(local.stack, layers=layers[:share]))


def microbatches(setting: Setting) -> int:
    """Micro-batches that a step is cut into: as given, else one per stage of the pipeline."""
    given = setting.workload.microbatches or setting.parallel.pp
    return min(given, setting.workload.batch // setting.parallel.dp)


def step_ops(architecture: Architecture, setting: Setting) -> list[Op]:
    """All ops that the busiest rank runs for one step.

    Raises:
        UsageError: The model has no such phase, or a size does not divide.
    """
    workload = setting.workload
    if workload.phase == "decode" and not architecture.generates:
        raise UsageError(f"{architecture.name} does not generate: it has no decode", "add --phase prefill")
    local = stage_of(architecture, setting)
    parts = microbatches(setting)
    forward: list[Op] = []
    for sequences, times in _shares(workload.batch // setting.parallel.dp, parts):
        forward += [op.times(times) for op in _forward(local, sequences, setting)]
    forward = merged(forward)
    if workload.phase != "train":
        return forward
    again = list(recomputed(_layers_only(local, forward))) if workload.recompute == "full" else []
    ops = [*forward, *again, *backward_ops(forward), *data_parallel_ops(local, setting)]
    return merged([*ops, optimizer_op(local, setting)] if workload.optimizer else ops)


def _shares(batch: int, parts: int) -> list[tuple[int, int]]:
    """Sizes of micro-batches and how many have each: as even as can be."""
    size, larger = divmod(batch, parts)
    return [(n, times) for n, times in ((size + 1, larger), (size, parts - larger)) if n and times]


def _layers_only(local: Architecture, forward: Iterable[Op]) -> Iterator[Op]:
    """Recomputation starts from the saved inputs of layers: embedding and head are not run again."""
    return (op for op in forward if op.module.startswith(local.stack.name))


def _forward(local: Architecture, sequences: int, setting: Setting) -> Iterator[Op]:
    """The forward pass of one micro-batch on one rank."""
    workload = setting.workload
    source = _source_tokens(local, setting)
    if workload.phase != "decode" and local.tower is not None:
        yield from tower_ops(local.tower, sequences, source, setting, alone=local.is_tower)
    if local.is_tower:
        yield from _head(local, sequences, sequences, setting)
        return
    for queries, past, times in passes(setting):
        fresh = workload.phase != "decode" and past == (0 if workload.phase == "train" else workload.context)
        flow = Flow(sequences, queries, past, source, fresh, setting.parallel.cp)
        ops = list(_pass(local, flow, setting))
        yield from (op.times(times) for op in ops)
    yield from _head(local, sequences, _logit_tokens(local, sequences, setting), setting)
    if setting.parallel.pp > 1:
        payload = sequences * _local_tokens(setting) * local.width * setting.item
        stride = setting.parallel.tp * setting.parallel.cp * setting.parallel.dp
        yield collective("send", "pipeline", payload, setting, ranks=setting.parallel.pp, stride=stride)


def passes(setting: Setting) -> list[tuple[int, int, int]]:
    """Passes of a step over a rank's tokens: new tokens, tokens before them, how often. Chunked prefill has many.

    Raises:
        UsageError: A sequence does not divide over the ranks of context parallelism.
    """
    workload, cp = setting.workload, setting.parallel.cp
    tokens, past = workload.new_tokens, workload.past
    if workload.phase == "decode":
        return [(tokens, past, 1)]
    chunk = min(workload.chunk or tokens, tokens) if workload.phase == "prefill" else tokens
    if tokens > chunk * _MOST_PASSES:
        raise UsageError(
            f"{tokens} tokens in chunks of {chunk} are {tokens // chunk} passes, more than {_MOST_PASSES} to plan",
            "choose a larger --chunk",
        )
    cuts = [(min(chunk, tokens - start), past + start) for start in range(0, tokens, chunk)]
    if any(n % cp for n, _ in cuts):
        raise UsageError(f"{chunk} tokens do not divide over --cp {cp}", f"choose lengths divisible by {cp}")
    return [(n // cp, before, 1) for n, before in cuts]


def _local_tokens(setting: Setting) -> int:
    return sum(n * times for n, _, times in passes(setting))


def _source_tokens(local: Architecture, setting: Setting) -> int:
    """Tokens of the encoder's output that a sequence attends to."""
    tower = local.tower
    if local.source_tokens:
        return setting.workload.source or local.source_tokens
    if tower is None or not any(getattr(p, "is_cross", False) for layer in local.stack.layers for p in layer.parts):
        return 0
    return setting.workload.source or tower.tokens or setting.workload.new_tokens


def _pass(local: Architecture, flow: Flow, setting: Setting) -> Iterator[Op]:
    if local.vocab:
        yield _embedding(local, flow, setting)
    rows = {"token": flow.tokens, "source": flow.sequences * flow.source, "sequence": flow.sequences}
    for entry in local.entries:
        yield linear(entry.matrix, rows[entry.per], "", setting)
    yield from stack_ops(local.stack, flow, setting)


def _embedding(local: Architecture, flow: Flow, setting: Setting) -> Op:
    """The rows of the table that the tokens pick; the table itself is not read. Its gradient is written whole."""
    width = local.embed_width or local.width
    bits = setting.storage.of("embedding").bits
    return Op(
        name="embedding",
        module="embed_tokens",
        kind="embedding",
        shapes=f"{flow.tokens} of {local.vocab}x{width}",
        precision=setting.precision,
        weight_bytes=flow.tokens * width * bits / 8,
        output_bytes=flow.tokens * width * setting.item,
        backward_bytes=local.vocab * width * setting.item,
    )


def _logit_tokens(local: Architecture, sequences: int, setting: Setting) -> int:
    """Positions that the head sees: the last of each prompt in prefill, else all new ones; all of an encoder's."""
    workload = setting.workload
    if workload.phase == "prefill" and local.generates and not workload.all_logits:
        return sequences
    return sequences * _local_tokens(setting)


def _head(local: Architecture, sequences: int, tokens: int, setting: Setting) -> Iterator[Op]:
    for matrix in local.head:
        yield linear(matrix, tokens, "", setting)
    if local.tied:
        table = msgspec.structs.replace(_TABLE, inputs=local.embed_width or local.width, outputs=local.vocab)
        yield linear(table, tokens, "", setting)
    if setting.parallel.tp > 1 and local.vocab:
        payload = tokens * local.vocab * setting.parallel.tp * setting.item
        yield collective("all_gather", "lm_head", payload, setting, ranks=setting.parallel.tp)
    if setting.trains and local.vocab:
        logits = tokens * local.vocab
        yield Op(
            name="loss",
            module="loss",
            kind="vector",
            shapes=f"{tokens}x{local.vocab}",
            precision=setting.precision,
            vector=LOSS_FLOPS / 2 * logits,
            input_bytes=logits * setting.item,
            exact=False,
        )


def images_per_sequence(tower: Tower, alone: bool, setting: Setting) -> int:
    """Images of every sequence: as many as asked for; at least one where there is nothing but the tower."""
    return max(setting.workload.images, int(alone)) if tower.kind == "image" else 1


def tower_ops(tower: Tower, sequences: int, source: int, setting: Setting, *, alone: bool = False) -> Iterator[Op]:
    """Ops of an encoder: of the images or clips of every sequence, or of the source text."""
    items = sequences * (images_per_sequence(tower, alone, setting) if source == 0 else 1)
    tokens = source or tower.tokens or setting.workload.new_tokens
    if not items:
        return
    flow = Flow(items, tokens)
    for matrix, per_token in tower.embed:
        first = matrix is tower.embed[0][0]
        yield linear(matrix, flow.tokens * per_token, tower.kind, setting, first=first)
    yield from stack_ops(tower.stack, flow, setting)
    for matrix in tower.merger:
        yield linear(matrix, flow.tokens / tower.merge, tower.kind, setting)


def draft_ops(architecture: Architecture, setting: Setting) -> Iterator[Op]:
    """Ops of one token proposed by the layers for multi-token prediction: projection, layer, head."""
    local = stage_of(architecture, setting)
    flow = Flow(
        setting.workload.batch // setting.parallel.dp, 1, setting.workload.past, 0, False, setting.parallel.cp
    )
    for layer in local.mtp:
        yield linear(Matrix("eh_proj", 2 * local.width, local.width), flow.tokens, "mtp.*", setting)
        yield from layer_ops(layer, local.width, "mtp.*", flow, setting)
        yield from _head(local, flow.sequences, flow.tokens, setting)
