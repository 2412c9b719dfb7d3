"""What a layer is made of: attention, its cheaper relatives, feed-forward networks. Sizes only.

Every part knows its weight matrices; parameters, FLOP and bytes all follow from these, so that none is counted in two
ways. `shard(tp)` gives the part that one rank of tensor parallelism holds.
"""

from typing import Literal

import msgspec

from roofline.errors import UsageError

Role = Literal["attention", "mlp", "experts", "router", "embedding", "head", "other"]


class Matrix(msgspec.Struct, frozen=True):
    """One weight matrix, applied to every token that reaches it.

    Attributes:
        name: As in the Hugging Face module, where one exists.
        inputs: k of the product.
        outputs: n of the product.
        bias: Elements of its bias.
        role: Which part of the model it belongs to; formats of weights differ by role.
    """

    name: str
    inputs: int
    outputs: int
    bias: int = 0
    role: Role = "other"

    @property
    def weights(self) -> int:
        """Elements of the matrix, inputs · outputs."""
        return self.inputs * self.outputs

    @property
    def params(self) -> int:
        """Elements of the matrix and its bias."""
        return self.weights + self.bias


class Attention(msgspec.Struct, frozen=True, kw_only=True):
    """Softmax attention with its projections: MHA, GQA or MQA; over itself or over another sequence.

    Attributes:
        heads: Heads of the queries.
        kv_heads: Heads of keys and values.
        head_dim: Per head; heads · head_dim need not be the hidden size.
        q_bias: Whether the query projection has a bias; likewise `k_bias`, `v_bias`, `o_bias`.
        norm_params: Weights of norms on queries and keys.
        extra_params: Other weights: attention sinks, a table of relative positions.
        window: Tokens that a query sees, itself included; None: all.
        chunked: The window is a fixed block that the query's position falls into, not a sliding one.
        causal: A query sees no later key.
        source_width: Width of the sequence that keys and values come from; None: the layer's own input.
        gated: An output gate doubles the query projection.
    """

    heads: int
    kv_heads: int
    head_dim: int
    q_bias: bool = False
    k_bias: bool = False
    v_bias: bool = False
    o_bias: bool = False
    norm_params: int = 0
    extra_params: int = 0
    window: int | None = None
    chunked: bool = False
    causal: bool = True
    source_width: int | None = None
    gated: bool = False

    name = "self_attn"

    @property
    def is_cross(self) -> bool:
        """Whether keys and values come from another sequence."""
        return self.source_width is not None

    @property
    def kv_elements(self) -> int:
        """Elements of the cache per token: 2 · kv_heads · head_dim; 0 where the keys are another sequence's."""
        return 0 if self.is_cross else 2 * self.kv_heads * self.head_dim

    def query_width(self) -> int:
        """Outputs of the query projection."""
        return self.heads * self.head_dim * (2 if self.gated else 1)

    def matrices(self, width: int) -> tuple[Matrix, ...]:
        """Projections applied to the layer's own tokens."""
        q, kv = self.query_width(), self.kv_heads * self.head_dim
        o = Matrix("o_proj", self.heads * self.head_dim, width, width * self.o_bias, "attention")
        if self.is_cross:
            return (Matrix("q_proj", width, q, q * self.q_bias, "attention"), o)
        bias = q * self.q_bias + kv * (self.k_bias + self.v_bias)
        return (Matrix("qkv_proj", width, q + 2 * kv, bias, "attention"), o)

    def source_matrices(self) -> tuple[Matrix, ...]:
        """Projections applied to the other sequence, once per sequence."""
        if self.source_width is None:
            return ()
        kv = self.kv_heads * self.head_dim
        return (Matrix("kv_proj", self.source_width, 2 * kv, kv * (self.k_bias + self.v_bias), "attention"),)

    def params(self, width: int) -> int:
        """All weights of the part."""
        own = sum(m.params for m in (*self.matrices(width), *self.source_matrices()))
        return own + self.norm_params + self.extra_params

    def shard(self, tp: int) -> "Attention":
        """The part that one of `tp` ranks holds; fewer key heads than ranks are held by several."""
        heads = divided(self.heads, tp, "attention heads")
        if self.kv_heads % tp and tp % self.kv_heads:
            raise UsageError(
                f"--tp {tp} neither divides the {self.kv_heads} key/value heads nor is a multiple of them",
                f"choose a --tp that divides {self.kv_heads}",
            )
        return msgspec.structs.replace(self, heads=heads, kv_heads=max(1, self.kv_heads // tp))


class LatentAttention(msgspec.Struct, frozen=True, kw_only=True):
    """Multi-head latent attention (MLA): the cache holds one latent vector per token, shared by all heads.

    In decode the up-projections of keys and values are absorbed into queries and outputs, so that attention runs on
    the latent vectors; in prefill and training keys and values are made per head.

    Attributes:
        heads: Heads of the queries.
        q_rank: Rank of the query projection; None: one full matrix.
        kv_rank: Width of the latent vector.
        nope: Width per head without positions.
        rope: Width of the rotary part, one for all heads.
        value: Width per head of values.
        q_bias: Whether the down-projections have biases.
        o_bias: Whether the output projection has one.
        index_heads: Heads of the indexer that chooses the tokens to attend to; 0: all are attended to.
        index_dim: Width per head of the indexer.
        index_tokens: Tokens that the indexer chooses.
    """

    heads: int
    q_rank: int | None
    kv_rank: int
    nope: int
    rope: int
    value: int
    q_bias: bool = False
    o_bias: bool = False
    index_heads: int = 0
    index_dim: int = 0
    index_tokens: int = 0

    name = "self_attn"
    window = None
    causal = True

    @property
    def kv_elements(self) -> int:
        """Elements of the cache per token: kv_rank + rope."""
        return self.kv_rank + self.rope

    def matrices(self, width: int) -> tuple[Matrix, ...]:
        """Projections applied to every token whatever the phase; the up-projection of keys and values is apart."""
        q = self.heads * (self.nope + self.rope)
        queries = (
            (
                Matrix("q_a_proj", width, self.q_rank, self.q_rank * self.q_bias, "attention"),
                Matrix("q_b_proj", self.q_rank, q, 0, "attention"),
            )
            if self.q_rank
            else (Matrix("q_proj", width, q, 0, "attention"),)
        )
        latent = self.kv_rank + self.rope
        return (
            *queries,
            Matrix("kv_a_proj", width, latent, latent * self.q_bias, "attention"),
            *self._index_matrices(width),
            Matrix("o_proj", self.heads * self.value, width, width * self.o_bias, "attention"),
        )

    def up_projection(self) -> Matrix:
        """kv_b_proj: latent vector to keys and values of all heads."""
        return Matrix("kv_b_proj", self.kv_rank, self.heads * (self.nope + self.value), 0, "attention")

    def _index_matrices(self, width: int) -> tuple[Matrix, ...]:
        if not self.index_heads:
            return ()
        queries = self.index_heads * self.index_dim
        return (
            Matrix("indexer.wq_b", self.q_rank or width, queries, 0, "attention"),
            Matrix("indexer.wk", width, self.index_dim, 0, "attention"),
            Matrix("indexer.weights_proj", width, self.index_heads, 0, "router"),
        )

    def params(self, width: int) -> int:
        """All weights of the part; the norms sit on the latent vectors and on the indexer's keys."""
        norms = (self.q_rank or 0) + self.kv_rank + 2 * self.index_dim
        return sum(m.params for m in self.matrices(width)) + self.up_projection().params + norms

    def shard(self, tp: int) -> "LatentAttention":
        """Heads are split; latent vectors and the indexer are held by every rank."""
        return msgspec.structs.replace(self, heads=divided(self.heads, tp, "attention heads"))


class Mamba(msgspec.Struct, frozen=True, kw_only=True):
    """Selective state space of Mamba-1.

    Attributes:
        width: Inner width.
        state: State per channel.
        dt_rank: Rank of the time step.
        conv: Taps of the causal convolution.
        bias: Whether the projections have biases.
        conv_bias: Whether the convolution has one.
    """

    width: int
    state: int
    dt_rank: int
    conv: int
    bias: bool = False
    conv_bias: bool = True

    name = "mixer"
    kv_elements = 0

    @property
    def state_elements(self) -> int:
        """Elements of recurrent state per sequence: the states, and the convolution's last inputs."""
        return self.width * (self.state + self.conv)

    @property
    def conv_channels(self) -> int:
        """Channels of the causal convolution."""
        return self.width

    def scan_flops(self, tokens: int, queries: int) -> int:
        """FLOP of the scan: per channel and state, decay · state + input, and the product with C: 2 + 2 + 2."""
        return 6 * tokens * self.width * self.state

    def matrices(self, width: int) -> tuple[Matrix, ...]:
        """Projections."""
        inner = self.width
        return (
            Matrix("in_proj", width, 2 * inner, 2 * inner * self.bias, "mlp"),
            Matrix("x_proj", inner, self.dt_rank + 2 * self.state, 0, "mlp"),
            Matrix("dt_proj", self.dt_rank, inner, inner, "mlp"),
            Matrix("out_proj", inner, width, width * self.bias, "mlp"),
        )

    def params(self, width: int) -> int:
        """All weights: the projections, the convolution, A and D."""
        conv = self.width * (self.conv + self.conv_bias)
        return sum(m.params for m in self.matrices(width)) + conv + self.width * (self.state + 1)

    def shard(self, tp: int) -> "Mamba":
        """Channels are split."""
        return msgspec.structs.replace(self, width=divided(self.width, tp, "Mamba channels"))


class Mamba2(msgspec.Struct, frozen=True, kw_only=True):
    """State-space duality of Mamba-2.

    Attributes:
        heads: Heads.
        head_dim: Per head.
        state: State per channel.
        groups: Groups that share B and C.
        conv: Taps of the causal convolution.
        chunk: Tokens per block of the chunked scan.
        bias: Whether the projections have biases.
        conv_bias: Whether the convolution has one.
    """

    heads: int
    head_dim: int
    state: int
    groups: int
    conv: int
    chunk: int = 256
    bias: bool = False
    conv_bias: bool = True

    name = "mixer"
    kv_elements = 0

    @property
    def inner(self) -> int:
        """Inner width, heads · head_dim."""
        return self.heads * self.head_dim

    @property
    def conv_channels(self) -> int:
        """Channels of the causal convolution: x, B and C."""
        return self.inner + 2 * self.groups * self.state

    @property
    def state_elements(self) -> int:
        """Elements of recurrent state per sequence."""
        return self.inner * self.state + self.conv_channels * self.conv

    def scan_flops(self, tokens: int, queries: int) -> int:
        """FLOP of the scan on the matrix engine.

        Per token: decay and update of the state and the product with C, 6 · inner · state; in chunks of c, the
        scores C Bᵀ and their product with x add 2 · c · (groups · state + inner) / 2 (causal) for the update's half.
        """
        if queries == 1:
            return 6 * tokens * self.inner * self.state
        block = min(self.chunk, queries)
        inside = block * (self.groups * self.state + self.inner)
        return tokens * (inside + 4 * self.inner * self.state)

    def matrices(self, width: int) -> tuple[Matrix, ...]:
        """Projections; the input gives the gate, x, B, C and the time steps."""
        out = self.inner + self.conv_channels + self.heads
        return (
            Matrix("in_proj", width, out, out * self.bias, "mlp"),
            Matrix("out_proj", self.inner, width, width * self.bias, "mlp"),
        )

    def params(self, width: int) -> int:
        """All weights: the projections, the convolution, time-step bias, A and D per head, the gated norm."""
        conv = self.conv_channels * (self.conv + self.conv_bias)
        return sum(m.params for m in self.matrices(width)) + conv + 3 * self.heads + self.inner

    def shard(self, tp: int) -> "Mamba2":
        """Heads are split; fewer groups than ranks are held by several."""
        heads = divided(self.heads, tp, "Mamba heads")
        return msgspec.structs.replace(self, heads=heads, groups=max(1, self.groups // tp))


class DeltaNet(msgspec.Struct, frozen=True, kw_only=True):
    """Linear attention by the gated delta rule (Qwen3-Next and later).

    Attributes:
        key_heads: Heads of queries and keys.
        value_heads: Heads of values.
        key_dim: Per key head.
        value_dim: Per value head.
        conv: Taps of the causal convolution.
        chunk: Tokens per block of the chunked rule.
    """

    key_heads: int
    value_heads: int
    key_dim: int
    value_dim: int
    conv: int
    chunk: int = 64

    name = "linear_attn"
    kv_elements = 0

    @property
    def conv_channels(self) -> int:
        """Channels of the causal convolution: queries, keys and values."""
        return 2 * self.key_heads * self.key_dim + self.value_heads * self.value_dim

    @property
    def state_elements(self) -> int:
        """Elements of recurrent state per sequence."""
        return self.value_heads * self.key_dim * self.value_dim + self.conv_channels * self.conv

    def scan_flops(self, tokens: int, queries: int) -> int:
        """FLOP of the rule.

        Decay, read, update and query of the state, 2 · value_heads · key_dim · value_dim each: 8 in all. In chunks
        of c the scores inside a block add 2 · c · value_heads · (key_dim + value_dim) per token.
        """
        state = 8 * tokens * self.value_heads * self.key_dim * self.value_dim
        if queries == 1:
            return state
        block = min(self.chunk, queries)
        return state + 2 * tokens * block * self.value_heads * (self.key_dim + self.value_dim)

    def matrices(self, width: int) -> tuple[Matrix, ...]:
        """Projections: queries, keys, values and the output gate; two scalars per value head; the output."""
        values = self.value_heads * self.value_dim
        return (
            Matrix("in_proj_qkvz", width, self.conv_channels + values, 0, "mlp"),
            Matrix("in_proj_ba", width, 2 * self.value_heads, 0, "router"),
            Matrix("out_proj", values, width, 0, "mlp"),
        )

    def params(self, width: int) -> int:
        """All weights: projections, convolution, time-step bias and A per head, the gated norm."""
        extra = self.conv_channels * self.conv + 2 * self.value_heads + self.value_dim
        return sum(m.params for m in self.matrices(width)) + extra

    def shard(self, tp: int) -> "DeltaNet":
        """Heads are split."""
        return msgspec.structs.replace(
            self,
            key_heads=divided(self.key_heads, tp, "linear-attention heads"),
            value_heads=divided(self.value_heads, tp, "linear-attention heads"),
        )


class DoubleStream(msgspec.Struct, frozen=True):
    """A block of a diffusion transformer with weights for image tokens and the same again for text tokens.

    Attributes:
        heads: Heads.
        head_dim: Per head.
        mlp: Inner width of each stream's MLP.
        qkv_bias: Whether queries, keys and values have biases.
    """

    heads: int
    head_dim: int
    mlp: int
    qkv_bias: bool = True

    name = "double"
    kv_elements = 0

    def stream_matrices(self, width: int) -> tuple[Matrix, ...]:
        """Matrices of one stream: modulation, queries with keys and values, output, MLP."""
        inner = self.heads * self.head_dim
        return (
            Matrix("mod.lin", width, 6 * width, 6 * width, "other"),
            Matrix("attn.qkv", width, 3 * inner, 3 * inner * self.qkv_bias, "attention"),
            Matrix("attn.proj", inner, width, width, "attention"),
            Matrix("mlp.0", width, self.mlp, self.mlp, "mlp"),
            Matrix("mlp.2", self.mlp, width, width, "mlp"),
        )

    def matrices(self, width: int) -> tuple[Matrix, ...]:
        """Matrices of both streams."""
        return self.stream_matrices(width) * 2

    def params(self, width: int) -> int:
        """All weights: the matrices, and norms of queries and keys in both streams."""
        return sum(m.params for m in self.matrices(width)) + 4 * self.head_dim

    def shard(self, tp: int) -> "DoubleStream":
        """Heads and the inner width are split."""
        heads = divided(self.heads, tp, "attention heads")
        return msgspec.structs.replace(self, heads=heads, mlp=divided(self.mlp, tp, "MLP width"))


class SingleStream(msgspec.Struct, frozen=True):
    """A block of a diffusion transformer over image and text tokens alike, attention and MLP in parallel.

    Attributes:
        heads: Heads.
        head_dim: Per head.
        mlp: Inner width of the MLP.
    """

    heads: int
    head_dim: int
    mlp: int

    name = "single"
    kv_elements = 0

    def matrices(self, width: int) -> tuple[Matrix, ...]:
        """Modulation; queries, keys, values and MLP in one; both outputs in one."""
        inner = self.heads * self.head_dim
        first = 3 * inner + self.mlp
        return (
            Matrix("modulation.lin", width, 3 * width, 3 * width, "other"),
            Matrix("linear1", width, first, first, "mlp"),
            Matrix("linear2", inner + self.mlp, width, width, "mlp"),
        )

    def params(self, width: int) -> int:
        """All weights: the matrices, and norms of queries and keys."""
        return sum(m.params for m in self.matrices(width)) + 2 * self.head_dim

    def shard(self, tp: int) -> "SingleStream":
        """Heads and the inner width are split."""
        heads = divided(self.heads, tp, "attention heads")
        return msgspec.structs.replace(self, heads=heads, mlp=divided(self.mlp, tp, "MLP width"))


class Mlp(msgspec.Struct, frozen=True, kw_only=True):
    """Feed-forward network: two matrices, or three with a gate.

    Attributes:
        width: Inner width.
        gated: Whether a gate multiplies the inner activations.
        bias: Whether the matrices have biases.
    """

    width: int
    gated: bool = True
    bias: bool = False

    name = "mlp"
    kv_elements = 0

    def matrices(self, width: int) -> tuple[Matrix, ...]:
        """Up (and gate, in one product), down."""
        up = self.width * (2 if self.gated else 1)
        return (
            Matrix("gate_up_proj" if self.gated else "up_proj", width, up, up * self.bias, "mlp"),
            Matrix("down_proj", self.width, width, width * self.bias, "mlp"),
        )

    def params(self, width: int) -> int:
        """All weights."""
        return sum(m.params for m in self.matrices(width))

    def shard(self, tp: int) -> "Mlp":
        """The inner width is split."""
        return msgspec.structs.replace(self, width=divided(self.width, tp, "MLP width"))


class Experts(msgspec.Struct, frozen=True, kw_only=True):
    """Mixture of experts: every token goes to `top` of `count` feed-forward networks, and to the shared one.

    Attributes:
        count: Experts of the layer, on all ranks.
        top: Experts per token.
        width: Inner width of one expert.
        gated: Whether experts have a gate.
        bias: Whether experts have biases.
        router_bias: Whether the router has one.
        shared: Inner width of the experts that every token goes to; 0: none.
        shared_gate: Whether a scalar gate weighs the shared expert.
        held: Experts that this rank holds; 0: all.
    """

    count: int
    top: int
    width: int
    gated: bool = True
    bias: bool = False
    router_bias: bool = False
    shared: int = 0
    shared_gate: bool = False
    held: int = 0

    name = "mlp"
    kv_elements = 0

    @property
    def local(self) -> int:
        """Experts on this rank."""
        return self.held or self.count

    def one(self) -> Mlp:
        """One expert."""
        return Mlp(width=self.width, gated=self.gated, bias=self.bias)

    def always(self, width: int) -> tuple[Matrix, ...]:
        """Matrices that every token meets: the router and the shared expert."""
        found = [Matrix("router", width, self.count, self.count * self.router_bias, "router")]
        if self.shared:
            shared = Mlp(width=self.shared, gated=self.gated).matrices(width)
            found += [msgspec.structs.replace(m, name=f"shared_expert.{m.name}") for m in shared]
        if self.shared_gate:
            found.append(Matrix("shared_expert_gate", width, 1, 0, "router"))
        return tuple(found)

    def distinct(self, tokens: float) -> float:
        """Expected experts of this rank that a batch touches: local · (1 − (1 − top / count)^tokens).

        Routing is taken as even and independent; real routing is skewed and touches fewer.
        """
        return self.local * (1 - (1 - self.top / self.count) ** tokens)

    def params(self, width: int) -> int:
        """All weights on this rank."""
        return sum(m.params for m in self.always(width)) + self.local * self.one().params(width)

    def idle_params(self, width: int) -> int:
        """Weights that one token does not use: (count − top) experts; exact integers, as every expert is alike."""
        return max(0, self.local - self.top) * self.one().params(width)

    def shard(self, tp: int) -> "Experts":
        """Every expert's inner width is split."""
        return msgspec.structs.replace(
            self,
            width=divided(self.width, tp, "expert width"),
            shared=divided(self.shared, tp, "width of the shared expert"),
        )

    def spread(self, ep: int, tp: int) -> "Experts":
        """Whole experts are spread over `ep` ranks; the shared expert is split like any MLP."""
        shared = divided(self.shared, tp, "width of the shared expert")
        return msgspec.structs.replace(self, held=divided(self.count, ep, "experts", "--ep"), shared=shared)


Mixer = Attention | LatentAttention | Mamba | Mamba2 | DeltaNet | DoubleStream | SingleStream
Recurrent = Mamba | Mamba2 | DeltaNet
FeedForward = Mlp | Experts
Part = Mixer | FeedForward


def divided(number: int, by: int, what: str, option: str = "--tp") -> int:
    """`number` / `by`, which must come out even.

    Raises:
        UsageError: It doesn't.
    """
    if number % by:
        fits = [d for d in (1, 2, 4, 8, 16, 32, 64) if number % d == 0]
        raise UsageError(
            f"{option} {by} does not divide the {number} {what}",
            f"choose one of: {', '.join(map(str, fits))}",
        )
    return number // by
