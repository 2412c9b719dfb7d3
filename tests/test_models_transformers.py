"""Models of transformers from small configs: no unknown op, hand counts, B23, B41; a large one in little memory."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("transformers")

from transformers import CONFIG_MAPPING

from roofline.core.run import Run
from roofline.pipeline import count_target
from roofline.targets import Options, find

CONFIGS = Path(__file__).parents[1] / "../shared/data/configs"
BATCH, TOKENS = 2, 16

# Applied wherever a config has the name; one vocabulary of sizes for all.
SMALL: dict[str, Any] = {
    **dict.fromkeys(["hidden_size", "n_embd", "d_model", "dim", "embedding_size", "lru_width", "emb_dim"], 64),
    **dict.fromkeys(["word_embed_proj_dim", "attention_hidden_size", "embed_dim"], 64),
    **dict.fromkeys(["intermediate_size", "n_inner", "d_ff", "ffn_dim", "hidden_dim", "ffn_hidden_size"], 128),
    **dict.fromkeys(["encoder_ffn_dim", "decoder_ffn_dim"], 128),
    **dict.fromkeys(["num_hidden_layers", "n_layer", "n_layers", "num_layers", "num_decoder_layers"], 2),
    **dict.fromkeys(["encoder_layers", "decoder_layers", "num_key_value_heads", "num_experts_per_tok"], 2),
    **dict.fromkeys(["num_attention_heads", "n_head", "n_heads", "num_heads"], 4),
    **dict.fromkeys(["encoder_attention_heads", "decoder_attention_heads"], 4),
    **dict.fromkeys(["num_experts", "num_local_experts", "n_routed_experts"], 4),
    **dict.fromkeys(["moe_intermediate_size", "shared_expert_intermediate_size", "q_lora_rank", "image_size"], 32),
    **dict.fromkeys(["head_dim", "d_kv", "kv_lora_rank", "qk_nope_head_dim", "v_head_dim", "state_size"], 16),
    **dict.fromkeys(["hidden_size_per_layer_input", "mamba_d_state"], 16),
    **dict.fromkeys(["qk_rope_head_dim", "rotary_dim", "patch_size"], 8),
    **dict.fromkeys(["max_position_embeddings", "n_positions", "n_ctx"], 128),
    **dict.fromkeys(["vocab_size", "vocab_size_per_layer_input"], 256),
    **dict.fromkeys(["first_k_dense_replace", "n_group", "topk_group", "bos_token_id"], 1),
    **dict.fromkeys(["layerdrop", "encoder_layerdrop", "decoder_layerdrop", "mask_time_prob"], 0.0),
    **dict.fromkeys(["max_length", "max_source_positions"], 64),
    "pad_token_id": 0,
    "eos_token_id": 2,
    "apply_spec_augment": False,
}

# model_type → what differs from SMALL. The first few run in the quick suite, all in the slow one.
QUICK: dict[str, dict[str, Any]] = {"llama": {}, "mixtral": {}, "bert": {}, "t5": {}, "vit": {}, "whisper": {}}
PLAIN_SIZES = """
gpt2 gpt_neox gptj opt bloom mpt persimmon stablelm starcoder2 cohere granite nemotron
gemma gemma2 gemma3_text phi phi3 olmo olmo2 qwen2 qwen3 mistral glm smollm3 helium
qwen2_moe qwen3_moe olmoe granitemoe phimoe gpt_oss jamba mamba recurrent_gemma rwkv
roberta albert distilbert electra xlm-roberta deberta-v2 modernbert ernie mpnet
bart mbart pegasus m2m_100 longt5 switch_transformers blenderbot mt5
beit deit dinov2 wav2vec2 hubert data2vec-audio audio-spectrogram-transformer
"""
ARCHITECTURES: dict[str, dict[str, Any]] = {
    **QUICK,
    **{kind: {} for kind in PLAIN_SIZES.split()},
    "deepseek_v2": {"head_dim": 8, "num_key_value_heads": 4},
    "deepseek_v3": {"head_dim": 8, "num_key_value_heads": 4},
    "mamba2": {"num_heads": 8, "n_groups": 1},
    "segformer": {"num_attention_heads": [1, 2, 4, 4]},
    "resnet": {"hidden_sizes": [16, 32], "depths": [1, 1], "embedding_size": 16},
    "regnet": {"hidden_sizes": [16, 32, 32, 32], "depths": [1, 1, 1, 1], "embedding_size": 16, "groups_width": 8},
}


def config_file(folder: Path, kind: str, **overrides: Any) -> Path:
    config_class = CONFIG_MAPPING[kind]
    known = config_class()
    sizes = {k: v for k, v in SMALL.items() if hasattr(known, k)} | overrides
    file = folder / f"{kind}.json"
    file.write_text(json.dumps(config_class(**sizes).to_dict() | {"architectures": None}, default=str))
    return file


def counted(file: Path, *, train: bool, batch: int = BATCH, tokens: int = TOKENS) -> Run:
    run = count_target(find(f"transformers:{file}"), Options(batch=batch, tokens=tokens, train=train), None)
    assert run.coverage.unknown_ops == (), file
    assert run.warnings == (), file
    return run


def check(folder: Path, kind: str) -> None:
    """Both ways run without unknown ops, and a training step holds a forward and about two more backward."""
    file = config_file(folder, kind, **ARCHITECTURES[kind])
    inference, training = counted(file, train=False), counted(file, train=True)
    forward = sum(o.executed_flops for o in training.ops if o.phase == "forward")
    assert inference.flops.executed > 0
    assert 2.0 < training.flops.executed / forward < 3.2, kind


@pytest.mark.parametrize("kind", QUICK)
def test_a_transformer_counts_forward_and_training(tmp_path: Path, kind: str) -> None:
    check(tmp_path, kind)


@pytest.mark.slow
def test_sixty_architectures_count_forward_and_training(tmp_path: Path) -> None:
    assert len(ARCHITECTURES) >= 60
    for kind in ARCHITECTURES.keys() - QUICK.keys():
        check(tmp_path, kind)


def matmuls(run: Run) -> float:
    """Matrix work without the rotary tables, which transformers makes by a matmul of frequencies and positions."""
    return sum(o.executed_flops for o in run.ops if "rotary" not in o.module)


T = BATCH * TOKENS


def attention(width: int, *, sequence: int = TOKENS) -> int:
    """Q Kᵀ and scores V of all heads together, every pair."""
    return 2 * 2 * BATCH * sequence * sequence * width


# Per family: projections by their matrices, attention over pairs, and the head, for H 64, FF 128, V 256, 2 layers.
GATED = 2 * (2 * T * (64 * 64 + 2 * 64 * 32 + 64 * 64 + 3 * 64 * 128) + attention(64)) + 2 * T * 64 * 256
PLAIN = 2 * (2 * T * (4 * 64 * 64 + 2 * 64 * 128) + attention(64)) + 2 * T * 64 * 256
EXPERTS = 2 * (2 * T * (64 * 64 + 2 * 64 * 32 + 64 * 64) + attention(64) + 2 * T * 64 * 4 + 2 * 2 * T * 3 * 64 * 128)
BY_HAND = {
    "llama": GATED,
    "qwen3": GATED,
    "olmo2": GATED,
    "gpt2": PLAIN,
    "gpt_neox": PLAIN,
    "opt": PLAIN,
    # BERT's head has a dense layer before the vocabulary.
    "bert": PLAIN + 2 * T * 64 * 64,
    # Two of four gated experts for each token, and the router.
    "mixtral": EXPERTS + 2 * T * 64 * 256,
}


@pytest.mark.parametrize("kind", BY_HAND)
def test_a_forward_pass_counts_what_its_matrices_say(tmp_path: Path, kind: str) -> None:
    overrides = {"head_dim": 16} if kind in ("qwen3", "mixtral") else {}
    assert matmuls(counted(config_file(tmp_path, kind, **overrides), train=False)) == BY_HAND[kind]


TINY = {"vocab_size": 1000, "hidden_size": 64, "intermediate_size": 160, "num_hidden_layers": 2}
HEADS = {"num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 16}


def test_mixtral_counts_the_experts_that_run(tmp_path: Path) -> None:
    # Case B23: V1000 H64 FF160 L2, 8 experts of which 2 run, B2 S32.
    experts = {"num_local_experts": 8, "num_experts": 8, "num_experts_per_tok": 2}
    run = counted(config_file(tmp_path, "mixtral", **TINY, **HEADS, **experts), train=False, batch=2, tokens=32)
    tokens, layers = 2 * 32, 2
    in_experts = sum(o.executed_flops for o in run.ops if "grouped_mm" in o.name)
    assert in_experts == layers * 2 * tokens * 2 * 3 * 64 * 160 == 15_728_640
    assert matmuls(run) == 28_246_016


@pytest.mark.parametrize("tied", [True, False])
def test_an_embedding_is_no_matmul_and_a_tied_head_is_one(tmp_path: Path, tied: bool) -> None:
    # Case B41: V1000 H64 FF160 L2 kv2, 64 tokens in 2 sequences, forward and backward: 3 × (19,202,048 + 1,048,576).
    # The case takes backward as twice forward; a fused attention kernel also computes Q Kᵀ again, half a forward.
    run = counted(config_file(tmp_path, "llama", **TINY, **HEADS, tie_word_embeddings=tied), train=True, tokens=32)
    matrices = 2 * 64 * (2 * (2 * 64 * 64 + 2 * 64 * 32 + 3 * 64 * 160) + 64 * 1000)
    pairs = 2 * attention(64, sequence=32)
    assert (matrices, pairs) == (19_202_048, 1_048_576)
    assert matmuls(run) == 3 * (matrices + pairs) + pairs / 2 == 60_751_872 + pairs / 2
    assert all(o.executed_flops == 0 for o in run.ops if "embedding" in o.name)


# The peak is read from /proc: ru_maxrss takes along what the parent held when it forked.
MEASURE = """
import pathlib, re, sys
from roofline.pipeline import count_target
from roofline.targets import Options, find
run = count_target(find("transformers:" + sys.argv[1]), Options(batch=1, tokens=2048, train=True), None)
peak = re.search(r"VmHWM:\\s+(\\d+) kB", pathlib.Path("/proc/self/status").read_text())
print(run.flops.executed, int(peak[1]) * 1024)
"""


@pytest.mark.slow
def test_a_training_step_of_llama_3_8b_is_counted_in_little_memory() -> None:
    config = CONFIGS / "meta-llama__Meta-Llama-3.1-8B.json"
    if not config.exists() or not Path("/proc/self/status").exists():
        pytest.skip("needs the public configs, and /proc")
    command = [sys.executable, "-W", "ignore", "-c", MEASURE, str(config)]
    flops, memory = map(float, subprocess.run(command, capture_output=True, check=True, text=True).stdout.split())
    # 8.03e9 parameters less the input embedding's 128,256 · 4096 and 65 norms; attention 4 · T² · 4096 in each of
    # 32 layers, 3.5 times, as the fused kernel computes Q Kᵀ again in backward.
    matrices = 6 * 2048 * (8_030_261_248 - 128_256 * 4096 - 65 * 4096)
    pairs = 3.5 * 32 * 4 * 2048**2 * 4096
    assert flops == pytest.approx(matrices + pairs, rel=1e-4)
    assert memory < 3e9
