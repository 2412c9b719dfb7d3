"""The ops of a layer: projections, feed-forward networks, norms, and the collectives that splitting them needs."""

from collections.abc import Iterator
from functools import lru_cache

from roofline.plan.architecture import Layer, Stack
from roofline.plan.collectives import collective
from roofline.plan.dense import activation, linear, norm
from roofline.plan.mixers import mixer_ops
from roofline.plan.ops import Op
from roofline.plan.parts import DoubleStream, Experts, Matrix, Mlp, SingleStream
from roofline.plan.setting import Flow, Setting
from roofline.plan.streams import double_ops, single_ops


def stack_ops(stack: Stack, flow: Flow, setting: Setting) -> Iterator[Op]:
    """Ops of all layers of a stack; equal layers are one set of rows with more calls."""
    for layer, number in stack.groups():
        for op in layer_ops(layer, stack.width, f"{stack.name}.*", flow, setting):
            yield op.times(number)
    if stack.final_norm:
        yield norm(f"{stack.name.rpartition('.')[0]}.norm".lstrip("."), stack.width, flow.tokens, 1, setting)


def layer_ops(layer: Layer, width: int, path: str, flow: Flow, setting: Setting) -> Iterator[Op]:
    """Ops of one layer."""
    if layer.norms:
        yield norm(f"{path}.norm", width, flow.tokens, layer.norms, setting)
    for matrix in layer.matrices:
        yield linear(matrix, flow.tokens, path, setting)
    for part in layer.parts:
        where = f"{path}.{'cross_attn' if getattr(part, 'is_cross', False) else part.name}"
        if isinstance(part, DoubleStream):
            yield from double_ops(part, width, where, flow, setting)
        elif isinstance(part, SingleStream):
            yield from single_ops(part, width, where, flow, setting)
        elif isinstance(part, Mlp):
            yield from _mlp(part, width, where, flow, setting)
        elif isinstance(part, Experts):
            yield from experts_ops(part, width, where, flow, setting)
            continue
        else:
            yield from mixer_ops(part, width, where, flow, setting)
        yield from reduced(width, where, flow.tokens, setting)


def reduced(width: int, where: str, tokens: float, setting: Setting) -> Iterator[Op]:
    """The all-reduce after a part that tensor parallelism splits."""
    if setting.parallel.tp > 1:
        yield collective("all_reduce", where, tokens * width * setting.item, setting, ranks=setting.parallel.tp)


def _mlp(part: Mlp, width: int, where: str, flow: Flow, setting: Setting) -> Iterator[Op]:
    up, down = _matrices(part, width)
    yield linear(up, flow.tokens, where, setting)
    yield activation(where, flow.tokens, part.width, part.gated, setting)
    yield linear(down, flow.tokens, where, setting)


def experts_ops(part: Experts, width: int, where: str, flow: Flow, setting: Setting) -> Iterator[Op]:
    """Router, shared expert, routed experts; with expert parallelism the tokens' way there and back.

    Every token makes `top` rows; of a layer's experts a batch reads only those that it touches.
    """
    parallel = setting.parallel
    tokens = flow.tokens
    for matrix in part.always(width):
        yield linear(matrix, tokens, where, setting)
    if part.shared:
        yield activation(f"{where}.shared_expert", tokens, part.shared, part.gated, setting)
    # Ranks of one group of expert parallelism bring the tokens of their replicas together.
    replicas = max(1, parallel.ep // parallel.tp)
    routed = tokens * replicas
    rows = routed * part.top * part.local / part.count
    if parallel.ep > 1:
        payload = tokens * part.top * width * setting.item / min(parallel.tp, parallel.ep)
        for name in ("dispatch", "combine"):
            yield collective("all_to_all", f"{where}.{name}", payload, setting, ranks=parallel.ep)
    touched = part.distinct(routed)
    up, down = _matrices(part.one(), width)
    for matrix in (up, down):
        expert = Matrix(f"experts.{matrix.name}", matrix.inputs, matrix.outputs, matrix.bias, "experts")
        yield linear(expert, rows, where, setting, touched=touched)
        if matrix is up:
            yield activation(f"{where}.experts", rows, part.width, part.gated, setting)
    if parallel.ep == 1 or part.shared:
        yield from reduced(width, where, tokens, setting)


@lru_cache(maxsize=4096)
def _matrices(part: Mlp, width: int) -> tuple[Matrix, Matrix]:
    up, down = part.matrices(width)
    return up, down
