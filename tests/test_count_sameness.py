"""One number on every device, in every mode, by every fast path."""

import pytest
import torch
from torch import nn

import roofline


def attention() -> nn.MultiheadAttention:
    return nn.MultiheadAttention(32, 4, batch_first=True)


ATTENTION = 327_680  # 8·B·S·D² + 4·B·S²·D with B 2, S 16, D 32: projections and attention


@pytest.mark.parametrize("training", [True, False], ids=["train", "eval"])
@pytest.mark.parametrize("fast_path", [True, False], ids=["fast", "slow"])
@pytest.mark.parametrize("device", ["cpu", "meta"])
def test_multi_head_attention_counts_the_same_everywhere(training: bool, fast_path: bool, device: str) -> None:
    module = attention().to(device).train(training)
    x = torch.randn(2, 16, 32, device=device)
    before = torch.backends.mha.get_fastpath_enabled()
    torch.backends.mha.set_fastpath_enabled(fast_path)
    try:
        counts = [roofline.count(module, x, x, x).flops.executed]
        with torch.no_grad():
            counts.append(roofline.count(lambda: module(x, x, x)).flops.executed)
        counts.append(roofline.count(lambda: module(x, x, x, need_weights=False)).flops.executed)
    finally:
        torch.backends.mha.set_fastpath_enabled(before)
    assert counts == [ATTENTION] * 3


@pytest.mark.parametrize("device", ["cpu", "meta"])
@pytest.mark.parametrize("training", [True, False], ids=["train", "eval"])
def test_an_encoder_layer_counts_the_same_in_and_out_of_its_fast_path(device: str, training: bool) -> None:
    # Case B15: projections 262,144 + attention 65,536 + feed-forward 262,144.
    layer = nn.TransformerEncoderLayer(32, 4, 64, batch_first=True).to(device).train(training)
    x = torch.randn(2, 16, 32, device=device)
    assert roofline.count(layer, x).flops.executed == 589_824


@pytest.mark.parametrize("device", ["cpu", "meta"])
def test_an_lstm_counts_the_same_everywhere(device: str) -> None:
    # Case B14: 2 · T10 · B3 · 4·16 gates · (8 inputs + 16 hidden).
    lstm = nn.LSTM(8, 16).to(device)
    x = torch.randn(10, 3, 8, device=device)
    expected = 2 * 10 * 3 * 64 * 24
    assert roofline.count(lstm, x).flops.executed == expected
    assert roofline.count(lambda: lstm(x)).flops.executed == expected


@pytest.mark.parametrize("device", ["cpu", "meta"])
@pytest.mark.parametrize("causal", [True, False])
def test_attention_needs_and_executes_the_same_on_every_device(device: str, causal: bool) -> None:
    # Cases B01 and B02.
    q = torch.randn(2, 4, 16, 64, device=device)
    run = roofline.count(lambda: nn.functional.scaled_dot_product_attention(q, q, q, is_causal=causal))
    pairs = 16 * 17 // 2 if causal else 16 * 16
    assert run.flops.executed == 4 * 2 * 4 * 16 * 16 * 64
    assert run.flops.needed == 4 * 2 * 4 * pairs * 64


def test_a_matrix_vector_product_is_not_free() -> None:
    # Case B18.
    w, x = torch.randn(4096, 4096), torch.randn(4096)
    assert roofline.count(lambda: w @ x).flops.executed == 2 * 4096**2


def test_inference_mode_counts_a_linear_on_three_dimensions() -> None:
    # Case B16.
    assert roofline.count(nn.Linear(16, 32, bias=False), torch.randn(2, 4, 16)).flops.executed == 2 * 8 * 16 * 32


def test_an_unknown_op_is_named_and_its_share_of_bytes_given() -> None:
    # Case B17.
    @torch.library.custom_op("roofline_test::product", mutates_args=())
    def product(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        return a @ b

    @product.register_fake
    def _(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        return a.new_empty(a.shape[0], b.shape[1])

    a, b = torch.randn(4, 5), torch.randn(5, 6)
    run = roofline.count(lambda: product(a, b))
    (unknown,) = run.coverage.unknown_ops
    assert (unknown.name, unknown.calls, unknown.bytes_fraction) == ("roofline_test.product", 1, 1.0)
    assert run.coverage.counted_fraction < 1

    roofline.register_formula(product, lambda a, b, *, out: roofline.Cost(matrix=2 * a.numel * b.shape[1]))
    run = roofline.count(lambda: product(a, b))
    assert run.flops.executed == 2 * 4 * 5 * 6
    assert not run.coverage.unknown_ops
