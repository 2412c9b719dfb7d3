"""The dispatch mode that sees every op that runs, and writes one `OpCall` for each."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import lru_cache
from typing import Any, NamedTuple

import msgspec
import torch
from torch._subclasses.fake_tensor import FakeTensor, FakeTensorMode
from torch.optim.optimizer import Optimizer, register_optimizer_step_post_hook, register_optimizer_step_pre_hook
from torch.utils._python_dispatch import TorchDispatchMode, is_traceable_wrapper_subclass_type
from torch.utils._pytree import tree_leaves, tree_map

from roofline.core.precision import Precision
from roofline.core.run import Formula
from roofline.counter.access import Accesses, Input, Output, Writes, mutations, values_of
from roofline.counter.call import Access, OpCall
from roofline.counter.causal import CausalScopes
from roofline.counter.control_flow import body_of
from roofline.counter.flex import FLEX_OPS, MaskedPairs
from roofline.counter.launches import watched_launches
from roofline.counter.modules import ModuleTracker
from roofline.counter.parallel import in_group, is_collective
from roofline.counter.shape_rules import fake_kernel
from roofline.formulas.registry import Cost, Rule, call, find_rule, is_free

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
_DEVICE = torch.ops.prim.device.default


class _Op(NamedTuple):
    """What one count needs to know of an op, looked up at its first call."""

    name: str
    packet: str
    rule: Rule | None
    run: Callable[..., Any]
    is_free: bool
    is_question: bool
    is_composite: bool
    writes: Writes


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

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        """Spare each op the wrapper that keeps torch.compile out: under `record` nothing is compiled."""
        return False

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
        self._masked = MaskedPairs()
        self._in_optimizer = 0
        self._inside_op = 0
        self._ops: dict[Any, _Op] = {}
        self._copies: list[torch.Tensor] = []

    @contextmanager
    def recording(self) -> Iterator[None]:
        """Record every op inside the block."""
        before = register_optimizer_step_pre_hook(self._optimizer_starts)
        after = register_optimizer_step_post_hook(self._optimizer_ends)
        try:
            with self._tracker.tracking(), self._causal.watching(), watched_launches(self._launched), self:
                yield
        finally:
            before.remove()
            after.remove()

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Record one op and run it."""
        if func is _DEVICE and type(args[0]) is FakeTensor:
            # Most of what is dispatched on fake tensors: answered here, it skips a round through the fake mode.
            return args[0].fake_device
        kwargs = kwargs or {}
        op = self._ops.get(func) or self._look_up(func)
        if op.is_question or any(t is not FakeTensor and _unwraps_itself(t) for t in types):
            return NotImplemented
        if self._fake is not None and _holds_real(args, kwargs):
            return self._on_fakes(func, types, args, kwargs)
        if op.is_free:
            self.free_calls += 1
            return func(*args, **kwargs)
        if op.rule is None or op.is_composite:
            inner = self._taken_apart(func, args, kwargs)
            if inner is not NotImplemented:
                return inner
        return self._counted(op, func, args, kwargs)

    @contextmanager
    def stated(self, name: str, cost: Cost, nbytes: float) -> Iterator[None]:
        """Record one call of this cost in place of what runs in the block."""
        before, free_before = len(self.calls), self.free_calls
        yield
        del self.calls[before:]
        self.free_calls = free_before
        reads = (self.accesses.stated(nbytes),) if nbytes else ()
        self._add(name, [], cost, cost.formula, reads, ())

    def _launched(self, kernel: str, launch: Callable[..., Any], args: Any, kwargs: Any) -> Any:
        """Record the launch of a Triton kernel; one inside an op that is counted whole belongs to that op."""
        out = None if self._fake is not None else launch(*args, **kwargs)
        if self._inside_op:
            return out
        name = f"triton.{kernel}"
        op = _Op(name, name, find_rule(name), launch, False, False, False, Writes(frozenset(), frozenset()))
        seen: list[Input] = []
        specs, spec_kwargs = self.accesses.arguments(args, kwargs, op.writes, seen)
        cost, formula = self._cost(op, args, specs, spec_kwargs, None)
        self._add(name, seen, cost, formula, self.accesses.read(seen, cost), ())
        return out

    def _counted(self, op: _Op, func: Any, args: Any, kwargs: Any) -> Any:
        seen: list[Input] = []
        specs, spec_kwargs = self.accesses.arguments(args, kwargs, op.writes, seen)
        self._inside_op += 1
        try:
            out = op.run(*args, **kwargs)
        finally:
            self._inside_op -= 1
        outputs: list[Output] = []
        out_specs = self.accesses.results(out, outputs)
        cost, formula = self._cost(op, args, specs, spec_kwargs, out_specs)
        reads = self.accesses.read(seen, cost)
        self._add(op.packet, seen, cost, formula, reads, self.accesses.written(seen, outputs, cost), outputs)
        return out

    def _add(
        self,
        name: str,
        seen: list[Input],
        cost: Cost,
        formula: Formula,
        reads: tuple[Access, ...],
        writes: tuple[Access, ...],
        outputs: Sequence[Output] = (),
    ) -> None:
        in_backward = torch._C._current_graph_task_id() != -1
        self.calls.append(
            OpCall(
                name=name,
                module=self._tracker.current(),
                phase="optimizer" if self._in_optimizer else "backward" if in_backward else "forward",
                tensor_shapes=tuple([i.spec.shape for i in seen]),
                precision=_precision(cost, seen, outputs),
                cost=cost,
                formula=formula,
                recomputed=in_backward and _is_recomputation(),
                reads=reads,
                writes=writes,
            )
        )

    def _look_up(self, func: Any) -> _Op:
        name = _name(func)
        op = _Op(
            name=name,
            packet=".".join(name.split(".")[:2]),
            rule=find_rule(name),
            run=func if self._fake is None else fake_kernel(func),
            is_free=is_free(name),
            is_question=name in _METADATA or name.startswith("prim."),
            is_composite=_is_composite(func),
            writes=mutations(func),
        )
        self._ops[func] = op
        return op

    def _taken_apart(self, func: Any, args: Any, kwargs: Any) -> Any:
        """Run an op without a formula by the ops that it consists of, recording those; NotImplemented if it can't."""
        if isinstance(func, torch._ops.OpOverload):
            with self:
                return func.decompose(*args, **kwargs)
        if func is torch.ops.higher_order.cond and not isinstance(args[0], bool):
            return self._dearer_branch(*args)
        body = body_of(func)
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
            # Held, it stands for the same storage wherever the program uses the tensor again, and outlives the step.
            self._copies.append(copy)
            if (values := values_of(value)) is not None:
                self.accesses.known_values[id(copy)] = values
            return copy

        args, kwargs = tree_map(to_fake, (args, kwargs))
        out = self.__torch_dispatch__(func, types, args, kwargs)
        self.accesses.known_values.clear()
        return tree_map(lambda value: originals.get(id(value), value), out)

    def _cost(self, op: _Op, args: Any, specs: Any, kwargs: Mapping[str, Any], out: Any) -> tuple[Cost, Formula]:
        if op.rule is None:
            return _NOTHING, "none"
        try:
            cost = call(op.rule, specs, kwargs, out)
        except Exception as error:  # noqa: BLE001 — a formula's fault must not end the program being counted
            self.failures[op.name] = f"{type(error).__name__}: {error}"
            return _NOTHING, "none"
        if is_collective(op.packet):
            cost = in_group(cost, op.packet, (*args, *kwargs.values()))
        needed = self._causal.needed_fraction(op.packet)
        if needed is not None and cost.needed is None:
            cost = msgspec.structs.replace(cost, needed=round(cost.matrix * needed))
        if op.packet in FLEX_OPS and cost.formula == "estimate":
            cost = self._masked.refined(cost, op.packet, op.rule, args, specs)
        return cost, cost.formula

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


