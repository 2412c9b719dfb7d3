"""The shipped fits: within bounds, as accurate as published, applied only where they hold."""

import csv
import re
from collections import defaultdict
from pathlib import Path
from statistics import median

import msgspec
import pytest

from roofline import machines
from roofline.core.fit import gemm_bytes, gemm_time, l2_hit_fraction
from roofline.core.machine import Ceiling
from roofline.core.precision import Precision
from roofline.core.roof import roof_time
from roofline.core.run import OpBytes, OpRecord
from roofline.core.work import Work
from roofline.machines.fits import gemm_shape

FITTED = {
    "a100-sxm-80gb",
    "l40s",
    "h100-sxm",
    "h200-sxm",
    "b200",
    "b300",
    "gb200",
    "gb300",
    "rtx-pro-6000-server",
}
ALL = [(key, fit) for key in sorted(FITTED) for fit in machines.fits(key).values()]
SAMPLE = Path(__file__).parents[1] / "../shared/data/gemm_aiconfigurator/gemm_sample.csv"
DOCS = Path(__file__).parents[1] / "docs/fitted-roofs.md"
H100 = machines.find("h100-sxm")
BF16 = Precision.BF16


def linear(m: int, n: int, k: int, **fields) -> OpRecord:
    flops = 2 * m * n * k * fields.get("calls", 1)
    base = {"name": "aten.linear", "shapes": f"{m}x{k}, {n}x{k}", "precision": BF16, "engine": "matrix"}
    return OpRecord(**{**base, "executed_flops": flops, "needed_flops": flops, **fields})


@pytest.mark.parametrize("key", sorted(FITTED))
def test_every_fitted_device_has_bf16(key):
    assert BF16 in machines.fits(key)


@pytest.mark.parametrize(("key", "fit"), ALL, ids=[f"{key}-{fit.precision}" for key, fit in ALL])
def test_a_fit_stays_below_the_datasheet_and_says_where_it_is_from(key, fit):
    assert 0.3 <= fit.compute_fraction <= 1
    assert 0.3 <= fit.bandwidth_fraction <= 1
    assert 1e-6 <= fit.latency_s <= 2e-5
    assert 0 <= fit.throttle_fraction <= 1
    assert fit.low_ratio < 1 < fit.high_ratio
    assert fit.samples > 1.5 * fit.held_out > 0
    assert re.search(r"aiconfigurator-core \d", fit.source)
    assert re.fullmatch(r"\d{4}-\d\d-\d\d", fit.read_on)
    assert fit.precision in machines.find(key).matrix


@pytest.mark.parametrize("key", sorted(FITTED))
def test_bf16_errors_on_shapes_held_out_meet_the_targets(key):
    fit = machines.fits(key)[BF16]
    assert fit.median_error_fraction <= (0.07 if key == "h100-sxm" else 0.12)
    assert abs(fit.bias_fraction) <= 0.03


