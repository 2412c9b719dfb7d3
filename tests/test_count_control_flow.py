"""Loops, branches, transforms and masks: counted as what they run."""

import pytest
import torch
from torch import nn
from torch._higher_order_ops.map import map as map_rows
from torch._higher_order_ops.scan import scan
from torch._higher_order_ops.while_loop import while_loop
from torch.nn.attention.flex_attention import create_block_mask, flex_attention

import roofline

pytestmark = pytest.mark.filterwarnings("ignore:.*torch.jit.script:FutureWarning", "ignore::FutureWarning")
W = torch.randn(16, 16)
PRODUCT = 2 * 4 * 16 * 16  # a row block of 4×16 times W


def test_a_while_loop_counts_the_rounds_it_runs() -> None:
    # Case B13; how many rounds only the values tell, so it runs once for real.
    def step() -> object:
        return while_loop(lambda i, x: i < 5, lambda i, x: (i + 1, x @ W), (torch.tensor(0), torch.randn(4, 16)))

    run = roofline.count(step)
    assert run.flops.executed == 5 * PRODUCT
    assert any("one real run" in w for w in run.warnings)


def test_a_scan_counts_every_step_forward_and_backward() -> None:
    def step(train: bool) -> None:
        xs = torch.randn(6, 4, 16, requires_grad=train)
        w = torch.randn(16, 16, requires_grad=train)
        last, rows = scan(lambda c, x: (torch.tanh(c @ w + x), c.clone()), torch.randn(4, 16), xs)
        if train:
            (last.sum() + rows.sum()).backward()

    assert roofline.count(lambda: step(False)).flops.executed == 6 * PRODUCT
    # Backward: the gradients of the carry and of w, which the loop's body closes over.
    assert roofline.count(lambda: step(True)).flops.executed == 6 * 3 * PRODUCT


def test_a_map_counts_every_row() -> None:
    assert roofline.count(lambda: map_rows(lambda x: x @ W, torch.randn(5, 4, 16))).flops.executed == 5 * PRODUCT


@pytest.mark.parametrize("taken", [True, False])
def test_a_branch_counts_the_dearer_side_where_nobody_knows_which_is_taken(taken: bool) -> None:
    def step() -> torch.Tensor:
        positive = W.square().sum() >= 0 if taken else W.square().sum() < 0
        return torch.cond(positive, lambda x: x @ W @ W, lambda x: x @ W, (torch.randn(4, 16),))

    assert roofline.count(step).flops.executed == 2 * PRODUCT


def test_vmap_counts_the_batch() -> None:
    x, ws = torch.randn(3, 4, 16), torch.randn(3, 16, 8)
    assert roofline.count(lambda: torch.vmap(lambda row: row @ W)(x)).flops.executed == 3 * PRODUCT
    assert roofline.count(lambda: torch.vmap(torch.mm)(x, ws)).flops.executed == 3 * 2 * 4 * 16 * 8


def test_jvp_counts_the_product_with_the_zero_tangent_that_torch_really_runs() -> None:
    # Two products are needed: x W and ẋ W. W has no tangent, but torch's rule for mm takes one of zeros, fills it in
    # and multiplies: a profile of the real program shows the third product. Executed is what runs.
    def step() -> object:
        return torch.func.jvp(lambda x: x @ W, (torch.randn(4, 16),), (torch.randn(4, 16),))

    assert roofline.count(step).flops.executed == 3 * PRODUCT


def test_functional_gradients_count_forward_and_backward() -> None:
    step = torch.func.grad(lambda x: (x @ W).sum())
    assert roofline.count(lambda: step(torch.randn(4, 16))).flops.executed == 2 * PRODUCT


def test_double_backward_counts_each_of_its_products() -> None:
    def step() -> None:
        x, w = torch.randn(4, 16, requires_grad=True), torch.randn(16, 16, requires_grad=True)
        y = torch.tanh(x @ w)
        (gradient,) = torch.autograd.grad(y.sum(), x, create_graph=True)
        gradient.sum().backward()

    # x w; ḡ wᵀ; of the latter the gradients of ḡ and w; of the former those of x and w.
    assert roofline.count(step).flops.executed == (1 + 1 + 2 + 2) * PRODUCT


