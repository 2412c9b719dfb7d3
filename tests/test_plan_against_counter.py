"""Plans against the instrumented count of the same model as transformers builds it: matrix FLOP must be equal."""

import inspect
from typing import Any

import pytest

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")

import roofline  # noqa: E402
from roofline.core.precision import Precision  # noqa: E402
from roofline.plan.config import read  # noqa: E402
from roofline.plan.phases import step_ops  # noqa: E402
from roofline.plan.setting import setting  # noqa: E402
from roofline.plan.workload import Parallel, Workload  # noqa: E402

BATCH, TOKENS = 2, 24
# torch dispatches a linear layer in one of these ways; a scan uses others.
PRODUCTS = ("aten.linear", "aten.mm", "aten.addmm")
BASE = {
    "hidden_size": 64,
    "num_hidden_layers": 3,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "intermediate_size": 96,
    "vocab_size": 128,
    "max_position_embeddings": 256,
    "pad_token_id": 0,
}
OLD = {k: BASE[k] for k in ("hidden_size", "num_hidden_layers", "num_attention_heads", "vocab_size")}
MOE = {**BASE, "num_experts": 4, "num_local_experts": 4, "num_experts_per_tok": 2, "moe_intermediate_size": 48}
ROUTED = {
    **{k: v for k, v in MOE.items() if k not in ("num_experts", "num_local_experts")},
    "n_routed_experts": 4,
    "n_shared_experts": 1,
    "first_k_dense_replace": 1,
    "n_group": 1,
    "topk_group": 1,
}
LATENT = {
    "num_key_value_heads": 4,
    "kv_lora_rank": 16,
    "qk_nope_head_dim": 16,
    "qk_rope_head_dim": 8,
    "v_head_dim": 16,
}
GPT2 = {"n_embd": 64, "n_layer": 3, "n_head": 4, "vocab_size": 128, "n_positions": 64}
NO_DROPOUT = {"attn_pdrop": 0.0, "resid_pdrop": 0.0, "embd_pdrop": 0.0}
MODELS: dict[str, dict[str, Any]] = {
    "llama": BASE,
    "qwen2": BASE,
    "qwen3": {**BASE, "head_dim": 32},
    "gemma2": {**BASE, "head_dim": 32, "sliding_window": 8},
    "gemma3_text": {**BASE, "head_dim": 32, "sliding_window": 8},
    "phi3": BASE,
    "olmo2": BASE,
    "starcoder2": BASE,
    "gpt2": {**GPT2, **NO_DROPOUT},
    "gptj": {**GPT2, **NO_DROPOUT, "rotary_dim": 8},
    "falcon": OLD,
    "bloom": {"hidden_size": 64, "n_layer": 3, "n_head": 4, "vocab_size": 128},
    "mixtral": MOE,
    "qwen3_moe": {**MOE, "head_dim": 32},
    "qwen2_moe": {**MOE, "shared_expert_intermediate_size": 40},
    "gpt_oss": {**MOE, "head_dim": 32, "sliding_window": 8},
    "glm4_moe": {**ROUTED, "head_dim": 16},
    "deepseek_v2": {**ROUTED, **LATENT, "q_lora_rank": None},
    "deepseek_v3": {**ROUTED, **LATENT, "q_lora_rank": 24},
}
# Attention that is written out keeps its scores for backward: so do models without fused kernels, and those whose
# keys and values differ in depth.
UNFUSED = {"gemma2", "gpt_oss", "bloom", "deepseek_v2", "deepseek_v3"}
QUICK = {"llama", "gemma3_text", "mixtral", "deepseek_v3"}
KINDS = [k if k in QUICK else pytest.param(k, marks=pytest.mark.slow) for k in MODELS]


def built(kind, **more):
    config = transformers.CONFIG_MAPPING[kind](**MODELS[kind], **more)
    return transformers.AutoModelForCausalLM.from_config(config), read(config.to_dict(), kind)


def planned(model, **load):
    workload = Workload(batch=BATCH, precision=Precision.FP32, latent="expanded", dense=True, **load)
    ops = step_ops(model, setting(model, workload, Parallel()))
    return sum(op.matrix for op in ops)


def tokens(length):
    return torch.ones(BATCH, length, dtype=torch.long)


@pytest.mark.parametrize("kind", KINDS)
def test_a_forward_pass_has_the_flop_that_the_counter_sees(kind):
    module, model = built(kind)
    counted = roofline.count(module.eval(), keywords={"input_ids": tokens(TOKENS), "use_cache": False})
    assert planned(model, phase="prefill", tokens=TOKENS, context=0, all_logits=True) == counted.flops.executed


