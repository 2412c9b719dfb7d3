"""A transformers model counted on fake tensors is the program that runs: causal by flag, without a written mask."""

import pytest
import torch

import roofline

transformers = pytest.importorskip("transformers")

LAYERS, HEADS, DEPTH, TOKENS = 2, 4, 16, 32


def llama() -> torch.nn.Module:
    config = transformers.LlamaConfig(
        hidden_size=HEADS * DEPTH,
        intermediate_size=96,
        num_hidden_layers=LAYERS,
        num_attention_heads=HEADS,
        num_key_value_heads=2,
        vocab_size=100,
        use_cache=False,
    )
    return transformers.LlamaForCausalLM._from_config(config, dtype=torch.float32).eval()


def masked_flops(pairs_left_out: int) -> int:
    return 4 * LAYERS * HEADS * DEPTH * pairs_left_out


def test_one_sequence_needs_half_of_its_attention_on_fake_tensors_and_for_real() -> None:
    model, ids = llama(), torch.randint(0, 100, (1, TOKENS))
    fake = roofline.count(model, keywords={"input_ids": ids})
    # `.item()` forces the count over a real run.
    real = roofline.count(lambda: model(input_ids=ids).logits.sum().item())
    assert not fake.warnings and any("one real run" in w for w in real.warnings)
    left_out = TOKENS * TOKENS - TOKENS * (TOKENS + 1) // 2
    assert fake.flops.executed - fake.flops.needed == masked_flops(left_out)
    assert real.flops.needed == fake.flops.needed


def test_packed_positions_of_the_caller_still_get_their_mask() -> None:
    model, ids = llama(), torch.randint(0, 100, (1, TOKENS))
    packed = torch.cat([torch.arange(TOKENS // 2), torch.arange(TOKENS // 2)])[None]
    run = roofline.count(model, keywords={"input_ids": ids, "position_ids": packed})
    # A dense mask says nothing of what it hides: all of the square counts as needed.
    assert run.flops.needed == run.flops.executed
