"""Modules on torch's meta device: shapes without data. They can be counted, and have nothing to run."""

from collections.abc import Callable, Iterator
from typing import Any

from roofline.errors import UsageError


def is_meta(*trees: Any) -> bool:
    """Whether anything in trees of tensors and modules is on the meta device."""
    return any(tensor.device.type == "meta" for tensor in _tensors(trees))


def is_fake(*trees: Any) -> bool:
    """Whether all of it was made to be counted: fake tensors, which know their shape and no data."""
    from torch._subclasses.fake_tensor import FakeTensor

    return all(isinstance(tensor, FakeTensor) for tensor in _tensors(trees))


def _tensors(trees: Any) -> Iterator[Any]:
    import torch
    from torch.utils._pytree import tree_leaves

    for leaf in tree_leaves(trees):
        if isinstance(leaf, torch.nn.Module):
            yield from (*leaf.parameters(), *leaf.buffers())
        elif isinstance(leaf, torch.Tensor):
            yield leaf


def runs_on_meta(step: Callable[[], Any]) -> bool:
    """Whether a step computes on the meta device, where it would be timed doing nothing. Runs it once."""
    from torch.utils._python_dispatch import TorchDispatchMode

    class Watch(TorchDispatchMode):
        seen = False

        def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            result = func(*args, **(kwargs or {}))
            self.seen = self.seen or is_meta(result)
            return result

    with Watch() as watch:
        step()
    return watch.seen


def no_data(label: str) -> UsageError:
    """Make the error for a program that has nothing to run."""
    return UsageError(
        f"{label} is on the meta device, which has no data to run",
        "count it instead: roofline count; or build it without the meta device",
    )


def placed(module: Any, device: str) -> Any:
    """A module of fake tensors with those on the meta device moved to `device`, in place: tied ones stay tied.

    `Module.to` can't: it has no data to copy, and fake parameters can't be swapped.
    """
    import torch

    moved: dict[int, Any] = {}

    def move(tensor: Any) -> Any:
        if tensor is None or tensor.device.type != "meta":
            return tensor
        if id(tensor) not in moved:
            copy = torch.empty_like(tensor, device=device)
            is_parameter = isinstance(tensor, torch.nn.Parameter)
            moved[id(tensor)] = torch.nn.Parameter(copy, tensor.requires_grad) if is_parameter else copy
        return moved[id(tensor)]

    for inner in module.modules():
        for table in (inner._parameters, inner._buffers):
            table.update({name: move(tensor) for name, tensor in table.items()})
    return module
