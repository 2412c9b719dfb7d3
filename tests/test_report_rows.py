"""Rows and facts: what the tables say, checked against the Run and by hand."""

import re

import pytest

import report_pages
import report_runs
from roofline.core.machine import Ceiling, Machine
from roofline.core.precision import Precision
from roofline.core.roof import Bound
from roofline.core.run import Bytes, Flops, ModuleTotal, OpBytes, OpRecord, Run, Verdict
from roofline.report import facts, markdown, rows


def run_of(*ops: OpRecord, **fields: object) -> Run:
    return Run(
        kind="measured", workload={}, flops=Flops(needed=0, executed=0, vector=0), bytes=Bytes(), ops=ops, **fields
    )


def test_ops_are_sorted_by_what_they_could_save() -> None:
    small_gap = OpRecord(name="long", seconds=10.0, roof_s=9.5)
    large_gap = OpRecord(name="short", seconds=4.0, roof_s=1.0)
    no_roof = OpRecord(name="unknown", seconds=99.0)
    found = rows.op_rows(run_of(no_roof, small_gap, large_gap))
    assert [(row.name, row.gain_s) for row in found] == [
        ("short", 4.0 - 1.0),
        ("long", 10.0 - 9.5),
        ("unknown", None),
    ]
    assert [row.share for row in found] == [4 / 113, 10 / 113, 99 / 113]


def test_ops_without_times_are_sorted_by_roof_time() -> None:
    found = rows.op_rows(run_of(OpRecord(name="a", roof_s=1.0), OpRecord(name="b", roof_s=3.0), OpRecord(name="c")))
    assert [(row.name, row.share, row.gain_s) for row in found] == [
        ("b", 3 / 4, None),
        ("a", 1 / 4, None),
        ("c", None, None),
    ]


def test_an_op_above_its_roof_saves_nothing_and_keeps_its_efficiency() -> None:
    (row,) = rows.op_rows(run_of(OpRecord(name="x", seconds=1.0, roof_s=1.39, efficiency_fraction=1.39)))
    assert row.gain_s == 0
    assert row.above_roof
    assert "139 %" in report_pages.screen("above the roof")


def test_intensity_uses_one_engine_and_the_bytes_of_the_verdict() -> None:
    op = OpRecord(
        name="x",
        engine="matrix",
        executed_flops=600.0,
        vector_flops=40.0,
        seconds=2.0,
        bytes=OpBytes(operator=300, cached=200),
    )
    cached, operator = (
        rows.op_rows(run_of(op, verdict=Verdict(bound=Bound.MEMORY, certain=True, bytes_origin=origin)))[0]
        for origin in ("cached", "operator")
    )
    assert (cached.intensity, cached.rate) == (600 / 200, 600 / 2)
    assert operator.intensity == 600 / 300
    vector = OpRecord(name="x", engine="vector", executed_flops=600.0, vector_flops=40.0, bytes=OpBytes(operator=10))
    assert rows.op_rows(run_of(vector))[0].intensity == 40 / 10


def test_an_op_without_a_formula_has_no_rate_rather_than_zero() -> None:
    (row,) = rows.op_rows(run_of(OpRecord(name="x", formula="none", seconds=1.0, bytes=OpBytes(operator=8))))
    assert (row.flops, row.intensity, row.rate) == (None, None, None)


def test_modules_follow_their_parents_in_order_of_appearance() -> None:
    paths = ["", "layer1", "fc", "layer1.0.conv", "layer1.10", "layer1.0", "layer1.2"]
    run = run_of(modules=tuple(ModuleTotal(path=path) for path in paths))
    assert [(depth, total.path) for depth, total in rows.module_rows(run)] == [
        (0, ""),
        (1, "layer1"),
        (2, "layer1.0"),
        (3, "layer1.0.conv"),
        (2, "layer1.10"),
        (2, "layer1.2"),
        (1, "fc"),
    ]


def test_names_lose_the_namespace_of_torch_and_nothing_else() -> None:
    names = ["aten.convolution.default", "aten::mm", "mylib.my_op", "aten.add_.Tensor"]
    assert [rows.short_name(name) for name in names] == ["convolution", "mm", "mylib.my_op", "add_.Tensor"]


@pytest.mark.parametrize("name", ["resnet", "resnet on cpu", "network"])
def test_the_budget_shown_adds_up_to_the_wall_time(name: str) -> None:
    run = report_runs.ALL[name]()
    parts = facts.budget(run)
    assert sum(part.seconds for part in parts) == pytest.approx(run.timing.median_s, rel=1e-12)
    assert sum(part.fraction for part in parts) == pytest.approx(1, rel=1e-12)
    shares = re.findall(
        r"^\| (?:compute|memory|inefficiency|network|idle) \| \S+ \w+ \| ([\d.]+) % \|", markdown.render(run), re.M
    )
    assert len(shares) == 5
    assert sum(map(float, shares)) == pytest.approx(100, abs=0.2)


