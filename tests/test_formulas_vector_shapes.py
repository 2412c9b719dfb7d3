"""Work by shape, by hand: pooling, reductions, indexing, linear algebra, communication, torchvision."""

from math import log2
from typing import Any

import pytest

from formula_calls import S, cost, vector
from roofline.formulas.registry import Cost, is_free

X = S((3, 5))
ROW = S((5,))
INDEX = S((3, 5), "int64")


# pooling and resampling


def test_pooling_costs_its_window() -> None:
    x, out = S((2, 3, 8, 8)), S((2, 3, 4, 4))
    results = 2 * 3 * 4 * 4
    pooled = (out, S((2, 3, 4, 4), "int64"))
    assert vector("aten.max_pool2d_with_indices", x, [3, 3], [2, 2], [1, 1], out=pooled) == results * 9
    assert vector("aten.avg_pool2d", x, [2, 2], out=out) == results * (4 + 1)


def test_the_backward_of_a_pooling_does_not_read_its_input() -> None:
    x, grad, index = S((2, 3, 8, 8)), S((2, 3, 4, 4)), S((2, 3, 4, 4), "int64")
    args = ([2, 2], [2, 2], [0, 0], [1, 1], False, index)
    found = cost("aten.max_pool2d_with_indices_backward", grad, x, *args, out=x)
    assert (found.vector, found.read) == (96, {1: 0})


def test_adaptive_windows_have_their_true_sizes() -> None:
    # 5 → 3: windows [0,2), [1,4), [3,5) of 2, 3 and 2.
    assert vector("aten._adaptive_avg_pool2d", S((1, 1, 5, 5)), [3, 3], out=S((1, 1, 3, 3))) == (2 + 3 + 2) ** 2 + 9


def test_bilinear_upsampling_costs_four_products_and_three_sums() -> None:
    out = S((1, 2, 8, 8))
    assert vector("aten.upsample_bilinear2d", S((1, 2, 4, 4)), [8, 8], False, out=out) == 128 * (4 + 3)
    assert cost("aten.upsample_nearest2d", S((1, 2, 4, 4)), [8, 8], out=out) == Cost()


def test_an_antialiased_filter_widens_with_the_scale() -> None:
    # 16 → 8: radius 1 at scale 2 is 4 taps; rows first (16 rows × 8), then columns (8 × 8).
    found = vector("aten._upsample_bilinear2d_aa", S((1, 1, 16, 16)), [8, 8], False, out=S((1, 1, 8, 8)))
    assert found == (16 * 8 + 8 * 8) * (4 + 3)


def test_grid_sampling_reads_no_more_than_it_touches() -> None:
    x, grid = S((1, 1, 100, 100)), S((1, 2, 2, 2))
    found = cost("aten.grid_sampler_2d", x, grid, 0, 0, False, out=S((1, 1, 2, 2)))
    assert (found.vector, found.read) == (4 * 7, {0: 4 * 4 * 4})


# reductions and sorting


def test_reductions_count_one_addition_per_term() -> None:
    assert vector("aten.sum.dim_IntList", X, [1], out=S((3,))) == 15
    assert vector("aten.mean.dim", X, [1], out=S((3,))) == 15 + 3
    assert vector("aten.var.correction", X, [1], out=S((3,))) == 15 * (1 + 3) + 3
    assert vector("aten.logsumexp", X, [1], out=S((3,))) == 15 * 4 + 3 * 2
    assert vector("aten.sum", INDEX, out=S((), "int64")) == 0


def test_max_of_two_tensors_is_elementwise_and_of_one_a_reduction() -> None:
    assert vector("aten.max.other", ROW, X, out=X) == 15
    assert vector("aten.max.dim", X, 1, out=(S((3,)), S((3,), "int64"))) == 15


def test_norms_count_by_their_order() -> None:
    assert vector("aten.linalg_vector_norm", X, 2, out=S(())) == 15 * 2 + 1
    assert vector("aten.linalg_vector_norm", X, float("inf"), out=S(())) == 15 * 2
    assert vector("aten._foreach_norm.Scalar", [X, ROW], 2, out=[S(()), S(())]) == 20 * 2 + 2


def test_sorting_is_an_estimate_of_n_log_n_comparisons_per_row() -> None:
    found = cost("aten.sort", S((4, 1024)), 1, out=(S((4, 1024)), S((4, 1024), "int64")))
    assert (found.vector, found.formula) == (4 * 1024 * 10, "estimate")
    assert vector("aten.sort.stable", S((1024, 2)), dim=0, stable=True, out=(S((1024, 2)),)) == 2 * 1024 * 10
    assert vector("aten.topk", S((4, 1024)), 8, out=(S((4, 8)),)) == 4 * 1024 * 3