@pytest.mark.skipif(not SAMPLE.exists(), reason="the shared measurements are absent")
@pytest.mark.parametrize(
    ("system", "key", "most"), [("h100_sxm", "h100-sxm", 0.07), ("a100_sxm", "a100-sxm-80gb", 0.12)]
)
def test_measured_gemms_are_predicted_within_the_target_and_far_better_than_by_the_datasheet(system, key, most):
    machine, fit = machines.find(key), machines.fits(key)[BF16]
    errors: dict[str, list[float]] = defaultdict(list)
    with SAMPLE.open() as file:
        for row in csv.DictReader(file):
            if row["system"] != system:
                continue
            m, n, k, measured_s = int(row["m"]), int(row["n"]), int(row["k"]), float(row["latency_ms"]) * 1e-3
            moved = gemm_bytes(m, n, k, fit)
            copies = min(5, -(-machine.last_level_cache_bytes // (2 * n * k)))
            hit = l2_hit_fraction(moved + 2 * n * k * (copies - 1), fit=fit, machine=machine)
            work = Work(matrix={BF16: 2 * m * n * k}, read_bytes=moved)
            fitted_s = gemm_time(m, n, k, fit=fit, machine=machine, l2_hit_fraction=hit)
            errors["fitted"].append(abs(fitted_s / measured_s - 1))
            errors["datasheet"].append(abs(roof_time(work, machine).total_s / measured_s - 1))
    assert len(errors["fitted"]) == 100
    assert median(errors["fitted"]) <= most
    assert median(errors["datasheet"]) >= 3 * median(errors["fitted"])


@pytest.mark.parametrize(
    ("m", "n", "k", "measured_s"),
    [(8944, 1024, 1024, 31.5e-6), (8944, 2816, 1024, 83.7e-6), (8944, 1024, 2816, 75.6e-6)],
)
def test_gemms_of_a_trace_of_another_origin_are_predicted_within_a_fifth(m, n, k, measured_s):
    # Median kernel times of 24 to 72 calls: TraceLens (MIT), tests/traces/h100/Qwen_Qwen1.5-0.5B-Chat__1016005.
    expected_s, _, _ = machines.fitted_time(linear(m, n, k), H100)
    assert expected_s == pytest.approx(measured_s, rel=0.2)
    assert roof_time(Work(matrix={BF16: 2 * m * n * k}), H100).total_s < 0.7 * measured_s


def test_the_documented_errors_are_those_of_the_shipped_fits():
    rows = [[cell.strip() for cell in line.split("|")] for line in DOCS.read_text("utf-8").splitlines()]
    documented = {(r[1], r[2]): float(r[7].removesuffix(" %")) / 100 for r in rows if r[3:4] == ["all fitted"]}
    shipped = {(key, str(fit.precision)): fit.median_error_fraction for key, fit in ALL}
    assert documented == pytest.approx(shipped, abs=6e-4)


def test_an_unmeasured_machine_has_no_fit():
    assert not machines.fits("mi300x")
    assert not machines.fits(machines.find("h100-pcie"))
    assert machines.fitted_time(linear(512, 512, 512), machines.find("mi300x")) is None


def test_shares_of_the_datasheet_are_not_taken_of_other_ceilings():
    given = msgspec.structs.replace(H100, matrix={BF16: Ceiling(700e12, "measured")})
    assert not machines.fits(given)
    assert machines.fitted_time(linear(512, 512, 512), given) is None


def test_a_linear_layer_takes_the_time_of_its_gemm_for_each_call():
    fit = machines.fits(H100)[BF16]
    expected_s, low_s, high_s = machines.fitted_time(linear(4096, 1024, 2048, calls=3), H100)
    assert expected_s == pytest.approx(3 * gemm_time(4096, 1024, 2048, fit=fit, machine=H100))
    assert low_s == pytest.approx(expected_s * fit.low_ratio)
    assert high_s == pytest.approx(expected_s * fit.high_ratio)


def test_fp16_has_the_fit_of_bf16_on_machines_where_the_two_have_one_rate():
    for machine in map(machines.find, FITTED):
        assert machine.matrix_peak(Precision.FP16).value == machine.matrix_peak(BF16).value
    op = linear(4096, 1024, 2048)
    assert machines.fitted_time(linear(4096, 1024, 2048, precision=Precision.FP16), H100) == machines.fitted_time(
        op, H100
    )


@pytest.mark.parametrize(
    ("name", "shapes", "flops", "expected"),
    [
        ("aten.mm", "30x70, 70x50", 2 * 30 * 50 * 70, (1, 30, 50, 70)),
        ("aten::addmm", "50, 30x70, 70x50", 2 * 30 * 50 * 70, (1, 30, 50, 70)),
        ("aten.linear", "2x15x70, 50x70, 50", 2 * 30 * 50 * 70, (1, 30, 50, 70)),
        ("aten.bmm", "4x30x70, 4x70x50", 2 * 4 * 30 * 50 * 70, (4, 30, 50, 70)),
        ("linear", "30x70, 50x70", 2 * 30 * 50 * 70, (1, 30, 50, 70)),
        ("linear", "30x70, 50x70", 4 * 30 * 50 * 70, None),  # a backward pass: two GEMMs in one row
        ("aten._grouped_mm", "30x70, 4x70x50", 2 * 30 * 50 * 70, None),
        ("aten._scaled_dot_product_flash_attention", "2x4x30x70, 2x4x30x70", 2 * 8 * 30 * 30 * 70, None),
        ("linear", "30x70, 4 experts of 50x70", 2 * 30 * 50 * 70, None),
        ("aten.mm", "", 2, None),
    ],
)
def test_the_shape_of_a_gemm_is_read_only_where_it_explains_the_flop(name, shapes, flops, expected):
    assert gemm_shape(OpRecord(name=name, shapes=shapes, executed_flops=flops, precision=BF16)) == expected


def test_an_op_that_no_data_back_is_bounded_by_the_datasheet_roof():
    op = OpRecord(name="aten.add", precision=BF16, engine="vector", vector_flops=1e9, bytes=OpBytes(operator=6e9))
    expected_s, low_s, high_s = machines.fitted_time(op, H100)
    fit = machines.fits(H100)[BF16]
    assert low_s == pytest.approx(6e9 / 3.35e12)
    assert expected_s == pytest.approx(6e9 / (fit.bandwidth_fraction * 3.35e12) + fit.latency_s, rel=1e-3)
    assert high_s - expected_s == pytest.approx(expected_s - low_s)


def test_ops_over_the_network_and_precisions_without_a_bare_gemm_fit_get_no_time():
    assert machines.fitted_time(linear(64, 64, 64, network_bytes=1.0), H100) is None
    assert machines.fitted_time(linear(64, 64, 64, precision=Precision.TF32), H100) is None
    assert machines.fitted_time(linear(64, 64, 64, precision=Precision.FP8), H100) is None
    assert machines.fitted_time(linear(64, 64, 64, precision=None), H100) is None


def test_bytes_that_stayed_in_cache_save_time_where_the_data_show_it():
    l40s = machines.find("l40s")
    moved = 2 * (16 * 4096 + 4096 * 4096 + 16 * 4096)
    cold = machines.fitted_time(linear(16, 4096, 4096, bytes=OpBytes(operator=moved)), l40s)
    warm = machines.fitted_time(linear(16, 4096, 4096, bytes=OpBytes(operator=moved, cached=0.1 * moved)), l40s)
    # 33 MB at 864 GB/s take 39 µs at least; nine tenths of it come from a faster L2.
    assert cold[0] > 39e-6 > warm[0]
