"""Counting changes nothing: state, gradients, optimizers, random numbers, hooks, compiled code."""

import random

import numpy as np
import pytest
import torch
from torch import nn

import roofline
from roofline.errors import RooflineError


def model() -> nn.Sequential:
    return nn.Sequential(nn.Linear(8, 16), nn.BatchNorm1d(16), nn.Dropout(0.5), nn.Linear(16, 4))


def snapshot(module: nn.Module) -> dict[str, torch.Tensor]:
    return {name: value.clone() for name, value in module.state_dict().items()}


def same(a: dict[str, torch.Tensor], b: dict[str, torch.Tensor]) -> bool:
    return a.keys() == b.keys() and all(torch.equal(a[k], b[k]) for k in a)


def test_counting_a_training_step_leaves_everything_as_it_was() -> None:
    net = model().train()
    net[0].weight.grad = torch.ones_like(net[0].weight)
    optimizer = torch.optim.AdamW(net.parameters(), lr=0.1)
    x = torch.randn(4, 8)
    before, grad = snapshot(net), net[0].weight.grad

    def step() -> torch.Tensor:
        loss = net(x).sum()
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        return loss.detach()

    states = torch.get_rng_state(), random.getstate(), np.random.get_state()[1].copy()
    roofline.count(step)
    assert same(snapshot(net), before)
    assert net[0].weight.grad is grad and torch.equal(grad, torch.ones_like(grad))
    assert net[3].weight.grad is None
    assert not optimizer.state
    assert torch.equal(torch.get_rng_state(), states[0])
    assert random.getstate() == states[1]
    assert (np.random.get_state()[1] == states[2]).all()
    assert net.training and not net[0]._forward_hooks and not net[0]._forward_pre_hooks


def test_a_step_that_needs_values_runs_once_for_real_and_still_changes_nothing() -> None:
    net = model().train()
    optimizer = torch.optim.SGD(net.parameters(), lr=0.5, momentum=0.9)
    x = torch.randn(4, 8)

    def step() -> float:
        loss = net(x).square().mean()
        loss.backward()
        optimizer.step()
        return loss.item()

    before = snapshot(net)
    run = roofline.count(step)
    assert same(snapshot(net), before)
    assert not optimizer.state and net[0].weight.grad is None
    assert any("one real run" in w for w in run.warnings)
    forward = 2 * 4 * (8 * 16 + 16 * 4)
    assert run.flops.executed == 3 * forward - 2 * 4 * 8 * 16


def test_counting_twice_gives_the_same_number() -> None:
    net, x = model(), torch.randn(4, 8)
    runs = [roofline.count(net, x, train=True) for _ in range(3)]
    assert runs[0].flops == runs[1].flops == runs[2].flops
    assert runs[0].bytes == runs[1].bytes == runs[2].bytes


def test_a_module_that_raises_leaves_no_hook_and_no_mode_behind() -> None:
    class Broken(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            raise ValueError("no such thing")

    net = nn.Sequential(nn.Linear(8, 8), Broken()).eval()
    with pytest.raises(RooflineError, match="no such thing"):
        roofline.count(net, torch.randn(2, 8))
    assert not net.training
    assert not torch.nn.modules.module._global_forward_pre_hooks
    assert not torch.nn.modules.module._global_forward_hooks
    assert torch.utils._python_dispatch._get_current_dispatch_mode() is None


def test_a_cache_that_a_module_keeps_is_not_left_fake() -> None:
    class Caching(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            self.kept = x * 2
            return self.kept

    net = Caching()
    roofline.count(net, torch.randn(3))
    assert not hasattr(net, "kept")


def test_a_compiled_function_is_counted_once_and_not_compiled_again() -> None:
    # Case B39: a compiled Linear(1000, 1000) is 2,000,000 FLOP, not three times that.
    compilations = 0

    def backend(graph: torch.fx.GraphModule, inputs: list[torch.Tensor]) -> object:
        nonlocal compilations
        compilations += 1
        return graph.forward

    compiled = torch.compile(nn.Linear(1000, 1000), backend=backend)
    x = torch.randn(1, 1000)
    with torch.no_grad():
        compiled(x)
        assert compilations == 1
        assert roofline.count(compiled, x).flops.executed == 2 * 1000 * 1000
        compiled(x)
    assert compilations == 1


def test_inputs_changed_in_place_are_put_back_on_both_paths() -> None:
    def fake(x: torch.Tensor) -> torch.Tensor:
        return x.add_(1) * 2

    def real(x: torch.Tensor) -> float:
        return x.add_(1).sum().item()

    for step in (fake, real):
        x = torch.ones(4)
        roofline.count(step, x)
        assert torch.equal(x, torch.ones(4)), step


@pytest.mark.filterwarnings("ignore:`torch.jit")
def test_a_scripted_module_elsewhere_in_the_process_does_no_harm() -> None:
    scripted = torch.jit.script(nn.Linear(8, 8))
    assert roofline.count(torch.mm, torch.randn(4, 5), torch.randn(5, 6)).flops.executed == 2 * 4 * 5 * 6
    assert scripted(torch.randn(2, 8)).shape == (2, 8)
