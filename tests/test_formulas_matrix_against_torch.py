"""Where torch's FlopCounterMode is right we agree to the last FLOP, on random calls."""

import random
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch.utils.flop_counter import FlopCounterMode

from matrix_dispatch import Dispatcher, count, torch_count
from roofline.formulas.registry import find_rule

aten = torch.ops.aten
CALLS_PER_OP = 20


def meta(*shape: int, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    return torch.empty(shape, dtype=dtype, device="meta")


def size(rng: random.Random) -> int:
    return rng.choice((1, 2, 3, 5, 8, 13, 16, 33, 64, 100))


def mm(rng):
    m, n, k = size(rng), size(rng), size(rng)
    return lambda: torch.mm(meta(m, k), meta(k, n))


def addmm(rng):
    m, n, k = size(rng), size(rng), size(rng)
    return lambda: torch.addmm(meta(n), meta(m, k), meta(k, n))


def bmm(rng):
    b, m, n, k = size(rng), size(rng), size(rng), size(rng)
    return lambda: torch.bmm(meta(b, m, k), meta(b, k, n))


def baddbmm(rng):
    b, m, n, k = size(rng), size(rng), size(rng), size(rng)
    return lambda: torch.baddbmm(meta(m, n), meta(b, m, k), meta(b, k, n))


def scaled_mm(rng):
    m, n, k = (16 * rng.randint(1, 8) for _ in range(3))
    fp8 = torch.float8_e4m3fn
    a, b = meta(m, k, dtype=fp8), meta(n, k, dtype=fp8).t()
    return lambda: aten._scaled_mm(a, b, meta(1), meta(1), out_dtype=torch.bfloat16)


def conv_arguments(rng, groups: int, transposed: bool):
    dims = rng.randint(1, 3)
    channels = [groups * rng.randint(1, 6) for _ in range(2)]
    x = meta(rng.randint(1, 4), channels[0], *(rng.randint(7, 12) for _ in range(dims)))
    kernel = [rng.randint(1, 3) for _ in range(dims)]
    w = (
        meta(channels[0], channels[1] // groups, *kernel)
        if transposed
        else meta(channels[1], channels[0] // groups, *kernel)
    )
    lists = [[rng.randint(low, 2) for _ in range(dims)] for low in (1, 0, 1)]
    return x, w, lists, dims


def convolution(rng):
    groups, transposed = rng.choice((1, 2, 4)), rng.random() < 0.4
    x, w, (stride, padding, dilation), dims = conv_arguments(rng, groups, transposed)
    return lambda: aten.convolution(x, w, None, stride, padding, dilation, transposed, [0] * dims, groups)


def convolution_backward(rng):
    """With one group: torch counts the weight gradient `groups` times too high."""
    transposed = rng.random() < 0.4
    x, w, (stride, padding, dilation), dims = conv_arguments(rng, 1, transposed)
    grad = torch.empty_like(aten.convolution(x, w, None, stride, padding, dilation, transposed, [0] * dims, 1))
    mask = rng.choice(([True, True, False], [True, False, False], [False, True, False]))
    rest = (None, stride, padding, dilation, transposed, [0] * dims, 1, mask)
    return lambda: aten.convolution_backward(grad, x, w, *rest)


def attention_inputs(rng):
    batch, heads, shared = rng.randint(1, 3), rng.choice((4, 8)), rng.choice((1, 2, 4))
    queries, keys, depth = size(rng), size(rng), rng.choice((16, 32, 64))
    q = meta(batch, heads, queries, depth, dtype=torch.bfloat16)
    return q, meta(batch, heads // shared, keys, depth, dtype=torch.bfloat16)


def sdpa(op: Any, *rest: Any) -> Callable[[random.Random], Callable[[], Any]]:
    def make(rng):
        q, kv = attention_inputs(rng)
        if op is not aten._scaled_dot_product_efficient_attention:
            kv = kv.new_empty(q.shape[0], q.shape[1], *kv.shape[2:])
        return lambda: op(q, kv, kv, *rest)

    return make


def flash_backward(rng):
    q, kv = attention_inputs(rng)
    kv = kv.new_empty(q.shape[0], q.shape[1], *kv.shape[2:])
    lse, seed = meta(*q.shape[:3]), meta(2, dtype=torch.uint64)
    lengths = (None, None, q.shape[2], kv.shape[2])
    op = aten._scaled_dot_product_flash_attention_backward
    return lambda: op(q, q, kv, kv, q, lse, *lengths, 0.0, False, seed, seed)


def efficient_backward(rng):
    q, kv = attention_inputs(rng)
    kv = kv.new_empty(q.shape[0], q.shape[1], *kv.shape[2:])
    lse, seed = meta(*q.shape[:3]), meta(dtype=torch.int64)
    op = aten._scaled_dot_product_efficient_attention_backward
    return lambda: op(q, q, kv, kv, None, q, lse, seed, seed, 0.0, [True, True, True, False])


def raw_flash(rng):
    q, kv = attention_inputs(rng)
    q = q.transpose(1, 2).contiguous()
    kv = kv.new_empty(q.shape[0], kv.shape[2], *q.shape[2:])
    return lambda: aten._flash_attention_forward(q, kv, kv, None, None, q.shape[1], kv.shape[1], 0.0, False, False)


MAKERS = {
    "mm": mm,
    "addmm": addmm,
    "bmm": bmm,
    "baddbmm": baddbmm,
    "_scaled_mm": scaled_mm,
    "convolution": convolution,
    "convolution_backward": convolution_backward,
    "flash": sdpa(aten._scaled_dot_product_flash_attention),
    "efficient": sdpa(aten._scaled_dot_product_efficient_attention, None, False),
    "cudnn": sdpa(aten._scaled_dot_product_cudnn_attention, None, True),
    "flash_backward": flash_backward,
    "efficient_backward": efficient_backward,
    "raw_flash": raw_flash,
}


@pytest.mark.parametrize("op", MAKERS)
def test_random_calls_count_what_torch_counts(op):
    rng = random.Random(op)
    for _ in range(CALLS_PER_OP):
        step = MAKERS[op](rng)
        with FlopCounterMode(display=False) as theirs, Dispatcher() as ours:
            step()
        assert ours.executed == theirs.get_total_flops() > 0, ours.costs


@pytest.mark.parametrize("op", ["mm", "addmm", "baddbmm", "convolution", "flash", "raw_flash"])
def test_the_result_is_not_needed_where_the_inputs_tell(op):
    """Rows of a trace carry no outputs."""
    rng = random.Random(op)
    for _ in range(5):
        with Dispatcher() as ours:
            MAKERS[op](rng)()
        for name, args, kwargs, cost in ours.calls:
            assert find_rule(name)(*args, **kwargs, out=None) == cost


def test_grouped_backward_is_where_torch_counts_groups_times_too_much():
    """B03: Conv2d(16, 32, 3, padding=1, groups=4) on (2, 16, 8, 8), forward and backward; torch says 1,769,472."""
    conv, x = torch.nn.Conv2d(16, 32, 3, padding=1, groups=4), torch.randn(2, 16, 8, 8, requires_grad=True)

    def step():
        conv(x).sum().backward()

    right = 3 * (2 * 2 * 64 * 32 * 4 * 9)
    assert right == 884_736
    assert count(step).executed == right
    assert torch_count(step) in (1_769_472, right)
