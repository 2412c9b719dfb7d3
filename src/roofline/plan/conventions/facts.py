"""The few facts of a model that a convention of MFU reads, and the pairs of tokens that attention joins."""

from collections.abc import Sequence

import msgspec

from roofline.errors import UsageError


class AttentionLayers(msgspec.Struct, frozen=True, kw_only=True):
    """Layers that attend alike.

    Attributes:
        layers: How many.
        heads: Query heads H; key and value heads don't enter the FLOP.
        qk_head_dim: Width of a query and a key.
        v_head_dim: Width of a value.
        window: Tokens that a query sees at most, itself included; None sees all before it.
        chunked: The window is a fixed block of the sequence, not a sliding one.
        causal: A query sees no later token.
    """

    layers: int
    heads: int
    qk_head_dim: int
    v_head_dim: int
    window: int | None = None
    chunked: bool = False
    causal: bool = True

    @property
    def width(self) -> float:
        """L · H · (D_qk + D_v) / 2: with D_qk = D_v the L · H · Q of the published formulas."""
        return self.layers * self.heads * (self.qk_head_dim + self.v_head_dim) / 2


class ModelFacts(msgspec.Struct, frozen=True, kw_only=True):
    """Parameter counts and attention widths of one model.

    Attributes:
        name: What to call it.
        parameters: N, stored parameters; a tied table counts once.
        active: N_act, parameters that one token uses, both embeddings included; None means all.
        input_embedding: E, the token table (rows are looked up, not multiplied); for a tied model it is the head too.
        output_head: The matrix that makes the logits; the table itself for a tied model.
        position_embedding: Learned positions, looked up too.
        tied: The head is the token table.
        vectors: Norm weights and biases, as far as known: stored, but in no matrix product.
        attention: The layers that attend, in groups.
        adapters: Parameters of LoRA adapters, not part of `parameters`.
        kv_bytes_per_token: Cache that one token of context leaves behind; None where unknown.
        notes: What no convention counts in this model.
    """

    name: str = "the model"
    parameters: int
    active: int | None = None
    input_embedding: int = 0
    output_head: int = 0
    position_embedding: int = 0
    tied: bool = False
    vectors: int = 0
    attention: tuple[AttentionLayers, ...] = ()
    adapters: int = 0
    kv_bytes_per_token: float | None = None
    notes: tuple[str, ...] = ()

    @property
    def active_parameters(self) -> int:
        """N_act: parameters that one token uses, both embeddings included."""
        return self.parameters if self.active is None else self.active

    @property
    def multiplied(self) -> int:
        """N_mm, with norms and biases: what one token is multiplied by. A tied table stays: it is the head."""
        looked_up = self.position_embedding + (0 if self.tied else self.input_embedding)
        return self.active_parameters - looked_up

    @property
    def without_tables(self) -> int:
        """N − E as a sum over modules gives it: a tied table is gone as input and as head."""
        return self.active_parameters - self.input_embedding - self.position_embedding

    @property
    def is_sparse(self) -> bool:
        """Whether a token leaves parameters unused (mixture of experts)."""
        return self.active_parameters < self.parameters


def attended_pairs(length: int, window: int | None = None) -> int:
    """Pairs (query, key) that causal attention needs over one sequence.

    Σ_{i=1..S} min(i, W): S · (S + 1) / 2 without a window.

    Args:
        length: S, tokens of the sequence.
        window: W, tokens that a query sees at most, itself included.
    """
    seen = length if window is None else min(window, length)
    return seen * (seen + 1) // 2 + (length - seen) * seen


def mean_context(group: AttentionLayers, lengths: Sequence[int]) -> float:
    """Keys that a token attends to on average: Σ pairs / Σ tokens over the sequences of a batch.

    Raises:
        UsageError: A length is not positive.
    """
    if not lengths or min(lengths) < 1:
        raise UsageError("sequence lengths must be at least one token", "give --sequence 4096")
    return sum(_pairs(group, s) for s in lengths) / sum(lengths)


def _pairs(group: AttentionLayers, length: int) -> int:
    if not group.causal:
        return length * length
    if group.chunked and group.window:
        blocks, rest = divmod(length, group.window)
        return blocks * attended_pairs(group.window) + attended_pairs(rest)
    return attended_pairs(length, group.window)
