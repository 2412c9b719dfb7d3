"""Where things lie on the plot: by hand, on machines whose roofs are round numbers."""

from math import log10

import pytest

import report_pages
import report_runs
from roofline.core.machine import Ceiling, Machine
from roofline.core.precision import Precision
from roofline.core.roof import Bound
from roofline.core.run import Bytes, Flops, OpBytes, OpRecord, Run, Timing, Verdict
from roofline.report.points import decades, label_heights, picture, point_size, tick

VERDICT = Verdict(bound=Bound.MEMORY, certain=True, precision=Precision.BF16, bytes_origin="operator", roof_s=0.5)


def matmul(**fields: object) -> OpRecord:
    work = {"executed_flops": 1e12, "needed_flops": 1e12, "bytes": OpBytes(operator=1e11)}
    return OpRecord(**{"name": "mm", "engine": "matrix", "precision": Precision.BF16, **work, **fields})


def run_on(machine: Machine | None, *ops: OpRecord, **fields: object) -> Run:
    whole = {"flops": Flops(needed=1e12, executed=1e12, vector=0), "bytes": Bytes(operator=1e11)}
    return Run(
        **{"kind": "measured", "workload": {}, "machine": machine, "ops": ops, "verdict": VERDICT, **whole, **fields}
    )


def test_a_timed_op_lies_at_what_it_achieved(toy: Machine) -> None:
    (point,) = picture(run_on(toy, matmul(seconds=4.0, roof_s=1.0))).points
    assert (point.intensity, point.rate) == (1e12 / 1e11, 1e12 / 4)


def test_an_op_that_was_not_timed_lies_on_the_roof(toy: Machine) -> None:
    drawn = picture(run_on(toy, matmul(roof_s=1.0)))
    assert drawn.points[0].rate == 1e12 / 1.0
    assert not drawn.timed


def test_an_op_above_the_roof_is_neither_clipped_nor_cut_off(toy: Machine) -> None:
    drawn = picture(run_on(toy, matmul(seconds=0.2, roof_s=1.0)))
    assert drawn.points[0].rate == 1e12 / 0.2  # five times the peak of 1 TFLOP/s
    assert drawn.y_range[0] < 1e12 / 0.2 < drawn.y_range[1]


def test_the_star_is_the_whole_program_with_the_interval_of_its_bytes(toy: Machine) -> None:
    timing = Timing(median_s=2.0, samples_s=(2.0,), spread_fraction=0, stable=True)
    moved = Bytes(compulsory=1e10, operator=1e11, module=2e11)
    star = picture(run_on(toy, bytes=moved, timing=timing)).star
    assert (star.low, star.intensity, star.high) == (1e12 / 2e11, 1e12 / 1e11, 1e12 / 1e10)
    assert star.rate == 1e12 / 2
    assert "bar: module to compulsory bytes" in star.label
    assert "operator bytes" in star.label


def test_the_star_of_an_untimed_program_lies_at_its_roof_time(toy: Machine) -> None:
    star = picture(run_on(toy)).star
    assert star.rate == 1e12 / VERDICT.roof_s
    assert "roof time" in star.label


def test_a_program_without_matrix_work_is_a_star_of_vector_work(toy: Machine) -> None:
    star = picture(run_on(toy, flops=Flops(needed=0, executed=0, vector=5e10))).star
    assert star.intensity == 5e10 / 1e11
    assert "vector FLOP" in star.label


def test_without_bytes_or_time_there_is_no_star(toy: Machine) -> None:
    assert picture(run_on(toy, bytes=Bytes())).star is None
    assert picture(run_on(toy, verdict=None)).star is None


def test_the_roofs_are_those_in_use_and_the_vector_roof(toy: Machine) -> None:
    roofs = picture(run_on(toy, matmul(roof_s=1.0))).roofs
    assert [roof.label for roof in roofs] == [
        "bf16 1.00 TFLOP/s (given by the user)",
        "fp32 vector 100 GFLOP/s (given by the user)",
    ]
    assert [roof.ridge_point for roof in roofs] == [1e12 / 100e9, 0.1e12 / 100e9]
    assert [roof.main for roof in roofs] == [True, False]


def test_matrix_work_without_a_matrix_roof_is_judged_by_the_vector_roof() -> None:
    machine = Machine(
        key="m", name="M", vector={Precision.FP32: Ceiling(1e12, "given")}, bandwidth={"dram": Ceiling(1e11, "given")}
    )
    verdict = Verdict(bound=Bound.MEMORY, certain=True, precision=Precision.FP32)
    (roof,) = picture(run_on(machine, matmul(precision=Precision.FP32, roof_s=1.0), verdict=verdict)).roofs
    assert (roof.rate, roof.vector, roof.main) == (1e12, True, True)


