"""Mixers with a recurrent state in the place of a cache."""

import msgspec

from roofline.plan.parts.matrix import Matrix, divided


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
