"""Whose work it is: modules shared, called twice, checkpointed, at the top level; forward and backward."""

import pytest
import torch
from torch import nn
from torch.utils.checkpoint import checkpoint

import roofline
from roofline.core.run import Run


def flops(run: Run) -> dict[str, float]:
    return {m.path: m.executed_flops for m in run.modules}


class Holder(nn.Module):
    """Holds a module under the name `l` and calls it a number of times."""

    def __init__(self, inner: nn.Module, times: int = 1) -> None:
        super().__init__()
        self.l = inner
        self.times = times

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for _ in range(self.times):
            x = self.l(x)
        return x


class Pair(nn.Module):
    def __init__(self, a: nn.Module, b: nn.Module) -> None:
        super().__init__()
        self.a, self.b = a, b

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.b(self.a(x))


def test_one_linear_reachable_by_two_paths_is_counted_on_the_path_that_calls_it() -> None:
    shared = nn.Linear(16, 16)
    run = roofline.count(Pair(Holder(shared), Holder(shared)), torch.randn(4, 16))
    each = 2 * 4 * 16 * 16
    assert flops(run) == {"": 2 * each, "a": each, "a.l": each, "b": each, "b.l": each}


def test_a_linear_called_twice_counts_forward_and_backward_of_both_calls() -> None:
    x = torch.randn(4, 16, requires_grad=True)
    run = roofline.count(Holder(nn.Linear(16, 16), times=2), x, train=True)
    assert flops(run)["l"] == 2 * 3 * 2 * 4 * 16 * 16
    assert flops(run)[""] == flops(run)["l"]


def test_two_top_level_modules_of_one_class_are_two_rows() -> None:
    first, second = nn.Linear(16, 16), nn.Linear(16, 32)
    x = torch.randn(4, 16)
    run = roofline.count(lambda: second(first(x)))
    assert flops(run) == {"": 2048 + 4096, "Linear": 2 * 4 * 16 * 16, "Linear#2": 2 * 4 * 16 * 32}


class Checkpointed(nn.Module):
    def __init__(self, *, reentrant: bool, middle: nn.Module | None = None) -> None:
        super().__init__()
        self.blk = nn.Sequential(nn.Linear(16, 16), middle or nn.ReLU(), nn.Linear(16, 16))
        self.reentrant = reentrant

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return checkpoint(self.blk, x, use_reentrant=self.reentrant)


def test_a_checkpointed_block_adds_up_and_its_recomputation_is_executed_but_not_needed() -> None:
    # Case B27: forward 2048 each; backward 2·2048 for b, and for a only the weight gradient (x needs none);
    # the recomputation stops before the last Linear.
    x = torch.randn(4, 16)
    linear = 2 * 4 * 16 * 16
    run = roofline.count(Checkpointed(reentrant=False), x, train=True)
    assert flops(run)["blk.0"] == (1 + 1 + 1) * linear
    assert flops(run)["blk.2"] == (1 + 2) * linear
    assert flops(run)["blk"] == flops(run)["blk.0"] + flops(run)["blk.2"]
    assert run.flops.needed == 5 * linear


@pytest.mark.parametrize(("reentrant", "executed"), [(False, 14_336), (True, 16_384)])
def test_checkpointing_executes_more_than_is_needed(reentrant: bool, executed: int) -> None:
    # Case B26: MFU counts 12,288; HFU 14,336, or 16,384 with the reentrant kind, which runs the last Linear again.
    x = torch.randn(4, 16, requires_grad=True)
    run = roofline.count(Checkpointed(reentrant=reentrant), x, train=True)
    assert (run.flops.needed, run.flops.executed) == (12_288, executed)


def test_a_linear_under_three_parents_counts_three_calls() -> None:
    shared = nn.Linear(100, 100)
    model = nn.Sequential(Holder(shared), Holder(shared), Holder(shared))
    assert roofline.count(model, torch.randn(1, 100)).flops.executed == 60_000


def test_functional_work_belongs_to_the_module_that_does_it() -> None:
    class Product(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.q = nn.Linear(8, 8)

        def forward(self, y: torch.Tensor) -> torch.Tensor:
            y = self.q(y)
            return y @ y.T

    # Case B34: y = q(x); y @ y.T.
    run = roofline.count(Product(), torch.randn(12, 8))
    linear, product = 2 * 12 * 8 * 8, 2 * 12 * 12 * 8
    assert flops(run) == {"": linear + product, "q": linear}


def test_children_never_exceed_their_parent_in_a_deep_model_with_backward() -> None:
    layer = nn.TransformerEncoderLayer(32, 4, 64, batch_first=True)
    run = roofline.count(nn.TransformerEncoder(layer, 2), torch.randn(2, 8, 32), train=True)
    totals = flops(run)
    for path, total in totals.items():
        children = [p for p in totals if p.rpartition(".")[0] == path and p]
        assert sum(totals[c] for c in children) <= total, path
    own = {o.module: 0.0 for o in run.ops}
    for o in run.ops:
        own[o.module] += o.executed_flops
    assert sum(own.values()) == totals[""]


def test_backward_work_is_attributed_to_the_module_whose_forward_it_differentiates() -> None:
    model = nn.Sequential(nn.Linear(16, 32), nn.Tanh(), nn.Linear(32, 8))
    run = roofline.count(model, torch.randn(4, 16), train=True)
    backward = {o.module: 0.0 for o in run.ops}
    for o in run.ops:
        if o.phase == "backward":
            backward[o.module] += o.executed_flops
    assert backward["0"] == 2 * 4 * 16 * 32
    assert backward["2"] == 2 * (2 * 4 * 32 * 8)


def test_an_exception_inside_leaves_names_right_for_the_next_call() -> None:
    class Fallback(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.broken, self.sound = Raiser(), nn.Linear(16, 16)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            try:
                return self.broken(x)
            except ValueError:
                return self.sound(x)

    class Raiser(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            raise ValueError

    assert flops(roofline.count(Fallback(), torch.randn(4, 16)))["sound"] == 2048
