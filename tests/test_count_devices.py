"""One number for a module on CPU, meta and CUDA tensors, with and without fast paths, eager and in inference mode."""

from collections.abc import Callable
from contextlib import nullcontext
from typing import Any

import pytest
import torch
from torch import nn

import roofline

B, S, D, H = 2, 16, 32, 4
F = nn.functional
Made = tuple[Callable[..., Any], tuple[torch.Tensor, ...]]


def tokens(device: str) -> torch.Tensor:
    return torch.empty(B, S, D, device=device)


def heads(device: str, count: int = H) -> torch.Tensor:
    return torch.empty(B, count, S, D // H, device=device)


def sdpa(device: str) -> Made:
    return F.scaled_dot_product_attention, (heads(device),) * 3


def sdpa_causal(device: str) -> Made:
    return lambda q: F.scaled_dot_product_attention(q, q, q, is_causal=True), (heads(device),)


def sdpa_grouped(device: str) -> Made:
    kv = heads(device, 2)
    return lambda q: F.scaled_dot_product_attention(q, kv, kv, enable_gqa=True), (heads(device),)


def sdpa_masked(device: str) -> Made:
    mask = torch.empty(S, S, device=device)
    return lambda q: F.scaled_dot_product_attention(q, q, q, attn_mask=mask), (heads(device),)


def mha(device: str) -> Made:
    return nn.MultiheadAttention(D, H, batch_first=True, device=device).eval(), (tokens(device),) * 3


def encoder(device: str) -> Made:
    return nn.TransformerEncoderLayer(D, H, 64, batch_first=True, device=device).eval(), (tokens(device),)


def lstm(device: str) -> Made:
    return nn.LSTM(D, 24, batch_first=True, device=device), (tokens(device),)


def lstm_projected(device: str) -> Made:
    return nn.LSTM(D, 24, proj_size=8, batch_first=True, bidirectional=True, device=device), (tokens(device),)


def gru(device: str) -> Made:
    return nn.GRU(D, 24, 2, batch_first=True, device=device), (tokens(device),)


def conv_grouped(device: str) -> Made:
    return nn.Conv2d(16, 32, 3, padding=1, groups=4, device=device), (torch.empty(2, 16, 8, 8, device=device),)


def conv_transposed(device: str) -> Made:
    return nn.ConvTranspose2d(16, 8, 3, device=device), (torch.empty(2, 16, 8, 8, device=device),)


def linear(device: str) -> Made:
    return nn.Linear(D, 48, device=device), (tokens(device),)


def experts(device: str) -> Made:
    ends = torch.tensor([8, 16, 24, 32], dtype=torch.int32, device=device)
    weights = torch.empty(4, D, 24, dtype=torch.bfloat16, device=device)
    return lambda x: F.grouped_mm(x, weights, offs=ends), (
        torch.empty(B * S, D, dtype=torch.bfloat16, device=device),
    )


PAIRS = 2 * 2 * B * S * S * D
CASES: list[tuple[Callable[[str], Made], int]] = [
    (sdpa, PAIRS),
    (sdpa_causal, PAIRS),
    (sdpa_grouped, PAIRS),
    (sdpa_masked, PAIRS),
    (mha, 2 * B * S * 4 * D * D + PAIRS),
    (encoder, 2 * B * S * 4 * D * D + PAIRS + 2 * B * S * 2 * D * 64),
    (lstm, 2 * B * S * 4 * 24 * (D + 24)),
    (lstm_projected, 2 * (2 * B * S * 4 * 24 * (D + 8) + 2 * B * S * 24 * 8)),
    (gru, 2 * B * S * 3 * 24 * (D + 24) + 2 * B * S * 3 * 24 * (24 + 24)),
    (conv_grouped, 2 * 2 * 8 * 8 * 32 * (16 // 4) * 9),
    (conv_transposed, 2 * 2 * 8 * 8 * 16 * 8 * 9),
    (linear, 2 * B * S * D * 48),
    (experts, 2 * B * S * D * 24),
]


@pytest.mark.parametrize("device", ["cpu", "meta", "cuda"])
@pytest.mark.parametrize(("make", "flops"), CASES, ids=[make.__name__ for make, _ in CASES])
def test_a_module_counts_the_same_on_every_device_in_every_mode(
    make: Callable[[str], Made], flops: int, device: str
) -> None:
    class Once(nn.Module):
        """One call, so that each has a total of its own."""

        def __init__(self, run: Callable[..., Any]) -> None:
            super().__init__()
            self.run = run

        def forward(self, *inputs: torch.Tensor) -> object:
            return self.run(*inputs)

    if device == "cuda" and make in (lstm, lstm_projected, gru) and not torch.cuda.is_available():
        pytest.skip("torch's constructor of an RNN asks the CUDA driver")

    def step() -> None:
        # Made inside the step: a CUDA tensor exists there without a GPU, as a fake one.
        run, inputs = make(device)
        for fast in (True, False):
            for mode in (nullcontext, torch.no_grad, torch.inference_mode):
                torch.backends.mha.set_fastpath_enabled(fast)
                with mode():
                    Once(run)(*inputs)

    before = torch.backends.mha.get_fastpath_enabled()
    try:
        counted = roofline.count(step)
    finally:
        torch.backends.mha.set_fastpath_enabled(before)
    assert not counted.coverage.unknown_ops
    totals = [m.executed_flops for m in counted.modules if m.kind == "Once"]
    assert totals == [flops] * 6


def test_padding_changes_what_an_encoder_layer_needs_to_run_only_where_it_is_taken_out() -> None:
    # With a padding mask the fast path may pack the sequences; on the plain path padded tokens are computed.
    layer = nn.TransformerEncoderLayer(D, H, 64, batch_first=True).eval()
    x, padding = torch.randn(B, S, D), torch.zeros(B, S, dtype=torch.bool)
    padding[:, S // 2 :] = True
    full = 2 * B * S * 4 * D * D + PAIRS + 2 * B * S * 2 * D * 64
    assert roofline.count(layer, x, keywords={"src_key_padding_mask": padding}).flops.executed == full


@pytest.mark.filterwarnings("ignore::UserWarning", "ignore::DeprecationWarning")
def test_a_dynamically_quantised_linear_counts_integer_operations_of_its_shape() -> None:
    # Case B22.
    model = torch.ao.quantization.quantize_dynamic(nn.Sequential(nn.Linear(64, 48)), {nn.Linear})
    run = roofline.count(model, torch.randn(8, 64))
    assert run.flops.executed == 2 * 8 * 64 * 48
    assert {str(p): n for p, n in run.flops.by_precision.items()} == {"int8": 49_152}


def test_a_composite_op_and_the_ops_it_consists_of_count_the_same_work_and_bytes() -> None:
    # Inference mode hands composites over whole, where they have a rule of their own.
    x, w, b = torch.randn(2, 16, 8, 8), torch.randn(32, 16, 3, 3), torch.randn(32)
    rows, square, bias = torch.randn(2, 5, 16), torch.randn(24, 16), torch.randn(24)
    batch, shared = torch.randn(3, 1, 4, 16), torch.randn(5, 16, 6)
    for step in (
        lambda: F.linear(rows, square, bias),
        lambda: F.conv2d(x, w, b, padding=1),
        lambda: torch.matmul(rows, square.T),
        lambda: torch.matmul(batch, shared),
        lambda: torch.einsum("bij,kj->bik", rows, square),
        lambda: F.softmax(rows, -1),
        lambda: F.layer_norm(rows, (16,)),
    ):
        whole, parts = (roofline.count(in_mode(mode, step)) for mode in (torch.inference_mode, nullcontext))
        assert whole.flops == parts.flops
        assert whole.bytes.operator == parts.bytes.operator


def in_mode(mode: Callable[[], Any], step: Callable[[], object]) -> Callable[[], object]:
    def run() -> object:
        with mode():
            return step()

    return run
