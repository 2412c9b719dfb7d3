"""The dispatch mode that sees every op that runs, and writes one `OpCall` for each."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import lru_cache
from typing import Any

import msgspec
import torch
from torch._subclasses.fake_tensor import FakeTensor, FakeTensorMode
from torch.optim.optimizer import Optimizer, register_optimizer_step_post_hook, register_optimizer_step_pre_hook
from torch.utils._python_dispatch import TorchDispatchMode, is_traceable_wrapper_subclass_type
from torch.utils._pytree import tree_leaves, tree_map

from roofline.core.precision import Precision
from roofline.core.run import Formula, Phase
from roofline.counter.access import Accesses
from roofline.counter.call import OpCall
from roofline.counter.causal import CausalScopes
from roofline.counter.modules import ModuleTracker
from roofline.formulas.registry import Cost, call, find_rule, is_free
from roofline.formulas.spec import tensors

# Questions about a tensor's layout: answered by the tensor, they never reach a kernel. "prim" holds the rest.
_METADATA = {
    "aten.sym_is_contiguous",
    "aten.is_contiguous",
    "aten.is_strides_like_format",
    "aten.is_non_overlapping_and_dense",
    "aten.size",
    "aten.sym_size",
    "aten.stride",
    "aten.sym_stride",
    "aten.storage_offset",
    "aten.sym_storage_offset",
    "aten.numel",
    "aten.sym_numel",
    "aten.dim",
}
_NOTHING = Cost()


class Recorder(TorchDispatchMode):
    """Records every op under it.

    Args:
        tracker: Tells which module an op belongs to.
        fake: The mode that the program runs under, if it does; real tensors that it meets are then made fake here.

    Attributes:
        calls: One entry per op that computes or moves bytes.
        free_calls: Calls of views, allocations and metadata.
        made_optimizer_state: Whether an optimizer made its state in this very step.
        failures: Ops whose formula broke on the arguments, with the reason.
    """

    # Without both, torch refuses to run higher-order ops (flex_attention, while_loop) under the mode.
    supports_higher_order_operators = True

    @classmethod
    def is_infra_mode(cls) -> bool:
        """Say that the mode watches, rather than changes, what runs."""
        return True

    def __init__(self, tracker: ModuleTracker, fake: FakeTensorMode | None = None) -> None:
        super().__init__()
        self.calls: list[OpCall] = []
        self.accesses = Accesses()
        self.free_calls = 0
        self.made_optimizer_state = False
        self.failures: dict[str, str] = {}
        self._tracker = tracker
        self._fake = fake
        self._causal = CausalScopes()
        self._in_optimizer = 0

    @contextmanager
    def recording(self) -> Iterator[None]:
        """Record every op inside the block."""
        before = register_optimizer_step_pre_hook(self._optimizer_starts)
        after = register_optimizer_step_post_hook(self._optimizer_ends)
        try:
            with self._tracker.tracking(), self._causal.watching(), self:
                yield
        finally:
            before.remove()
            after.remove()

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Record one op and run it."""
        kwargs = kwargs or {}
        name = _name(func)
        if name in _METADATA or any(_unwraps_itself(t) for t in types):
            return NotImplemented
        if self._fake is not None and any(_is_real(t) for t in tree_leaves([args, kwargs])):
            return self._on_fakes(func, types, args, kwargs)
        if name.startswith("prim.") or is_free(name):
            self.free_calls += 1
            return func(*args, **kwargs)
        rule = find_rule(name)
        if rule is None:
            inner = self._taken_apart(func, args, kwargs)
            if inner is not NotImplemented:
                return inner
        specs, spec_kwargs = self.accesses.specs(args), self.accesses.specs(kwargs)
        reads = self.accesses.inputs(func, args, kwargs)
        out = func(*args, **kwargs)
        out_specs = self.accesses.specs(out)
        cost, formula = self._cost(name, rule, specs, spec_kwargs, out_specs)
        self.calls.append(
            OpCall(
                name=".".join(name.split(".")[:2]),
                module=self._tracker.current(),
                phase=self._phase(),
                tensor_shapes=tuple(s.shape for s in tensors([specs, spec_kwargs])),
                precision=_precision(cost, (specs, spec_kwargs, out_specs)),
                cost=cost,
                formula=formula,
                recomputed=_is_recomputation(),
                reads=self.accesses.read(reads, cost),
                writes=self.accesses.written(func, reads, out, cost),
            )
        )
        return out

    def _taken_apart(self, func: Any, args: Any, kwargs: Any) -> Any:
        """Run an op without a formula by the ops that it consists of, recording those; NotImplemented if it can't."""
        if isinstance(func, torch._ops.OpOverload):
            with self:
                return func.decompose(*args, **kwargs)
        if func is torch.ops.higher_order.cond and not isinstance(args[0], bool):
            return self._dearer_branch(*args)
        body = func.py_kernels.get(torch._C.DispatchKey.CompositeExplicitAutograd)
        if body is None:
            return NotImplemented
        with self:
            return body(*args, **kwargs)

    def _dearer_branch(self, predicate: Any, if_true: Any, if_false: Any, operands: Any) -> Any:
        """The branch taken; on fake tensors, where nobody knows, the one with more work."""
        if _is_real(predicate):
            with self:
                return (if_true if predicate.item() else if_false)(*operands)
        outcomes = []
        for branch in (if_true, if_false):
            outer, self.calls = self.calls, []
            with self:
                result = branch(*operands)
            outcomes.append((sum(c.cost.matrix + c.cost.vector for c in self.calls), self.calls, result))
            self.calls = outer
        _, calls, result = max(outcomes, key=lambda outcome: outcome[0])
        self.calls += calls
        return result

    def _on_fakes(self, func: Any, types: Any, args: Any, kwargs: Any) -> Any:
        """Run an op on fake copies of the caller's real tensors.

        Left to itself, the fake mode would run an op for real that sees no fake tensor at all: an in-place one
        would change the caller's data.
        """
        originals: dict[int, torch.Tensor] = {}

        def to_fake(value: Any) -> Any:
            if not _is_real(value):
                return value
            copy = self._fake.from_tensor(value)  # type: ignore[union-attr]
            originals[id(copy)] = value
            return copy

        args, kwargs = tree_map(to_fake, (args, kwargs))
        out = self.__torch_dispatch__(func, types, args, kwargs)
        return tree_map(lambda value: originals.get(id(value), value), out)

    def _cost(self, name: str, rule: Any, specs: Any, kwargs: Mapping[str, Any], out: Any) -> tuple[Cost, Formula]:
        if rule is None:
            return _NOTHING, "none"
        try:
            cost = call(rule, specs, kwargs, out)
        except Exception as error:  # noqa: BLE001 — a formula's fault must not end the program being counted
            self.failures[name] = f"{type(error).__name__}: {error}"
            return _NOTHING, "none"
        needed = self._causal.needed_fraction(".".join(name.split(".")[:2]))
        if needed is not None and cost.needed is None:
            cost = msgspec.structs.replace(cost, needed=round(cost.matrix * needed))
        return cost, cost.formula

    def _phase(self) -> Phase:
        if self._in_optimizer:
            return "optimizer"
        return "forward" if torch._C._current_graph_task_id() == -1 else "backward"

    def _optimizer_starts(self, optimizer: Optimizer, args: Any, kwargs: Any) -> None:
        self._in_optimizer += 1
        params = [p for group in optimizer.param_groups for p in group["params"] if p.grad is not None]
        self.made_optimizer_state |= any(not optimizer.state.get(p) for p in params)

    def _optimizer_ends(self, optimizer: Optimizer, args: Any, kwargs: Any) -> None:
        self._in_optimizer -= 1


