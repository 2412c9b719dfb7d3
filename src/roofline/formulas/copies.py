"""Copies, casts, concatenations, fills and generators: bytes and no FLOP.

`copy_` and fills only write their destination; `zeros_like` and its kin do not read the tensor whose shape they
take. A scatter into a slice reads the part of the destination that it keeps.

Not counted: conversion arithmetic of casts; the angle and window arithmetic of generators (`linspace`,
`hann_window`), which are small and run once.
"""

from typing import Any

from roofline.formulas.arithmetic import aten, fills, moves, position, spell, unread
from roofline.formulas.registry import Cost, formula
from roofline.formulas.spec import TensorSpec, tensors

formula(
    *aten("clone _to_copy _copy_from_and_resize _copy_from _pin_memory cat stack"),
    *aten("_stack block_diag repeat roll flip rot90 pixel_shuffle pixel_unshuffle"),
    *aten("channel_shuffle tril triu diag_embed narrow_copy _reshape_copy"),
    *aten("_chunk_cat repeat_interleave complex to_padded_tensor resize resize_as resize_as_sparse"),
    *aten("_resize_output _nested_from_padded _nested_from_padded_and_nested_example _nested_from_padded_tensor"),
    *aten("_nested_tensor_from_mask _nested_tensor_from_mask_left_aligned _nested_tensor_from_tensor_list"),
    *aten("_jagged_to_padded_dense_forward _padded_dense_to_jagged_forward _nested_select_backward"),
    *aten("constant_pad_nd reflection_pad1d reflection_pad2d reflection_pad3d replication_pad1d replication_pad2d"),
    *aten("replication_pad3d select_backward slice_backward diagonal_backward _pack_padded_sequence"),
    *aten("lu_unpack im2col _foreach_clone"),
)(moves)

# What functionalisation leaves of a view: a real copy.
formula(
    *aten("view_copy view_as_real_copy view_as_complex_copy alias_copy detach_copy lift_fresh_copy t_copy"),
    *aten("transpose_copy permute_copy expand_copy slice_copy select_copy diagonal_copy as_strided_copy"),
    *aten("unsqueeze_copy squeeze_copy split_copy split_with_sizes_copy unbind_copy unfold_copy _conj_copy"),
    *aten("_neg_view_copy _fw_primal_copy _make_dual_copy _reshape_alias_copy _nested_view_from_buffer_copy"),
    *aten("_nested_view_from_jagged_copy _nested_get_values_copy"),
    *spell("fsdp", "split_with_sizes_copy chunk_cat"),
)(moves)

formula(
    *aten("zeros ones full zeros_like ones_like full_like new_zeros new_ones new_full scalar_tensor zero fill"),
    *aten("arange range linspace logspace eye tril_indices triu_indices from_file fft_fftfreq fft_rfftfreq"),
    *aten(
        "hann_window hamming_window bartlett_window blackman_window kaiser_window _new_zeros_with_same_feature_meta"
    ),
    *aten("_spdiags"),
)(fills)


@formula(*aten("copy copy_ fill_ zero_"), *spell("fsdp", "copy_"))
def overwrite(destination: TensorSpec, *source: Any, out: Any, **_: Any) -> Cost:
    """Copy or fill: the destination is written, the source read."""
    return Cost(read={0: 0})


@formula(*aten("_foreach_zero _foreach_zero_ _foreach_copy _foreach_copy_"))
def foreach_overwrite(destinations: list[TensorSpec], *sources: Any, out: Any, **_: Any) -> Cost:
    """Copy or fill of many tensors: the destinations are written, the sources read."""
    return Cost(read=unread(destinations))


@formula(*aten("slice_scatter select_scatter diagonal_scatter as_strided_scatter"))
def scatter_view(x: TensorSpec, source: TensorSpec, *args: Any, out: TensorSpec, **_: Any) -> Cost:
    """Copy with one slice replaced: all of x but the slice is read."""
    return Cost(read={0: max(x.nbytes - source.nbytes, 0)})


@formula("fsdp.all_gather_copy_in")
def all_gather_copy_in(inputs: list[TensorSpec], gathered: TensorSpec, *args: Any, out: Any, **_: Any) -> Cost:
    """Copy parameter shards into this rank's part of the gather buffer: the shards read and written once."""
    return Cost(read={position(inputs): 0}, written={0: sum(t.nbytes for t in tensors(inputs)), 1: 0})