def test_equal_roofs_share_one_line() -> None:
    ops = (
        matmul(roof_s=1.0),
        matmul(precision=Precision.FP16, roof_s=1.0),
        matmul(precision=Precision.FP8, roof_s=1.0),
    )
    roofs = picture(run_on(report_runs.GPU, *ops)).roofs
    assert roofs[0].label == "bf16, fp16 990 TFLOP/s (datasheet)"
    assert len(roofs) == 2  # this GPU has no fp8 rate: no roof is made up for it


def test_integer_rates_keep_their_own_unit() -> None:
    machine = Machine(key="m", name="M", matrix={p: Ceiling(2e15, "given") for p in (Precision.FP8, Precision.INT8)})
    ops = (matmul(precision=Precision.FP8, roof_s=1.0), matmul(precision=Precision.INT8, roof_s=1.0))
    labels = [roof.label for roof in picture(run_on(machine, *ops, verdict=None)).roofs]
    assert labels == ["fp8 2.00 PFLOP/s (given by the user)", "int8 2.00 POP/s (given by the user)"]


def test_labels_of_equal_roofs_do_not_write_over_one_another() -> None:
    ceiling = Ceiling(1e12, "given")
    machine = Machine(key="m", name="M", matrix={Precision.BF16: ceiling}, vector={Precision.FP32: ceiling})
    high, low = label_heights(picture(run_on(machine, matmul(roof_s=1.0))))
    assert high > low


def test_slopes_are_memory_levels_and_no_links() -> None:
    slopes = picture(run_on(report_runs.GPU)).slopes
    assert [slope.label for slope in slopes] == ["l2 7.10 TB/s (measured)", "dram 3.35 TB/s (datasheet)"]


def test_ops_without_a_place_are_counted_with_their_share(toy: Machine) -> None:
    copy = OpRecord(name="copy", seconds=1.0, roof_s=1.0, bytes=OpBytes(operator=1e11))
    unknown = OpRecord(name="my_op", seconds=1.0, formula="none", bytes=OpBytes(operator=1e11))
    no_bytes = matmul(seconds=2.0, bytes=OpBytes())
    in_cache = matmul(seconds=1.0, bytes=OpBytes(operator=0.0))
    # A reduction over links adds numbers, but no memory level or engine is its roof.
    reduce = OpRecord(name="all_reduce", seconds=1.0, roof_s=1.0, vector_flops=1e6, node_bytes=1e9, bytes=OpBytes())
    notes = picture(run_on(toy, copy, reduce, unknown, no_bytes, in_cache, matmul(seconds=3.0), matmul())).notes
    assert set(notes) == {
        "2 rows of ops that copy or communicate (22.2 % of op time)",
        "1 row of ops of unknown FLOP (11.1 % of op time)",
        "1 row of ops of unknown bytes (22.2 % of op time)",
        "1 row of ops served by the cache (no bytes from memory) (11.1 % of op time)",
        "1 row of ops without a time",
    }


@pytest.mark.parametrize("name", report_runs.ALL)
def test_everything_lies_inside_the_limits(name: str) -> None:
    drawn = picture(report_runs.ALL[name]())
    xs = [point.intensity for point in drawn.points] + ([drawn.star.low, drawn.star.high] if drawn.star else [])
    ys = [point.rate for point in drawn.points] + ([drawn.star.rate] if drawn.star else [])
    assert all(drawn.x_range[0] < x < drawn.x_range[1] for x in xs)
    assert all(drawn.y_range[0] < y < drawn.y_range[1] for y in ys)
    assert all(drawn.y_range[0] < roof.rate < drawn.y_range[1] for roof in drawn.roofs)


def test_the_interactive_plot_has_the_same_points_as_the_picture() -> None:
    drawn, traces = picture(report_runs.resnet()), report_pages.plot_data("resnet")["traces"]
    markers = [trace for trace in traces if trace["mode"] == "markers"]
    assert sum(len(trace["x"]) for trace in markers) == len(drawn.points) + 1
    assert {trace["marker"]["symbol"] for trace in markers} == {"circle", "square", "star"}
    assert report_pages.plot_data("resnet")["layout"]["xaxis"]["range"] == pytest.approx(
        [log10(x) for x in drawn.x_range]
    )


def test_ticks_are_powers_of_ten_with_their_unit() -> None:
    assert decades((0.05, 150)) == pytest.approx([0.1, 1, 10, 100])
    assert [tick(x, "FLOP/s") for x in (1e9, 1e10, 1e14)] == ["1 GFLOP/s", "10 GFLOP/s", "100 TFLOP/s"]
    assert [tick(x, "FLOP/B") for x in (0.01, 1.0, 1e4)] == ["0.01 FLOP/B", "1 FLOP/B", "10000 FLOP/B"]


def test_the_area_of_a_point_grows_with_its_share_and_never_vanishes() -> None:
    assert point_size(0.15) == point_size(0.9) == 1
    assert point_size(0.03) == pytest.approx(0.2)
    assert 0 < point_size(None) == point_size(0) < 0.02
