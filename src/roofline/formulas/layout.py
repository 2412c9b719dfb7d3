"""Tensors that are not strided: their parts, and conversions between layouts.

The parts of a sparse tensor (indices, values) are views. Building one from its parts moves nothing. Conversions read
and write the stored elements. The bytes of indices are not counted: a `TensorSpec` does not know them.
"""

from typing import Any

from roofline.formulas.arithmetic import aten, elements, fills, moves
from roofline.formulas.registry import Cost, formula, free
from roofline.formulas.spec import TensorSpec

free(
    *aten("_indices _values indices values crow_indices col_indices ccol_indices row_indices _nnz is_coalesced"),
    *aten("_coalesced_ dense_dim sparse_dim _dimI _dimV sparse_resize_ sparse_resize_and_clear_ sparse_coo_tensor"),
    *aten("sparse_compressed_tensor _sparse_coo_tensor_with_dims _sparse_coo_tensor_with_dims_and_tensors"),
    *aten("_sparse_compressed_tensor_with_dims _sparse_coo_tensor_unsafe _sparse_compressed_tensor_unsafe"),
)

formula(
    *aten("_indices_copy _values_copy indices_copy values_copy crow_indices_copy col_indices_copy ccol_indices_copy"),
    *aten("row_indices_copy _coalesced sparse_resize sparse_resize_and_clear _sparse_broadcast_to_copy sparse_mask"),
    *aten("_sparse_mask_projection _sparse_sum_backward copy_sparse_to_sparse _validate_compressed_sparse_indices"),
    *aten("_to_sparse _to_sparse_csr _to_sparse_csc _to_sparse_bsr _to_sparse_bsc _to_dense"),
    *aten("_convert_indices_from_coo_to_csr _convert_indices_from_csr_to_coo"),
    *aten("to_mkldnn _mkldnn_reshape _mkldnn_transpose set"),
)(moves)
formula("aten._cudnn_init_dropout_state")(fills)


@formula("aten._coalesce")
def coalesce(x: TensorSpec, *, out: Any, **_: Any) -> Cost:
    """Values of equal indices added: one addition per stored element; sorting the indices is integer work."""
    return Cost(vector=elements(x))