def test_the_roof_time_of_a_counted_run_is_split_by_bound() -> None:
    run = report_runs.counted()
    split = facts.roof_split(run)
    assert sum(part.seconds for part in split) == pytest.approx(run.verdict.roof_s, rel=1e-12)
    assert [part.name for part in split] == ["compute", "memory"]


def test_hfu_is_shown_only_where_it_differs() -> None:
    labels = {
        name: [ratio.label for ratio in facts.ratios(report_runs.ALL[name]())] for name in ("resnet", "network")
    }
    assert "HFU" not in labels["resnet"]
    assert "HFU" in labels["network"]


def test_ratios_name_their_denominator_and_its_origin() -> None:
    found = {ratio.label: ratio for ratio in facts.ratios(report_runs.network_bound())}
    assert found["MFU"].note == "needed FLOP/s / bf16 peak 990 TFLOP/s (datasheet)"
    assert found["HFU"].note == "executed FLOP/s / bf16 peak 990 TFLOP/s (datasheet)"
    assert found["MBU"].note == "operator bytes/s / 3.35 TB/s (datasheet)"
    assert found["intensity"].note == "executed matrix FLOP / operator bytes"


def test_a_program_of_two_precisions_names_no_single_peak() -> None:
    flops = Flops(needed=2, executed=2, vector=0, by_precision={Precision.BF16: 1, Precision.FP32: 1})
    verdict = Verdict(bound=Bound.COMPUTE, certain=True, mfu_fraction=0.5, hfu_fraction=0.5, precision=Precision.BF16)
    run = Run(kind="measured", workload={}, machine=report_runs.GPU, flops=flops, bytes=Bytes(), verdict=verdict)
    assert facts.ratios(run)[0].note == "needed FLOP/s / the peak of each precision in use"


def test_an_unknown_ratio_says_why() -> None:
    notes = {ratio.label: (ratio.value, ratio.note) for ratio in facts.ratios(report_runs.counted())}
    assert notes["MFU"] == notes["MBU"] == notes["of the roof"] == ("n/a", "not timed")


def test_ratios_are_lower_bounds_where_ops_are_unknown() -> None:
    values = {ratio.label: ratio.value for ratio in facts.ratios(report_runs.with_unknown())}
    assert all(values[label].startswith("≥ ") for label in ("MFU", "MBU", "of the roof"))
    assert facts.flop_rows(report_runs.with_unknown())[1][1].startswith("≥ ")
    assert facts.flop_rows(report_runs.resnet())[1] == (
        "executed matrix work",
        "523 GFLOP",
    )  # 64 images of 8.18 GFLOP


def test_a_coverage_just_under_all_is_not_rounded_to_all() -> None:
    assert facts.coverage(report_runs.with_unknown())[0].startswith("over 99.9 %")
    assert (
        facts.coverage(report_runs.resnet())[0] == "100 % of op calls counted or free (175 calls in 175 rows of ops)"
    )


def test_many_unknown_ops_are_cut_short_but_counted() -> None:
    lines = facts.coverage(report_runs.with_unknown(), most=1)
    assert "and 1 other: totals are lower bounds" in lines[1]


def test_estimates_are_told_apart_from_exact_counts() -> None:
    assert any(
        line.startswith("FLOP estimated, not exact: 1 row (") for line in facts.coverage(report_runs.with_unknown())
    )


def test_every_ceiling_shows_its_origin_and_source() -> None:
    machine = Machine(
        key="m",
        name="M",
        bandwidth={"dram": Ceiling(1e12, "measured", "triad")},
        launch_s=Ceiling(2e-6, "given"),
        source="sheet",
    )
    assert rows.ceiling_rows(machine) == [
        ("dram bandwidth", "1.00 TB/s", "measured", "triad"),
        ("launch of one op", "2.00 µs", "given", "sheet"),
    ]


def test_markdown_tables_keep_their_columns_whatever_the_names() -> None:
    for name in report_runs.ALL:
        text = markdown.render(report_runs.ALL[name]())
        for table in re.findall(r"(?:^\|.*\n)+", text, re.M):
            assert len({len(re.findall(r"(?<!\\)\|", line)) for line in table.splitlines()}) == 1


def test_markdown_mentions_nobody_and_holds_no_tag() -> None:
    text = markdown.render(report_runs.hostile())
    outside_code = re.sub(r"`[^`]*`", "", text)
    assert "<" not in outside_code
    assert "@" not in outside_code
    assert r"\*x\*" in outside_code
