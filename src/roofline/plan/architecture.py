"""A model as sizes: stacks of layers, embeddings, head. What it has and costs to hold, whatever it runs on."""

from collections import Counter
from collections.abc import Callable
from typing import Any, Literal

import msgspec

from roofline.plan.parts import Attention, DeltaNet, Experts, LatentAttention, Mamba, Mamba2, Matrix, Mlp, Part


class Layer(msgspec.Struct, frozen=True):
    """One layer.

    Attributes:
        parts: In order.
        norm_params: Weights of its norms.
        norms: Passes of a norm over the hidden vector.
        matrices: Further matrices applied to every token (modulation, projections between widths).
    """

    parts: tuple[Part, ...]
    norm_params: int
    norms: int = 2
    matrices: tuple[Matrix, ...] = ()

    def params(self, width: int) -> int:
        """All weights of the layer."""
        return sum(p.params(width) for p in self.parts) + self.norm_params + sum(m.params for m in self.matrices)

    def active_params(self, width: int) -> int:
        """Weights that one token uses."""
        return self.params(width) - sum(p.idle_params(width) for p in self.parts if isinstance(p, Experts))


class Stack(msgspec.Struct, frozen=True):
    """Layers of one width in a row.

    Attributes:
        name: Module path of its layers.
        width: Hidden size.
        layers: In order; equal layers are one object.
        final_norm: Weights of the norm at its end.
    """

    name: str
    width: int
    layers: tuple[Layer, ...]
    final_norm: int = 0

    def params(self) -> int:
        """All weights of the stack."""
        return sum(n * layer.params(self.width) for layer, n in self.groups()) + self.final_norm

    def active_params(self) -> int:
        """Weights that one token uses."""
        return sum(n * layer.active_params(self.width) for layer, n in self.groups()) + self.final_norm

    def groups(self) -> list[tuple[Layer, int]]:
        """Distinct layers with their number, in the order of their first appearance."""
        counts = Counter(map(id, self.layers))
        first = {id(layer): layer for layer in reversed(self.layers)}
        return [(first[key], number) for key, number in counts.items()]


class Tower(msgspec.Struct, frozen=True, kw_only=True):
    """An encoder in front of the decoder: of images, of sound, of text.

    Attributes:
        stack: Its layers.
        kind: What it reads; a text encoder shares the decoder's embedding.
        tokens: Tokens per image or clip; None for text, whose length is the prompt's.
        embed: What turns the input into tokens, applied once per token (patches: a convolution without overlap).
        embed_repeats: How many times `embed` runs per token, where a convolution has a stride less than its width.
        extra_params: Positions, class tokens, norms outside the layers.
        merge: Tokens that become one for the decoder.
        merger: Matrices applied to every merged token.
        merger_norm: Weights of norms in the merger.
    """

    stack: Stack
    kind: str
    tokens: int | None = None
    embed: tuple[tuple[Matrix, float], ...] = ()
    extra_params: int = 0
    merge: int = 1
    merger: tuple[Matrix, ...] = ()
    merger_norm: int = 0

    def params(self) -> int:
        """All weights of the tower."""
        matrices = sum(m.params for m, _ in self.embed) + sum(m.params for m in self.merger)
        return self.stack.params() + matrices + self.extra_params + self.merger_norm


class Entry(msgspec.Struct, frozen=True):
    """A matrix applied before the layers.

    Attributes:
        matrix: The matrix.
        per: Once per token, per token of the other sequence, or per sequence.
    """

    matrix: Matrix
    per: Literal["token", "source", "sequence"]


