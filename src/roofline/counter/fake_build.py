"""Build a program whose parameters are fake: no memory, no initial values."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any
from unittest.mock import patch

import torch
from torch import nn
from torch._subclasses.fake_tensor import DataDependentOutputException, FakeTensorMode, unset_fake_temporarily

from roofline.counter.program import Program


def build_fake(build: Callable[[], Program], fake: FakeTensorMode) -> Program:
    """Build under the fake mode; if the constructor computes with values (layer widths, say), outside of it.

    Outside, each parameter is made fake as soon as its module has it. Uninitialised memory that is never written
    costs nothing, so that a large model still fits.
    """
    with skipped_init():
        try:
            return build()
        except DataDependentOutputException:
            with unset_fake_temporarily(), _fake_parameters(fake):
                return build()


@contextmanager
def skipped_init() -> Iterator[None]:
    """Make torch.nn.init's in-place initialisers return their tensor as it is, inside the block."""
    names = [n for n in vars(torch.nn.init) if n.endswith("_") and not n.endswith("__")]
    with patch.dict(vars(torch.nn.init), dict.fromkeys(names, _as_it_is)):
        yield


@contextmanager
def _fake_parameters(fake: FakeTensorMode) -> Iterator[None]:
    register = nn.Module.register_parameter

    def register_fake(module: nn.Module, name: str, parameter: nn.Parameter | None) -> None:
        register(module, name, parameter)
        if parameter is not None:
            module._parameters[name] = fake.from_tensor(parameter)

    with patch.object(nn.Module, "register_parameter", register_fake):
        yield


def _as_it_is(tensor: Any, *args: Any, **kwargs: Any) -> Any:
    return tensor
