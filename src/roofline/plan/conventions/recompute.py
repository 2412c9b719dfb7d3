"""What a program computes twice to save memory: the difference between an MFU and an HFU."""

from collections.abc import Callable
from functools import cache

import msgspec

from roofline.plan.conventions.facts import ModelFacts
from roofline.plan.conventions.rules import Convention, Tokens


class Recompute(msgspec.Struct, frozen=True, kw_only=True):
    """One way of recomputing activations.

    Attributes:
        name: How to ask for it.
        title: What is run again.
        formula: What it adds per token, in the symbols of the conventions.
        source: Where it is written down.
        used_by: Who reports by it.
        extra: FLOP per token that it adds to a convention's count of one training step.
    """

    name: str
    title: str
    formula: str
    source: str
    used_by: str
    extra: Callable[[Convention, ModelFacts, Tokens], float]


@cache
def recomputations() -> tuple[Recompute, ...]:
    """The ways of recomputing, from none to all."""
    return (
        Recompute(
            name="none",
            title="nothing is run again",
            formula="+ 0: HFU = MFU",
            source="PaLM, appendix B (arXiv 2204.02311)",
            used_by="runs without activation checkpointing",
            extra=lambda c, m, t: 0,
        ),
        Recompute(
            name="selective",
            title="the core of attention is run again",
            formula="+ 4·L·H·Q·S",
            source="Korthikanti et al. 2022 (arXiv 2205.05198)",
            used_by="Megatron-LM --recompute-granularity selective",
            extra=_attention_again,
        ),
        Recompute(
            name="layers",
            title="all layers are run again, the output head is not",
            formula="+ 2·(N − head) + 4·L·H·Q·S",
            source="Narayanan et al. 2021 (arXiv 2104.04473): 96·B·S·L·h²·(1 + S/6h + V/16Lh)",
            used_by="Megatron-LM's paper of 2021",
            extra=lambda c, m, t: _forward_again(c, m, t) - 2 * m.output_head,
        ),
        Recompute(
            name="full",
            title="the whole forward pass is run again",
            formula="+ 2·N + 4·L·H·Q·S: HFU = 4/3 MFU",
            source="llm-foundry, scripts/train/benchmarking/README.md",
            used_by="llm-foundry; FSDP with activation checkpointing on every block",
            extra=_forward_again,
        ),
    )


def _attention_again(convention: Convention, facts: ModelFacts, tokens: Tokens) -> float:
    if not convention.attention_passes:
        return 0
    return convention.attention_flops(facts, tokens) / convention.attention_passes


def _forward_again(convention: Convention, facts: ModelFacts, tokens: Tokens) -> float:
    return 2 * (convention.weights.count(facts) + facts.adapters) + _attention_again(convention, facts, tokens)
