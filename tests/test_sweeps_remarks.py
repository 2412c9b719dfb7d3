"""What a sweep says of points above their roof and far below it, and that no prediction has an impossible ratio."""

import json

import msgspec
import pytest

from roofline.analysis import judge
from roofline.cli.main import run as command_line
from roofline.core.machine import Ceiling, Machine
from roofline.core.precision import Precision
from roofline.core.roof import Bound
from roofline.core.run import Bytes, Flops, OpBytes, OpRecord, PageFaults, Run, Timing
from roofline.report.sweeps.table import remark_lines, table
from roofline.report.sweeps.text import markdown
from roofline.sweeps import vision
from roofline.sweeps.case import Case, Result, result_of
from roofline.sweeps.measure import count_case
from roofline.sweeps.settings import Settings
from roofline.sweeps.summary import Point, document, point
from sweep_cases import A10, WHERE, op_cases

# 1 TFLOP/s, 100 GB/s, 1 MB of cache; updates in place are measured at 150 GB/s; a launch costs 1 µs.
TOY = Machine(
    key="toy",
    name="Toy",
    kind="cpu",
    matrix={Precision.FP32: Ceiling(1e12, "measured")},
    vector={Precision.FP32: Ceiling(1e12, "measured")},
    bandwidth={"dram": Ceiling(100e9, "measured")},
    streams={"update": 150e9},
    cache_bytes={"l2": 10**6},
    launch_s=Ceiling(1e-6, "measured"),
)


def timed(
    step_s: float,
    moved: float,
    *,
    name: str = "aten.add",
    op_s: float | None = None,
    faults: PageFaults | None = None,
    series: str = "add",
    size: int = 64,
) -> Result:
    """A case of one op that moves `moved` bytes: its roof is moved / 100 GB/s."""
    run = Run(
        kind="measured",
        workload={},
        machine=TOY,
        flops=Flops(needed=0, executed=0, vector=1),
        bytes=Bytes(operator=moved),
        timing=Timing(
            median_s=step_s, samples_s=(step_s,) * 3, spread_fraction=0, stable=True, busy_s=op_s, page_faults=faults
        ),
        ops=(
            OpRecord(
                name=name,
                precision=Precision.FP32,
                engine="vector",
                vector_flops=1,
                bytes=OpBytes(operator=moved),
                seconds=op_s or step_s,
            ),
        ),
    )
    (case,) = op_cases(series, size=size)
    return result_of(case, judge(run))


def said(result: Result) -> str:
    (line,) = remark_lines([point(result)])
    return line


@pytest.mark.parametrize(
    ("result", "cause", "words"),
    [
        # 0.5 MB take 5 µs at the roof, and fit into 1 MB of cache.
        (timed(4e-6, 5e5), "cache", "its 500 kB fit into the last-level cache of 977 KiB"),
        # 10 MB don't fit: an update in place may run at 150 GB/s, 70 µs are 143 GB/s.
        (timed(70e-6, 1e7, name="aten.add_"), "traffic", "it updates in place"),
        (timed(70e-6, 1e7), "traffic", "part of its data stays in cache"),
    ],
)
def test_a_point_above_its_roof_says_why(result: Result, cause: str, words: str) -> None:
    p = point(result)
    assert p.remark is not None and (p.remark.kind, p.remark.cause) == ("above_roof", cause)
    assert said(result).startswith("↑ above the roof: add 64. ") and words in said(result)
    assert table("ops", [p]).rows[0][-1] == "memory ↑"


@pytest.mark.parametrize(
    ("result", "cause", "words"),
    [
        # 1 MB takes 10 µs at the roof; the steps take a hundred times that and more.
        (
            timed(1e-3, 1e6),
            "kernels",
            "slow kernels and no ceiling: add 64. aten.add takes 100 % of the op time, at 1",
        ),
        (
            timed(1e-3, 1e6, faults=PageFaults(per_step=2048, all_threads_s=2e-4, one_thread_s=4e-4)),
            "page_faults",
            "2,048 pages taken anew from the system at every step cost 200 µs to 400 µs of 1.00 ms",
        ),
        (timed(30e-6, 1e4), "short_calls", "a call of aten.add lasts 30.0 µs"),
    ],
)
def test_a_point_far_below_its_roof_says_what_holds_it(result: Result, cause: str, words: str) -> None:
    p = point(result)
    assert p.remark is not None and (p.remark.kind, p.remark.cause) == ("far_below_roof", cause)
    assert said(result).startswith("↓ below 20 % of the roof") and words in said(result)
    assert p.bound == Bound.MEMORY and table("ops", [p]).rows[0][-1] == "memory ↓"


def test_cheap_page_faults_are_not_named_as_the_cause() -> None:
    cheap = PageFaults(per_step=100, all_threads_s=1e-5, one_thread_s=2e-5)
    assert point(timed(1e-3, 1e6, faults=cheap)).remark.cause == "kernels"  # type: ignore[union-attr]


@pytest.mark.parametrize("step_s", [10e-6, 10.01e-6, 20e-6, 49e-6])
def test_a_point_between_a_fifth_of_its_roof_and_the_roof_needs_no_remark(step_s: float) -> None:
    p = point(timed(step_s, 1e6))
    assert p.remark is None and remark_lines([p]) == []


