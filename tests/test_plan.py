"""Plans against hand counts, published figures and their own limits."""

import json

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from roofline import machines
from roofline.core.machine import Ceiling
from roofline.core.precision import Precision
from roofline.core.run import decode
from roofline.errors import MachineError, UsageError
from roofline.formulas.attention import attention_flops, attention_pairs
from roofline.plan.config import load, napkin, read
from roofline.plan.mixers import attention
from roofline.plan.parts import Attention, Mlp
from roofline.plan.planner import plan, run_of, vary
from roofline.plan.questions import critical, limits, under_slo
from roofline.plan.setting import Flow, setting
from roofline.plan.speculate import Draft
from roofline.plan.sweep import frontier, grid, read_sweep
from roofline.plan.weights import find_format, weight_bytes
from roofline.plan.workload import Parallel, Workload

H100 = machines.find("h100-sxm")
LLAMA = load("llama-3-8b")
NETWORKED = msgspec.structs.replace(H100, bandwidth={**H100.bandwidth, "network": Ceiling(50e9, "given")})


def floor(model=LLAMA, machine=H100, parallel=None, **load):
    return plan(model, machine, Workload(**load), parallel).answers()


def records(planned, name):
    return [op for op in planned.records if op.name == name]


def test_llama_3_8b_floor_is_its_weights_and_cache_over_the_bandwidth():
    # 15.010 GB read (16.061 resident less the input table, of which one row is read) + 1024 · 131,072 B, 3.35 TB/s.
    found = floor(batch=1, context=1024)
    weights = 2 * (8_030_261_248 - 128_256 * 4096 + 4096)
    assert found.weights_read_bytes == weights
    assert found.kv_read_bytes == 1025 * 131_072
    assert found.step_s == pytest.approx((weights + 1025 * 131_072) / 3.35e12, rel=1e-5)
    assert f"{found.step_s:.5f}" == "0.00452"


def test_napkin_of_70_billion_parameters():
    found = floor(napkin(70e9), context=0)
    assert found.weights_read_bytes == 140e9
    assert found.step_s == pytest.approx(140e9 / 3.35e12)
    assert found.tokens_per_s == pytest.approx(23.93, abs=0.005)
    assert napkin(70e9).params() == 70_000_000_000
    assert napkin(1_234_567_891).params() == 1_234_567_891


def test_llama_3_8b_at_batch_64_and_context_4096_reads_more_cache_than_weights():
    # B53: 15.01 GB of weights + 34.36 GB of cache: at least 14.7 ms.
    found = floor(batch=64, context=4096)
    assert found.kv_read_bytes == pytest.approx(34.36e9, rel=1e-3)
    assert found.step_s >= 14.7e-3


def test_gated_mlp_has_three_matrices():
    # B44: 2 · 3 · 4096 · 14336 FLOP per token and layer.
    flops = sum(2 * m.weights for m in Mlp(width=14336).matrices(4096))
    assert flops == 2 * 3 * 4096 * 14336 == 352_321_536


def test_embedding_is_not_a_matmul_and_a_tied_head_is():
    # B41: V 1000, h 64, L 2, 2 key heads, T 64: forward 19,202,048 + 1,048,576 (all pairs), tied or not.
    sizes = {"hidden_size": 64, "intermediate_size": 256, "num_hidden_layers": 2, "num_attention_heads": 4}
    more = {"num_key_value_heads": 2, "vocab_size": 1000, "model_type": "llama"}
    for is_tied in (True, False):
        model = read({**sizes, **more, "tie_word_embeddings": is_tied}, "tiny")
        load = Workload(phase="train", tokens=64, dense=True, optimizer=False, precision=Precision.FP32)
        planned = plan(model, H100, msgspec.structs.replace(load, keep_scores=True))
        per_layer = 64 * 64 * 2 + 64 * 32 * 2 + 3 * 64 * 256
        weights = 2 * 64 * (2 * per_layer + 64 * 1000)
        scores = 2 * 4 * 64 * 64 * 64
        assert sum(op.executed_flops for op in planned.records) == 3 * (weights + scores)