def _is_composite(func: Any) -> bool:
    """Whether torch's own op runs as other ops.

    Only inference mode shows one whole. Taken apart, it counts as in eager mode, copies of operands included.
    """
    if not isinstance(func, torch._ops.OpOverload) or func.namespace != "aten":
        return False
    key = torch._C.DispatchKey.CompositeImplicitAutograd
    return torch._C._dispatch_has_kernel_for_dispatch_key(func.name(), key)


@lru_cache(maxsize=256)
def _unwraps_itself(kind: type) -> bool:
    """Whether a tensor class (jagged, distributed, quantised) turns an op into ops on the tensors that it holds."""
    return is_traceable_wrapper_subclass_type(kind)


def _is_real(value: Any) -> bool:
    return isinstance(value, torch.Tensor) and not isinstance(value, FakeTensor)


def _holds_real(args: Any, kwargs: Any) -> bool:
    """Whether a real tensor is among the arguments; most calls have a flat list of them."""
    for value in (*args, *kwargs.values()) if kwargs else args:
        kind = type(value)
        if kind is FakeTensor:
            continue
        if kind is list or kind is tuple or kind is dict:
            if any(_is_real(leaf) for leaf in tree_leaves(value)):
                return True
        elif _is_real(value):
            return True
    return False


def _precision(cost: Cost, inputs: list[Input], outputs: Sequence[Output]) -> Precision | None:
    """The formula's precision, else that of the first floating-point tensor, else of any tensor with one."""
    if cost.precision is not None:
        return cost.precision
    integer = None
    for spec in [*[i.spec for i in inputs], *[o.spec for o in outputs]]:
        precision = spec.precision
        if precision is not None:
            if not precision.is_integer:
                return precision
            integer = integer or precision
    return integer


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