def _name(func: Any) -> str:
    """Name an op "namespace.op.overload", without "default"."""
    if isinstance(func, torch._ops.OpOverload):
        base = f"{func.namespace}.{func._schema.name.split('::')[1]}"
        return base if func._overloadname == "default" else f"{base}.{func._overloadname}"
    return f"higher_order.{func.name()}"


@lru_cache(maxsize=256)
def _unwraps_itself(kind: type) -> bool:
    """Whether a tensor class (jagged, distributed, quantised) turns an op into ops on the tensors that it holds."""
    return is_traceable_wrapper_subclass_type(kind)


def _is_real(value: Any) -> bool:
    return isinstance(value, torch.Tensor) and not isinstance(value, FakeTensor)


def _precision(cost: Cost, specs: Any) -> Precision | None:
    """The formula's precision, else that of the first floating-point tensor, else of any tensor with one."""
    if cost.precision is not None:
        return cost.precision
    known = [s.precision for s in tensors(specs) if s.precision is not None]
    return next((p for p in known if not p.is_integer), known[0] if known else None)


def _is_recomputation() -> bool:
    """Whether a checkpointed block is being run again inside backward.

    The non-reentrant kind installs its own saved-tensor hooks; the reentrant kind runs under its own autograd node.
    """
    if torch._C._current_graph_task_id() == -1:
        return False
    hooks = torch._C._autograd._top_saved_tensors_default_hooks(True)
    if hooks and "_recomputation_hook" in hooks[0].__qualname__:
        return True
    node = torch._C._current_autograd_node()
    return node is not None and node.name() == "CheckpointFunctionBackward" and torch.is_grad_enabled()
