"""Bytes of fused graphs: TorchInductor's accounting, without running, against what fusion leaves by hand."""

from contextlib import nullcontext

import pytest
import torch
import torch._dynamo
import torch._inductor.config
import torch.nn.functional as F  # noqa: N812
from torch import nn

import roofline
from roofline.counter.fused import FusedBytes, count_fused
from roofline.counter.program import Program
from test_bytes_modules import machine


@pytest.fixture(autouse=True)
def no_compiler(request):
    """Take the C++ compiler away: the schedule needs none."""
    with nullcontext() if "slow" in request.keywords else torch._inductor.config.patch({"cpp.cxx": (None, "false")}):
        yield


F32 = 4
N = 64 * 32


def x(*shape):
    return torch.ones(shape or (64, 32))


def fused(program, *inputs, **options):
    run = roofline.count(program, *inputs, fused=True, machine=machine(10_000), **options)
    assert not [w for w in run.warnings if "fused" in w]
    assert run.bytes.compulsory <= run.bytes.fused
    return run.bytes


def test_a_chain_reads_its_inputs_and_writes_its_result_once():
    found = fused(lambda a, b, c: F.relu(a + b) * c, x(), x(), x())
    assert found.fused == (3 + 1) * N * F32
    assert found.operator == (3 + 2 + 3) * N * F32


def test_two_results_of_one_input_are_one_pass():
    found = fused(lambda a: (a.sin(), a.cos()), x())
    assert found.fused == 3 * N * F32 < found.operator


def test_a_softmax_is_one_read_and_one_write():
    """Written out in four ops, each of which passes over memory; the scores stay in the kernel."""

    def softmax(a):
        e = (a - a.amax(-1, keepdim=True)).exp()
        return e / e.sum(-1, keepdim=True)

    found = fused(softmax, x())
    rows = 64 * F32
    # Inductor keeps the maximum and the sum of each row in memory between its loops over the row.
    assert 2 * N * F32 <= found.fused < found.operator
    assert found.operator == (N * F32 + rows) + (2 * N * F32 + rows) + 2 * N * F32 + (N * F32 + rows) + (
        2 * N * F32 + rows
    )


def test_layer_norm_and_gelu_become_one_kernel():
    found = fused(nn.Sequential(nn.LayerNorm(32), nn.GELU()), x())
    assert found.fused == (2 * N + 2 * 32) * F32
    assert found.operator >= (4 * N + 2 * 32) * F32


MLP_ROWS, MLP_IN, MLP_HIDDEN = 16, 32, 64


def mlp():
    return nn.Sequential(nn.Linear(MLP_IN, MLP_HIDDEN), nn.GELU(), nn.Linear(MLP_HIDDEN, MLP_IN))


def test_an_mlp_keeps_its_products_and_fuses_only_what_is_between():
    b, h, d = MLP_ROWS, MLP_HIDDEN, MLP_IN
    first, second = b * d + h * d + h + b * h, b * h + h * d + d + b * d
    found = fused(mlp(), x(b, d))
    assert found.fused == (first + 2 * b * h + second) * F32 == found.operator


def test_an_mlp_in_training_moves_what_its_operators_move():
    """Forward as above. Backward: three products (none for x), two sums of bias gradients, GELU's gradient."""
    b, h, d = MLP_ROWS, MLP_HIDDEN, MLP_IN
    n, wide, weight = b * d, b * h, h * d
    forward = (n + weight + h + wide) + 2 * wide + (wide + weight + d + n)
    products = (n + wide + weight) + (n + weight + wide) + (wide + n + weight)  # dW2, d hidden, dW1
    others = (n + d) + 3 * wide + (wide + h)
    found = fused(mlp(), x(b, d), train=True)
    outside = found.fused - (forward + products + others) * F32
    # The loss stays outside: the mean of the result, stacked and summed, and its gradient, expanded and scaled.
    assert 2 * n * F32 <= outside <= 4 * n * F32
    assert found.fused == found.operator  # two independent accounts, and nothing to fuse across products


def test_training_with_batch_norm_passes_over_its_input_twice():
    """Statistics first, then the normalisation; `operator` takes the input of one op once, and so less."""
    found = fused(nn.BatchNorm2d(8).train(), x(4, 8, 16, 16))
    n = 4 * 8 * 256
    assert found.fused >= 3 * n * F32 > 2 * n * F32
    assert 2 * n * F32 <= found.operator < found.fused


def test_an_optimizer_outside_of_the_graph_counts_as_its_operators():
    module = mlp()
    optimizer = torch.optim.AdamW(module.parameters(), fused=True)

    def step(model):
        optimizer.zero_grad()
        model(x(16, 32)).sum().backward()
        optimizer.step()

    def build():
        compiled = torch.compile(module)
        return Program(lambda: step(compiled))

    with_step = count_fused(build)
    run = roofline.count(lambda: step(module))
    update = sum(o.bytes.operator for o in run.ops if o.phase == "optimizer")
    assert update >= 7 * sum(p.nbytes for p in module.parameters())
    assert with_step.graphs == 2
    assert with_step.bytes > update


def test_a_graph_that_runs_three_times_counts_three_times():
    layer, rows = nn.Linear(32, 32), x()

    def build():
        compiled = torch.compile(layer)
        return Program(lambda: compiled(compiled(compiled(rows))))

    with torch.no_grad():
        found = count_fused(build)
    assert (found.graphs, found.bytes) == (3, 3 * (2 * N + 32 * 32 + 32) * F32)


def test_a_program_that_cannot_be_scheduled_says_why_and_keeps_its_other_counts():
    def values(a):
        return a[: int(a.sum().item())]

    run = roofline.count(values, x(), fused=True)
    assert run.bytes.fused is None
    assert run.bytes.operator is not None
    assert any("fused graph" in w for w in run.warnings)


def test_counting_twice_gives_the_same_and_leaves_compiled_programs_alone():
    module = mlp().eval()
    calls = []

    def backend(graph, inputs):
        calls.append(len(inputs))
        return graph.forward

    compiled = torch.compile(module, backend=backend)
    with torch.inference_mode():
        compiled(x(16, 32))
        first, second = (roofline.count(module, x(16, 32), fused=True).bytes.fused for _ in range(2))
        compiled(x(16, 32))
    assert first == second
    assert len(calls) == 1  # nothing was compiled again


@pytest.mark.slow
def test_a_program_really_compiled_moves_what_was_counted_without_running():
    module = nn.Sequential(nn.LayerNorm(32), nn.GELU()).eval()
    watched = FusedBytes()
    with torch.inference_mode(), watched.watching():
        torch.compile(module, dynamic=False)(x())
    assert watched.graphs == 1
    assert watched.total == roofline.count(module, x(), fused=True).bytes.fused == (2 * N + 2 * 32) * F32


@torch._dynamo.config.patch(recompile_limit=1)
def test_counting_leaves_nothing_in_the_compilers_cache():
    """A cache that counting fills would use up the recompilations that a program may have (8)."""
    for _ in range(3):
        assert roofline.count(nn.Sequential(nn.LayerNorm(32), nn.GELU()), x(), fused=True).bytes.fused