@pytest.mark.parametrize("kind", KINDS)
def test_a_training_step_has_the_flop_that_the_counter_sees(kind):
    module, model = built(kind)
    batch = {"input_ids": tokens(TOKENS), "labels": tokens(TOKENS), "use_cache": False}
    counted = roofline.count(module.train(), keywords=batch, train=True)
    kept = kind in UNFUSED
    assert planned(model, phase="train", tokens=TOKENS, optimizer=False, keep_scores=kept) == counted.flops.executed


@pytest.mark.filterwarnings("ignore:The .grad attribute of a Tensor:UserWarning")
@pytest.mark.parametrize("kind", KINDS)
def test_a_decode_step_with_cache_has_the_flop_that_the_counter_sees(kind):
    module, model = built(kind)
    module.eval()
    names = ("cache", "past_key_values")
    takes = next(n for n in names if n in inspect.signature(module.forward).parameters)
    with torch.no_grad():
        out = module(input_ids=tokens(TOKENS), use_cache=True)
    cache = next(out[n] for n in names if n in out)
    counted = roofline.count(lambda: module(input_ids=tokens(1), use_cache=True, **{takes: cache}))
    assert planned(model, phase="decode", context=TOKENS) == counted.flops.executed


@pytest.mark.parametrize("kind", KINDS)
def test_a_tiny_variant_has_the_parameters_of_the_instantiated_model(kind):
    module, model = built(kind)
    assert model.params() == sum(p.numel() for p in module.parameters())


def test_whisper_and_t5_have_the_parameters_of_both_stacks():
    for kind, cls in (("whisper", "WhisperForConditionalGeneration"), ("t5", "T5ForConditionalGeneration")):
        config = transformers.CONFIG_MAPPING[kind]()
        with torch.device("meta"):
            module = getattr(transformers, cls)(config)
        assert read(config.to_dict(), kind).params() == sum(p.numel() for p in module.parameters())


def test_projections_of_mamba_2_have_the_flop_that_the_counter_sees():
    # Its scan and convolution differ by kernel; the plan calls them estimates.
    sizes = {"num_heads": 8, "head_dim": 16, "n_groups": 2, "state_size": 16, "chunk_size": 8}
    config = transformers.CONFIG_MAPPING["mamba2"](hidden_size=64, num_hidden_layers=2, vocab_size=128, **sizes)
    module = transformers.AutoModelForCausalLM.from_config(config).eval()
    counted = roofline.count(module, keywords={"input_ids": tokens(TOKENS), "use_cache": False})
    model = read(config.to_dict(), "mamba2")
    load = Workload(phase="prefill", batch=BATCH, tokens=TOKENS, context=0, all_logits=True, precision=Precision.FP32)
    ops = step_ops(model, setting(model, load, Parallel()))
    weights = sum(op.matrix for op in ops if op.name == "linear")
    assert weights == sum(op.executed_flops for op in counted.ops if op.name in PRODUCTS)


def test_llama_4_is_counted_alike_but_for_experts_that_transformers_runs_in_vain():
    sizes = {**BASE, "head_dim": 16, "num_local_experts": 4, "num_experts_per_tok": 1, "intermediate_size_mlp": 80}
    config = transformers.CONFIG_MAPPING["llama4_text"](**sizes, interleave_moe_layer_step=2, attention_chunk_size=64)
    module = transformers.AutoModelForCausalLM.from_config(config).eval()
    counted = roofline.count(module, keywords={"input_ids": tokens(TOKENS), "use_cache": False})
    model = read(config.to_dict(), "llama4")
    executed = planned(model, phase="prefill", tokens=TOKENS, context=0, all_logits=True)
    # One layer of three has experts; all four see every token, one is needed: 3 · B · S · 3 matrices · 2 · h · ff.
    assert counted.flops.executed - executed == 3 * BATCH * TOKENS * 3 * 2 * 64 * 96


def test_a_vision_transformer_has_the_flop_that_the_counter_sees():
    sizes = {"hidden_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 96}
    config = transformers.CONFIG_MAPPING["vit"](**sizes, image_size=32, patch_size=8, num_labels=10)
    module = transformers.ViTForImageClassification(config).eval()
    counted = roofline.count(module, keywords={"pixel_values": torch.zeros(BATCH, 3, 32, 32)})
    model = read(config.to_dict(), "vit")
    assert model.params() == sum(p.numel() for p in module.parameters())
    assert planned(model, phase="prefill", tokens=1, context=0) == counted.flops.executed
