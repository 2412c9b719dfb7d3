"""Products with unstructured sparse matrices (COO, CSR, CSC, BSR), counted by stored elements.

`TensorSpec.nnz` is the number of stored elements: the blocks of a BSR matrix count with the zeros inside them, which
are multiplied. Ops that also serve dense tensors (mm, addmm, mv, bmm, linear) do the same in `matmul`.

A product of two sparse matrices depends on where their zeros are: `sparse_sparse_flops` is its expectation, and the
count says "estimate".
"""

from collections.abc import Sequence
from typing import Any

from roofline.formulas.matmul import matrix_precision, product, sparse_dense_flops
from roofline.formulas.registry import Cost, formula
from roofline.formulas.spec import TensorSpec


@formula("aten._sparse_mm", "aten._sparse_sparse_matmul", "aten.hspmm", "aten.smm")
def sparse_mm(a: TensorSpec, b: TensorSpec, *_: Any, **__: Any) -> Cost:
    """Sparse @ dense: 2 · nnz · n; sparse @ sparse: 2 · nnz_a · nnz_b / k, an estimate."""
    return product(a, b)


@formula("aten._sparse_mm_reduce_impl")
def sparse_mm_reduce(a: TensorSpec, b: TensorSpec, *_: Any, **__: Any) -> Cost:
    """Sparse @ dense with a sum, mean, maximum or minimum in the place of the sum: 2 · nnz · n."""
    return product(a, b)


@formula("aten._sparse_mm_reduce_impl_backward")
def sparse_mm_reduce_backward(
    a: TensorSpec, grad: TensorSpec, _weight: Any, _reduce: str, _arg: Any, mask: Sequence[bool], **_: Any
) -> Cost:
    """Gradients of the stored elements and of the dense matrix, 2 · nnz · n each, as far as `mask` asks."""
    flops = sparse_dense_flops(a.stored_numel, grad.shape[-1], grad.dtype)
    return Cost(matrix=flops * sum(mask), precision=matrix_precision(grad))


@formula("aten.sparse_sampled_addmm")
def sampled_addmm(pattern: TensorSpec, a: TensorSpec, b: TensorSpec, *, beta: Any = 1, **_: Any) -> Cost:
    """(a @ b) at the stored positions of a pattern, plus the pattern: 2 · nnz · k, one vector FLOP per position."""
    nnz = pattern.stored_numel
    return Cost(
        matrix=sparse_dense_flops(nnz, a.shape[-1], a.dtype),
        vector=0 if beta == 0 else nnz,
        precision=matrix_precision(a),
    )