def test_sliding_window_and_packing_count_the_pairs_that_meet():
    # B46: Σ min(i, 1024) for 8192 queries; B47: documents of 512, 512, 1024 and 2048, causal.
    assert attention_pairs(8192, 8192, True, (1023, None)) == 7_864_832
    assert sum(attention_pairs(n, n, True) for n in (512, 512, 1024, 2048)) == 2_885_632


def test_a_sliding_window_bounds_what_decode_reads():
    part = Attention(heads=32, kv_heads=8, head_dim=128, window=1024)
    how = setting(LLAMA, Workload(), Parallel())
    op = attention(part, "x", Flow(1, 1, 8192), how)
    assert op.matrix == 4 * 32 * 128 * 1024
    assert op.state_bytes == (1023 + 1) * 2 * 8 * 128 * 2


def test_decode_attention_counts_query_heads_whatever_the_key_heads():
    # B61: 4 · S · Hq · D with 1024 keys.
    part = Attention(heads=64, kv_heads=8, head_dim=64)
    op = attention(part, "x", Flow(1, 1, 1023), setting(LLAMA, Workload(), Parallel()))
    assert op.matrix == attention_flops(1, 64, 1024, 64) == 16_777_216


def test_batch_1_decode_of_a_mixture_reads_its_active_weights():
    # B55: two of eight experts, router, attention, head; not all 46.7 billion, and one row of the input table.
    model = load("mixtral-8x7b")
    table = 32_000 * 4096
    assert floor(model).weights_read_bytes == 2 * (model.active_params() - table + 4096)


@pytest.mark.parametrize(
    ("name", "bits"),
    [
        ("bf16", 16),
        ("int4-g128", 4 + 20 / 128),
        ("int4-g32-sym", 4.5),
        ("q4_k", 8 * 144 / 256),
        ("q8_0", 8.5),
        ("mxfp4", 4.25),
        ("nvfp4", 4.5),
    ],
)
def test_bits_per_weight_include_scales(name, bits):
    # B56.
    assert find_format(name).bits == bits


def test_7_25_billion_weights_in_groups_of_32_are_4_078_gb():
    # B56.
    assert weight_bytes(7.25e9, find_format("int4-g32-sym")) == pytest.approx(4.078e9, rel=1e-4)


def test_quantised_checkpoints_are_read_at_their_own_bits_not_their_dtype():
    model = load("gpt-oss-20b")
    how = setting(model, Workload(), Parallel())
    assert how.storage.of("experts").name == "mxfp4"
    assert how.storage.of("attention").name == "bf16"
    # The published checkpoint weighs 12.8 GiB.
    assert plan(model, H100).memory().weights_bytes == pytest.approx(12.8 * 2**30, rel=0.01)


def test_resident_weights_of_llama_3_8b_are_16_06_gb():
    # B57.
    assert plan(LLAMA, H100).memory().weights_bytes == pytest.approx(16.06e9, rel=1e-4)


def test_pipeline_stages_and_context_ranks_each_count_their_own_share():
    # B62: the ranks' FLOP add up to the model's, so a ratio is per device.
    load = Workload(phase="prefill", batch=4, tokens=4096, context=0)
    whole = plan(LLAMA, H100, load).answers().flops_needed
    halves = plan(LLAMA, H100, load, Parallel(cp=2)).answers()
    assert halves.flops_needed == pytest.approx(whole / 2, rel=1e-3)
    staged = plan(LLAMA, H100, load, Parallel(pp=2)).answers()
    assert staged.flops_needed == pytest.approx(whole / 2, rel=1e-3)
    assert staged.mfu_fraction <= 1
    split = plan(LLAMA, H100, load, Parallel(tp=4)).answers()
    assert split.flops_needed == pytest.approx(whole / 4, rel=1e-3)


def test_gradient_accumulation_does_not_change_the_work_of_a_step():
    # B49: tokens of the whole step count, however many micro-batches carry them.
    once = plan(LLAMA, H100, Workload(phase="train", batch=40, tokens=512))
    many = plan(LLAMA, H100, Workload(phase="train", batch=40, tokens=512, microbatches=40))
    assert many.answers().flops_needed == once.answers().flops_needed
    assert many.answers().tokens == once.answers().tokens == 40 * 512


