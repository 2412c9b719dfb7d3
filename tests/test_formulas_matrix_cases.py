"""Cases from the field: the right number, and the one that torch's counter gives."""

import warnings

import pytest
import torch
import torch.nn.functional as F  # noqa: N812
from torch import nn
from torch._subclasses import FakeTensorMode
from torch.nn.attention.flex_attention import flex_attention

from matrix_dispatch import count, torch_count
from roofline.core.precision import Precision
from roofline.formulas.attention import attention_flops, attention_pairs
from roofline.formulas.attention_raw import flex
from roofline.formulas.spec import TensorSpec

aten = torch.ops.aten


def both(step, right, torch_says):
    """We count `right`; torch's counter gives `torch_says`, or is right one day."""
    assert count(step).executed == right
    assert torch_count(step) in (torch_says, right)


def test_b01_attention_on_cpu():
    q = torch.randn(2, 4, 16, 8)
    right = 4 * 2 * 4 * 16**2 * 8
    both(lambda: F.scaled_dot_product_attention(q, q, q), right, 0)
    assert right == 65_536


def test_b01_attention_is_one_number_on_every_backend():
    right = 4 * 2 * 4 * 16**2 * 8
    for device, dtype in (("cpu", torch.float32), ("meta", torch.float32), ("cuda", torch.bfloat16)):
        with FakeTensorMode():
            q = torch.empty(2, 4, 16, 8, device=device, dtype=dtype)
            assert count(lambda: F.scaled_dot_product_attention(q, q, q)).executed == right  # noqa: B023
            with torch.inference_mode():
                q = q.clone()
                assert count(lambda: F.scaled_dot_product_attention(q, q, q)).executed == right  # noqa: B023


