"""The fitted roof's formula: hand counts, and what holds for any parameters."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from roofline.core.fit import FittedRoof, gemm_bytes, gemm_time, l2_hit_fraction, op_time
from roofline.core.machine import Ceiling, Machine
from roofline.core.precision import Precision
from roofline.core.roof import roof_time
from roofline.core.work import Work
from roofline.errors import MachineError

# 1 TFLOP/s on two multiprocessors, 100 GB/s: 0.5 TFLOP/s each.
TOY = Machine(
    key="toy",
    name="Toy",
    matrix={Precision.BF16: Ceiling(1e12, "datasheet")},
    vector={Precision.FP32: Ceiling(0.1e12, "datasheet")},
    bandwidth={"dram": Ceiling(100e9, "datasheet")},
    cache_bytes={"l2": 1_000_000},
    multiprocessors=2,
)
PERFECT = FittedRoof(precision=Precision.BF16, compute_fraction=1, bandwidth_fraction=1, latency_s=0, split_s=1)

fractions = st.floats(0.05, 1)
sizes = st.integers(1, 5000)
fits = st.builds(
    FittedRoof,
    precision=st.just(Precision.BF16),
    compute_fraction=fractions,
    bandwidth_fraction=fractions,
    latency_s=st.floats(0, 1e-5),
    wave_s=st.floats(0, 1e-5),
    split_s=st.floats(0, 1e-5),
    throttle_fraction=st.floats(0, 1),
    l2_speedup=st.none() | st.floats(1, 20),
    l2_share=st.none() | fractions,
)


def with_(**changes) -> FittedRoof:
    return FittedRoof(
        **{name: changes.get(name, getattr(PERFECT, name)) for name in FittedRoof.__struct_fields__},
    )


def test_a_perfect_machine_takes_the_cubic_mean_of_compute_and_memory():
    # 256 × 256 is two tiles of 128 × 256: one wave of two multiprocessors.
    compute_s = 2 * 256 * 256 * 1000 / 1e12
    memory_s = 2 * (256 * 1000 + 256 * 1000 + 256 * 256) / 100e9
    expected = (compute_s**3 + memory_s**3) ** (1 / 3)
    assert gemm_time(256, 256, 1000, fit=PERFECT, machine=TOY) == pytest.approx(expected, rel=1e-12)


def test_the_three_parameters_derate_compute_and_memory_and_add_a_fixed_time():
    fit = with_(compute_fraction=0.5, bandwidth_fraction=0.8, latency_s=3e-6)
    compute_s = 2 * 256 * 256 * 1000 / 0.5e12
    memory_s = 2 * (256 * 1000 + 256 * 1000 + 256 * 256) / 80e9
    expected = (compute_s**3 + memory_s**3) ** (1 / 3) + 3e-6
    assert gemm_time(256, 256, 1000, fit=fit, machine=TOY) == pytest.approx(expected, rel=1e-12)


def test_a_single_row_costs_the_compute_of_a_tile():
    # One tile of 64 × 64 on one of two multiprocessors, memory out of the way (a hundredth of the time).
    fast = Machine(
        key="fast",
        name="Fast memory",
        matrix=TOY.matrix,
        bandwidth={"dram": Ceiling(1e15, "datasheet")},
        multiprocessors=2,
    )
    expected = 2 * 64 * 64 * 512 / 0.5e12
    assert gemm_time(1, 1, 512, fit=PERFECT, machine=fast) == pytest.approx(expected, rel=1e-6)
    assert gemm_time(64, 64, 512, fit=PERFECT, machine=fast) == pytest.approx(expected, rel=1e-6)


def test_splitting_k_fills_idle_multiprocessors_at_the_price_of_a_reduction():
    cheap = with_(split_s=1e-9)
    one_tile_s = 2 * 64 * 64 * 1_000_000 / 0.5e12
    memory_s = 2 * (2 * 64 * 1_000_000 + 64 * 64) / 100e9
    unsplit = gemm_time(64, 64, 1_000_000, fit=PERFECT, machine=TOY)
    split = gemm_time(64, 64, 1_000_000, fit=cheap, machine=TOY)
    assert unsplit == pytest.approx((one_tile_s**3 + memory_s**3) ** (1 / 3))
    assert split == pytest.approx(((one_tile_s / 2) ** 3 + memory_s**3) ** (1 / 3) + 1e-9)


def test_further_waves_cost_their_overhead():
    # 512 × 512 in the largest tiles: 8 tiles, 4 waves of two; smaller tiles have more waves.
    plain = gemm_time(512, 512, 1000, fit=PERFECT, machine=TOY)
    assert gemm_time(512, 512, 1000, fit=with_(wave_s=1e-6), machine=TOY) == pytest.approx(plain + 3e-6)


def test_long_kernels_are_throttled_and_short_ones_are_not():
    fit = with_(throttle_fraction=0.2)
    short, long = (Work(matrix={Precision.BF16: f}) for f in (1e12 * 1e-6, 1e12 * 10))
    assert op_time(short, fit=fit, machine=TOY) == pytest.approx(1e-6, rel=1e-3)
    assert op_time(long, fit=fit, machine=TOY) == pytest.approx(10 * 1.2, rel=1e-3)


def test_quantising_activations_reads_them_wide_and_writes_them_narrow_first():
    bare = with_(element_bytes=1.0)
    quantised = with_(element_bytes=1.0, covers="quantised_linear")
    extra_s = 300 * 700 * (2 + 1) / 100e9
    times = [gemm_time(300, 500, 700, fit=fit, machine=TOY) for fit in (bare, quantised)]
    assert times[1] - times[0] == pytest.approx(extra_s)


def test_bytes_are_operands_and_output_once():
    assert gemm_bytes(3, 5, 7, PERFECT) == 2 * (3 * 7 + 5 * 7) + 2 * 3 * 5


def test_operands_stay_in_l2_while_the_working_set_fits_its_share():
    fit = with_(l2_share=0.5)
    hits = [l2_hit_fraction(b, fit=fit, machine=TOY) for b in (0, 500_000, 750_000, 1_000_000, 5_000_000)]
    assert hits == [1, 1, 0.5, 0, 0]
    assert l2_hit_fraction(0, fit=PERFECT, machine=TOY) == 0


def test_an_op_without_a_shape_takes_the_cubic_mean_plus_latency():
    work = Work(vector={Precision.FP32: 3e8}, read_bytes=4e8)
    fit = with_(bandwidth_fraction=0.8, latency_s=2e-6)
    expected = ((3e8 / 0.1e12) ** 3 + (4e8 / 80e9) ** 3) ** (1 / 3) + 2e-6
    assert op_time(work, fit=fit, machine=TOY) == pytest.approx(expected)


def test_a_machine_without_multiprocessors_is_an_error():
    machine = Machine(key="x", name="X", matrix=TOY.matrix, bandwidth=TOY.bandwidth)
    with pytest.raises(MachineError, match="multiprocessors"):
        gemm_time(1, 1, 1, fit=PERFECT, machine=machine)


@settings(max_examples=60, deadline=None)
@given(m=sizes, n=sizes, k=sizes, fit=fits, hit=st.floats(0, 1))
def test_the_fitted_roof_is_never_above_the_datasheet_roof(m, n, k, fit, hit):
    flops, moved = {Precision.BF16: 2 * m * n * k}, 2 * (m * k + n * k + m * n)
    cold = roof_time(Work(matrix=flops, read_bytes=moved), TOY).total_s
    warm = roof_time(Work(matrix=flops, read_bytes=moved * (1 - hit)), TOY).total_s
    assert gemm_time(m, n, k, fit=fit, machine=TOY) >= cold * (1 - 1e-12)
    assert gemm_time(m, n, k, fit=fit, machine=TOY, l2_hit_fraction=hit) >= warm * (1 - 1e-12)
    assert op_time(Work(matrix=flops, read_bytes=moved), fit=fit, machine=TOY) >= cold * (1 - 1e-12)


@settings(max_examples=60, deadline=None)
@given(m=sizes, n=sizes, k=sizes, more=st.integers(1, 300), fit=fits)
def test_more_rows_columns_or_length_never_take_less_time(m, n, k, more, fit):
    base = gemm_time(m, n, k, fit=fit, machine=TOY) * (1 - 1e-12)
    for shape in ((m + more, n, k), (m, n + more, k), (m, n, k + more)):
        assert gemm_time(*shape, fit=fit, machine=TOY) >= base


@settings(max_examples=60, deadline=None)
@given(m=sizes, n=sizes, k=sizes, fit=fits)
def test_time_is_continuous_in_k_and_within_a_tile(m, n, k, fit):
    base = gemm_time(m, n, k, fit=fit, machine=TOY)
    # Every term grows at most in proportion to k, throttled compute at most with its square.
    assert gemm_time(m, n, k + 1, fit=fit, machine=TOY) <= base * (1 + 1 / k) ** 2 * (1 + 1e-12)
    if m % 64:  # the same number of tiles: only bytes grow
        assert gemm_time(m + 1, n, k, fit=fit, machine=TOY) <= base * (1 + 1 / m) * (1 + 1e-12)


@settings(max_examples=40, deadline=None)
@given(m=sizes, n=sizes, k=sizes, batch=st.integers(1, 9), fit=fits)
def test_a_batch_takes_no_longer_than_its_gemms_and_no_less_than_one(m, n, k, batch, fit):
    fit = FittedRoof(
        **{**{f: getattr(fit, f) for f in FittedRoof.__struct_fields__}, "throttle_fraction": 0.0},
    )
    alone = gemm_time(m, n, k, fit=fit, machine=TOY)
    together = gemm_time(m, n, k, fit=fit, machine=TOY, batch=batch)
    assert alone * (1 - 1e-12) <= together
    assert together <= batch * (alone + fit.wave_s) * (1 + 1e-12)