def test_tensor_parallelism_reduces_twice_per_layer_by_the_ring():
    planned = plan(LLAMA, H100, Workload(batch=8), Parallel(tp=4))
    reduced = records(planned, "all_reduce")
    assert sum(op.calls for op in reduced) == 2 * 32
    assert sum(op.node_bytes for op in reduced) == 2 * 32 * 2 * (3 / 4) * 8 * 4096 * 2
    assert sum(op.network_bytes for op in planned.records) == 0


def test_a_group_larger_than_a_node_pays_the_network():
    load = Workload(phase="train", batch=16, tokens=512)
    planned = plan(LLAMA, NETWORKED, load, Parallel(dp=16))
    (gradients,) = records(planned, "all_reduce")
    assert gradients.network_bytes == 2 * (15 / 16) * 2 * 8_030_261_248
    assert gradients.node_bytes == 0
    with pytest.raises(MachineError, match="no network bandwidth"):
        plan(LLAMA, H100, load, Parallel(dp=16))


def test_zero_3_splits_weights_gradients_and_optimizer_state():
    load = Workload(phase="train", batch=8, tokens=512)
    params = 8_030_261_248
    room = plan(LLAMA, H100, load, Parallel(dp=8, zero=3)).memory()
    assert room.weights_bytes == pytest.approx(2 * params / 8)
    assert room.gradients_bytes == pytest.approx(2 * params / 8)
    assert room.optimizer_bytes == pytest.approx(12 * params / 8)
    plain = plan(LLAMA, H100, load, Parallel(dp=8)).memory()
    assert plain.optimizer_bytes == 12 * params
    assert plain.fits is False


def test_recomputation_is_executed_and_not_needed():
    load = Workload(phase="train", batch=1, tokens=512)
    plain = run_of(plan(LLAMA, H100, load)).flops
    again = run_of(plan(LLAMA, H100, msgspec.structs.replace(load, recompute="full"))).flops
    head = 2 * 512 * 4096 * 128_256
    forward = sum(op.executed_flops for op in plan(LLAMA, H100, load).records if op.phase == "forward")
    assert again.needed == plain.needed
    assert again.executed - plain.executed == forward - head


def test_pipeline_bubble_is_stages_less_one_over_micro_batches():
    load = Workload(phase="train", batch=16, tokens=512, optimizer=False, microbatches=16)
    found = plan(LLAMA, H100, load, Parallel(pp=4)).answers()
    assert found.bubble_s == pytest.approx(found.step_s * 3 / (16 + 3), rel=1e-6)


def test_chunked_prefill_reads_the_weights_once_per_chunk():
    once = plan(LLAMA, H100, Workload(phase="prefill", tokens=4096, context=0))
    chunked = vary(once, chunk=512)
    layers = [op for op in once.ops if op.module.startswith("layers.") and op.kind == "linear"]
    parts = [op for op in chunked.ops if op.module.startswith("layers.") and op.kind == "linear"]
    assert sum(op.weight_bytes for op in parts) == 8 * sum(op.weight_bytes for op in layers)
    assert chunked.answers().flops_needed == once.answers().flops_needed
    # The i-th chunk of 512 reads the cache of the 512·i tokens before it, and writes its own.
    assert chunked.answers().kv_read_bytes == (sum(512 * i for i in range(8)) + 4096) * 131_072


def test_absorbed_latent_attention_reads_latents_and_expanded_rebuilds_keys():
    model = load("deepseek-v3")
    absorbed = plan(model, H100, Workload(context=4096, latent="absorbed"))
    (op,) = records(absorbed, "attention")
    assert op.executed_flops == 61 * 2 * 128 * 4097 * (512 + 64 + 512)
    assert absorbed.answers().kv_read_bytes == 4097 * 70_272
    expanded = plan(model, H100, Workload(context=4096, latent="expanded"))
    up = next(op for op in expanded.records if op.module.endswith("kv_b_proj"))
    assert up.executed_flops == 61 * 2 * 4097 * 512 * 128 * (128 + 128)