class Architecture(msgspec.Struct, frozen=True, kw_only=True):
    """A model.

    Attributes:
        name: What the user calls it.
        model_type: Family, as the config names it.
        stack: The decoder, or the only stack.
        vocab: Rows of the embedding; 0: no text.
        embed_width: Width of the embedding, where it is not the hidden size.
        positions: Weights of learned positions and token types, and of a norm over the embedding.
        tied: Whether the head is the embedding.
        head: Matrices that turn the last hidden vector into logits, before the tied table where there is one.
        head_params: Further weights of the head (norms, a bias over the vocabulary).
        tower: An encoder in front.
        mtp: Layers that predict further tokens, each with a projection of two hidden vectors to one.
        entries: Matrices applied before the layers, where the input is no text.
        generates: Whether it decodes token by token.
        source_tokens: Tokens of the other sequence by default; None: as many as its tower makes.
        max_context: Longest sequence that it was made for; None: unknown.
        dtype: Precision that the weights are stored in.
        quantization: The config's own description of quantised weights.
        notes: What was approximated, in words.
    """

    name: str
    model_type: str
    stack: Stack
    vocab: int
    embed_width: int | None = None
    positions: int = 0
    tied: bool = False
    head: tuple[Matrix, ...] = ()
    head_params: int = 0
    tower: Tower | None = None
    mtp: tuple[Layer, ...] = ()
    entries: tuple[Entry, ...] = ()
    generates: bool = True
    source_tokens: int | None = None
    max_context: int | None = None
    dtype: str = "bfloat16"
    quantization: dict[str, Any] = {}
    notes: tuple[str, ...] = ()

    @property
    def width(self) -> int:
        """Hidden size."""
        return self.stack.width

    @property
    def is_tower(self) -> bool:
        """Whether there is nothing but the tower: a classifier of images."""
        return not self.stack.layers and not self.vocab

    @property
    def embedding_params(self) -> int:
        """Weights of the token table."""
        return self.vocab * (self.embed_width or self.width)

    @property
    def head_matrix_params(self) -> int:
        """Weights that the head reads for every step: its matrices, or the tied table."""
        own = sum(m.params for m in self.head) + self.head_params
        return own + (self.embedding_params if self.tied else 0)

    def params(self) -> int:
        """All weights, a tied table once; without layers for multi-token prediction, which nobody counts."""
        own = self.embedding_params + self.positions + sum(m.params for m in self.head) + self.head_params
        own += sum(entry.matrix.params for entry in self.entries)
        return own + self.stack.params() + (self.tower.params() if self.tower else 0)

    def active_params(self) -> int:
        """Weights that one token uses: of every layer's experts only `top`; both embeddings included."""
        return self.params() - self.stack.params() + self.stack.active_params()

    def mtp_params(self) -> int:
        """Weights of the layers for multi-token prediction: a layer, a 2·h × h projection and three norms each."""
        width = self.width
        return sum(layer.params(width) + 2 * width * width + 3 * width for layer in self.mtp)

    def kv_elements_per_token(self) -> int:
        """Elements that the cache grows by per token, sliding windows not yet full."""
        return sum(n * part.kv_elements for layer, n in self.stack.groups() for part in layer.parts)

    def state_elements(self) -> int:
        """Elements of recurrent state per sequence, whatever its length."""
        return sum(
            n * part.state_elements
            for layer, n in self.stack.groups()
            for part in layer.parts
            if isinstance(part, Mamba | Mamba2 | DeltaNet)
        )

    def shard(self, tp: int, ep: int = 1) -> "Architecture":
        """What one rank of tensor and expert parallelism holds.

        Raises:
            UsageError: A size does not divide.
        """
        if tp == 1 and ep == 1:
            return self
        tower = self.tower and msgspec.structs.replace(self.tower, stack=_sharded(self.tower.stack, tp, 1))
        head = tuple(
            msgspec.structs.replace(m, outputs=-(-m.outputs // tp), bias=-(-m.bias // tp)) if m.role == "head" else m
            for m in self.head
        )
        cut = _cutter(tp, ep)
        return msgspec.structs.replace(
            self,
            stack=_sharded(self.stack, tp, ep),
            vocab=-(-self.vocab // tp),
            head=head,
            tower=tower,
            mtp=tuple(cut(layer) for layer in self.mtp),
        )


def _sharded(stack: Stack, tp: int, ep: int) -> Stack:
    cut = _cutter(tp, ep)
    return msgspec.structs.replace(stack, layers=tuple(cut(layer) for layer in stack.layers))


def _cutter(tp: int, ep: int) -> Callable[[Layer], Layer]:
    """Shard layers; equal ones stay one object."""
    done: dict[int, Layer] = {}

    def cut(layer: Layer) -> Layer:
        if id(layer) not in done:
            parts = tuple(p.spread(ep, tp) if isinstance(p, Experts) and ep > 1 else p.shard(tp) for p in layer.parts)
            done[id(layer)] = msgspec.structs.replace(layer, parts=parts)
        return done[id(layer)]

    return cut


__all__ = [
    "Architecture",
    "Attention",
    "DeltaNet",
    "Experts",
    "LatentAttention",
    "Layer",
    "Mamba",
    "Mamba2",
    "Matrix",
    "Mlp",
    "Stack",
    "Tower",
]
