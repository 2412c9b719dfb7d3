"""Pooling, forward and backward.

FLOP per element of the result, with a window of k elements: max k comparisons; average k additions and a division.
Adaptive windows have their true sizes, ⌈(i + 1)·n/m⌉ − ⌊i·n/m⌋.
Backward: average: per element of the gradient a division, and k additions into the input; max: one addition.

Bytes: input, result and the saved indices once. The backward of a pooling needs the input's shape only, not its
values. Taps that fall into the padding are counted.
"""

from collections.abc import Sequence
from math import prod
from typing import Any

from roofline.formulas.arithmetic import arithmetic, aten, first_tensor, moves, per_input, position
from roofline.formulas.registry import Cost, Rule, formula
from roofline.formulas.spec import TensorSpec

formula(
    *aten("max_pool2d_with_indices_backward max_pool3d_with_indices_backward adaptive_max_pool2d_backward"),
    *aten("adaptive_max_pool3d_backward fractional_max_pool2d_backward fractional_max_pool3d_backward"),
)(per_input(1, reads_second=False))
formula(*aten("mkldnn_max_pool2d_backward mkldnn_max_pool3d_backward max_pool2d_backward"))(per_input(1))
formula(*aten("max_unpool2d max_unpool3d"))(moves)


def window(kernel: int | Sequence[int], dims: int) -> int:
    """Elements of a window; one number stands for all dimensions."""
    sizes = [kernel] if isinstance(kernel, int) else list(kernel)
    return sizes[0] ** dims if len(sizes) == 1 else prod(sizes)


def adaptive_taps(x: TensorSpec, out: TensorSpec, dims: int) -> int:
    """Σ of the window sizes over all elements of an adaptive pooling's result.

    Per dimension Σᵢ ⌈(i + 1)·n/m⌉ − ⌊i·n/m⌋ for n inputs and m outputs; the product over dimensions and batch.
    """
    taps = prod(x.shape[:-dims])
    for n, m in zip(x.shape[-dims:], out.shape[-dims:], strict=True):
        taps *= sum(-(-(i + 1) * n // m) - i * n // m for i in range(m))
    return taps


def _max_pool(dims: int) -> Rule:
    def rule(x: TensorSpec, kernel: int | Sequence[int], *args: Any, out: Any, **_: Any) -> Cost:
        result = first_tensor(out)
        assert result is not None
        return Cost(vector=result.numel * window(kernel, dims) * arithmetic(x, 1))

    rule.__doc__ = f"Max over a {dims}-d window of k elements: k comparisons per element of the result."
    return rule


def _average_pool(dims: int) -> Rule:
    def rule(x: TensorSpec, kernel: int | Sequence[int], *args: Any, out: TensorSpec, **_: Any) -> Cost:
        return Cost(vector=out.numel * (window(kernel, dims) + 1) * arithmetic(x, 1))

    rule.__doc__ = f"Mean over a {dims}-d window of k elements: k + 1 FLOP per element of the result."
    return rule


def _average_pool_backward(dims: int) -> Rule:
    def rule(
        grad: TensorSpec, x: TensorSpec, kernel: int | Sequence[int], *args: Any, out: TensorSpec, **_: Any
    ) -> Cost:
        return Cost(vector=grad.numel * (window(kernel, dims) + 1), read={position(grad): 0})

    rule.__doc__ = f"Gradient of a {dims}-d mean: k + 1 FLOP per element of the incoming gradient."
    return rule


def _adaptive_pool(dims: int, *, average: bool) -> Rule:
    def rule(x: TensorSpec, *args: Any, out: Any, **_: Any) -> Cost:
        result = first_tensor(out)
        assert result is not None
        flops = adaptive_taps(x, result, dims) + average * result.numel
        return Cost(vector=flops * arithmetic(x, 1))

    rule.__doc__ = f"{dims}-d pooling to a given size: 1 FLOP per window element, and a division where averaged."
    return rule


def _adaptive_average_backward(dims: int) -> Rule:
    def rule(grad: TensorSpec, x: TensorSpec, *args: Any, out: TensorSpec, **_: Any) -> Cost:
        return Cost(vector=adaptive_taps(x, grad, dims) + grad.numel, read={position(grad): 0})

    rule.__doc__ = f"Gradient of {dims}-d adaptive averaging: a division, and 1 addition per window element."
    return rule


# The 1-d forms and adaptive averaging are composite: only their `out=` overloads reach dispatch whole.
for _d in (2, 3):
    formula(f"aten.avg_pool{_d}d")(_average_pool(_d))
    formula(f"aten.avg_pool{_d}d_backward")(_average_pool_backward(_d))
    formula(f"aten.max_pool{_d}d_with_indices", f"aten.mkldnn_max_pool{_d}d")(_max_pool(_d))
    formula(f"aten.fractional_max_pool{_d}d", f"aten.quantized_max_pool{_d}d")(_max_pool(_d))
    formula(f"aten.adaptive_max_pool{_d}d")(_adaptive_pool(_d, average=False))
    formula(f"aten._adaptive_avg_pool{_d}d", f"aten.adaptive_avg_pool{_d}d.out")(_adaptive_pool(_d, average=True))
    formula(f"aten._adaptive_avg_pool{_d}d_backward")(_adaptive_average_backward(_d))
formula("aten.avg_pool1d.out")(_average_pool(1))
formula("aten.quantized_max_pool1d")(_max_pool(1))
formula("aten.adaptive_avg_pool1d.out")(_adaptive_pool(1, average=True))
formula("aten.mkldnn_adaptive_avg_pool2d")(_adaptive_pool(2, average=True))
formula("aten.mkldnn_adaptive_avg_pool2d_backward")(_adaptive_average_backward(2))
formula("aten.adaptive_avg_pool3d_backward")(_adaptive_average_backward(3))