def test_speculation_yields_the_geometric_sum_of_accepted_tokens():
    # (1 − α^(γ+1)) / (1 − α), Leviathan et al. 2023.
    draft = Draft(model=load("llama-3.2-1b"), tokens=4, acceptance=0.8)
    assert draft.accepted == pytest.approx((1 - 0.8**5) / (1 - 0.8))
    planned = plan(LLAMA, H100, Workload(), draft=draft)
    small = plan(load("llama-3.2-1b"), H100).answers()
    verify = plan(LLAMA, H100, Workload(tokens=5)).answers()
    assert planned.answers().step_s == pytest.approx(4 * small.step_s + verify.step_s)
    with pytest.raises(UsageError, match="no layers for multi-token"):
        plan(LLAMA, H100, Workload(), draft=Draft(model=None, tokens=1, acceptance=0.8))
    assert plan(load("deepseek-v3"), H100, draft=Draft(model=None, tokens=1, acceptance=0.8)).answers().tokens == 1.8


def test_critical_batch_is_the_ridge_for_16_bit_weights():
    found = critical(plan(LLAMA, H100, Workload(context=0)))
    assert found.weight_tokens == pytest.approx(989.5e12 / 3.35e12)
    assert found.expert_tokens is None
    mixture = critical(plan(load("mixtral-8x7b"), H100))
    assert mixture.expert_tokens == pytest.approx(4 * 989.5e12 / 3.35e12)


def test_largest_batch_and_context_fit_and_one_more_does_not():
    planned = plan(LLAMA, H100, Workload(batch=4, context=4096))
    most = limits(planned)
    assert vary(planned, batch=most.batch).memory().fits
    assert not vary(planned, batch=most.batch + 1).memory().fits
    assert vary(planned, context=most.context).memory().fits
    assert not vary(planned, context=most.context + 1).memory().fits


def test_largest_batch_under_a_limit_keeps_it_and_one_more_does_not(toy):
    model = napkin(1e8)
    planned = plan(model, toy, Workload(context=0))
    # 0.2 GB over 100 GB/s is 2 ms; n sequences need 2e8 · n FLOP at 1 TFLOP/s: 10 ms at 50.
    assert under_slo(planned, 10.0e-3 + 1e-9).batch == 50
    assert under_slo(planned, 1e-3).batch == 0


def test_frontier_keeps_what_no_other_point_beats():
    points = list(grid(LLAMA, [H100], [("batch", [1, 8, 64]), ("tp", [1, 3])]))
    assert [p.values["batch"] for p in frontier(points)] == [1, 8, 64]
    assert all("does not divide" in p.why for p in points if p.values["tp"] == 3)


@pytest.mark.parametrize(
    ("text", "values"),
    [
        ("batch=1:16", [1, 2, 4, 8, 16]),
        ("batch=1:6", [1, 2, 4, 6]),
        ("batch=2:8:3", [2, 5, 8]),
        ("context=1k,2k", [1024, 2048]),
    ],
)
def test_a_sweep_doubles_steps_or_lists(text, values):
    assert read_sweep(text)[1] == values


@pytest.mark.parametrize(
    "text", ["batch", "batch=", "batch=a:b", "batch=8:1", "heads=1:2", "batch=0:4", "batch=1:9:0"]
)
def test_a_sweep_that_is_none_is_refused(text):
    with pytest.raises(UsageError):
        read_sweep(text)


sizes = st.integers(1, 256)


@settings(max_examples=40, deadline=None)
@given(sizes, st.integers(0, 8192), st.sampled_from(["llama-3-8b", "mixtral-8x7b", "deepseek-v3", "nemotron-h-56b"]))
def test_no_step_gets_faster_with_batch_or_context(batch, context, name):
    model = load(name)
    here = floor(model, batch=batch, context=context).step_s
    assert floor(model, batch=batch + 1, context=context).step_s >= here
    assert floor(model, batch=batch, context=context + 1).step_s >= here


