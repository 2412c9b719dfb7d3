"""The conventions, in the order in which a claim is tried against them."""

from functools import cache

from roofline.plan.conventions.rules import (
    ACTIVE,
    ALL_NO_TABLES,
    FULL,
    HALF,
    MATRICES,
    MULTIPLIED,
    NEEDED,
    NO_POSITIONS,
    NO_TABLES,
    NO_VOCABULARY,
    TOTAL,
    WINDOW,
    Convention,
)

DEFAULT = "needed"
_PALM = "Chowdhery et al. 2022, PaLM, appendix B (arXiv 2204.02311)"
_KAPLAN = "Kaplan et al. 2020, table 1 (arXiv 2001.08361)"


@cache
def conventions() -> tuple[Convention, ...]:
    """All conventions: the default first, then the published ones, then inference, then plain errors."""
    return (*_published(), *_special(), *_inference(), *_errors())


def _published() -> tuple[Convention, ...]:
    return (
        Convention(
            name=DEFAULT,
            formula="6·N_mm + 12·L·H·D·P/T",
            source="this project: the matrix work that a perfect program does; P = Σ min(i, W) within each document",
            used_by="roofline, as its MFU",
            caveat="the strictest count: causal, windowed, within documents, no lookup tables; under LoRA 4·N_mm + "
            "6·N_adapters",
            weights=MULTIPLIED,
            context=NEEDED,
            knows_adapters=True,
        ),
        Convention(
            name="palm",
            formula="6·N + 12·L·H·Q·S",
            source=_PALM,
            used_by="PaLM; the usual meaning of MFU in papers",
            caveat="attention is the full square, twice what a causal model needs; N has both embeddings; active "
            "parameters for a mixture of experts",
            weights=ACTIVE,
            context=FULL,
        ),
        Convention(
            name="llm-foundry",
            formula="6·N + 12·L·d_model·S",
            source="llm-foundry, scripts/train/benchmarking/README.md; composer's speed monitor",
            used_by="MosaicML: the MPT tables",
            caveat="palm by another name: N has learned positions too; its HFU is 4/3 of it",
            weights=ACTIVE,
            context=FULL,
        ),
        Convention(
            name="nanogpt",
            formula="6·(N − positions) + 12·L·H·Q·S",
            source="nanoGPT, model.py, estimate_mfu",
            used_by="nanoGPT and what is forked from it",
            caveat="the peak is written into the code: 312 TFLOP/s (A100, BF16), whatever the GPU",
            weights=NO_POSITIONS,
            context=FULL,
        ),
        Convention(
            name="matmul",
            formula="6·N_mm + 12·L·H·Q·S",
            source="torchtitan, models/utils.py; Narayanan et al. 2021 (arXiv 2104.04473): "
            "72·B·S·L·h²·(1 + S/6h + V/12Lh)",
            used_by="torchtitan today; Megatron-LM before the causal half",
            caveat="the input table is looked up, so it is left out; a tied table stays, it is the head",
            weights=MULTIPLIED,
            context=FULL,
        ),
        Convention(
            name="torchtitan",
            formula="6·(N − E) + 12·L·H·Q·S",
            source="torchtitan, utils.py, get_num_flop_per_token (earlier versions)",
            used_by="torchtitan earlier, nanochat",
            caveat="for a tied model the head is lost with the table",
            weights=NO_TABLES,
            context=FULL,
        ),
        Convention(
            name="window",
            formula="6·N_mm + 12·L·H·Q·min(S, W)",
            source="torchtitan#4300",
            used_by="torchtitan today, for models with sliding windows",
            caveat="the window is counted full, not causal: a little above what is needed",
            weights=MULTIPLIED,
            context=WINDOW,
        ),
        Convention(
            name="megatron",
            formula="6·N_mm + 6·L·H·Q·ΣS²/ΣS",
            source="Megatron-LM, training/training.py, num_floating_point_operations",
            used_by="Megatron-LM, Megatron-Bridge, MaxText since April 2026",
            caveat="half of the square, S²/2 for S·(S+1)/2; packed documents by their own lengths where known",
            weights=MULTIPLIED,
            context=HALF,
        ),
        Convention(
            name="kaplan",
            formula="6·N_blocks + 6·L·H·Q·S",
            source=_KAPLAN,
            used_by="scaling-law papers",
            caveat="no vocabulary at all: neither table nor head, which small models feel",
            weights=NO_VOCABULARY,
            context=FULL,
            attention_passes=1.5,
        ),
        Convention(
            name="6n",
            formula="6·N",
            source="Kaplan et al. 2020; Hoffmann et al. 2022 (arXiv 2203.15556)",
            used_by="napkins, model cards, compute budgets",
            caveat="no attention: too low at long sequences; active parameters for a mixture of experts",
            weights=ACTIVE,
        ),
        Convention(
            name="hf-trainer",
            formula="6·(N − E)",
            source="transformers, modeling_utils.py, floating_point_ops",
            used_by="Hugging Face Trainer (total_flos)",
            caveat="no attention, every expert; for a tied model the head is lost with the table",
            weights=ALL_NO_TABLES,
        ),
        Convention(
            name="kaplan-6n",
            formula="6·N_blocks",
            source=_KAPLAN,
            used_by="compute budgets by non-embedding parameters",
            caveat="no attention, no vocabulary",
            weights=NO_VOCABULARY,
        ),
    )