def test_a_custom_autograd_function_counts_its_own_backward() -> None:
    class Doubled(torch.autograd.Function):
        @staticmethod
        def forward(ctx: object, x: torch.Tensor) -> torch.Tensor:
            return x @ W

        @staticmethod
        def backward(ctx: object, g: torch.Tensor) -> torch.Tensor:
            return g @ W.T @ W

    run = roofline.count(lambda: Doubled.apply(torch.randn(4, 16, requires_grad=True)).sum().backward())
    assert run.flops.executed == 3 * PRODUCT


def causal(b: object, h: object, q: torch.Tensor, k: torch.Tensor) -> torch.Tensor:
    return q >= k


def window(b: object, h: object, q: torch.Tensor, k: torch.Tensor) -> torch.Tensor:
    return (q >= k) & (q - k < 100)


def band(length: int, width: int) -> int:
    """Pairs under the diagonal, at most `width` to a row."""
    return sum(min(i, width) for i in range(1, length + 1))


@pytest.mark.parametrize(
    ("mask", "length", "blocks", "pairs"),
    [
        (None, 128, 1, 128 * 128),
        (causal, 128, 1, band(128, 128)),  # case B11: needed 1,056,768
        (causal, 512, 4 * 5 // 2, band(512, 512)),
        (window, 512, 4 + 3, band(512, 100)),  # a window of 100 reaches one block back
    ],
)
def test_flex_attention_runs_its_blocks_and_needs_its_pairs(
    mask: object, length: int, blocks: int, pairs: int
) -> None:
    q = torch.randn(1, 2, length, 16)
    block_mask = create_block_mask(mask, None, None, length, length, device="cpu") if mask else None
    run = roofline.count(lambda: flex_attention(q, q, q, block_mask=block_mask))
    assert run.flops.executed == 4 * 2 * blocks * 128 * 128 * 16
    assert run.flops.needed == 4 * 2 * pairs * 16
    assert [o.formula for o in run.ops if o.executed_flops] == ["exact"]


def test_a_mask_that_cannot_be_evaluated_leaves_an_estimate() -> None:
    calls = 0

    def moody(b: object, h: object, q: torch.Tensor, k: torch.Tensor) -> torch.Tensor:
        nonlocal calls
        calls += 1
        if calls > 1:
            raise ValueError("only once")
        return q >= k

    q = torch.randn(1, 2, 128, 16)
    block_mask = create_block_mask(moody, None, None, 128, 128, device="cpu")
    run = roofline.count(lambda: flex_attention(q, q, q, block_mask=block_mask))
    assert run.flops.needed == run.flops.executed == 4 * 2 * 128 * 128 * 16
    assert [o.formula for o in run.ops if o.executed_flops] == ["estimate"]


def test_counting_a_compiled_function_compiles_nothing() -> None:
    # Case B30: public tools leave a compiled function to be compiled again, or slower.
    from torch._dynamo.utils import counters

    compiled = torch.compile(nn.Linear(8, 8), backend="eager")
    x = torch.randn(2, 8)
    with torch.no_grad():
        compiled(x)
        frames = dict(counters["frames"])
        roofline.count(compiled, x)
        compiled(x)
    assert dict(counters["frames"]) == frames


def test_counting_a_layer_norm_three_times_gives_the_same_and_rebinds_nothing() -> None:
    # Case B37.
    functions = [torch.bmm, torch.matmul, nn.functional.scaled_dot_product_attention, torch.Tensor.__matmul__]
    norm, x = nn.LayerNorm(64).train(), torch.randn(2, 5, 64)
    runs = [roofline.count(norm, x) for _ in range(3)]
    assert len({(r.flops.vector, r.bytes.operator) for r in runs}) == 1 and runs[0].flops.vector > 0
    assert norm.training
    after = [torch.bmm, torch.matmul, nn.functional.scaled_dot_product_attention, torch.Tensor.__matmul__]
    assert all(a is b for a, b in zip(functions, after, strict=True))