@settings(max_examples=40, deadline=None)
@given(sizes, st.floats(1.01, 4), st.sampled_from(["decode", "prefill", "train"]))
def test_no_step_gets_slower_with_bandwidth(batch, factor, phase):
    faster = msgspec.structs.replace(
        H100, bandwidth={**H100.bandwidth, "dram": Ceiling(H100.dram.value * factor, "given")}
    )
    load = {"phase": phase, "batch": batch, "context": 0, "tokens": 8}
    assert floor(machine=faster, **load).step_s <= floor(**load).step_s


@settings(max_examples=40, deadline=None)
@given(sizes, st.sampled_from([1, 2, 4, 8]), st.sampled_from(["decode", "prefill", "train"]))
def test_no_plan_is_below_its_own_roof(batch, tp, phase):
    planned = plan(LLAMA, H100, Workload(phase=phase, batch=batch, context=64, tokens=8), Parallel(tp=tp))
    found, roofs = planned.answers(), sum(planned.roofs())
    assert found.step_exposed_s == pytest.approx(roofs)
    assert found.step_s <= found.step_exposed_s * (1 + 1e-12)
    assert found.mfu_fraction <= found.hfu_fraction + 1e-12 <= 1 + 1e-9
    assert found.mbu_fraction <= 1 + 1e-9
    expected = planned.expectation()
    if expected is not None:
        assert roofs * (1 - 1e-12) <= expected.low_s <= expected.likely_s <= expected.high_s


def test_a_plan_is_a_run_like_any_other(tmp_path):
    run = run_of(plan(LLAMA, H100))
    assert run.kind == "planned"
    again = decode(run.to_json(), "memory")
    assert again == run
    assert run.verdict.bound == "memory"
    assert run.flops.needed == sum(op.needed_flops for op in run.ops)
    assert json.loads(run.to_json())["bytes"]["compulsory"] == pytest.approx(15.144e9, rel=1e-4)


@pytest.mark.parametrize(
    ("load", "parallel", "says"),
    [
        ({"batch": 0}, {}, "--batch is 0"),
        ({"batch": -3}, {}, "--batch is -3"),
        ({"context": -1}, {}, "--context is -1"),
        ({"weights": "int3"}, {}, "no known format"),
        ({}, {"tp": 3}, "--tp 3 does not divide the 32 attention heads"),
        ({}, {"pp": 64}, "--pp 64 is more than the 32 layers"),
        ({"batch": 3}, {"dp": 2}, "does not divide over --dp 2"),
        ({}, {"ep": 3}, "--ep 3 does not divide"),
        ({"phase": "prefill", "tokens": 5, "context": 0}, {"cp": 2}, "do not divide over --cp 2"),
    ],
)
def test_sizes_that_make_no_sense_are_one_clear_line(load, parallel, says):
    with pytest.raises(UsageError, match=says):
        plan(LLAMA, H100, Workload(**load), Parallel(**parallel))


@pytest.mark.parametrize(
    ("config", "says"),
    [
        ({"model_type": "retnet", "hidden_size": 64}, 'model_type "retnet" is not known'),
        ({"hidden_size": 64}, "without model_type"),
        ({"model_type": "llama", "hidden_size": 64}, "has no num_hidden_layers"),
        ({"model_type": "llama", "hidden_size": -5}, "hidden_size is -5"),
        ({"model_type": "llama", "hidden_size": 1e30}, "hidden_size is 1e"),
        ({"model_type": "llama", "hidden_size": "wide"}, "expected a whole number"),
        ({"model_type": "gemma3", "text_config": 7}, "can't read the config"),
    ],
)
def test_a_config_that_can_not_be_read_says_what_is_missing(config, says):
    with pytest.raises(UsageError, match=says):
        read(config, "x")


