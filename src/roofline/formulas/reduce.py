"""Reductions and scans.

FLOP per element of the input (accumulating n terms counts n):

| op | formula | FLOP |
|---|---|---|
| sum, prod, max, min, argmax, any, all, cumsum, cumprod, cummax | | 1 |
| mean | Σx / n | 1, and 1 per result |
| aminmax | | 2 |
| var, std | Σx 1; Σ(x − μ)² 3 | 4, and 1 per result |
| norm p = 2 | √Σx² | 2, and 1 per result |
| norm p = 0, 1, ∞ | test or absolute value, accumulate | 2 |
| norm, other p | absolute value, power, accumulate | 3, and 1 per result |
| logsumexp | max, subtract, exp, sum | 4, and 2 per result |
| logcumsumexp | max, min, subtract, exp, log1p, add | 6 |
| dist | subtract, then the norm | 3 |
| pairwise distance (pdist) | per pair and coordinate: subtract, square, add | 3, and 1 per pair |

Not counted: index bookkeeping of argmax and of the indices that max returns.
"""

from math import inf
from typing import Any

from roofline.formulas.arithmetic import (
    COMPLEX_MULTIPLY,
    arithmetic,
    aten,
    elements,
    first_tensor,
    moves,
    per_input,
)
from roofline.formulas.registry import Cost, Rule, formula
from roofline.formulas.spec import TensorSpec

formula(
    *aten("amax amin argmax argmin cumprod cummax cummin _cummax_helper _cummin_helper count_nonzero"),
    *aten("_foreach_max any all"),
)(per_input(1))
formula(*aten("sum nansum cumsum trace _nested_sum_backward _sparse_sum _sparse_csr_sum"))(per_input(1, 2))
formula(*aten("prod _sparse_csr_prod"))(per_input(1, COMPLEX_MULTIPLY))
formula(*aten("aminmax _aminmax"))(per_input(2))
formula(*aten("_logcumsumexp logcumsumexp"))(per_input(6))
formula(*aten("hash_tensor"))(moves)


def _reduction(per_element: float, per_result: float) -> Rule:
    def rule(x: TensorSpec, *args: Any, out: Any, **_: Any) -> Cost:
        flops = elements(x) * per_element + elements(first_tensor(out)) * per_result
        return Cost(vector=flops * arithmetic((x, out), 1))

    rule.__doc__ = f"{per_element:g} FLOP per element of the input, {per_result:g} per element of the result."
    return rule


formula("aten.mean")(_reduction(1, 1))
formula(*aten("var std var_mean std_mean"))(_reduction(4, 1))
formula("aten.logsumexp")(_reduction(4, 2))


@formula(*aten("max min"))
def extremum(x: TensorSpec, *args: Any, out: Any, **_: Any) -> Cost:
    """Max or min of a tensor, along a dimension, or of two tensors: 1 FLOP per element compared."""
    compared = out if args and isinstance(args[0], TensorSpec) else x
    return Cost(vector=elements(compared) * arithmetic(x, 1))


def norm_flops(order: Any) -> tuple[int, int]:
    """FLOP of a vector norm, per element and per result."""
    if order is None or order == 2:
        return 2, 1
    if order in (0, 1, inf, -inf):
        return 2, 0
    return 3, 1


@formula(*aten("linalg_vector_norm norm native_norm"))
def vector_norm(x: TensorSpec, order: Any = 2, *args: Any, out: TensorSpec, **_: Any) -> Cost:
    """(Σ abs(x)ᵖ)^(1/p): 2 or 3 FLOP per element by p, and 1 for the root."""
    per_element, per_result = norm_flops(order)
    return Cost(vector=(x.numel * per_element + out.numel * per_result) * arithmetic(x, 1, 2))


@formula(*aten("linalg__powsum"))
def power_sum(x: TensorSpec, order: Any = 2, *args: Any, out: TensorSpec, **_: Any) -> Cost:
    """Σ abs(x)ᵖ, a norm without its root: 2 or 3 FLOP per element by p."""
    return Cost(vector=x.numel * norm_flops(order)[0] * arithmetic(x, 1, 2))


@formula(*aten("_foreach_norm _foreach_powsum"))
def foreach_norm(x: list[TensorSpec], order: Any = 2, *args: Any, out: Any, **_: Any) -> Cost:
    """Norm of each tensor of a list: 2 or 3 FLOP per element by p."""
    per_element, per_result = norm_flops(order)
    return Cost(vector=elements(x) * per_element + len(x) * per_result)


@formula("aten.dist")
def dist(a: TensorSpec, b: TensorSpec, p: Any = 2, *, out: TensorSpec, **_: Any) -> Cost:
    """Norm of a − b: a subtraction and the norm, per element."""
    per_element, per_result = norm_flops(p)
    return Cost(vector=max(a.numel, b.numel) * (1 + per_element) + per_result)


@formula("aten._pdist_forward")
def pdist(x: TensorSpec, p: float = 2, *, out: TensorSpec, **_: Any) -> Cost:
    """Distance of every pair of rows: per pair and coordinate 1 + the norm's, and 1 per pair."""
    per_element, per_result = norm_flops(p)
    return Cost(vector=out.numel * (x.shape[-1] * (1 + per_element) + per_result))


@formula("aten._pdist_backward")
def pdist_backward(
    grad: TensorSpec, x: TensorSpec, p: float, distance: TensorSpec, *, out: TensorSpec, **_: Any
) -> Cost:
    """Σ over pairs of g·(xᵢ − xⱼ)/d, into both rows: 5 FLOP per pair and coordinate."""
    return Cost(vector=5 * grad.numel * x.shape[-1])


@formula("aten.segment_reduce")
def segment_reduce(data: TensorSpec, reduce: str, *, out: TensorSpec, **_: Any) -> Cost:
    """Reduction of each segment: 1 FLOP per element."""
    return Cost(vector=data.numel)


@formula("aten._segment_reduce_backward")
def segment_reduce_backward(
    grad: TensorSpec, output: TensorSpec, data: TensorSpec, reduce: str, *, out: TensorSpec, **_: Any
) -> Cost:
    """Gradient of each segment's elements: 1 FLOP per element."""
    return Cost(vector=data.numel)