def test_a_search_reads_only_the_path_through_a_long_table() -> None:
    table, values = S((1 << 20,)), S((3,))
    found = cost("aten.searchsorted.Tensor", table, values, out=S((3,), "int64"))
    assert (found.vector, found.read) == (3 * 20, {0: 3 * 20 * 4})
    assert cost("aten.bucketize.Scalar", 1.0, table, out=S((), "int64")).read == {0: 20 * 4}


# indexing


def test_a_gather_reads_the_rows_it_touches_and_never_more_than_the_table() -> None:
    table = S((1000, 64), "bfloat16")
    few = cost("aten.embedding", table, S((7,), "int64"), out=S((7, 64), "bfloat16"))
    many = cost("aten.embedding", table, S((5000,), "int64"), out=S((5000, 64), "bfloat16"))
    assert few.read == {0: 7 * 64 * 2}
    assert many.read == {0: 1000 * 64 * 2}
    assert cost("aten.index.Tensor", S((9, 4)), [S((2,), "int64")], out=S((2, 4))).read == {0: 2 * 4 * 4}
    assert cost("aten.gather", S((9, 4)), 0, S((2, 4), "int64"), out=S((2, 4))).read == {0: 8 * 4}


def test_index_put_in_place_touches_the_rows_indexed_only() -> None:
    x, rows, values = S((9, 4)), S((2,), "int64"), S((2, 4))
    put = cost("aten.index_put_", x, [rows], values, out=x)
    assert (put.vector, put.read, put.written) == (0, {0: 0}, {0: 2 * 4 * 4})
    added = cost("aten.index_put_", x, [rows], values, True, out=x)
    assert (added.vector, added.read, added.written) == (2 * 4, {0: 2 * 4 * 4}, {0: 2 * 4 * 4})
    assert cost("aten.index_put", x, [rows], values, out=x) == Cost()


def test_broadcast_indices_select_their_common_shape() -> None:
    x = S((9, 4, 5))
    found = cost("aten.index_put_", x, [S((3, 1), "int64"), S((2,), "int64")], S(()), True, out=x)
    assert found.vector == 3 * 2 * 5


def test_scatter_add_adds_one_element_per_index_and_touches_only_those() -> None:
    x, index, source = S((10, 4)), S((2, 4), "int64"), S((6, 4))
    found = cost("aten.scatter_add_", x, 0, index, source, out=x)
    assert (found.vector, found.read, found.written) == (8, {0: 8 * 4, 2: 8 * 4}, {0: 8 * 4})


def test_an_embedding_bag_adds_the_rows_of_each_bag() -> None:
    table, index, offsets = S((1000, 16)), S((6,), "int64"), S((2,), "int64")
    out = (S((2, 16)), offsets, offsets, offsets)
    found = cost("aten._embedding_bag", table, index, offsets, False, 1, out=out)
    assert (found.vector, found.read) == (6 * 16 + 2 * 16, {0: 6 * 16 * 4})


# linear algebra and transforms: Golub and Van Loan, 4th ed.; FFTW's benchmark convention


def test_a_linear_solve_is_two_thirds_n_cubed_and_two_n_squared() -> None:
    a, b = S((64, 64)), S((64,))
    found = cost("aten._linalg_solve_ex", a, b, out=(b, a, S((64,), "int32"), S((), "int32")))
    assert (found.matrix, found.formula) == (182_954, "estimate")  # ⅔·64³ + 2·64² = 182,954.67


@pytest.mark.parametrize(
    ("name", "args", "flops"),
    [
        ("aten.linalg_cholesky_ex", (S((12, 12)),), 12**3 / 3),
        ("aten.linalg_lu_factor_ex", (S((12, 12)),), 2 * 12**3 / 3),
        ("aten.linalg_inv_ex", (S((12, 12)),), 2 * 12**3),
        ("aten.geqrf", (S((20, 12)),), 2 * 20 * 12**2 - 2 * 12**3 / 3),
        ("aten.linalg_qr", (S((20, 12)),), 4 * 20 * 12**2 - 4 * 12**3 / 3),
        ("aten._linalg_svd", (S((20, 12)), False, True), 14 * 20 * 12**2 + 8 * 12**3),
        ("aten._linalg_svd", (S((20, 12)), False, False), 4 * 20 * 12**2 - 4 * 12**3 / 3),
        ("aten._linalg_eigh", (S((12, 12)),), 9 * 12**3),
        ("aten.linalg_eig", (S((12, 12)),), 25 * 12**3),
        ("aten.linalg_solve_triangular", (S((12, 12)), S((12, 5))), 12**2 * 5),
        ("aten.cholesky_solve", (S((12, 5)), S((12, 12))), 2 * 12**2 * 5),
        ("aten.linalg_cholesky_ex", (S((3, 12, 12), "complex64"),), 3 * 4 * 12**3 / 3),
    ],
)
def test_factorisations_cost_their_textbook_count(name: str, args: tuple[Any, ...], flops: float) -> None:
    found = cost(name, *args, out=(args[0],))
    assert (found.matrix, found.formula) == (int(flops), "estimate")


