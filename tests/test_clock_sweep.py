"""The sweep over intensities, the launches and the links, on a fake clock."""

import msgspec
import pytest
import torch

from roofline.clock.launch import launches
from roofline.clock.links import link_rates
from roofline.clock.memory import filled
from roofline.clock.sweep import intensity_sweep, stream_points
from roofline.clock.timers import timer_for
from roofline.core.precision import Precision
from test_clock_ceilings import FakeClock, fake_timer, steady


def swept(precision: Precision, peak: float = 1e15, size_bytes: int = 2**20, call_s: float = 0.05):
    clock = FakeClock()
    buffer = filled("cpu", size_bytes)
    return intensity_sweep(precision, buffer, fake_timer(clock, call_s), peak=peak, seconds=1.0, clock=clock)


def test_the_intensity_of_a_tall_product_is_its_flop_over_the_bytes_of_its_three_matrices() -> None:
    for point in swept(Precision.FP32):
        rows, n = map(int, point.what.split()[1].split("x"))
        assert point.intensity_flops_per_byte == pytest.approx(2 * rows * n * n / (4 * (2 * rows * n + n * n)))
        assert point.flops_per_s == pytest.approx(2 * rows * n * n / 0.05)


def test_intensities_rise_from_below_every_ridge_point() -> None:
    at = [p.intensity_flops_per_byte for p in swept(Precision.FP32)]
    assert at == sorted(at)
    # n = 2 in fp32: 2 · 2² FLOP on 2 · 2 · 4 B per row.
    assert at[0] == pytest.approx(0.5, rel=1e-3)
    assert swept(Precision.BF16)[0].intensity_flops_per_byte == pytest.approx(1.0, rel=1e-3)


def test_a_product_never_has_fewer_rows_than_columns() -> None:
    for point in swept(Precision.FP32, size_bytes=2**18):
        rows, n = map(int, point.what.split()[1].split("x"))
        assert rows >= n


def test_a_call_that_computes_long_gets_fewer_rows() -> None:
    # At 1 GFLOP/s a quarter of a second holds 1.25e8 multiply-adds.
    points = swept(Precision.FP32, peak=1e9, size_bytes=2**24)
    work = [2 * rows * n * n for rows, n in (map(int, p.what.split()[1].split("x")) for p in points)]
    assert max(work) <= 0.25 * 1e9
    assert len(points) > 5


def test_memory_kernels_are_points_of_low_intensity() -> None:
    streams = {
        "read": msgspec.structs.replace(steady(10e9), what="torch.mv"),
        "copy": msgspec.structs.replace(steady(9e9), what="Tensor.copy_"),
        "triad": msgspec.structs.replace(steady(12e9), what="torch.add with alpha"),
        "update": msgspec.structs.replace(steady(16e9), what="Tensor.mul_"),
    }
    points = stream_points(streams)
    # One add per 8 B moved in place, a multiply and an add per 12 B, a multiply and an add per 4 B; a copy does none.
    assert [(p.intensity_flops_per_byte, p.flops_per_s) for p in points] == [
        (pytest.approx(1 / 8), pytest.approx(2e9)),
        (pytest.approx(1 / 6), pytest.approx(2e9)),
        (pytest.approx(1 / 2), pytest.approx(5e9)),
    ]


def test_a_read_by_a_sum_does_one_flop_per_number_not_two() -> None:
    (point,) = stream_points({"read": msgspec.structs.replace(steady(10e9), what="torch.sum")})
    assert (point.intensity_flops_per_byte, point.flops_per_s) == (1 / 4, 2.5e9)


def test_a_sweep_puts_the_matmul_precision_back() -> None:
    torch.set_float32_matmul_precision("medium")
    try:
        swept(Precision.FP32)
        assert torch.get_float32_matmul_precision() == "medium"
    finally:
        torch.set_float32_matmul_precision("highest")


def test_a_cpu_has_no_links_and_waits_for_no_launch() -> None:
    clock = FakeClock()
    assert link_rates("cpu", {}, fake_timer(clock, 0.1), seconds=1.0, clock=clock) == {}
    assert launches("cpu", seconds=0.1, clock=clock) == {}


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device")
def test_a_kernel_of_a_graph_costs_less_than_one_that_is_waited_for() -> None:
    import time

    found = launches("cuda", seconds=0.2)
    assert 0 < found["graph"] < found["round trip"]
    links = link_rates("cuda", {}, timer_for("cuda"), seconds=0.5, clock=time.perf_counter)
    assert links["pcie"].best > 1e9
