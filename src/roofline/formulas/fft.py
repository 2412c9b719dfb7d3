"""Fourier transforms: 5·N·log₂ N FLOP for a complex transform of N points, half of it where one side is real.

The radix-2 Cooley–Tukey count, whatever algorithm runs, as FFT benchmarks do; an estimate, on the vector engine.
N is the product of the dimensions transformed; of a real transform, of the real side.

Bytes: input and result once; a transform over several dimensions, or a long one, makes several passes.
Source: FFTW's benchmark methodology.
"""

from collections.abc import Sequence
from math import log2, prod
from typing import Any

from roofline.formulas.registry import Cost, formula
from roofline.formulas.spec import TensorSpec


def _transform(x: TensorSpec, dims: Sequence[int], flops_per_point: float) -> Cost:
    points = prod(x.shape[d] for d in dims)
    steps = log2(points) if points > 1 else 0
    return Cost(vector=flops_per_point * x.numel * steps, formula="estimate")


@formula("aten._fft_c2c", "prims.fft_c2c")
def c2c(x: TensorSpec, dim: Sequence[int], *args: Any, out: TensorSpec, **_: Any) -> Cost:
    """Complex to complex: 5·N·log₂ N per transform."""
    return _transform(x, dim, 5)


@formula("aten._fft_r2c", "prims.fft_r2c")
def r2c(x: TensorSpec, dim: Sequence[int], *args: Any, out: TensorSpec, **_: Any) -> Cost:
    """Real to complex: 2.5·N·log₂ N per transform."""
    return _transform(x, dim, 2.5)


@formula("aten._fft_c2r", "prims.fft_c2r")
def c2r(x: TensorSpec, dim: Sequence[int], *args: Any, out: TensorSpec, **_: Any) -> Cost:
    """Complex to real: 2.5·N·log₂ N per transform, N points of the real side."""
    return _transform(out, dim, 2.5)
