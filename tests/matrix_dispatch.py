"""A dispatcher for tests of formulas: apply the table to every op that runs, nothing else."""

from collections.abc import Callable
from typing import Any

import torch
from torch.nested._internal.nested_tensor import NestedTensor
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_map
from torch.utils.flop_counter import FlopCounterMode

import roofline.formulas  # noqa: F401 — fills the table
from roofline.formulas.registry import Cost, call, find_rule
from roofline.formulas.spec import TensorSpec

SPARSE = (torch.sparse_coo, torch.sparse_csr, torch.sparse_csc, torch.sparse_bsr, torch.sparse_bsc)


def spec(value: Any) -> Any:
    """TensorSpec of a tensor, with values if it is a small integer one; anything else as it is."""
    if not isinstance(value, torch.Tensor):
        return value
    dtype = str(value.dtype).removeprefix("torch.")
    if value.is_nested and value.layout == torch.strided:
        sizes = value._nested_tensor_size()
        padded = (len(sizes), *sizes.max(0).values.tolist())
        return TensorSpec(padded, dtype, nnz=value.numel(), values=tuple(sizes[:, 0].tolist()))
    shape = tuple(value.shape)
    if value.layout in SPARSE:
        stored = value._values() if value.layout == torch.sparse_coo else value.values()
        return TensorSpec(shape, dtype, nnz=stored.numel())
    if value.layout != torch.strided:
        return TensorSpec(shape, dtype)
    real = value.dtype in (torch.int32, torch.int64) and value.numel() <= 64 and type(value) is torch.Tensor
    known = real and value.device.type == "cpu"
    return TensorSpec(shape, dtype, value.stride(), values=tuple(value.flatten().tolist()) if known else None)


class Dispatcher(TorchDispatchMode):
    """Collects the cost of every op that has a rule; the others must do no matrix work."""

    supports_higher_order_operators = True

    @classmethod
    def is_infra_mode(cls) -> bool:
        return True  # else flex_attention, which compiles itself, refuses to run

    def __init__(self) -> None:
        super().__init__()
        self.costs: list[tuple[str, Cost]] = []
        self.calls: list[tuple[str, Any, Any, Cost]] = []
        self.ruleless: set[str] = set()

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        if any(issubclass(t, NestedTensor) for t in types):
            return NotImplemented  # it unwraps itself; then the op comes again, on its values
        if isinstance(func, torch._ops.OpOverload):
            name = f"{func.namespace}.{func._schema.name.split('::')[1]}"
            name += "" if func._overloadname == "default" else f".{func._overloadname}"
        else:
            name = f"higher_order.{func.name()}"
        rule = find_rule(name)
        if rule is None and isinstance(func, torch._ops.OpOverload) and func.namespace != "prim":
            with self:
                inner = func.decompose(*args, **kwargs)
            if inner is not NotImplemented:
                return inner
        specs, spec_kwargs = tree_map(spec, args), tree_map(spec, kwargs)
        out = func(*args, **kwargs)
        if rule is None:
            self.ruleless.add(name)
        else:
            cost = call(rule, specs, spec_kwargs, tree_map(spec, out))
            self.costs.append((name, cost))
            self.calls.append((name, specs, spec_kwargs, cost))
        return out

    @property
    def executed(self) -> int:
        return sum(c.matrix for _, c in self.costs)

    @property
    def needed(self) -> int:
        return sum(c.matrix if c.needed is None else c.needed for _, c in self.costs)

    def matrix_costs(self) -> list[tuple[str, Cost]]:
        return [(n, c) for n, c in self.costs if c.matrix]


def count(step: Callable[[], Any]) -> Dispatcher:
    """Our count of one step."""
    with Dispatcher() as dispatcher:
        step()
    return dispatcher


def torch_count(step: Callable[[], Any]) -> int:
    """The count of torch's FlopCounterMode for the same step."""
    with FlopCounterMode(display=False) as counter:
        step()
    return counter.get_total_flops()