def _special() -> tuple[Convention, ...]:
    return (
        Convention(
            name="lora",
            formula="4·N_mm + 6·N_adapters + 12·L·H·Q·S",
            source="Hu et al. 2021 (arXiv 2106.09685): frozen weights have no weight gradient",
            used_by="Megatron-Bridge",
            caveat="6·N on a LoRA run counts a third of its work that is never done",
            weights=MULTIPLIED,
            context=FULL,
            knows_adapters=True,
            applies=lambda m: m.adapters > 0,
        ),
        Convention(
            name="instrumented",
            formula="6·(N_mm − norms − biases) + 14·L·H·Q·S",
            source="torch.utils.flop_counter: sdpa_backward_flop_count",
            used_by="FlopCounterMode on CUDA; Lightning's measure_flops",
            caveat="a fused attention's backward computes its scores again: 2.5 forwards, not 2 (an unfused one: 12, "
            "not 14); causal is counted full",
            counts="executed",
            weights=MATRICES,
            context=FULL,
            attention_passes=3.5,
        ),
        Convention(
            name="lingua",
            formula="6·N_mm + 7·L·H·Q·S",
            source="Meta Lingua, lingua/transformer.py; flash-attention, benchmarks/benchmark_flash_attention.py",
            used_by="Lingua; flash-attention's kernel rates",
            caveat="causal, with the scores that flash attention computes again in its backward",
            counts="executed",
            weights=MULTIPLIED,
            context=HALF,
            attention_passes=3.5,
        ),
    )


def _inference() -> tuple[Convention, ...]:
    return (
        Convention(
            name="forward",
            formula="2·N_mm + 4·L·H·D·P/T",
            source="this project: one forward pass of a prefill, causal",
            used_by="roofline, for prefill",
            phase="forward",
            weights=MULTIPLIED,
            context=NEEDED,
            weight_passes=1,
            attention_passes=1,
        ),
        Convention(
            name="2n",
            formula="2·N",
            source=_KAPLAN,
            used_by="serving benchmarks",
            caveat="no attention",
            phase="forward",
            weights=ACTIVE,
            weight_passes=1,
        ),
    )


def _errors() -> tuple[Convention, ...]:
    return (
        Convention(
            name="moe-total",
            formula="6·N_total + 12·L·H·Q·S",
            source="seen in training logs (prime-rl#803, maxtext#678)",
            used_by="nobody on purpose",
            weights=TOTAL,
            context=FULL,
            applies=lambda m: m.is_sparse,
            fault="counts every expert, though a token uses only some",
        ),
        Convention(
            name="lora-as-full",
            formula="6·N + 12·L·H·Q·S on a LoRA run",
            source="palm's formula, taken where weights are frozen",
            used_by="nobody on purpose",
            weights=ACTIVE,
            context=FULL,
            applies=lambda m: m.adapters > 0,
            fault="counts gradients of frozen weights, which are never computed",
        ),
    )
