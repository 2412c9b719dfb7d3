"""Resampling: upsampling, grid sampling, patches (im2col, col2im), and the backward of padding.

FLOP per element of the result: an interpolation of k neighbours takes k products and k − 1 additions:

| mode | neighbours k | forward 2·k − 1 | backward 2·k, per element of the gradient |
|---|---|---|---|
| nearest | 1 | 0 | 1 |
| linear 1-d, bilinear, trilinear | 2, 4, 8 | 3, 7, 15 | 4, 8, 16 |
| bicubic | 16 | 31 | 32 |
| anti-aliased | ⌈2·r·s⌉ per dimension, filter radius r, s = max(1, in/out) | 2·k − 1 per pass | 2·k per pass |

Anti-aliased filters run as one pass per dimension (an estimate: the edges have fewer taps).

Bytes: input and result once. A downsampling that skips pixels still touches their sectors.
Not counted: coordinates and weights, which all channels share.
"""

from collections.abc import Sequence
from math import ceil, prod
from typing import Any

from roofline.formulas.arithmetic import arithmetic, aten, elements, first_tensor, moves, per_input, per_output
from roofline.formulas.registry import Cost, Rule, formula
from roofline.formulas.spec import TensorSpec

_FILTER_RADIUS = {"bilinear": 1, "bicubic": 2, "lanczos": 3}
_BILINEAR = 0
_NEAREST = 1

for _op, _neighbours in (
    ("upsample_linear1d", 2),
    ("upsample_bilinear2d", 4),
    ("upsample_trilinear3d", 8),
    ("upsample_bicubic2d", 16),
):
    formula(f"aten.{_op}")(per_output(2 * _neighbours - 1))
    formula(f"aten.{_op}_backward")(per_input(2 * _neighbours))
for _d in (1, 2, 3):
    formula(f"aten.upsample_nearest{_d}d", f"aten._upsample_nearest_exact{_d}d")(moves)
    formula(f"aten.upsample_nearest{_d}d_backward", f"aten._upsample_nearest_exact{_d}d_backward")(per_input(1))
    formula(f"aten.reflection_pad{_d}d_backward", f"aten.replication_pad{_d}d_backward")(
        per_input(1, reads_second=False)
    )

# Overlapping patches are summed back into the image.
formula(*aten("col2im unfold_backward"))(per_input(1))


def _filtered(source: Sequence[int], target: Sequence[int], radius: int, *, extra: int) -> float:
    """FLOP of a separable anti-aliasing filter from `source` to `target` shapes (…, H, W): rows, then columns."""
    (*batch, h, w), (out_h, out_w) = source, target[-2:]
    flops = 0
    for rows, n, m in ((h, w, out_w), (out_w, h, out_h)):
        taps = ceil(2 * radius * max(1.0, n / m))
        flops += prod(batch) * rows * m * (2 * taps + extra)
    return flops


def _antialiased(radius: int) -> Rule:
    def rule(x: TensorSpec, *args: Any, out: TensorSpec, **_: Any) -> Cost:
        flops = _filtered(x.shape, out.shape, radius, extra=-1) * arithmetic(x, 1)
        return Cost(vector=flops, formula="estimate")

    rule.__doc__ = f"Separable filter of radius {radius}: 2·k − 1 FLOP per element of each pass."
    return rule


def _antialiased_backward(radius: int) -> Rule:
    def rule(grad: TensorSpec, *args: Any, out: TensorSpec, **_: Any) -> Cost:
        return Cost(vector=_filtered(out.shape, grad.shape, radius, extra=0), formula="estimate")

    rule.__doc__ = f"Transposed separable filter of radius {radius}: 2·k FLOP per element of each pass."
    return rule


for _mode, _radius in _FILTER_RADIUS.items():
    formula(f"aten._upsample_{_mode}2d_aa")(_antialiased(_radius))
    formula(f"aten._upsample_{_mode}2d_aa_backward")(_antialiased_backward(_radius))


def _grid_neighbours(grid: TensorSpec, mode: int) -> int:
    dims = grid.shape[-1]
    if mode == _NEAREST:
        return 1
    return 2**dims if mode == _BILINEAR else 4**dims


@formula(*aten("grid_sampler_2d grid_sampler_3d _grid_sampler_2d_cpu_fallback cudnn_grid_sampler"))
def grid_sampler(
    x: TensorSpec, grid: TensorSpec, mode: int = _BILINEAR, *args: Any, out: TensorSpec, **_: Any
) -> Cost:
    """Interpolation at given points: 2·k − 1 FLOP per element of the result.

    Bytes: of x no more than k values per element of the result can be touched.
    """
    neighbours = _grid_neighbours(grid, mode)
    touched = min(x.nbytes, out.numel * neighbours * x.item_bytes)
    flops = 2 * neighbours - 1 if neighbours > 1 else 0
    return Cost(vector=out.numel * arithmetic(x, flops), read={0: touched})


@formula(*aten("grid_sampler_2d_backward grid_sampler_3d_backward _grid_sampler_2d_cpu_fallback_backward"))
def grid_sampler_backward(
    grad: TensorSpec, x: TensorSpec, grid: TensorSpec, mode: int = _BILINEAR, *args: Any, out: Any, **_: Any
) -> Cost:
    """Gradients of the image, 2·k FLOP per element of g, and of the grid, per dimension 2·k more."""
    neighbours, dims = _grid_neighbours(grid, mode), grid.shape[-1]
    return Cost(vector=grad.numel * 2 * neighbours * (1 + dims * (neighbours > 1)))


@formula("aten.cudnn_grid_sampler_backward")
def cudnn_grid_sampler_backward(x: TensorSpec, grid: TensorSpec, grad: TensorSpec, *, out: Any, **_: Any) -> Cost:
    """As `grid_sampler_backward`, bilinear."""
    return grid_sampler_backward(grad, x, grid, out=out)


@formula(*aten("affine_grid_generator cudnn_affine_grid_generator"))
def affine_grid(theta: TensorSpec, *args: Any, out: TensorSpec, **_: Any) -> Cost:
    """Points of an affine map, base grid (H·W, d + 1) @ thetaᵀ (d + 1, d): matrix work 2·N·H·W·(d + 1)·d."""
    return Cost(matrix=2 * elements(first_tensor(out)) * theta.shape[-1])


@formula("aten.cudnn_affine_grid_generator_backward")
def affine_grid_backward(grad: TensorSpec, *args: Any, out: TensorSpec, **_: Any) -> Cost:
    """Gradient of theta, gradᵀ @ base grid: as much matrix work as forward."""
    return Cost(matrix=2 * grad.numel * out.shape[-1])