def test_a_fourier_transform_is_five_n_log_n_and_half_of_it_from_real_numbers() -> None:
    z, x = S((4, 64), "complex64"), S((4, 64))
    assert vector("aten._fft_c2c", z, [1], 0, True, out=z) == 4 * 5 * 64 * 6
    assert vector("aten._fft_r2c", x, [1], 0, True, out=S((4, 33), "complex64")) == 4 * 2.5 * 64 * 6
    assert vector("aten._fft_c2r", S((4, 33), "complex64"), [1], 0, 64, out=x) == 4 * 2.5 * 64 * 6
    both = vector("aten._fft_c2c", z, [0, 1], 0, True, out=z)
    assert both == pytest.approx(5 * 256 * log2(256))


# communication: bytes that one rank sends by the ring algorithm


def test_collectives_send_what_the_ring_algorithm_sends() -> None:
    s = S((1000,), "bfloat16")
    gathered = cost("_c10d_functional.all_gather_into_tensor", s, 8, "0", out=S((8000,), "bfloat16"))
    assert gathered.network_bytes == 7 * 2000
    scattered = cost("_c10d_functional.reduce_scatter_tensor", s, "sum", 8, "0", out=S((125,), "bfloat16"))
    assert (scattered.network_bytes, scattered.vector) == (2000 * 7 / 8, 1000 * 7 / 8)
    reduced = cost("_c10d_functional.all_reduce", s, "sum", "0", out=s)
    assert (reduced.network_bytes, reduced.formula) == (2 * 2000, "estimate")
    swapped = cost("_c10d_functional.all_to_all_single", s, [250] * 4, [250] * 4, "0", out=s)
    assert (swapped.network_bytes, swapped.formula) == (2000 * 3 / 4, "exact")
    assert is_free("_c10d_functional.wait_tensor")


def test_collectives_into_given_tensors_find_the_group_in_the_sizes() -> None:
    shard, whole = S((100,)), S((400,))
    gathered = cost("c10d._allgather_base_", whole, shard, "group", True, -1, out=(whole, None))
    assert (gathered.network_bytes, gathered.read) == (3 * 400, {0: 0})
    scattered = cost("c10d._reduce_scatter_base_", shard, whole, "group", "sum", True, -1, out=(shard, None))
    assert scattered.network_bytes == 1600 * 3 / 4


# torchvision


def test_suppression_compares_every_pair_of_boxes() -> None:
    found = cost("torchvision.nms", S((10, 4)), S((10,)), 0.5, out=S((3,), "int64"))
    assert (found.vector, found.formula) == (13 * 45, "estimate")


def test_roi_align_samples_four_pixels_per_point() -> None:
    x, rois, out = S((1, 8, 50, 50)), S((3, 5)), S((3, 8, 7, 7))
    found = cost("torchvision.roi_align", x, rois, 1.0, 7, 7, 2, False, out=out)
    assert found.vector == 3 * 8 * 49 * (4 * 8 + 1)
    assert found.read == {0: min(8 * 50 * 50 * 4, 3 * 8 * 49 * 16 * 4)}


def test_a_deformable_convolution_is_matrix_work_like_a_plain_one() -> None:
    x, weight, out = S((2, 4, 6, 6)), S((8, 2, 3, 3)), S((2, 8, 4, 4))
    offset, mask = S((2, 18, 4, 4)), S((2, 9, 4, 4))
    args = (x, weight, offset, mask, S((8,)), 1, 1, 0, 0, 1, 1, 2, 1, True)
    found = cost("torchvision.deform_conv2d", *args, out=out)
    assert found.matrix == 2 * (2 * 8 * 4 * 4) * (4 / 2 * 3 * 3)
    columns = 2 * 4 * 9 * 4 * 4
    assert found.vector == columns * (7 + 1) + 2 * 8 * 4 * 4
    backward = cost("torchvision._deform_conv2d_backward", out, *args, out=(x, weight, offset, mask, S((8,))))
    assert backward.matrix == 2 * found.matrix
