"""Cases from the field, B01 to B41: one test each through `roofline.count`, with the right number as a formula.

The comment after a case is what a faulty tool printed (PyTorch's FlopCounterMode, where none is named).
B26, B27 and B36 are attribution and also live in `test_count_attribution.py`; B29 runs in a group of ranks in
`test_parallel_counting.py`; B37 has its whole kind in `test_count_isolation.py`. Formulas alone, backends and modes
beside the public call: `test_formulas_matrix_cases.py`. B04, B06, B08, B12, B19, B20, B25, B28, B31, B32 and B35 do
not exist.
"""

import pytest
import torch
import torch.nn.functional as F  # noqa: N812
from torch import nn
from torch.nn.attention.flex_attention import create_block_mask, flex_attention
from torch.utils.checkpoint import checkpoint

import roofline
from roofline.core.precision import Precision

pytestmark = pytest.mark.filterwarnings(
    "ignore"
)  # quantisation, nested and sparse tensors are betas in torch's words
aten = torch.ops.aten


def executed(program, *inputs, **options):
    run = roofline.count(program, *inputs, **options)
    assert not run.coverage.unknown_ops
    return run.flops.executed


def test_b01_attention_on_a_cpu():
    q = torch.randn(2, 4, 16, 8)
    assert executed(lambda: F.scaled_dot_product_attention(q, q, q)) == 4 * 2 * 4 * 16**2 * 8 == 65_536  # 0


