"""The one table from op names to formulas. Every op is registered once; a second time is an error.

A rule has the signature of the op's schema, with `TensorSpec` in the place of tensors, and a keyword `out` with
the op's result (one spec, or a tuple or list as the op returns):

    @formula("aten.mm")
    def mm(a: TensorSpec, b: TensorSpec, *, out: TensorSpec) -> Cost:
        m, k = a.shape
        return Cost(matrix=2 * m * k * b.shape[1])

Names are "namespace.op" or "namespace.op.overload"; the longer one wins. An in-place op ("aten.relu_") takes the
rule of its functional form unless it has its own; an `out=` variant always does.
"""

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Literal, TypeVar

import msgspec

from roofline.core.precision import Precision
from roofline.errors import UsageError


class Cost(msgspec.Struct, frozen=True, kw_only=True):
    """What one call of an op costs.

    Bytes are not a rule's business as long as the op reads its inputs and writes its outputs once: the counter
    knows their sizes. A rule only states the exceptions.

    Attributes:
        matrix: FLOP on the matrix engine that run.
        needed: Those that a perfect program would do (the unmasked half of causal attention, say); None: all.
        vector: FLOP on the vector engine.
        precision: Of the matrix work; None: that of the first floating-point input.
        read: Bytes really read of the i-th tensor argument (arguments flattened in call order, tensors only),
            where that is not all of it: rows gathered, a destination that is only written (0).
        written: Bytes really written of the i-th output tensor, where that is not all of it.
        workspace_bytes: Bytes of scratch memory written and read again, known to matter.
        network_bytes: Bytes that this rank sends over the network.
        formula: "exact", or "estimate" where the work depends on data or on the algorithm chosen.
    """

    matrix: int | float = 0
    needed: int | float | None = None
    vector: int | float = 0
    precision: Precision | None = None
    read: Mapping[int, int | float] = {}
    written: Mapping[int, int | float] = {}
    workspace_bytes: int | float = 0
    network_bytes: int | float = 0
    formula: Literal["exact", "estimate"] = "exact"


Rule = Callable[..., Cost]
R = TypeVar("R", bound=Rule)

_RULES: dict[str, Rule] = {}
_FREE: set[str] = set()


def formula(*names: str) -> Callable[[R], R]:
    """Register a rule for ops, once each.

    Raises:
        UsageError: One of them has a rule already.
    """

    def register(rule: R) -> R:
        for name in names:
            _claim(name)
            _RULES[name] = rule
        return rule

    return register


def free(*names: str) -> None:
    """Declare ops free: views, metadata and allocation move no bytes and compute nothing."""
    for name in names:
        _claim(name)
        _FREE.add(name)


def register_formula(op: object, rule: Rule) -> None:
    """Register the cost of a custom op or Triton kernel.

    Args:
        op: The op (`torch.ops.mylib.fused_mlp`, or what `torch.library.custom_op` returns), the Triton kernel
            (what `triton.jit` returns, or its autotuner), or a name ("mylib.fused_mlp", "triton.my_kernel").
        rule: Takes the op's arguments with `TensorSpec` for tensors and the keyword `out`; returns a `Cost`. A
            Triton kernel returns nothing: its `out` is None, and each tensor counts as touched once.

    Raises:
        UsageError: The op has a formula already.
    """
    formula(_name_of(op))(rule)


def _name_of(op: object) -> str:
    if isinstance(op, str):
        return normalise(op)
    inner: Any = op
    while hasattr(inner, "fn"):
        inner = inner.fn
    return f"triton.{inner.__name__}" if inner is not op else normalise(str(getattr(op, "_qualname", op)))


def normalise(name: str) -> str:
    """Give the table's spelling of an op's name: "aten::mm", "aten.mm" and "aten.mm.default" are one."""
    return name.replace("::", ".").removesuffix(".default")


def find_rule(name: str) -> Rule | None:
    """Find the rule for "namespace.op.overload"; None if there is none."""
    return next((_RULES[n] for n in _candidates(name) if n in _RULES), None)


def is_free(name: str) -> bool:
    """Whether the op moves no bytes and computes nothing."""
    return any(n in _FREE for n in _candidates(name))


def registered() -> Mapping[str, Rule]:
    """All rules by name."""
    return _RULES


def declared_free() -> Iterable[str]:
    """All names declared free."""
    return sorted(_FREE)


def _candidates(name: str) -> list[str]:
    """Names to look under, most specific first."""
    packet = ".".join(name.split(".")[:2])
    names = [name, packet]
    if packet.endswith("_") and not packet.endswith("__"):
        names.append(packet[:-1])
    return names


def _claim(name: str) -> None:
    if name in _RULES or name in _FREE:
        raise UsageError(f'the op "{name}" has a formula already', "register each op once")


def call(rule: Rule, args: tuple[Any, ...], kwargs: Mapping[str, Any], out: Any) -> Cost:
    """Apply a rule to one call."""
    return rule(*args, **{k: v for k, v in kwargs.items() if k != "out"}, out=out)
