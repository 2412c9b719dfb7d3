"""Matrix products: the closed forms, and the rules of every dense op that is one product.

FLOP = 2 · batch · m · n · k: a multiplication and an addition per term, the first addition of each sum included, as
vendors and torch count. A complex term is four multiplications and four additions: 8. Products of integer tensors
count OP in the same way and carry the precision INT8, the only integer rate that machines list.

A matrix-vector product and a dot product are matrix work too: m or n is 1. A bias or an accumulated matrix adds one
vector FLOP per output element; with beta = 0 it isn't read. An outer product has no sum, so it is vector work, as
the multiplication by broadcasting that torch makes of it. Factors alpha and beta are not counted.

A sparse operand (`TensorSpec.nnz`) counts by its stored elements.
"""

from collections.abc import Sequence
from math import prod
from typing import Any

from roofline.core.precision import Precision
from roofline.formulas.registry import Cost, formula
from roofline.formulas.spec import TensorSpec

Shape = Sequence[int]
Mask = Sequence[bool]


def mac_flops(dtype: str = "float32") -> int:
    """FLOP of one multiply-add: 2, or 8 for complex numbers."""
    return 8 if dtype.startswith("complex") else 2


def add_flops(dtype: str = "float32") -> int:
    """FLOP of one addition: 1, or 2 for complex numbers."""
    return 2 if dtype.startswith("complex") else 1


def gemm_flops(m: int, n: int, k: int, batch: int = 1, dtype: str = "float32") -> int:
    """FLOP of `batch` products of m × k by k × n matrices: 2 · batch · m · n · k (8 for complex numbers)."""
    return mac_flops(dtype) * batch * m * n * k


def sparse_dense_flops(nnz: int, columns: int, dtype: str = "float32") -> int:
    """FLOP of a sparse matrix times a dense one with `columns` columns: 2 · nnz · columns."""
    return mac_flops(dtype) * nnz * columns


def sparse_sparse_flops(nnz_a: int, nnz_b: int, k: int, dtype: str = "float32") -> int:
    """Expected FLOP of sparse times sparse: 2 · nnz_a · nnz_b / k.

    Each stored element of the first meets one row of the second, of nnz_b / k elements on average. The true figure
    depends on where the zeros are.
    """
    return round(mac_flops(dtype) * nnz_a * nnz_b / k) if k else 0


def matmul_dims(a: Shape, b: Shape) -> tuple[int, int, int, int]:
    """Batch, m, n and k of `torch.matmul` on these shapes, broadcasting and vectors included."""
    rows = tuple(a) if len(a) > 1 else (1, *a)
    columns = tuple(b) if len(b) > 1 else (*b, 1)
    batch = prod(broadcast(rows[:-2], columns[:-2]))
    return batch, rows[-2], columns[-1], rows[-1]


def broadcast(a: Shape, b: Shape) -> tuple[int, ...]:
    """The shape that two shapes broadcast to."""
    length = max(len(a), len(b))
    pairs = zip((1,) * (length - len(a)) + tuple(a), (1,) * (length - len(b)) + tuple(b), strict=True)
    return tuple(y if x == 1 else x for x, y in pairs)


