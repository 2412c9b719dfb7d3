"""Blocks of diffusion transformers of the FLUX kind: image and text tokens attend jointly.

Double blocks have weights for each kind of token, single ones share theirs. A vector per image (time, guidance,
pooled text) modulates both.
"""

from collections.abc import Iterator

import msgspec

from roofline.formulas.attention import SOFTMAX_FLOPS, attention_backward_flops, attention_flops
from roofline.plan.dense import activation, linear, norm
from roofline.plan.ops import Op
from roofline.plan.parts import DoubleStream, Matrix, SingleStream
from roofline.plan.setting import Flow, Setting


def double_ops(part: DoubleStream, width: int, where: str, flow: Flow, setting: Setting) -> Iterator[Op]:
    """Ops of a double block: each stream's own projections around one attention over both."""
    for stream, tokens in (("img", flow.tokens), ("txt", flow.sequences * flow.source)):
        modulation, qkv, proj, up, down = (_named(m, stream) for m in part.stream_matrices(width))
        yield linear(modulation, flow.sequences, where, setting)
        yield norm(f"{where}.{stream}_norm", width, tokens, 2, setting)
        yield linear(qkv, tokens, where, setting)
        yield linear(proj, tokens, where, setting)
        yield linear(up, tokens, where, setting)
        yield activation(f"{where}.{stream}_mlp", tokens, part.mlp, False, setting)
        yield linear(down, tokens, where, setting)
    yield _joint(part.heads, part.head_dim, where, flow, setting)


def single_ops(part: SingleStream, width: int, where: str, flow: Flow, setting: Setting) -> Iterator[Op]:
    """Ops of a single block: attention and MLP in parallel, projected in one product each way."""
    tokens = flow.sequences * (flow.queries + flow.source)
    modulation, first, last = part.matrices(width)
    yield linear(modulation, flow.sequences, where, setting)
    yield norm(f"{where}.norm", width, tokens, 1, setting)
    yield linear(first, tokens, where, setting)
    yield activation(f"{where}.mlp", tokens, part.mlp, False, setting)
    yield _joint(part.heads, part.head_dim, where, flow, setting)
    yield linear(last, tokens, where, setting)


def _named(matrix: Matrix, stream: str) -> Matrix:
    return msgspec.structs.replace(matrix, name=f"{stream}_{matrix.name}")


def _joint(heads: int, depth: int, where: str, flow: Flow, setting: Setting) -> Op:
    """Attention of all tokens over all tokens."""
    length = flow.queries + flow.source
    met = length * length
    flops = attention_flops(flow.sequences, heads, met, depth)
    moved = flow.sequences * length * heads * depth * setting.item
    keep = setting.workload.keep_scores
    return Op(
        name="attention",
        module=where,
        kind="attention",
        shapes=f"{flow.sequences}x{heads}x{length}x{depth}, {met} pairs",
        precision=setting.precision,
        matrix=flops,
        vector=SOFTMAX_FLOPS * flow.sequences * heads * met,
        input_bytes=3 * moved,
        output_bytes=moved,
        backward_matrix=attention_backward_flops(flow.sequences, heads, met, depth, recompute=not keep),
        backward_needed=attention_backward_flops(flow.sequences, heads, met, depth, recompute=False),
    )
