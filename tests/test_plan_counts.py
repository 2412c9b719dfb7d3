"""Parameters, active parameters and KV bytes against what instantiated models have, and the catalogue."""

import csv
import json
from pathlib import Path

import pytest

from roofline.plan import catalogue
from roofline.plan.config import load, read
from roofline.plan.parts import Experts

CONFIGS = Path(__file__).parents[1] / "../shared/data/configs"
COUNTS = CONFIGS / "PARAM_COUNTS.csv"
ROWS = list(csv.DictReader(COUNTS.read_text("utf-8").splitlines())) if COUNTS.exists() else []

needs_configs = pytest.mark.skipif(not ROWS, reason="the public configs are not here")


def config(name):
    return json.loads((CONFIGS / f"{name}.json").read_text("utf-8"))


@needs_configs
@pytest.mark.parametrize("row", ROWS, ids=[r["config"] for r in ROWS])
def test_parameters_and_cache_are_those_of_the_instantiated_model(row):
    model = read(config(row["config"]), row["config"])
    # The class of that row is the decoder alone.
    tower = model.tower.params() if row["class"] == "WhisperForCausalLM" else 0
    assert model.params() - tower == int(row["params"])
    assert model.tied == (row["tied"] == "True")
    if row["active_params"]:
        assert model.active_params() == int(row["active_params"])
    if row["kv_bytes_per_token_bf16"]:
        assert 2 * model.kv_elements_per_token() == int(row["kv_bytes_per_token_bf16"])


@pytest.mark.parametrize("key", catalogue.names())
def test_sizes_of_the_catalogue_give_the_published_parameters(key):
    entry = catalogue.entry(key)
    published = entry.params
    computed = read(entry.config, key).params()
    if published.isdigit():
        assert computed == int(published)
    else:
        scale = {"M": 1e6, "B": 1e9, "T": 1e12}[published[-1]]
        assert computed == pytest.approx(float(published[:-1]) * scale, rel=0.02)


def test_every_model_of_the_catalogue_names_its_source_and_date():
    for key in catalogue.names():
        entry = catalogue.entry(key)
        assert entry.hub.count("/") == 1, key
        assert entry.hub in entry.source, key
        assert entry.read_on.startswith("20"), key


def test_a_model_is_found_by_key_alias_and_hub_id_in_any_case():
    for name in ("llama-3.1-8b", "Llama-3.1-8B", "meta-llama/Llama-3.1-8B", "meta-llama/Meta-Llama-3.1-8B"):
        assert catalogue.find(name).key == "llama-3.1-8b"
    assert catalogue.find("llama-3.1") is None


def test_qwen3_4b_has_heads_wider_than_its_hidden_size_over_heads():
    # B42: h 2560, 32 heads of 128 (not 80): 2560·4096·2 + 2560·1024·2 = 26,214,400 per layer; KV 147,456 B/token.
    model = load("qwen3-4b")
    attention = model.stack.layers[0].parts[0]
    assert sum(m.weights for m in attention.matrices(2560)) == 26_214_400
    assert 2 * model.kv_elements_per_token() == 147_456


def test_mixtral_counts_two_of_eight_experts_as_active():
    # B43 without its 65 norms of 4096: 46,702,526,464 in all; 12,879,659,008 active; less the input embedding
    # 12,748,587,008.
    model = load("mixtral-8x7b")
    norms = 65 * 4096
    assert model.params() - norms == 46_702_526_464
    assert model.active_params() - norms == 12_879_659_008
    assert model.active_params() - norms - model.embedding_params == 12_748_587_008


def test_deepseek_v3_caches_one_latent_vector_per_token_and_layer():
    # B51: 61 layers · (512 + 64) · 2 B.
    assert 2 * load("deepseek-v3").kv_elements_per_token() == 61 * (512 + 64) * 2 == 70_272


def test_llama_3_8b_caches_its_eight_key_heads():
    # B53: 2 · 32 layers · 8 heads · 128 · 2 B.
    assert 2 * load("llama-3-8b").kv_elements_per_token() == 2 * 32 * 8 * 128 * 2 == 131_072


def test_a_batch_touches_a_share_of_the_experts():
    # B54: N(1 − (1 − k/N)^B): Mixtral with 3 tokens 4.625 of 8; 128 experts, top 8, 16 tokens 82.4.
    assert Experts(count=8, top=2, width=1).distinct(3) == pytest.approx(4.625)
    assert Experts(count=128, top=8, width=1).distinct(16) == pytest.approx(82.4, abs=0.05)
    assert Experts(count=8, top=2, width=1).distinct(1) == pytest.approx(2)
