"""Attention over a cache of keys and values, or of latent vectors."""

import msgspec

from roofline.errors import UsageError
from roofline.plan.parts.matrix import Matrix, divided


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
