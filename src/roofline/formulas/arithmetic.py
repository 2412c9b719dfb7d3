"""How vector work is counted, in all families that do no matrix work.

The convention, one FLOP per arithmetic operation of the textbook formula and element:

- add, subtract, multiply, divide, compare, min, max, round, absolute value, sign: 1 each;
- a transcendental or special function (exp, log, sqrt, erf, tanh, pow, Bessel …): 1 each, however many
  instructions a library spends on it;
- accumulating n terms: n additions (the accumulator starts at zero), as 2·m·n·k does for a matmul;
- selecting (where, masked_fill, tril), copying and casting: 0; they move bytes only;
- integer and Boolean arithmetic: 0, so are masks and indices; it moves bytes only. An op counts as soon as one of
  its tensors is floating-point;
- complex: an addition is 2 real ones, a multiplication 6, a division 11, an absolute value 4; any other operation
  counts as a multiplication;
- what happens once per row, channel or call rather than per element (a reciprocal square root of a variance,
  bias corrections, interpolation weights shared by all channels) is not counted.

The branch of a piecewise formula that costs more is counted for every element.
"""

from collections.abc import Mapping
from typing import Any

from roofline.formulas.registry import Cost, Rule
from roofline.formulas.spec import TensorSpec, tensors

COMPLEX_MULTIPLY = 6


def aten(names: str) -> tuple[str, ...]:
    """Spell ops as the table does: "add mul" → "aten.add", "aten.mul"."""
    return spell("aten", names)


def spell(namespace: str, names: str) -> tuple[str, ...]:
    """Spell ops of a namespace as the table does."""
    return tuple(f"{namespace}.{name}" for name in names.split())


def is_complex(tree: Any) -> bool:
    """Whether one of the tensors is complex."""
    return any(t.dtype.startswith("complex") for t in tensors(tree))


def is_floating(tree: Any) -> bool:
    """Whether one of the tensors holds real or complex floating-point numbers."""
    return any(t.dtype.startswith(("float", "bfloat", "complex")) for t in tensors(tree))


def elements(tree: Any) -> int:
    """Elements of all tensors; stored ones where sparse."""
    return sum(t.numel if t.nnz is None else t.nnz for t in tensors(tree))


def results(args: Any, out: Any) -> Any:
    """What the op computes: its result, or its first argument where an in-place op returns nothing."""
    return out if next(tensors(out), None) is not None else args[0]


def arithmetic(tree: Any, flops: float, complex_flops: float | None = None) -> float:
    """FLOP of one element's formula by dtype: 0 for integers, the complex count where one is complex."""
    if not is_floating(tree):
        return 0
    if is_complex(tree):
        return COMPLEX_MULTIPLY * flops if complex_flops is None else complex_flops
    return flops


def position(*before: Any) -> int:
    """Index, among the tensors of a call, of the argument that follows `before`."""
    return sum(1 for _ in tensors(before))


def unread(tree: Any, start: int = 0) -> Mapping[int, int]:
    """State in `Cost.read` that the tensors of an argument are not read, `start` tensors standing before them."""
    return {start + i: 0 for i, _ in enumerate(tensors(tree))}


def moves(*args: Any, out: Any, **_: Any) -> Cost:
    """Read the inputs and write the outputs; no FLOP."""
    return Cost()


def fills(*args: Any, out: Any, **_: Any) -> Cost:
    """Write the outputs only: the first argument lends its shape, or is overwritten; no FLOP."""
    return Cost(read=unread(args[:1]))


def per_output(flops: float, complex_flops: float | None = None) -> Rule:
    """Make the rule of an elementwise op: so many FLOP per element of its (first) result."""

    def rule(*args: Any, out: Any, **_: Any) -> Cost:
        computed = results(args, out)
        first = computed[0] if isinstance(computed, tuple) else computed
        return Cost(vector=elements(first) * arithmetic((args, out), flops, complex_flops))

    rule.__doc__ = f"{flops:g} FLOP per element of the result."
    return rule


def per_input(flops: float, complex_flops: float | None = None, *, reads_second: bool = True) -> Rule:
    """Make the rule of an op that spends so many FLOP per element of its first argument.

    `reads_second=False`: the second tensor only lends its shape, as the input does in a pooling's backward.
    """

    def rule(*args: Any, out: Any, **_: Any) -> Cost:
        read = {} if reads_second else {position(args[0]): 0}
        return Cost(vector=elements(args[0]) * arithmetic((args, out), flops, complex_flops), read=read)

    rule.__doc__ = f"{flops:g} FLOP per element of the first argument."
    return rule


def first_tensor(tree: Any) -> TensorSpec | None:
    """The first tensor of a result; None if there is none."""
    return next(tensors(tree), None)