def test_an_overhead_bound_speaks_for_itself() -> None:
    p = point(timed(1e-3, 1e6, op_s=1e-4))
    assert p.bound == Bound.OVERHEAD and p.remark is None


def test_points_of_one_cause_share_a_line_and_whole_series_are_named_once() -> None:
    results = [
        timed(1e-3, 1e6, size=64),
        timed(2e-3, 1e6, size=128),
        timed(1e-3, 1e6, series="gelu", size=64),
        timed(20e-6, 1e6, series="gelu", size=128),
        timed(4e-6, 5e5, series="sum"),
    ]
    above, below = remark_lines([point(r) for r in results])
    assert above.startswith("↑ above the roof: sum 64. its 500 kB")
    assert below.startswith(
        "↓ below 20 % of the roof, held by slow kernels and no ceiling: add; gelu 64. add 128, at 0.50 %:"
    )


def test_remarks_are_in_markdown_and_in_the_document() -> None:
    results = [timed(4e-6, 5e5)]
    cases: list[Case] = [r.case for r in results]
    text = markdown("ops", cases, [point(r) for r in results], TOY)
    assert "| memory ↑ |" in text and "- ↑ above the roof: add 64. its 500 kB fit" in text
    made = json.loads(msgspec.json.encode(document("ops", cases, results, TOY, [])))
    assert made["points"][0]["remark"]["kind"] == "above_roof"
    assert "fit into the last-level cache" in made["points"][0]["remark"]["why"]


@pytest.fixture(scope="module")
def predicted() -> list[Point]:
    """A small torchvision model at the roof, by the bytes of leaf modules."""
    settings = Settings(precision=Precision.BF16, models=("resnet18",), sizes=(1, 64))
    where = msgspec.structs.replace(WHERE, origin="module")
    return [point(result_of(case, count_case(case, A10, where))) for case in vision.cases(settings)]


def test_no_predicted_ratio_is_above_1_and_one_of_them_is_1(predicted: list[Point]) -> None:
    for p in predicted:
        assert p.mfu_fraction is not None and p.mbu_fraction is not None
        # At the roof of the whole step the resource that binds, matrix engine or memory, is fully used.
        assert max(p.mfu_fraction, p.mbu_fraction) == pytest.approx(1)
        assert p.remark is None


def test_predicted_ratios_intensity_and_ridge_are_of_one_count_of_bytes(predicted: list[Point]) -> None:
    for p in predicted:
        assert p.bytes_origin == "module"
        # MFU / MBU = (F / peak) / (B / bandwidth) = I / ridge.
        assert p.mfu_fraction / p.mbu_fraction == pytest.approx(
            p.intensity_flops_per_byte / p.ridge_point_flops_per_byte
        )


@pytest.mark.parametrize("origin", ["operator", "compulsory", "cached"])
def test_no_count_of_bytes_gives_a_prediction_above_its_roof(origin: str, capsys: pytest.CaptureFixture[str]) -> None:
    command = ["sweep", "decode", "--predict", "a10", "--batches", "1,208,512", "--bytes", origin, "--json"]
    assert command_line(command) == 0
    for p in json.loads(capsys.readouterr().out)["points"]:
        assert max(p["mfu_fraction"], p["mbu_fraction"]) <= 1 + 1e-9


def test_a_beaten_compute_ceiling_is_not_explained_by_the_cache() -> None:
    # 2 TFLOP in half a second on 1 TFLOP/s, beside a small op that memory binds: no cache makes an engine faster.
    def op(name: str, flops: float, moved: float, seconds: float) -> OpRecord:
        return OpRecord(
            name=name,
            engine="matrix" if flops else "vector",
            precision=Precision.FP32,
            needed_flops=flops,
            executed_flops=flops,
            bytes=OpBytes(operator=moved),
            seconds=seconds,
        )

    ops = (op("aten.mm", 1e12, 1e5, 0.45), op("aten.relu", 0, 1e5, 0.05))
    run = Run(
        kind="measured",
        workload={},
        machine=TOY,
        flops=Flops(needed=1e12, executed=1e12, vector=0, by_precision={Precision.FP32: 1e12}),
        bytes=Bytes(operator=2e5),
        timing=Timing(median_s=0.5, samples_s=(0.5,) * 5, spread_fraction=0, stable=True),
        ops=ops,
    )
    (case,) = op_cases("gemm")
    (line,) = remark_lines([point(result_of(case, judge(run)))])
    assert "the measured ceiling is too low" in line and "cache" not in line


def test_a_prediction_in_two_precisions_stays_below_its_peaks(capsys: pytest.CaptureFixture[str]) -> None:
    # With FP32 weights convolutions run as TF32 on this GPU and the rest as FP32: each has its own peak.
    command = ["sweep", "vision", "--predict", "h100-sxm", "--models", "vit_b_16", "--modes", "inference"]
    assert command_line([*command, "--batches", "8", "--precision", "fp32", "--json"]) == 0
    (found,) = json.loads(capsys.readouterr().out)["points"]
    assert 0.9 < found["mfu_fraction"] <= 1