def test_an_unknown_family_can_be_read_as_a_known_one_and_the_plan_says_so():
    config = {"model_type": "newllama", "hidden_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4}
    model = read({**config, "intermediate_size": 96, "vocab_size": 100}, "x", like="llama")
    assert "read as llama" in model.notes[0]
    assert any("read as llama" in w for w in run_of(plan(model, H100)).warnings)


def test_an_encoder_does_not_decode():
    with pytest.raises(UsageError, match="does not generate"):
        plan(load("bert-base"), H100)


def test_an_encoder_decoder_makes_cross_keys_once_per_sequence():
    model = load("whisper-tiny")
    prompt = plan(model, H100, Workload(phase="prefill", tokens=4, context=0))
    step = plan(model, H100, Workload(context=4))
    made = [op for op in prompt.records if op.module.endswith("cross_attn.kv_proj")]
    assert made[0].executed_flops == 4 * 2 * 1500 * 384 * 768
    assert not [op for op in step.records if op.module.endswith("cross_attn.kv_proj")]
    (cross,) = [op for op in step.ops if op.name == "attention" and "cross" in op.module]
    assert cross.state_bytes == 4 * 1500 * 2 * 384 * 2


def test_flux_has_its_published_parameters_and_joint_attention():
    model = load("flux.1-dev")
    assert model.params() == 11_901_408_320
    planned = plan(model, H100, Workload(phase="prefill", tokens=4096, context=0))
    joint = records(planned, "attention")
    assert sum(op.calls for op in joint) == 19 + 38
    assert sum(op.executed_flops for op in joint) == (19 + 38) * 4 * 24 * 128 * (4096 + 512) ** 2
    # Products with weights: 2 · tokens · weights; modulation, time and guidance see one row per image.
    double, single = 12 * 3072**2, (3072 * 7 + 3072 * 5) * 3072
    layers = 2 * 4608 * (19 * double + 38 * single)
    ends = 2 * (4096 * 64 * 3072 + 512 * 4096 * 3072 + 4096 * 3072 * 64)
    modulation = 2 * 3072 * 3072 * (19 * 12 + 38 * 3 + 2 + 3)
    embedders = 2 * 3072 * (256 + 256 + 768)
    linear = sum(op.executed_flops for op in records(planned, "linear"))
    assert linear == layers + ends + modulation + embedders


def test_images_pass_the_tower_before_the_decoder_reads_them():
    model = load("qwen3-vl-8b")
    blind = plan(model, H100, Workload(phase="prefill", tokens=1024, context=0))
    sees = vary(blind, images=2)
    tower = [op for op in sees.records if op.module.startswith(("visual", "image"))]
    assert not [op for op in blind.records if op.module.startswith(("visual", "image"))]
    assert sum(op.executed_flops for op in tower) == sees.answers().flops_needed - blind.answers().flops_needed
    (embed,) = [op for op in tower if op.module.endswith("patch_embed")]
    assert embed.executed_flops == 2 * (2 * 2304) * (3 * 2 * 16 * 16) * 1152


def test_hybrid_models_cache_only_what_their_attention_layers_need():
    # Nemotron-H 56B: 10 of 118 layers are attention, 2 · 8 · 128 · 2 B each; states don't grow with the context.
    model = load("nemotron-h-56b")
    assert 2 * model.kv_elements_per_token() == 10 * 2 * 8 * 128 * 2 == 40_960
    short, long = (plan(model, H100, Workload(context=n)).memory().kv_bytes for n in (1000, 2000))
    assert long - short == 1000 * 40_960
    assert short > 1001 * 40_960


def test_expert_parallelism_spreads_whole_experts_and_sends_tokens():
    model = load("qwen3-30b-a3b")
    load_of = Workload(batch=64, context=256)
    alone = plan(model, H100, load_of)
    spread = plan(model, H100, load_of, Parallel(dp=8, ep=8))
    sent = [op for op in spread.records if op.name == "all_to_all"]
    # 8 sequences per rank, 8 of 128 experts each, 7/8 of them elsewhere, 2048 wide in 2 B, there and back, 48 layers.
    assert sum(op.node_bytes for op in sent) == 2 * 48 * (7 / 8) * 8 * 8 * 2048 * 2
    mine = sum(op.executed_flops for op in spread.records if ".experts." in op.module)
    assert mine == pytest.approx(sum(op.executed_flops for op in alone.records if ".experts." in op.module) / 8)
    assert spread.memory().weights_bytes < alone.memory().weights_bytes / 3
