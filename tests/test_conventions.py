"""MFU conventions against hand counts, field cases and PyTorch's own counter."""

import csv
from pathlib import Path
from typing import Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from roofline import machines
from roofline.core.machine import Machine
from roofline.errors import UsageError
from roofline.plan import config
from roofline.plan.conventions import (
    AttentionLayers,
    ModelFacts,
    Tokens,
    attended_pairs,
    conventions,
    facts_of,
    named,
    recomputations,
    score,
    token_bytes,
)
from roofline.plan.conventions.markdown import updated
from roofline.plan.parts import Mlp
from roofline.plan.planner import plan
from roofline.plan.workload import Workload

_ROOT = Path(__file__).parents[1]
_CONFIGS = _ROOT / "../shared/data/configs"


def _config(**changes: object) -> dict[str, object]:
    """The tiny Llama of case B41: V 1000, h 64, L 2, 4 heads of 16, 2 of keys, ff 160."""
    return {
        "model_type": "llama",
        "vocab_size": 1000,
        "hidden_size": 64,
        "num_hidden_layers": 2,
        "num_attention_heads": 4,
        "num_key_value_heads": 2,
        "intermediate_size": 160,
        **changes,
    }


def _gpt(layers: int = 3, hidden: int = 64) -> ModelFacts:
    """A model of round numbers, so that formulas can be written out: N 1,000,000 of which 100,000 in the table."""
    attention = AttentionLayers(layers=layers, heads=4, qk_head_dim=hidden // 4, v_head_dim=hidden // 4)
    return ModelFacts(
        parameters=1_000_000,
        input_embedding=100_000,
        output_head=100_000,
        position_embedding=5_000,
        vectors=1_000,
        attention=(attention,),
    )


# Case B41: the input table is looked up, the head is multiplied, whether or not they are one matrix.
_B41_FORWARD = 2 * 64 * (1000 * 64 + 2 * (2 * 64 * 64 + 2 * 64 * 32 + 3 * 64 * 160))


@pytest.mark.parametrize("tied", [False, True])
def test_the_input_table_costs_nothing_and_a_tied_head_is_not_lost(tied: bool) -> None:
    facts = facts_of(config.read(_config(tie_word_embeddings=tied), "tiny"))
    without_norms = facts.multiplied - facts.vectors
    assert 2 * 64 * without_norms == _B41_FORWARD == 19_202_048
    attention = named("megatron").attention_flops(facts, Tokens(sequence=64)) * 64
    assert attention == 3 * 1_048_576
    assert 3 * _B41_FORWARD + attention == 60_751_872


@pytest.mark.parametrize(("tied", "printed"), [(False, 57_729_024), (True, 33_153_024)])
def test_the_trainer_of_hugging_face_loses_attention_and_a_tied_head(tied: bool, printed: int) -> None:
    facts = facts_of(config.read(_config(tie_word_embeddings=tied), "tiny"))
    assert 64 * named("hf-trainer").flops_per_token(facts, Tokens(sequence=64)) == printed


def test_a_mixture_of_experts_is_counted_by_what_a_token_uses() -> None:
    mixtral = {
        "model_type": "mixtral",
        "vocab_size": 32000,
        "hidden_size": 4096,
        "num_hidden_layers": 32,
        "num_attention_heads": 32,
        "num_key_value_heads": 8,
        "intermediate_size": 14336,
        "num_local_experts": 8,
        "num_experts_per_tok": 2,
    }
    facts = facts_of(config.read(mixtral, "mixtral"))
    # Case B43 leaves the 65 norms of 4096 out.
    assert facts.parameters - 65 * 4096 == 46_702_526_464
    assert facts.active_parameters - 65 * 4096 == 12_879_659_008
    assert facts.multiplied - 65 * 4096 == 12_748_587_008
    assert named("moe-total").weight_flops(facts) / named("palm").weight_flops(facts) == pytest.approx(
        3.626, abs=1e-3
    )
    assert named("moe-total").fault


def test_a_gated_mlp_has_three_matrices() -> None:
    # Case B44: 2 · 3 · h · ff FLOP per token and layer.
    one_pass = 2 * sum(m.weights for m in Mlp(width=14336).matrices(4096))
    assert one_pass == 2 * 3 * 4096 * 14336 == 352_321_536


def test_a_sliding_window_joins_fewer_pairs() -> None:
    # Case B46.
    assert attended_pairs(8192, 1024) == sum(min(i, 1024) for i in range(1, 8193)) == 7_864_832
    assert attended_pairs(8192) == 33_558_528


def test_packed_documents_attend_within_themselves() -> None:
    # Case B47: documents of 512, 512, 1024 and 2048 tokens in 4096.
    documents = (512, 512, 1024, 2048)
    assert sum(attended_pairs(s) for s in documents) == 2_885_632
    assert attended_pairs(4096) == 8_390_656
    packed = Tokens(sequence=4096, documents=documents)
    width = 3 * 64
    flops = named("needed").attention_flops(_gpt(), packed) * 4096
    assert flops == pytest.approx(12 * width * 2_885_632)
    squares = sum(s * s for s in documents)
    assert named("megatron").attention_flops(_gpt(), packed) * 4096 == pytest.approx(6 * width * squares)


@given(st.integers(1, 300), st.integers(1, 400))
def test_pairs_equal_a_count_one_by_one(length: int, window: int) -> None:
    assert attended_pairs(length, window) == sum(min(i, window) for i in range(1, length + 1))
    assert attended_pairs(length, window) <= attended_pairs(length) <= length * length


def test_a_chunked_window_is_a_block_and_not_a_slide() -> None:
    group = AttentionLayers(layers=1, heads=1, qk_head_dim=1, v_head_dim=1, window=4, chunked=True)
    facts = ModelFacts(parameters=1, attention=(group,))
    pairs = sum(i % 4 + 1 for i in range(10))
    assert named("needed").attention_flops(facts, Tokens(sequence=10)) * 10 == pytest.approx(12 * pairs)


def test_every_formula_is_what_it_says() -> None:
    n, table, positions, norms, s, width = 1_000_000, 100_000, 5_000, 1_000, 128, 3 * 64
    matmul = n - table - positions
    expected = {
        "needed": 6 * matmul + 12 * width * (s + 1) / 2,
        "palm": 6 * n + 12 * width * s,
        "llm-foundry": 6 * n + 12 * width * s,
        "nanogpt": 6 * (n - positions) + 12 * width * s,
        "matmul": 6 * matmul + 12 * width * s,
        "torchtitan": 6 * matmul + 12 * width * s,
        "window": 6 * matmul + 12 * width * s,
        "megatron": 6 * matmul + 6 * width * s,
        "kaplan": 6 * (matmul - table) + 6 * width * s,
        "6n": 6 * n,
        "hf-trainer": 6 * matmul,
        "kaplan-6n": 6 * (matmul - table),
        "instrumented": 6 * (matmul - norms) + 14 * width * s,
        "lingua": 6 * matmul + 7 * width * s,
        "forward": 2 * matmul + 4 * width * (s + 1) / 2,
        "2n": 2 * n,
    }
    tokens = Tokens(sequence=s)
    applying = {c.name: c.flops_per_token(_gpt(), tokens) for c in conventions() if c.fits(_gpt())}
    assert applying == pytest.approx(expected)


def test_lora_has_no_gradients_of_frozen_weights() -> None:
    facts = ModelFacts(parameters=1_000, adapters=10)
    assert named("lora").flops_per_token(facts, Tokens(sequence=1)) == 4 * 1_000 + 6 * 10
    assert named("needed").flops_per_token(facts, Tokens(sequence=1)) == 4 * 1_000 + 6 * 10
    assert [c.name for c in conventions() if c.fits(facts) and c.phase == "train" and not c.fault] == [
        "needed",
        "lora",
    ]


def test_recomputation_adds_what_runs_again() -> None:
    facts, tokens, width = _gpt(), Tokens(sequence=128), 3 * 64
    extra = {r.name: r.extra(named("palm"), facts, tokens) for r in recomputations()}
    assert extra == pytest.approx(
        {
            "none": 0,
            "selective": 4 * width * 128,
            "layers": 2 * (1_000_000 - 100_000) + 4 * width * 128,
            "full": 2 * 1_000_000 + 4 * width * 128,
        }
    )
    assert 1 + extra["full"] / named("palm").flops_per_token(facts, tokens) == pytest.approx(4 / 3)


def test_the_formula_of_narayanan_2021_is_the_matmul_convention() -> None:
    # 72·B·S·L·h²·(1 + S/6h + V/12Lh) without recomputation, 96·…·(1 + S/6h + V/16Lh) with (arXiv 2104.04473).
    layers, hidden, vocabulary, s = 96, 12288, 51200, 2048
    blocks = 12 * layers * hidden**2
    facts = ModelFacts(
        parameters=blocks + vocabulary * hidden,
        input_embedding=vocabulary * hidden,
        output_head=vocabulary * hidden,
        tied=True,
        attention=(AttentionLayers(layers=layers, heads=96, qk_head_dim=128, v_head_dim=128),),
    )
    convention, tokens = named("matmul"), Tokens(sequence=s)
    plain = 72 * layers * hidden**2 * (1 + s / (6 * hidden) + vocabulary / (12 * layers * hidden))
    again = 96 * layers * hidden**2 * (1 + s / (6 * hidden) + vocabulary / (16 * layers * hidden))
    flops = convention.flops_per_token(facts, tokens)
    extra = next(r for r in recomputations() if r.name == "layers").extra(convention, facts, tokens)
    assert flops == pytest.approx(plain)
    assert flops + extra == pytest.approx(again)


@given(st.integers(1, 4096), st.integers(1, 4096), st.integers(1, 8192))
def test_needed_work_is_never_above_what_others_count(sequence: int, window: int, shorter: int) -> None:
    group = AttentionLayers(layers=2, heads=2, qk_head_dim=8, v_head_dim=8, window=window)
    facts = ModelFacts(parameters=10_000, input_embedding=1_000, output_head=1_000, attention=(group,))
    tokens = Tokens(sequence=sequence)
    needed = named("needed").flops_per_token(facts, tokens)
    for name in ("palm", "matmul", "window"):
        assert needed <= named(name).flops_per_token(facts, tokens)
    cut = Tokens(sequence=min(sequence, shorter))
    assert named("needed").flops_per_token(facts, cut) <= needed


@pytest.mark.slow
@pytest.mark.parametrize("sequence", [32, 64])
def test_the_instrumented_convention_is_what_flop_counter_mode_counts(sequence: int) -> None:
    torch = pytest.importorskip("torch")
    from torch.utils.flop_counter import FlopCounterMode

    transformers = pytest.importorskip("transformers")
    made = transformers.LlamaConfig(**_config(), attn_implementation="eager")
    model = transformers.LlamaForCausalLM(made)
    tokens = torch.zeros(1, sequence, dtype=torch.long)
    with FlopCounterMode(display=False) as counter:
        model(tokens).logits.sum().backward()
    facts = facts_of(config.read(_config(), "tiny"))
    # Unfused attention: 2 backward products per forward one, so 12 for the 14 of a fused one.
    fused = named("instrumented").flops_per_token(facts, Tokens(sequence=sequence))
    width = 2 * 64
    assert counter.get_total_flops() == sequence * (fused - 2 * width * sequence)


@pytest.mark.slow
def test_the_backward_of_a_fused_attention_is_counted_as_two_and_a_half_forwards() -> None:
    counter = pytest.importorskip("torch.utils.flop_counter")
    shape = (1, 4, 32, 16)
    forward = counter.sdpa_flop_count(shape, shape, shape)
    assert forward == 4 * 4 * 16 * 32 * 32
    assert forward + counter.sdpa_backward_flop_count(shape, shape, shape, shape) == 14 * 4 * 16 * 32 * 32


def test_parameter_counts_are_those_of_instantiated_models() -> None:
    table = _CONFIGS / "PARAM_COUNTS.csv"
    if not table.exists():
        pytest.skip("the public configs are not here")
    checked = 0
    with table.open() as rows:
        for row in csv.DictReader(rows):
            architecture = config.load(str(_CONFIGS / f"{row['config']}.json"))
            if architecture.tower:
                continue
            facts = facts_of(architecture)
            assert facts.parameters == int(row["params"]), row["config"]
            assert facts.active_parameters == int(row["active_params"] or row["params"]), row["config"]
            checked += 1
    assert checked > 30


@pytest.mark.parametrize("phase", ["train", "prefill"])
def test_the_closed_form_and_the_plan_op_by_op_agree(phase: Literal["train", "prefill"]) -> None:
    if not _CONFIGS.exists():
        pytest.skip("the public configs are not here")
    s, machine, checked = 4096, machines.find("h100-sxm"), 0
    convention = named("needed" if phase == "train" else "forward")
    for path in sorted(_CONFIGS.glob("*.json")):
        architecture = config.load(str(path))
        if architecture.model_type in ("t5", "whisper"):
            continue
        facts = facts_of(architecture)
        planned = plan(architecture, machine, Workload(phase=phase, context=0, tokens=s, all_logits=True))
        by_op = sum(op.needed_flops for op in planned.records)
        # The conventions' N has norms and biases in it, which no matrix product multiplies.
        closed = convention.flops_per_token(facts, Tokens(sequence=s)) - 2 * convention.weight_passes * facts.vectors
        if any("recurrence" in note for note in facts.notes):
            assert closed * s < by_op, path.name
            continue
        assert closed * s == pytest.approx(by_op, rel=1e-12), path.name
        checked += 1
    assert checked > 30


def test_a_model_with_two_sequences_is_refused() -> None:
    path = _CONFIGS / "transformers-default__google-t5__t5-small(default).json"
    if not path.exists():
        pytest.skip("the public configs are not here")
    with pytest.raises(UsageError, match="second sequence"):
        facts_of(config.load(str(path)))


def test_a_score_is_per_device_whatever_the_parallelism(toy: Machine) -> None:
    facts, tokens = _gpt(), Tokens(sequence=128)
    one = score(facts, tokens_per_s=1000, num_devices=1, machine=toy, tokens=tokens, recompute="full")
    many = score(facts, tokens_per_s=64_000, num_devices=64, machine=toy, tokens=tokens, recompute="full")
    assert many == one
    needed = 6 * (1_000_000 - 105_000) + 12 * 3 * 64 * 129 / 2
    assert one.mfu_fraction == pytest.approx(needed * 1000 / 1e12)
    assert one.hfu_fraction == pytest.approx(one.mfu_fraction * 4 / 3)
    assert one.mbu_fraction is None


def test_a_score_reads_bytes_where_they_are_known(toy: Machine) -> None:
    scored = score(
        _gpt(),
        tokens_per_s=1000,
        num_devices=1,
        machine=toy,
        tokens=Tokens(sequence=8),
        phase="forward",
        bytes_per_token=2e6,
    )
    assert scored.mbu_fraction == pytest.approx(2e6 * 1000 / 100e9)
    assert [r.convention for r in scored.rows] == ["forward", "2n"]


def test_a_score_of_nothing_is_refused(toy: Machine) -> None:
    with pytest.raises(UsageError, match="no throughput"):
        score(_gpt(), tokens_per_s=0, num_devices=1, machine=toy, tokens=Tokens(sequence=8))
    with pytest.raises(UsageError, match="sequence length"):
        score(_gpt(), tokens_per_s=1, num_devices=1, machine=toy, tokens=Tokens())
    with pytest.raises(UsageError, match="unknown recomputation"):
        score(_gpt(), tokens_per_s=1, num_devices=1, machine=toy, tokens=Tokens(sequence=8), recompute="some")


def test_an_unknown_convention_is_an_error_with_the_known_ones() -> None:
    with pytest.raises(UsageError, match="no MFU convention") as raised:
        named("mfu")
    assert "palm" in raised.value.hint


def test_a_decode_step_reads_the_head_and_not_the_input_table() -> None:
    llama = ModelFacts(
        parameters=8_030_261_248,
        input_embedding=525_336_576,
        output_head=525_336_576,
        kv_bytes_per_token=131_072,
    )
    # Case B57: 16.06 GB resident, 15.01 GB read; the napkin of the plan: 15.01 GB and 1024 tokens in 4.52 ms on H100.
    assert token_bytes(llama, basis="resident").total == 2 * 8_030_261_248
    step = token_bytes(llama, context=1024)
    assert step.weights == 2 * (8_030_261_248 - 525_336_576)
    assert step.total / machines.find("h100-sxm").dram.value == pytest.approx(4.52e-3, rel=1e-3)


def test_a_tied_table_is_read_as_the_head() -> None:
    tied = ModelFacts(parameters=1_000, input_embedding=400, output_head=400, tied=True)
    assert token_bytes(tied).total == token_bytes(tied, basis="resident").total == 2_000


def test_a_head_kept_whole_is_not_shared_by_tensor_parallel_ranks() -> None:
    facts = ModelFacts(parameters=1_000, input_embedding=100, output_head=100)
    assert token_bytes(facts, devices=4).total == 2 * 900 / 4
    assert token_bytes(facts, devices=4, whole_head=True).total == 2 * (800 / 4 + 100)


def test_the_experts_of_a_batch_are_not_guessed() -> None:
    sparse = ModelFacts(parameters=1_000, active=400)
    assert token_bytes(sparse).total == 800
    with pytest.raises(UsageError, match="experts"):
        token_bytes(sparse, batch=2)


def test_the_document_of_conventions_is_up_to_date() -> None:
    document = (_ROOT / "docs/mfu.md").read_text("utf-8")
    assert updated(document) == document, "run: python -m roofline.plan.conventions.markdown docs/mfu.md"


def test_every_convention_says_where_it_is_from() -> None:
    names = [c.name for c in conventions()]
    assert len(set(names)) == len(names)
    assert all(c.formula and c.source and c.used_by for c in conventions())