def test_b02_causal_attention_needs_half_and_both_are_reported():
    q = torch.randn(2, 4, 16, 64, dtype=torch.bfloat16)
    flops = roofline.count(lambda: F.scaled_dot_product_attention(q, q, q, is_causal=True)).flops
    assert flops.needed == 4 * 2 * 4 * (16 * 17 // 2) * 64 == 278_528
    assert flops.executed == 4 * 2 * 4 * 16**2 * 64 == 524_288  # the only number


CONV = 2 * 2 * 64 * 32 * 4 * 9  # 2 · batch · positions · C_out · C_in / groups · taps


def test_b03_grouped_convolution_backward():
    module, x = nn.Conv2d(16, 32, 3, padding=1, groups=4), torch.randn(2, 16, 8, 8, requires_grad=True)
    assert executed(module, x, train=True) == 3 * CONV == 884_736  # 1,769,472


def test_b05_raw_flash_attention_has_the_sequence_before_the_heads():
    q = torch.empty(2, 1024, 16, 64, device="meta", dtype=torch.bfloat16)
    step = lambda: aten._flash_attention_forward(q, q, q, None, None, 1024, 1024, 0.0, False, False)  # noqa: E731
    assert executed(step) == 4 * 2 * 16 * 1024**2 * 64 == 8_589_934_592  # 134,217,728


def test_b07_shared_key_heads_count_the_heads_of_the_queries():
    q = torch.empty(1, 8, 16, 64, device="meta", dtype=torch.bfloat16)
    kv = torch.empty(1, 2, 16, 64, device="meta", dtype=torch.bfloat16)
    step = lambda: aten._scaled_dot_product_efficient_attention(q, kv, kv, None, False)  # noqa: E731
    assert executed(step) == 4 * 8 * 16**2 * 64 == 524_288  # xformers: a quarter


def test_b09_packed_sequences_count_their_own_squares():
    q = torch.empty(3072, 16, 64, dtype=torch.bfloat16)
    offsets = torch.tensor([0, 512, 1024, 3072], dtype=torch.int32)
    step = lambda: aten._flash_attention_forward(q, q, q, offsets, offsets, 2048, 2048, 0.0, False, False)  # noqa: E731
    assert executed(step) == 4 * 16 * 64 * (2 * 512**2 + 2048**2) == 19_327_352_832  # 51,539,607,552


def test_b10_jagged_rows_count_the_rows_that_they_have():
    rows = torch.nested.nested_tensor([torch.randn(3, 8), torch.randn(5, 8)], layout=torch.jagged)
    assert executed(nn.Linear(8, 16), rows) == 2 * 8 * 8 * 16 == 2048  # TypeError


def test_b11_flex_attention_full_and_causal():
    q = torch.randn(1, 2, 128, 16)
    full = roofline.count(lambda: flex_attention(q, q, q)).flops
    assert full.executed == full.needed == 4 * 2 * 128**2 * 16 == 2_097_152  # TypeError
    mask = create_block_mask(lambda b, h, i, j: i >= j, None, None, 128, 128, device="cpu")
    causal = roofline.count(lambda: flex_attention(q, q, q, block_mask=mask)).flops
    assert causal.needed == 4 * 2 * (128 * 129 // 2) * 16 == 1_056_768


def test_b13_a_while_loop_counts_its_turns():
    from torch._higher_order_ops.while_loop import while_loop

    w, x = torch.randn(16, 16), torch.randn(4, 16)

    def step():
        return while_loop(lambda i, y: i < 5, lambda i, y: (i + 1, y @ w), (torch.tensor(0), x))

    run = roofline.count(step)
    assert run.flops.executed == 5 * (2 * 4 * 16 * 16) == 10_240  # 0


def test_b14_an_lstm_is_one_number_on_cpu_and_meta():
    right = 2 * 10 * 3 * 64 * 24
    for device in ("cpu", "meta"):
        assert executed(nn.LSTM(8, 16).to(device), torch.empty(10, 3, 8, device=device)) == right == 92_160  # 0


def test_b15_an_encoder_layer_in_evaluation_and_a_hook_changes_nothing():
    layer, x = nn.TransformerEncoderLayer(32, 4, 64, batch_first=True).eval(), torch.randn(2, 16, 32)
    right = 2 * 32 * 4 * 32 * 32 + 4 * 2 * 16**2 * 32 + 2 * 2 * 32 * 32 * 64
    assert executed(layer, x) == right == 589_824  # 0
    layer.self_attn.register_forward_hook(lambda *_: None)
    assert executed(layer, x) == right  # 262,144


def test_b16_inference_mode_counts_what_every_mode_counts():
    linear, lstm, q = nn.Linear(16, 32), nn.LSTM(8, 16), torch.randn(2, 4, 16, 8)
    x, sequence = torch.randn(2, 4, 16), torch.randn(10, 3, 8)
    for mode in (torch.inference_mode, torch.no_grad, torch.enable_grad):

        def step(mode=mode):
            with mode():
                return linear(x), F.scaled_dot_product_attention(q, q, q), lstm(sequence)

        assert executed(step) == 2 * 8 * 16 * 32 + 65_536 + 92_160  # 8192


@torch.library.custom_op("roofline_cases::product", mutates_args=())
def product(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    return a @ b


@product.register_fake
def _(a, b):
    return a.new_empty(a.shape[0], b.shape[1])


def test_b17_a_custom_op_is_a_named_unknown_until_it_has_a_formula():
    a, b = torch.randn(4, 5), torch.randn(5, 6)
    run = roofline.count(lambda: product(a, b))
    assert [u.name for u in run.coverage.unknown_ops] == ["roofline_cases.product"]  # 0 and not a word
    assert run.coverage.counted_fraction < 1
    roofline.register_formula(
        product, lambda a, b, *, out: roofline.Cost(matrix=2 * a.shape[0] * a.shape[1] * b.shape[1])
    )
    assert executed(lambda: product(a, b)) == 2 * 4 * 5 * 6 == 240


def test_b18_a_matrix_times_a_vector():
    w, x = torch.empty(4096, 4096, device="meta"), torch.empty(4096, device="meta")
    assert executed(lambda: w @ x) == 2 * 4096**2 == 33_554_432  # 0


def test_b21_sparse_products_count_stored_elements():
    dense = torch.zeros(64 * 64)
    dense[torch.randperm(64 * 64)[:425]] = 1.0
    coo, csr, other = dense.view(64, 64).to_sparse(), dense.view(64, 64).to_sparse_csr(), torch.randn(64, 32)
    assert executed(lambda: torch.sparse.mm(coo, other)) == 2 * 425 * 32 == 27_200  # 0
    pair = roofline.count(lambda: csr @ csr)
    assert 0 < pair.flops.executed < 2 * 64**3  # 524,288
    assert [o.formula for o in pair.ops if o.executed_flops] == ["estimate"]


def test_b22_dynamic_quantisation_counts_int8_operations():
    model = torch.ao.quantization.quantize_dynamic(nn.Sequential(nn.Linear(64, 48)))
    run = roofline.count(model, torch.randn(8, 64))
    assert run.flops.executed == 2 * 8 * 64 * 48 == 49_152  # 0
    assert run.flops.by_precision == {Precision.INT8: 49_152}


def test_b23_experts_of_a_mixture_are_counted():
    transformers = pytest.importorskip("transformers")
    config = transformers.MixtralConfig(
        **_TINY, num_local_experts=8, num_experts_per_tok=2, attn_implementation="eager"
    )
    tokens, pairs = 2 * 32, 2 * 32**2
    experts = tokens * 2 * 2 * (2 * 3 * 64 * 160)  # 2 of 8, in 2 layers
    router = tokens * 2 * (2 * 64 * 8)
    rest = 2 * tokens * (1000 * 64 + 2 * _PROJECTIONS) + 2 * 4 * pairs * 64
    assert experts == 15_728_640
    model = transformers.MixtralForCausalLM(config).eval()
    assert (
        executed(model, torch.zeros(2, 32, dtype=torch.int64)) == experts + router + rest == 28_246_016
    )  # 12,517,376


def test_b24_a_linear_solve_is_an_estimate():
    a, b = torch.eye(64), torch.ones(64)
    run = roofline.count(lambda: torch.linalg.solve(a, b))
    assert run.flops.executed == pytest.approx(2 / 3 * 64**3 + 2 * 64**2, rel=1e-4)  # 182,954; 0
    assert "estimate" in {o.formula for o in run.ops if o.executed_flops}


@pytest.mark.parametrize(("reentrant", "right"), [(False, 14_336), (True, 16_384)])
def test_b26_recomputation_is_executed_and_not_needed(reentrant, right):
    block = nn.Sequential(nn.Linear(16, 16), nn.ReLU(), nn.Linear(16, 16))
    x = torch.randn(4, 16, requires_grad=True)
    flops = roofline.count(lambda: checkpoint(block, x, use_reentrant=reentrant).sum().backward()).flops
    assert (flops.needed, flops.executed) == (3 * 2 * 2 * 4 * 16 * 16, right)  # 12,288; tools multiply by 4


def test_b27_children_never_exceed_their_parent():
    shared = nn.Linear(16, 16)
    model = nn.ModuleDict({"a": nn.Sequential(shared), "b": nn.Sequential(shared)})
    x = torch.randn(4, 16)
    run = roofline.count(lambda: [model["b"](model["a"](x))])
    totals = {m.path: m.executed_flops for m in run.modules}
    assert totals[""] == 2 * 2048
    assert sum(v for k, v in totals.items() if k and "." not in k) == totals[""]  # b.l 4096, no a.l


def test_b30_a_compiled_function_stays_compiled_after_counting():
    """No time is asserted: what made it slow was that the compiled code was thrown away or bypassed."""
    compiled_graphs, runs = [], []

    def backend(graph, inputs):
        compiled_graphs.append(graph)

        def run(*args):
            runs.append(1)
            return graph.forward(*args)

        return run

    model, x = nn.Linear(64, 64), torch.randn(8, 64)
    compiled = torch.compile(model, backend=backend)
    compiled(x)
    assert executed(compiled, x) == 2 * 8 * 64 * 64
    assert executed(lambda: compiled(x)) == 2 * 8 * 64 * 64
    before = len(runs)
    compiled(x)
    assert (len(compiled_graphs), len(runs) - before) == (1, 1)  # 41 → 62–92 ms


def test_b33_a_linear_layer_has_two_flop_per_weight():
    assert executed(nn.Linear(784, 512), torch.randn(1, 784)) == 2 * 401_408 == 802_816  # fvcore 401,408


def test_b34_work_outside_of_modules_counts():
    q, x = nn.Linear(16, 16), torch.randn(6, 16)

    def step():
        y = q(x)
        return y @ y.T

    assert executed(step) == 2 * 6 * 16 * 16 + 2 * 6 * 6 * 16 == 4224  # 1536 or 3072


def test_b36_a_layer_under_three_parents_counts_three_calls():
    shared = nn.Linear(100, 100)
    model = nn.Sequential(nn.Sequential(shared), nn.Sequential(shared), nn.Sequential(shared))
    assert executed(model, torch.randn(1, 100)) == 3 * 2 * 100 * 100 == 60_000  # thop, calflops: double


def test_b37_counting_again_gives_the_same_also_after_an_exception():
    class Failing(nn.Module):
        fails = False

        def __init__(self):
            super().__init__()
            self.inner = nn.Sequential(nn.Linear(16, 16), nn.LayerNorm(16), nn.Dropout(0.5))

        def forward(self, x):
            y = self.inner(x)
            if self.fails:
                raise ValueError("stop")
            return torch.bmm(y[None], y.T[None])

    model, x = Failing().train(), torch.randn(4, 16)
    right = 2 * 4 * 16 * 16 + 2 * 4 * 4 * 16
    bmm, hooks = torch.bmm, [len(m._forward_hooks) for m in model.modules()]
    assert [executed(model, x) for _ in range(3)] == [right] * 3  # 1.28k / 2.56k / 3.84k
    model.fails = True
    with pytest.raises(roofline.RooflineError, match="stop"):
        roofline.count(model, x)
    model.fails = False
    assert executed(model, x) == right
    assert all(m.training for m in model.modules())
    assert [len(m._forward_hooks) for m in model.modules()] == hooks
    assert torch.bmm is bmm


def test_b38_a_transposed_convolution_counts_input_positions():
    assert executed(nn.ConvTranspose2d(32, 1, 3), torch.randn(1, 32, 1, 1)) == 2 * 32 * 9 == 576  # 81; thop ×4


def test_b39_a_compiled_module_counts_once():
    module = torch.compile(nn.Linear(1000, 1000), backend="eager")
    assert executed(module, torch.randn(1, 1000)) == 2 * 1000 * 1000  # ×3


def test_b40_a_convolution_counts_both_gradients():
    """A profiler's own `flops` column says 294,912 for this forward and backward."""
    module, x = nn.Conv2d(16, 32, 3, padding=1, groups=4), torch.randn(2, 16, 8, 8, requires_grad=True)
    run = roofline.count(lambda: module(x).sum().backward())
    assert run.flops.executed == 884_736
    assert sum(o.executed_flops for o in run.ops if o.phase == "backward") == 2 * CONV


_TINY = {
    "vocab_size": 1000,
    "hidden_size": 64,
    "intermediate_size": 160,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
}
_PROJECTIONS = 64 * 64 * 2 + 2 * 64 * 32  # query and output; key and value of two heads


@pytest.mark.parametrize("tied", [True, False])
def test_b41_an_embedding_is_no_product_and_a_tied_head_is_one(tied):
    transformers = pytest.importorskip("transformers")
    config = transformers.LlamaConfig(**_TINY, tie_word_embeddings=tied, attn_implementation="eager")
    tokens = torch.zeros(2, 32, dtype=torch.int64)
    model = transformers.LlamaForCausalLM(config)
    products = 2 * 64 * (1000 * 64 + 2 * (_PROJECTIONS + 3 * 64 * 160))
    attention = 2 * 4 * 2 * 32**2 * 64
    assert (products, attention) == (19_202_048, 1_048_576)
    right = 3 * (products + attention)
    assert executed(model, tokens, train=True) == right == 60_751_872  # Trainer: 57,729,024; tied 33,153,024
