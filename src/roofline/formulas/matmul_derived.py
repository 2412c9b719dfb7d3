"""Ops that torch builds from several matrix products: bilinear forms, pairwise distances, matrix exponentials."""

from collections.abc import Sequence
from math import prod
from typing import Any

from roofline.formulas.matmul import broadcast, gemm_flops, mac_flops, matrix_precision
from roofline.formulas.registry import Cost, formula
from roofline.formulas.spec import TensorSpec

# torch takes the road through a matrix product from this many vectors on, unless told otherwise.
_PRODUCT_FROM = 26
_AUTO, _WITH_PRODUCT = 0, 1


def bilinear_flops(rows: int, k1: int, k2: int, outputs: int, dtype: str = "float32") -> int:
    """FLOP of x₁ᵀ · W · x₂ for every row and output: 2 · rows · outputs · k₂ · (k₁ + 1)."""
    return gemm_flops(rows * outputs, k2, k1, dtype=dtype) + gemm_flops(rows * outputs, 1, k2, dtype=dtype)


@formula("aten.bilinear")
def bilinear(x1: TensorSpec, x2: TensorSpec, weight: TensorSpec, bias: Any = None, **_: Any) -> Cost:
    """x₁ᵀ · W · x₂ + bias, W of shape (n, k₁, k₂): 2 · rows · n · k₂ · (k₁ + 1)."""
    n, k1, k2 = weight.shape
    rows = prod(x1.shape[:-1])
    return Cost(
        matrix=bilinear_flops(rows, k1, k2, n, x1.dtype),
        vector=rows * n if bias is not None else 0,
        precision=matrix_precision(x1),
    )


@formula("aten._trilinear")
def trilinear(
    i1: TensorSpec,
    i2: TensorSpec,
    i3: TensorSpec,
    expand1: Sequence[int],
    expand2: Sequence[int],
    expand3: Sequence[int],
    sumdim: Sequence[int],
    unroll_dim: int = 1,
    **_: Any,
) -> Cost:
    """Σ i₁ · i₂ · i₃, as torch runs it: first i₁ · i₂ over what i₃ lacks, then that times i₃ over the rest.

    A step that sums nothing is an elementwise product, one vector FLOP per element.
    """
    shapes = [_expanded(t.shape, e) for t, e in ((i1, expand1), (i2, expand2), (i3, expand3))]
    summed = set(sumdim) - {unroll_dim}
    first, second = summed & set(expand3), summed - set(expand3)
    pair = broadcast(shapes[0], shapes[1])
    rest = broadcast([1 if d in first else n for d, n in enumerate(pair)], shapes[2])
    steps = ((prod(pair), first), (prod(rest), second))
    return Cost(
        matrix=sum(mac_flops(i1.dtype) * terms for terms, over in steps if over),
        vector=sum(terms for terms, over in steps if not over),
        precision=matrix_precision(i1),
    )


def euclidean_flops(m: int, n: int, k: int) -> int:
    """FLOP of all distances between m and n points through one product of depth k + 2: 2 · m · n · (k + 2).

    The two extra columns hold the squared norms and ones.
    """
    return gemm_flops(m, n, k + 2)


@formula("aten._euclidean_dist")
def euclidean_dist(x1: TensorSpec, x2: TensorSpec, **_: Any) -> Cost:
    """Pairwise distances through one product: 2 · batch · m · n · (k + 2), of which 2 · batch · m · n · k needed.

    Vector work: squared norms, 2 FLOP per input element; clamp and square root, 2 per distance.
    """
    batch = prod(broadcast(x1.shape[:-2], x2.shape[:-2]))
    m, n, k = x1.shape[-2], x2.shape[-2], x1.shape[-1]
    return Cost(
        matrix=batch * euclidean_flops(m, n, k),
        needed=batch * gemm_flops(m, n, k),
        vector=2 * (x1.numel + x2.numel) + 2 * batch * m * n,
        precision=matrix_precision(x1),
    )


@formula("aten.cdist", "aten._cdist_forward")
def cdist(x1: TensorSpec, x2: TensorSpec, p: float = 2.0, compute_mode: int | None = None, **_: Any) -> Cost:
    """Pairwise p-norm distances: like `euclidean_dist` where torch takes that road, else vector work.

    The road is taken for p = 2 with more than 25 points on a side, or when asked for. Without it: 3 FLOP per pair
    and coordinate (difference, power, sum) and one root per pair.
    """
    mode = compute_mode or _AUTO
    many = max(x1.shape[-2], x2.shape[-2]) >= _PRODUCT_FROM
    if p == 2 and (mode == _WITH_PRODUCT or (mode == _AUTO and many)):
        return euclidean_dist(x1, x2)
    pairs = prod(broadcast(x1.shape[:-2], x2.shape[:-2])) * x1.shape[-2] * x2.shape[-2]
    return Cost(vector=pairs * (3 * x1.shape[-1] + 1))


@formula("aten._cdist_backward")
def cdist_backward(grad: TensorSpec, x1: TensorSpec, *_: Any, **__: Any) -> Cost:
    """Gradient of the distances to x₁: 5 vector FLOP per pair and coordinate.

    Difference, its power, times the gradient, over the distance, sum.
    """
    return Cost(vector=5 * grad.numel * x1.shape[-1])


@formula("aten.linalg_matrix_exp", "aten.matrix_exp")
def matrix_exp(a: TensorSpec, **_: Any) -> Cost:
    """Matrix exponential by a Taylor polynomial of degree 18, in 5 products: 5 · 2 · n³ per matrix, an estimate.

    Not counted: squarings, whose number grows with the norm; small norms take fewer products.
    Source: Bader, Blanes, Casas, "Computing the matrix exponential with an optimized Taylor polynomial", 2019.
    """
    n = a.shape[-1]
    batch = prod(a.shape[:-2])
    return Cost(matrix=gemm_flops(n, n, n, 5 * batch, a.dtype), precision=matrix_precision(a), formula="estimate")


def _expanded(shape: Sequence[int], dims: Sequence[int]) -> list[int]:
    """`shape` with a new dimension of size 1 at each of `dims`, in order."""
    sizes = list(shape)
    for dim in dims:
        sizes.insert(dim, 1)
    return sizes
