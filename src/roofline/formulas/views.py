"""Ops that move no tensor bytes and compute nothing: views, aliases, allocation, metadata, bookkeeping.

Not counted: the 8 bytes that `item` brings to the host, zero-filling that an allocator may do.
"""

from roofline.formulas.arithmetic import aten, spell
from roofline.formulas.registry import free

# Views and aliases: a new shape on old storage.
free(
    *aten("view _unsafe_view _reshape_alias view_as_real view_as_complex view_as alias detach lift lift_fresh"),
    *aten("t transpose swapaxes swapdims permute movedim moveaxis adjoint numpy_T matrix_H mT mH"),
    *aten("expand expand_as broadcast_to slice select narrow diagonal linalg_diagonal as_strided"),
    *aten("unsqueeze squeeze split split_with_sizes unsafe_split unsafe_split_with_sizes chunk unsafe_chunk"),
    *aten("tensor_split hsplit vsplit dsplit unbind unfold unflatten real imag _conj conj _neg_view"),
    *aten("_fw_primal _make_dual slice_inverse _sparse_broadcast_to _lazy_clone shallow_copy_data_"),
    *aten("_nested_view_from_buffer _nested_view_from_jagged _nested_get_values _nested_get_jagged_dummy"),
    *aten("set_ set_data data _version requires_grad_ retain_grad"),
)

# Allocation without writing.
free(
    *aten("empty empty_like empty_strided empty_permuted empty_quantized new_empty new_empty_strided"),
    *aten("_empty_affine_quantized _empty_per_channel_affine_quantized _efficientzerotensor"),
    *aten("resize_ resize_as_ resize_as_sparse_ _resize_output_"),
)

# Metadata, and scalars that leave the device.
free(
    *aten("size stride sym_size sym_stride sym_numel sym_storage_offset storage_offset dim numel sym_is_contiguous"),
    *aten(
        "is_contiguous is_strides_like_format is_non_overlapping_and_dense layout prim_layout is_same_size is_set_to"
    ),
    *aten("is_complex is_floating_point is_signed is_neg is_conj is_inference is_pinned is_leaf is_nonzero item"),
    *aten("_has_same_storage_numel _has_compatible_shallow_copy_type _is_zerotensor _local_scalar_dense"),
    *aten("result_type can_cast promote_types output_nr _debug_has_internal_overlap cudnn_is_acceptable"),
    *aten("_use_cudnn_ctc_loss _use_miopen_ctc_loss _use_cudnn_rnn_flatten_weight _fused_sdp_choice"),
    *aten("_nested_get_lengths _nested_get_max_seqlen _nested_get_min_seqlen _nested_get_offsets"),
    *aten("_nested_get_ragged_idx _nested_tensor_size _nested_tensor_strides _nested_tensor_storage_offsets"),
    *aten("_nested_compute_contiguous_strides_offsets"),
)

# Bookkeeping: assertions on scalars, symbolic ranges, streams, profiler marks.
free(
    *aten("_assert_async _assert_scalar _assert_tensor_metadata _functional_assert_async _functional_assert_scalar"),
    *aten("_print sym_constrain_range sym_constrain_range_for_size _functional_sym_constrain_range"),
    *aten("_functional_sym_constrain_range_for_size _make_dep_token record_stream _linalg_check_errors _backward"),
    *spell("profiler", "_record_function_enter _record_function_enter_new _record_function_exit"),
    *spell("prim", "device dtype layout"),
    *spell("prims", "_make_token _sink_tokens"),
    *spell("inductor", "_reinterpret_tensor _alloc_from_pool resize_storage_bytes_"),
    *spell("streams", "fork join record_event wait_event record_stream sync_dealloc wait_stream"),
    *spell("streams", "synchronize_event synchronize_device synchronize_stream"),
    *spell("torchvision", "_cuda_version"),
)