def test_b02_causal_attention_needs_half_of_what_the_dense_convention_counts():
    needed, executed = 4 * 2 * 4 * (16 * 17 // 2) * 64, 4 * 2 * 4 * 16**2 * 64
    assert (needed, executed) == (278_528, 524_288)
    with FakeTensorMode():
        q = torch.empty(2, 4, 16, 64, device="cuda", dtype=torch.bfloat16)
        causal = (0.0, True)
        on_gpu = count(lambda: aten._scaled_dot_product_flash_attention(q, q, q, *causal))
    on_cpu = count(lambda: F.scaled_dot_product_attention(*[torch.ones(2, 4, 16, 64)] * 3, is_causal=True))
    for ours in (on_gpu, on_cpu):
        assert (ours.needed, ours.executed) == (needed, executed)


def test_causal_backward_needs_twice_the_forward_and_executes_two_and_a_half_times():
    q = torch.randn(2, 4, 16, 8, requires_grad=True)
    forward = count(lambda: F.scaled_dot_product_attention(q, q, q, is_causal=True))
    training = count(lambda: F.scaled_dot_product_attention(q, q, q, is_causal=True).sum().backward())
    assert training.executed == 3.5 * forward.executed == 3.5 * 65_536
    assert training.needed == 3 * forward.needed == 3 * 4 * 2 * 4 * (16 * 17 // 2) * 8


def test_b05_raw_flash_has_the_sequence_before_the_heads():
    q = torch.empty(2, 1024, 16, 64, device="meta", dtype=torch.bfloat16)
    both(
        lambda: aten._flash_attention_forward(q, q, q, None, None, 1024, 1024, 0.0, False, False),
        4 * 2 * 16 * 1024**2 * 64,
        134_217_728,
    )


def test_b07_shared_key_heads_count_the_heads_of_the_queries():
    q = torch.empty(1, 8, 16, 64, device="meta", dtype=torch.bfloat16)
    kv = torch.empty(1, 2, 16, 64, device="meta", dtype=torch.bfloat16)
    right = 4 * 8 * 16**2 * 64
    assert right == 524_288
    both(lambda: aten._scaled_dot_product_efficient_attention(q, kv, kv, None, False), right, right)
    raw_q, raw_kv = q.transpose(1, 2), kv.transpose(1, 2)
    rest = (None, None, 16, 16, 0.0, False, False)
    both(lambda: aten._flash_attention_forward(raw_q, raw_kv, raw_kv, *rest), right, right // 128)


def varlen(values):
    tokens, offsets = TensorSpec((3072, 16, 64), "bfloat16"), TensorSpec((4,), "int32", values=values)
    from roofline.formulas.registry import find_rule

    rule = find_rule("aten._flash_attention_forward")
    return rule(tokens, tokens, tokens, offsets, offsets, 2048, 2048, 0.0, True, False, out=None)


def test_b09_sequences_of_known_lengths_count_their_own_squares():
    cost = varlen((0, 512, 1024, 3072))
    assert cost.matrix == 4 * 16 * 64 * (2 * 512**2 + 2048**2) == 19_327_352_832
    assert cost.needed == 4 * 16 * 64 * (2 * (512 * 513 // 2) + 2048 * 2049 // 2)
    assert cost.formula == "exact"


def test_b09_unknown_lengths_are_bounded_from_above_and_called_an_estimate():
    """Torch counts 51,539,607,552: three sequences as long as the longest."""
    cost = varlen(None)
    assert cost.formula == "estimate"
    assert 19_327_352_832 <= cost.matrix == 4 * 16 * 64 * (2048**2 + 1024**2) < 51_539_607_552


def test_b11_flex_attention():
    """Full (1, 2, 128, 16) is 2,097,152; what a mask keeps inside its blocks only the mask's function knows."""
    q = TensorSpec((1, 2, 128, 16))
    live = torch.randn(1, 2, 128, 16)
    assert quietly(lambda: count(lambda: flex_attention(live, live, live))).executed == 4 * 2 * 128**2 * 16
    none = (128, 128, TensorSpec((1, 1, 1), "int32"), None, None, None, 2**30, 2**30, None)
    cost = flex(q, q, q, None, none, out=None)
    assert (cost.matrix, cost.formula) == (4 * 2 * 128**2 * 16, "exact")
    assert attention_flops(1, 2, attention_pairs(128, 128, causal=True), 16) == 1_056_768

    counts = TensorSpec((1, 1, 4), "int32", values=(0, 0, 0, 0)), TensorSpec((1, 1, 4), "int32", values=(1, 2, 3, 4))
    causal_blocks = (128, 128, counts[0], None, counts[1], None, None, None, None, None, True, 32, 32, None)
    kept = flex(q, q, q, None, causal_blocks, out=None)
    assert (kept.matrix, kept.formula) == (4 * 2 * (1 + 2 + 3 + 4) * 32**2 * 16, "estimate")
    unknown = (128, 128, TensorSpec((1, 1, 4), "int32"), None, None, None, None, None, 32, 32, None)
    assert flex(q, q, q, None, unknown, out=None).matrix == cost.matrix


@pytest.mark.parametrize("mode", [torch.enable_grad, torch.no_grad, torch.inference_mode])
@pytest.mark.parametrize("device", ["cpu", "meta"])
def test_b14_an_lstm_is_one_number_in_every_mode(mode, device):
    model, x = nn.LSTM(8, 16).to(device), torch.empty(10, 3, 8, device=device)
    right = 2 * 10 * 3 * 64 * 24
    assert right == 92_160
    with mode():
        assert count(lambda: model(x)).executed == right
        assert torch_count(lambda: model(x)) in (0, right)


def test_lstm_training_is_three_times_the_forward():
    model, x = nn.LSTM(8, 16, 2, bidirectional=True), torch.randn(10, 3, 8, requires_grad=True)
    forward = 2 * 10 * 3 * (2 * 64 * (8 + 16) + 2 * 64 * (32 + 16))
    assert count(lambda: model(x)).executed == forward
    assert count(lambda: model(x)[0].sum().backward()).executed == 3 * forward


@pytest.mark.parametrize(("cls", "gates"), [(nn.LSTM, 4), (nn.GRU, 3), (nn.RNN, 1)])
@pytest.mark.parametrize("mode", [torch.enable_grad, torch.inference_mode])
def test_packed_sequences_count_the_steps_that_they_have(cls, gates, mode):
    model = cls(8, 16)
    packed = nn.utils.rnn.pack_padded_sequence(torch.randn(10, 3, 8), [10, 5, 2])
    with mode():
        rows_by_step = 2 * (10 + 5 + 2) * gates * 16 * (8 + 16)
        assert count(lambda: model(packed)).executed == rows_by_step


@pytest.mark.parametrize("need_weights", [True, False])
@pytest.mark.parametrize("mode", [torch.enable_grad, torch.no_grad, torch.inference_mode])
@pytest.mark.parametrize("fake", [True, False])
def test_multi_head_attention_is_one_number_in_every_mode(need_weights, mode, fake):
    """MultiheadAttention(32, 4) on (2, 16, 32): torch gives 0, 262,144 or 327,680 by mode."""
    right = 2 * 32 * 32 * 4 * 32 + 4 * 2 * 16**2 * 32
    assert right == 327_680

    def step():
        model, x = nn.MultiheadAttention(32, 4, batch_first=True).eval(), torch.ones(2, 16, 32)
        model(x, x, x, need_weights=need_weights)

    with mode():
        if not fake:
            assert count(step).executed == right
            assert torch_count(step) in (0, 262_144, right)
            return
        with FakeTensorMode():
            assert count(step).executed == right


@pytest.mark.parametrize("mode", [torch.enable_grad, torch.no_grad, torch.inference_mode])
def test_b15_an_encoder_layer_is_one_number_in_every_mode(mode):
    model, x = nn.TransformerEncoderLayer(32, 4, 64, batch_first=True).eval(), torch.randn(2, 16, 32)
    with mode():
        ours = count(lambda: model(x))
        assert ours.executed == 262_144 + 65_536 + 262_144
        assert torch_count(lambda: model(x)) in (0, 262_144, 524_288, 589_824)


def test_an_encoder_with_padding_runs_nested_and_needs_no_padding():
    layer = nn.TransformerEncoderLayer(32, 4, 64, batch_first=True)
    model = quietly(lambda: nn.TransformerEncoder(layer, 2)).eval()
    padding = torch.zeros(2, 16, dtype=torch.bool)
    padding[0, 6:] = True
    with torch.no_grad():
        ours = count(lambda: quietly(lambda: model(torch.randn(2, 16, 32), src_key_padding_mask=padding)))
    per_token = 2 * 32 * 32 * 4 + 2 * 2 * 32 * 64
    assert ours.executed == 2 * ((6 + 16) * per_token + 4 * 2 * 16**2 * 32)
    assert ours.needed == 2 * ((6 + 16) * per_token + 4 * (6**2 + 16**2) * 32)


def test_fused_and_separate_encoder_layers_do_the_same_vector_work():
    """The fused op does without the scaling and division of a materialised softmax, no more than that."""
    model, x = nn.TransformerEncoderLayer(32, 4, 64, batch_first=True).eval(), torch.randn(2, 16, 32)
    with torch.no_grad():
        fused = sum(c.vector for _, c in count(lambda: model(x)).costs)
    separate = sum(c.vector for _, c in count(lambda: model(x)).costs)
    assert fused == pytest.approx(separate, rel=0.05)


def test_b16_inference_mode_dispatches_composites_whole():
    model, x = nn.Linear(16, 32), torch.randn(2, 4, 16)
    with torch.inference_mode():
        both(lambda: model(x), 2 * 8 * 16 * 32, 2 * 8 * 16 * 32)
        y = torch.randn(2, 4, 16)
        both(lambda: torch.einsum("bij,bkj->bik", y, y), 2 * 2 * 4 * 4 * 16, 0)
        both(lambda: F.conv_transpose1d(y, torch.ones(4, 3, 5)), 2 * 2 * 16 * 4 * 3 * 5, 0)


def test_b18_a_matrix_times_a_vector_is_matrix_work():
    w, x = torch.empty(4096, 4096, device="meta"), torch.empty(4096, device="meta")
    both(lambda: w @ x, 2 * 4096**2, 0)


@pytest.mark.parametrize(
    ("step", "right"),
    [
        (lambda: torch.dot(torch.ones(7), torch.ones(7)), 2 * 7),
        (lambda: torch.vdot(torch.ones(7).cfloat(), torch.ones(7).cfloat()), 8 * 7),
        (lambda: torch.addmv(torch.ones(3), torch.ones(3, 4), torch.ones(4)), 2 * 3 * 4),
        (lambda: torch.addr(torch.ones(3, 4), torch.ones(3), torch.ones(4)), 2 * 3 * 4),
        (lambda: torch.addbmm(torch.ones(3, 5), torch.ones(2, 3, 4), torch.ones(2, 4, 5)), 2 * 2 * 3 * 4 * 5),
        (lambda: torch._int_mm(torch.ones(32, 16, dtype=torch.int8), torch.ones(16, 8, dtype=torch.int8)), 8192),
        (lambda: torch.conv_tbc(torch.ones(9, 2, 3), torch.ones(4, 3, 5), torch.ones(5), 1), 2 * 8 * 2 * 60),
        (lambda: F.bilinear(torch.ones(6, 3), torch.ones(6, 4), torch.ones(5, 3, 4)), 2 * 6 * 5 * 4 * (3 + 1)),
        (lambda: torch.linalg.multi_dot([torch.ones(2, 3), torch.ones(3, 4), torch.ones(4, 5)]), 2 * 24 + 2 * 40),
        (lambda: torch.linalg.matrix_power(torch.ones(4, 4), 5), 3 * 2 * 4**3),
    ],
)
@pytest.mark.parametrize("mode", [torch.enable_grad, torch.inference_mode])
def test_products_that_torch_counts_as_zero(step, right, mode):
    with mode():
        assert count(step).executed == right


def test_distances_go_through_a_product_of_two_more_columns():
    x, y = torch.ones(30, 8), torch.ones(40, 8)
    for mode in (torch.enable_grad, torch.inference_mode):
        with mode():
            ours = count(lambda: torch.cdist(x, y))
            assert (ours.executed, ours.needed) == (2 * 30 * 40 * (8 + 2), 2 * 30 * 40 * 8)
            assert count(lambda: torch.cdist(x[:3], y[:3])).executed == 0


def test_experts_count_every_token_once():
    """B23: Hugging Face's mixture-of-experts layers run on grouped_mm, which torch counts as zero."""
    tokens, experts, offsets = torch.ones(8, 16).bfloat16(), torch.ones(2, 16, 24).bfloat16(), torch.tensor([3, 8])
    both(lambda: F.grouped_mm(tokens, experts, offs=offsets.int()), 2 * 8 * 16 * 24, 0)


def test_gradients_of_experts_cost_what_the_experts_cost():
    tokens = torch.ones(8, 16).bfloat16().requires_grad_()
    experts, offsets = torch.ones(2, 16, 24).bfloat16().requires_grad_(), torch.tensor([3, 8]).int()

    def step():
        F.grouped_mm(tokens, experts, offs=offsets).backward(torch.ones(8, 24).bfloat16())

    assert count(step).executed == 3 * 2 * 8 * 16 * 24


def test_b21_sparse_products_count_stored_elements():
    generator = torch.Generator().manual_seed(0)
    dense = torch.zeros(64 * 64)
    dense[torch.randperm(64 * 64, generator=generator)[:425]] = 1.0
    dense, other = dense.view(64, 64), torch.randn(64, 32)
    right = 2 * 425 * 32
    assert right == 27_200
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # torch calls its compressed layouts a beta
        coo, csr = dense.to_sparse(), dense.to_sparse_csr()
        both(lambda: torch.sparse.mm(coo, other), right, 0)
        for mode in (torch.enable_grad, torch.inference_mode):
            with mode():
                assert count(lambda: csr @ other).executed == right
                assert count(lambda: other.T @ csr).executed == right
                assert count(lambda: csr @ other[:, 0]).executed == 2 * 425
        pair = count(lambda: csr @ csr)
    (_, cost), *_rest = pair.matrix_costs()
    assert cost.formula == "estimate"
    assert cost.matrix == round(2 * 425 * 425 / 64) < 2 * 64**3


def test_two_four_sparsity_counts_the_half_that_is_multiplied():
    from roofline.formulas.registry import find_rule

    x, half, meta = TensorSpec((8, 64), "float16"), TensorSpec((48, 32), "float16"), TensorSpec((48, 4), "int16")
    cost = find_rule("aten._sparse_semi_structured_linear")(x, half, meta, out=None)
    assert cost.matrix == 2 * 8 * 48 * 64 // 2


def quietly(make):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # torch.ao is deprecated in torch's words, and in use
        return make()


@pytest.mark.parametrize("mode", [torch.no_grad, torch.inference_mode])
def test_b22_dynamic_quantisation_counts_int8_operations(mode):
    model = quietly(lambda: torch.ao.quantization.quantize_dynamic(nn.Sequential(nn.Linear(64, 48))))
    x = torch.randn(8, 64)
    with mode():
        ours = count(lambda: model(x))
        assert torch_count(lambda: model(x)) in (0, 49_152)
    ((_, cost),) = ours.matrix_costs()
    assert cost.matrix == 2 * 8 * 64 * 48 == 49_152
    assert cost.precision == Precision.INT8


def test_quantised_lstm_and_convolution_count_what_their_float_forms_count():
    lstm = quietly(lambda: torch.ao.quantization.quantize_dynamic(nn.Sequential(nn.LSTM(8, 16, 2)), {nn.LSTM}))
    with torch.no_grad():
        assert count(lambda: lstm(torch.ones(10, 3, 8))).executed == 2 * 30 * 64 * (8 + 16 + 16 + 16)

    def quantise(x, scale=0.1):
        return torch.quantize_per_tensor(x, scale, 0, torch.quint8 if x.ndim and x.shape[0] == 2 else torch.qint8)

    ops = torch.ops.quantized
    packed = ops.conv2d_prepack(quantise(torch.ones(8, 3, 3, 3)), None, [2, 2], [1, 1], [1, 1], 1)
    x = torch.quantize_per_tensor(torch.ones(2, 3, 9, 9), 0.1, 0, torch.quint8)
    assert count(lambda: ops.conv2d(x, packed, 0.1, 0)).executed == 2 * 2 * 25 * 8 * 27
    packed = ops.conv1d_prepack(quantise(torch.ones(8, 3, 3)), None, [1], [0], [1], 1)
    x = torch.quantize_per_tensor(torch.ones(2, 3, 9), 0.1, 0, torch.quint8)
    assert count(lambda: ops.conv1d(x, packed, 0.1, 0)).executed == 2 * 2 * 7 * 8 * 9
    packed = ops.conv_transpose2d_prepack(quantise(torch.ones(3, 8, 3, 3)), None, [2, 2], [1, 1], [0, 0], [1, 1], 1)
    x = torch.quantize_per_tensor(torch.ones(2, 3, 5, 5), 0.1, 0, torch.quint8)
    assert count(lambda: ops.conv_transpose2d(x, packed, 0.1, 0)).executed == 2 * 2 * 25 * 3 * 8 * 9


def test_b33_a_linear_layer_has_two_flop_per_weight():
    model, x = nn.Linear(784, 512), torch.randn(1, 784)
    both(lambda: model(x), 2 * 401_408, 802_816)


def test_b38_a_transposed_convolution_counts_input_positions():
    model, x = nn.ConvTranspose2d(32, 1, 3), torch.randn(1, 32, 1, 1)
    both(lambda: model(x), 2 * 32 * 9, 576)


def test_b10_jagged_rows_count_the_rows_that_they_have():
    rows = quietly(lambda: torch.nested.nested_tensor([torch.randn(3, 8), torch.randn(5, 8)], layout=torch.jagged))
    model = nn.Linear(8, 16)
    assert count(lambda: model(rows)).executed == 2 * 8 * 8 * 16
    both_ways = count(lambda: model(rows).values().sum().backward())
    assert both_ways.executed == 2 * (2 * 8 * 8 * 16)