def product(a: TensorSpec, b: TensorSpec) -> Cost:
    """Cost of a @ b, dense or sparse, with torch.matmul's broadcasting."""
    batch, m, n, k = matmul_dims(a.shape, b.shape)
    precision = matrix_precision(a)
    if a.nnz is not None and b.nnz is not None:
        flops = sparse_sparse_flops(a.nnz, b.nnz, k * (a.numel // (m * k) if m * k else 1), a.dtype)
        return Cost(matrix=flops, precision=precision, formula="estimate")
    if a.nnz is not None:
        return Cost(matrix=sparse_dense_flops(a.nnz, n * _repeats(batch, a), a.dtype), precision=precision)
    if b.nnz is not None:
        return Cost(matrix=sparse_dense_flops(b.nnz, m * _repeats(batch, b), a.dtype), precision=precision)
    return Cost(matrix=gemm_flops(m, n, k, batch, a.dtype), precision=precision)


def matrix_precision(operand: TensorSpec) -> Precision:
    """Precision of matrix work on such an operand: its own, or INT8 for any integer."""
    return operand.precision or Precision.INT8


def linear_cost(
    x: TensorSpec,
    weight: TensorSpec,
    bias: Any = None,
    *,
    columns: int | None = None,
    depth: int | None = None,
    precision: Precision | None = None,
    extra_per_output: int = 0,
) -> Cost:
    """Cost of x @ weightᵀ + bias over all leading dimensions of x: 2 · rows · n · k.

    Args:
        x: Input (…, k).
        weight: (n, k), or packed in a way that hides n; then `columns` states it.
        bias: Anything but None adds one vector FLOP per output.
        columns: n, where the weight's shape doesn't show it.
        depth: k, where the last dimension of x doesn't show it (two values per stored element).
        precision: Of the matrix work, where it is not that of x.
        extra_per_output: More vector FLOP per output: a fused activation or addition.
    """
    k = x.shape[-1] if depth is None else depth
    rows = prod(x.shape[:-1])
    n = (weight.shape[0] if weight.ndim > 1 else 1) if columns is None else columns
    if weight.nnz is not None and columns is None:
        flops = sparse_dense_flops(weight.nnz, rows, x.dtype)
    elif x.nnz is not None:
        flops = sparse_dense_flops(x.nnz, n, x.dtype)
    else:
        flops = gemm_flops(rows, n, k, dtype=x.dtype)
    adds = (bias is not None) + extra_per_output
    return Cost(
        matrix=flops,
        vector=adds * rows * n * add_flops(x.dtype),
        precision=precision or matrix_precision(x),
    )


@formula(
    "aten.mm", "aten.bmm", "aten.mv", "aten.dot", "aten.vdot", "aten.matmul", "aten.linalg_matmul", "aten._int_mm"
)
def matmul(a: TensorSpec, b: TensorSpec, *_: Any, **__: Any) -> Cost:
    """`a @ b`: 2 · batch · m · n · k."""
    return product(a, b)


@formula("aten.addmm", "aten.baddbmm", "aten.addmv", "aten._sparse_addmm", "aten.sspaddmm")
def addmm(added: TensorSpec, a: TensorSpec, b: TensorSpec, *_: Any, beta: Any = 1, **__: Any) -> Cost:
    """β · added + α · (a @ b): 2 · batch · m · n · k, and one vector FLOP per output."""
    batch, m, n, _k = matmul_dims(a.shape, b.shape)
    return _accumulated(product(a, b), added, batch * m * n, beta)


@formula("aten.addbmm")
def addbmm(added: TensorSpec, a: TensorSpec, b: TensorSpec, *_: Any, beta: Any = 1, **__: Any) -> Cost:
    """β · added + α · Σ over the batch of a @ b: 2 · batch · m · n · k, and one vector FLOP per output."""
    _batch, m, n, _k = matmul_dims(a.shape, b.shape)
    return _accumulated(product(a, b), added, m * n, beta)


@formula("aten._addmm_activation")
def addmm_activation(added: TensorSpec, a: TensorSpec, b: TensorSpec, *_: Any, beta: Any = 1, **__: Any) -> Cost:
    """ReLU or GELU of addmm, fused: 2 · m · n · k, and two vector FLOP per output (addition, activation)."""
    _batch, m, n, _k = matmul_dims(a.shape, b.shape)
    return _accumulated(product(a, b), added, m * n, beta, extra=m * n)


@formula("aten.addr")
def addr(added: TensorSpec, a: TensorSpec, b: TensorSpec, *, beta: Any = 1, **_: Any) -> Cost:
    """β · added + α · a bᵀ, a product of depth 1 that accumulates: 2 · m · n."""
    flops = gemm_flops(a.numel, b.numel, 1, dtype=a.dtype)
    return Cost(matrix=flops, precision=matrix_precision(a), read={0: 0} if beta == 0 else {})


@formula("aten.outer", "aten.ger")
def outer(a: TensorSpec, b: TensorSpec, **_: Any) -> Cost:
    """`a bᵀ`, one multiplication per output on the vector engine: m · n (6 for complex numbers)."""
    return Cost(vector=a.numel * b.numel * (6 if a.dtype.startswith("complex") else 1))


@formula("aten.linear", "aten.mkldnn_linear")
def linear(x: TensorSpec, weight: TensorSpec, bias: Any = None, **_: Any) -> Cost:
    """`x @ weightᵀ + bias`: 2 · rows · n · k, and one vector FLOP per output for the bias."""
    return linear_cost(x, weight, bias)


@formula("mkldnn._linear_pointwise")
def linear_pointwise(
    x: TensorSpec, weight: TensorSpec, bias: Any, activation: str = "none", *_: Any, **__: Any
) -> Cost:
    """Linear with a fused activation, one vector FLOP per output each for bias and activation."""
    return linear_cost(x, weight, bias, extra_per_output=activation != "none")


@formula("mkldnn._linear_pointwise.binary")
def linear_binary(x: TensorSpec, _other: Any, weight: TensorSpec, bias: Any, *_: Any, **__: Any) -> Cost:
    """Linear with a fused addition or multiplication, one vector FLOP per output."""
    return linear_cost(x, weight, bias, extra_per_output=1)


@formula("mkl._mkl_linear")
def mkl_linear(x: TensorSpec, _packed: Any, weight: TensorSpec, bias: Any, *_: Any, **__: Any) -> Cost:
    """Linear with a weight packed for MKL: 2 · rows · n · k."""
    return linear_cost(x, weight, bias)


@formula("aten.linear_backward", "aten.mkldnn_linear_backward")
def linear_backward(x: TensorSpec, grad: TensorSpec, weight: TensorSpec, mask: Mask, **_: Any) -> Cost:
    """Gradients of a linear layer, 2 · rows · n · k each for input and weight, as far as `mask` asks for them."""
    cost = linear_cost(x, weight)
    bias = grad.numel * add_flops(grad.dtype) if mask[2] else 0
    return Cost(matrix=cost.matrix * (mask[0] + mask[1]), vector=bias, precision=cost.precision)


@formula("aten.mkldnn_linear_backward_input")
def linear_backward_input(_size: Shape, grad: TensorSpec, weight: TensorSpec, **_: Any) -> Cost:
    """Input gradient of a linear layer, grad @ weight: 2 · rows · n · k."""
    return product(grad, weight)


@formula("aten.mkldnn_linear_backward_weights")
def linear_backward_weights(grad: TensorSpec, x: TensorSpec, weight: TensorSpec, bias: bool, **_: Any) -> Cost:
    """Weight gradient of a linear layer, gradᵀ @ x: 2 · rows · n · k; the bias adds one vector FLOP per output."""
    return Cost(
        matrix=linear_cost(x, weight).matrix,
        vector=grad.numel * add_flops(grad.dtype) if bias else 0,
        precision=matrix_precision(x),
    )


@formula("aten.matmul_backward")
def matmul_backward(grad: TensorSpec, a: TensorSpec, b: TensorSpec, mask: Mask, **_: Any) -> Cost:
    """Gradients of a @ b, 2 · batch · m · n · k each, as far as `mask` asks for them."""
    return Cost(matrix=product(a, b).matrix * sum(mask), precision=matrix_precision(grad))


@formula("aten._foreach_mm")
def foreach_mm(a: Sequence[TensorSpec], b: Sequence[TensorSpec], **_: Any) -> Cost:
    """A list of products, each 2 · m · n · k."""
    total = sum(product(x, y).matrix for x, y in zip(a, b, strict=True))
    return Cost(matrix=total, precision=matrix_precision(a[0]))


@formula("inductor._mm_plus_mm")
def mm_plus_mm(a: TensorSpec, b: TensorSpec, c: TensorSpec, d: TensorSpec, *_: Any, **__: Any) -> Cost:
    """`a @ b + c @ d`, fused: 2 · m · n · k twice; the addition is part of the second sum."""
    return Cost(matrix=product(a, b).matrix + product(c, d).matrix, precision=matrix_precision(a))


def _accumulated(cost: Cost, added: TensorSpec, outputs: int, beta: Any, extra: int = 0) -> Cost:
    """`cost` with `added` accumulated into `outputs` elements; with beta = 0 it is not even read."""
    adds = 0 if beta == 0 else outputs
    return Cost(
        matrix=cost.matrix,
        vector=(adds + extra) * add_flops(added.dtype),
        precision=cost.precision,
        read={0: 0} if beta == 0 else {},
        formula=cost.formula,
    )


def _repeats(batch: int, operand: TensorSpec) -> int:
    """How often a broadcast operand is used: the batch of the product over its own."""
    own = prod(operand.shape[:-2])
    return batch // own if own else 0
