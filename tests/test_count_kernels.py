"""Custom ops, Triton kernels and annotated calls: by their formula, or named as unknown."""

import pytest
import torch

import roofline
from roofline.errors import UsageError


def test_an_annotated_call_counts_what_its_author_states() -> None:
    a, b = torch.randn(4, 5), torch.randn(5, 6)

    def step() -> torch.Tensor:
        with roofline.annotate("fused", flops=240, bytes=1000, vector_flops=7, precision="bf16"):
            return torch.relu(a @ b)

    run = roofline.count(step)
    (op,) = run.ops
    assert (op.name, op.executed_flops, op.vector_flops, op.precision) == ("annotated.fused", 240, 7, "bf16")
    assert run.bytes.operator == 1000
    assert run.coverage.counted_fraction == 1


def test_an_annotation_belongs_to_its_module_and_leaves_an_uncounted_program_alone() -> None:
    class Fused(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            with roofline.annotate(flops=100, needed_flops=60):
                return x * 2

    model = torch.nn.Sequential(Fused(), torch.nn.Linear(4, 4, bias=False))
    x = torch.ones(1, 4)
    assert torch.equal(model[0](x), 2 * x)
    run = roofline.count(model, x)
    assert {m.path: m.executed_flops for m in run.modules} == {"": 132, "0": 100, "1": 2 * 4 * 4}
    assert run.flops.needed == 60 + 32


def test_an_annotation_with_an_impossible_number_is_refused() -> None:
    with pytest.raises(UsageError, match="bytes is -1"), roofline.annotate(flops=1, bytes=-1):
        pass


def test_a_formula_that_breaks_is_named_in_a_warning_and_its_op_is_unknown() -> None:
    @torch.library.custom_op("roofline_test::broken", mutates_args=())
    def broken(a: torch.Tensor) -> torch.Tensor:
        return a.clone()

    broken.register_fake(torch.empty_like)
    roofline.register_formula(broken, lambda a, *, out: roofline.Cost(matrix=a.no_such_field))
    a = torch.randn(8)
    run = roofline.count(lambda: (broken(a), broken(a), a + a))
    (unknown,) = run.coverage.unknown_ops
    assert (unknown.name, unknown.calls, unknown.time_fraction) == ("roofline_test.broken", 2, None)
    # Each of the calls reads 32 B and writes 32 B; the sum reads `a` once.
    assert unknown.bytes_fraction == pytest.approx(2 / 3)
    assert any("roofline_test.broken broke" in w and "no_such_field" in w for w in run.warnings)


def test_a_triton_launch_is_a_named_unknown_until_its_formula_is_registered() -> None:
    triton = pytest.importorskip("triton")

    @triton.jit
    def doubled(x, out, n: triton.language.constexpr):  # type: ignore[no-untyped-def]
        pass

    def step() -> torch.Tensor:
        x = torch.ones(64, device="cuda")
        out = torch.empty_like(x)
        doubled[(1,)](x, out, n=64)
        return out

    # Counted on fake tensors, the kernel is not launched: no GPU is needed.
    run = roofline.count(step)
    (unknown,) = run.coverage.unknown_ops
    assert (unknown.name, unknown.calls) == ("triton.doubled", 1)
    assert next(o.bytes.operator for o in run.ops if o.name == "triton.doubled") == 2 * 64 * 4

    roofline.register_formula(doubled, lambda x, dest, n, *, out: roofline.Cost(vector=n, read={0: 4 * n, 1: 4 * n}))
    run = roofline.count(step)
    assert not run.coverage.unknown_ops
    assert next(o.vector_flops for o in run.ops if o.name == "triton.doubled") == 64
