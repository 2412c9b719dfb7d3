"""Counting must leave the program as it was: modules, gradients, optimizer state, random numbers."""

import gc
import random
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import nn
from torch.optim import Optimizer

_MODULE_TABLES = ("_parameters", "_buffers", "_modules", "_forward_hooks", "_forward_pre_hooks", "_backward_hooks")


@contextmanager
def untouched(*, values: bool) -> Iterator[None]:
    """Put back, after the block and also after an exception in it, whatever a step of training changes.

    Covers every live module (attributes, parameters, buffers, hooks, mode), every parameter's gradient, every
    live optimizer's state, and the random states of torch, Python and numpy.

    Args:
        values: Also put back the contents of tensors. Needed when the block runs for real; on fake tensors no
            content changes.
    """
    alive = gc.get_objects()
    modules = [_Module(o, values) for o in alive if _is_plain_module(type(o))]
    optimizers = [_Optimizer(o, values) for o in alive if issubclass(type(o), Optimizer)]
    del alive
    rng = _rng_states()
    try:
        yield
    finally:
        for optimizer in optimizers:
            optimizer.restore()
        for module in modules:
            module.restore()
        _set_rng_states(rng)


def _is_plain_module(kind: type) -> bool:
    """Whether it keeps its state in Python; a scripted module has it in C++, where nothing can be put back."""
    return issubclass(kind, nn.Module) and not issubclass(kind, torch.jit.ScriptModule)


class _Module:
    """A module's attributes and tables as they were."""

    def __init__(self, module: nn.Module, values: bool) -> None:
        self.module = module
        self.attributes = dict(module.__dict__)
        self.tables = {name: dict(module.__dict__.get(name, {})) for name in _MODULE_TABLES}
        parameters = [p for p in self.tables["_parameters"].values() if p is not None]
        self.grads = [(p, p.grad) for p in parameters]
        buffers = [b for b in self.tables["_buffers"].values() if b is not None]
        self.contents = _contents([*parameters, *buffers, *(g for _, g in self.grads)]) if values else []

    def restore(self) -> None:
        self.module.__dict__.clear()
        self.module.__dict__.update(self.attributes)
        for name, entries in self.tables.items():
            table = self.module.__dict__.get(name)
            if table is not None:
                table.clear()
                table.update(entries)
        for parameter, grad in self.grads:
            parameter.grad = grad
        _put_back(self.contents)


class _Optimizer:
    """An optimizer's state and groups as they were."""

    def __init__(self, optimizer: Optimizer, values: bool) -> None:
        self.optimizer = optimizer
        self.state = {p: dict(state) for p, state in optimizer.state.items()}
        self.groups = [dict(group) for group in optimizer.param_groups]
        params = [p for group in optimizer.param_groups for p in group["params"]]
        self.grads = [(p, p.grad) for p in params]
        state = [v for s in self.state.values() for v in s.values()]
        self.contents = _contents([*params, *state, *(g for _, g in self.grads)]) if values else []

    def restore(self) -> None:
        self.optimizer.state.clear()
        self.optimizer.state.update(self.state)
        for group, saved in zip(self.optimizer.param_groups, self.groups, strict=True):
            group.update(saved)
        for parameter, grad in self.grads:
            parameter.grad = grad
        _put_back(self.contents)


def _contents(values: list[Any]) -> list[tuple[torch.Tensor, torch.Tensor]]:
    return [(t, t.detach().clone()) for t in values if isinstance(t, torch.Tensor) and t.device.type != "meta"]


def _put_back(contents: list[tuple[torch.Tensor, torch.Tensor]]) -> None:
    with torch.no_grad():
        for tensor, saved in contents:
            tensor.copy_(saved)


def _rng_states() -> dict[str, Any]:
    numpy = sys.modules.get("numpy")
    return {
        "python": random.getstate(),
        "numpy": numpy.random.get_state() if numpy else None,
        "torch": torch.get_rng_state(),
        "cuda": torch.cuda.get_rng_state_all() if torch.cuda.is_initialized() else None,
    }


def _set_rng_states(states: dict[str, Any]) -> None:
    random.setstate(states["python"])
    torch.set_rng_state(states["torch"])
    if states["numpy"] is not None:
        sys.modules["numpy"].random.set_state(states["numpy"])
    if states["cuda"] is not None:
        torch.cuda.set_rng_state_all(states["cuda"])
