"""What a convention is: a count of weights, a count of attention, and how often each is passed."""

from collections.abc import Callable
from typing import Literal

import msgspec

from roofline.errors import UsageError
from roofline.plan.conventions.facts import AttentionLayers, ModelFacts, mean_context

# What the numerator holds: work that a perfect program would do, or all that ran.
Counts = Literal["needed", "executed"]
Phase = Literal["train", "forward"]


class Tokens(msgspec.Struct, frozen=True, kw_only=True):
    """The sequences that a token belongs to.

    Attributes:
        sequence: S, tokens per sequence as the program sees them: the length that packed documents share.
        documents: Lengths of the documents packed into a sequence; empty where a sequence is one document.
    """

    sequence: int = 0
    documents: tuple[int, ...] = ()

    @property
    def lengths(self) -> tuple[int, ...]:
        """Lengths that attention stays within."""
        return self.documents or (self.sequence,)


class Weights(msgspec.Struct, frozen=True):
    """Which parameters a convention multiplies a token by: a symbol, and the count."""

    symbol: str
    count: Callable[[ModelFacts], int]


class Context(msgspec.Struct, frozen=True):
    """How many keys a convention lets a token attend to: a symbol, and the count for one group of layers."""

    symbol: str
    count: Callable[[AttentionLayers, Tokens], float]


TOTAL = Weights("N", lambda m: m.parameters)
ACTIVE = Weights("N_act", lambda m: m.active_parameters)
NO_POSITIONS = Weights("(N_act − positions)", lambda m: m.active_parameters - m.position_embedding)
MULTIPLIED = Weights("N_mm", lambda m: m.multiplied)
MATRICES = Weights("(N_mm − norms − biases)", lambda m: m.multiplied - m.vectors)
NO_TABLES = Weights("(N_act − E)", lambda m: m.without_tables)
ALL_NO_TABLES = Weights("(N − E)", lambda m: m.without_tables + m.parameters - m.active_parameters)
NO_VOCABULARY = Weights("(N_act − E − head)", lambda m: m.without_tables - (0 if m.tied else m.output_head))

FULL = Context("S", lambda g, t: t.sequence)
WINDOW = Context("min(S, W)", lambda g, t: min(t.sequence, g.window or t.sequence))
HALF = Context("S/2", lambda g, t: sum(s * s for s in t.lengths) / sum(t.lengths) / 2)
NEEDED = Context("P/T", lambda g, t: mean_context(g, t.lengths))


class Convention(msgspec.Struct, frozen=True, kw_only=True):
    """A published way to count the FLOP of one token.

    FLOP per token = 2 · weights · weight_passes + 4 · Σ L · H · D · context · attention_passes. One forward pass is
    one pass; a backward pass is two, since each product has two gradients.

    Attributes:
        name: How to ask for it.
        formula: In symbols: N parameters, E the input embedding, L layers, H query heads, Q (or D) their width,
            S tokens per sequence, W window, P attended pairs over T tokens.
        source: Where it is written down.
        used_by: Who reports by it.
        caveat: What to know before comparing it with others.
        counts: "needed" (an MFU) or "executed" (an HFU).
        phase: What a token goes through.
        weights: Which parameters.
        context: Which attention; None leaves attention out.
        weight_passes: Passes over the weights, in forward passes.
        attention_passes: Passes over attention, in forward passes.
        knows_adapters: Frozen weights under LoRA adapters have no weight gradient in it: two passes, not three.
        applies: Whether it says anything about a model of this kind.
        fault: What is wrong with it, where it is an error rather than a choice; empty otherwise.
    """

    name: str
    formula: str
    source: str
    used_by: str
    caveat: str = ""
    counts: Counts = "needed"
    phase: Phase = "train"
    weights: Weights
    context: Context | None = None
    weight_passes: float = 3
    attention_passes: float = 3
    knows_adapters: bool = False
    applies: Callable[[ModelFacts], bool] = lambda m: True
    fault: str = ""

    @property
    def reads_sequence(self) -> bool:
        """Whether the count depends on the sequence length."""
        return self.context is not None

    def fits(self, facts: ModelFacts) -> bool:
        """Whether it is a way to count this model: full training does not count a LoRA run."""
        trains_all = self.phase == "train" and not self.knows_adapters and not self.fault
        return self.applies(facts) and not (facts.adapters and trains_all)

    def weight_flops(self, facts: ModelFacts) -> float:
        """FLOP per token on weights."""
        one_pass = 2 * self.weights.count(facts)
        if facts.adapters and self.knows_adapters:
            return one_pass * (self.weight_passes - 1) + 2 * facts.adapters * self.weight_passes
        return one_pass * self.weight_passes

    def attention_flops(self, facts: ModelFacts, tokens: Tokens) -> float:
        """FLOP per token on attention scores and their product with the values."""
        if self.context is None:
            return 0
        if tokens.sequence < 1:
            raise UsageError(f'the convention "{self.name}" needs the sequence length', "give --sequence 4096")
        one_pass = sum(4 * g.width * self.context.count(g, tokens) for g in facts.attention)
        return one_pass * self.attention_passes

    def flops_per_token(self, facts: ModelFacts, tokens: Tokens) -> float:
        """FLOP that the convention charges for one token."""
        return self.weight_flops(facts) + self.attention_flops(facts, tokens)


def named(name: str) -> Convention:
    """Give one convention.

    Raises:
        UsageError: There is none of this name.
    """
    from roofline.plan.conventions.table import conventions

    known = {c.name: c for c in conventions()}
    if name not in known:
        raise UsageError(f'there is no MFU convention "{name}"', f"known: {', '.join(known)}")
    return known[name]
