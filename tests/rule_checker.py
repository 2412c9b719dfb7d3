"""A dispatch mode that applies the formula of every op that runs, and keeps what goes wrong."""

from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_map

from roofline.formulas.registry import Cost, call, find_rule, is_free
from roofline.formulas.spec import TensorSpec, tensors

SPARSE = (torch.sparse_coo, torch.sparse_csr, torch.sparse_csc, torch.sparse_bsr, torch.sparse_bsc)


def spec(value: Any) -> Any:
    """Replace a tensor by its shape record."""
    if not isinstance(value, torch.Tensor):
        return value
    dtype = str(value.dtype).removeprefix("torch.")
    if value.layout in SPARSE:
        values = value._values() if value.layout == torch.sparse_coo else value.values()
        return TensorSpec(tuple(value.shape), dtype, None, values.numel())
    strides = tuple(value.stride()) if value.layout == torch.strided else None
    return TensorSpec(tuple(value.shape), dtype, strides)


class RuleChecker(TorchDispatchMode):
    """Applies rules to live calls.

    Attributes:
        unknown: Ops without a rule.
        faults: What a rule raised, or what is impossible in its cost, by op.
        costs: Costs of all counted ops, in order.
    """

    def __init__(self) -> None:
        super().__init__()
        self.unknown: set[str] = set()
        self.faults: dict[str, str] = {}
        self.costs: list[tuple[str, Cost]] = []

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        name = f"{func._schema.name.replace('::', '.')}.{func._schema.overload_name}".removesuffix(".")
        if find_rule(name) is None and not is_free(name):
            with self:
                inner = func.decompose(*args, **kwargs)
            if inner is not NotImplemented:
                return inner
        given, named = tree_map(spec, args), tree_map(spec, kwargs)
        out = func(*args, **kwargs)
        self._check(name, given, named, tree_map(spec, out))
        return out

    def _check(self, name: str, args: Any, kwargs: Any, out: Any) -> None:
        if is_free(name):
            return
        rule = find_rule(name)
        if rule is None:
            self.unknown.add(name)
            return
        try:
            cost = call(rule, args, kwargs, out)
            self.costs.append((name, cost))
            _check_cost(cost, [*tensors((list(args), kwargs))], [*tensors(out)])
        except Exception as error:  # noqa: BLE001 — every fault is collected, whatever it is
            self.faults[name] = f"{type(error).__name__}: {error} on {args}"


def _check_cost(cost: Cost, inputs: list[TensorSpec], outputs: list[TensorSpec]) -> None:
    """What holds for every cost: finite, not negative, no more bytes than a tensor has."""
    for number in (cost.matrix, cost.vector, cost.network_bytes, cost.workspace_bytes):
        assert 0 <= number < float("inf"), cost
    assert cost.needed is None or 0 <= cost.needed <= cost.matrix, cost
    for i, nbytes in cost.read.items():
        assert 0 <= nbytes <= inputs[i].nbytes, (cost, inputs)
    for i, nbytes in cost.written.items():
        # After the results come arguments that the op changes though its schema doesn't say so (running statistics).
        assert 0 <= nbytes <= ([*outputs, *inputs])[i].nbytes, (cost, outputs)
