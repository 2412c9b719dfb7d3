"""docs/article.md: every number in it is recomputed, and every command that needs no hardware runs."""

import re
import shlex
from collections.abc import Callable
from functools import cache
from pathlib import Path

import pytest

from roofline import machines
from roofline.cli.main import run as command_line
from roofline.core.machine import Machine
from roofline.core.precision import Precision
from roofline.core.roof import attainable
from roofline.core.run import Run
from roofline.sweeps import article, decode, mlp, ops, train, vision
from roofline.sweeps.case import Case, Where
from roofline.sweeps.measure import count_case
from roofline.sweeps.settings import Settings

PAGE = Path(__file__).parents[1] / "docs" / "article.md"
A10, A10G = machines.resolve("a10"), machines.resolve("a10g")
V100, A100 = machines.resolve("v100-sxm2-32gb"), machines.resolve("a100-sxm-80gb")
H100, H200, B200 = (machines.resolve(key) for key in ("h100-sxm", "h200-sxm", "b200"))
FP16, BF16, FP8 = Precision.FP16, Precision.BF16, Precision.FP8
ARTICLE = Settings(precision=BF16)
SINGLE = Settings(precision=Precision.FP32)
P = article.PARAMS


def ridge(machine: Machine, precision: Precision = BF16) -> str:
    return f"{machine.ridge_point(precision):.0f}"


@cache
def roof_s(sweep: str, size: int) -> float:
    """Step time of the article's stand-in at the roof of an A10."""
    module = {"decode": decode, "train": train}[sweep]
    case = next(c for c in module.cases(ARTICLE) if c.size == size)
    return count_case(case, A10, Where(machine=A10)).verdict.roof_s


def op(name: str, size: int, settings: Settings = ARTICLE) -> Case:
    return next(c for c in ops.cases(settings) if c.series == name and c.size == size)


def intensity(name: str, size: int, settings: Settings = ARTICLE) -> float:
    found = ops.closed_intensity(op(name, size, settings))
    assert found is not None
    return found


@cache
def vision_run(model: str, mode: str) -> Run:
    settings = Settings(precision=BF16, models=(model,), modes=(mode,), sizes=(64,))
    return count_case(vision.cases(settings)[0], A10, Where(machine=A10, origin="module"))


def vision_intensity(model: str, mode: str) -> float:
    run = vision_run(model, mode)
    return run.flops.executed / run.bytes.module


def dram(machine: Machine) -> float:
    return machine.dram.value


def peak(machine: Machine, precision: Precision = BF16) -> float:
    return machine.matrix_peak(precision).value


def gemm_256() -> tuple[float, float, float]:
    """Share of the A10G's peak that the roof allows 256³, its FLOP, and its time at 1 % of the peak."""
    flops = 2 * 256**3
    allowed = attainable(intensity("gemm", 256), peak=peak(A10G), bandwidth=dram(A10G)) / peak(A10G)
    return allowed, flops, flops / (0.01 * peak(A10G))


def counted_over_6pt() -> float:
    case = next(c for c in train.cases(ARTICLE) if c.size == 512)
    sizes = mlp.of(case.settings)
    return count_case(case, A10, Where(machine=A10)).flops.executed / (6 * sizes.params * 512)


def mfu_after(speedup: float) -> float:
    return 0.45 * speedup * peak(A100) / peak(H100)


def at_200(machine: Machine) -> float:
    return attainable(200, peak=peak(machine), bandwidth=dram(machine))


CEILING = 600e9 / (2 * P)
TRAIN_CEILING = 600e9 / (6 * P)
BATCH_512 = article.DECODE[2].items_per_s

# What each row of the page must say: the article's arithmetic from the database and the formulas.
OURS: dict[str, Callable[[], list[str]]] = {
    "R1": lambda: [ridge(V100, FP16)],
    "R2": lambda: [ridge(A100)],
    "R3": lambda: [ridge(H100)],
    "R4": lambda: [ridge(A10)],
    "R5": lambda: [ridge(A10G)],
    "R6": lambda: [ridge(H100, FP8)],
    "R7": lambda: [f"{peak(B200) / peak(V100, FP16):.1f}×"],
    "R8": lambda: [f"{dram(B200) / dram(V100):.2f}×", f"{dram(B200) / 1e12:.1f} TB/s", f"{8e12 / dram(V100):.2f}×"],
    "R9": lambda: [" → ".join(ridge(m, FP16) for m in (V100, A100, H100, H200, B200))],
    "O1": lambda: [f"{intensity('add', n, SINGLE):.4f} FLOP/B" for n in (1 << 20, 1 << 26)],
    "O2": lambda: [f"{intensity('gemm', 1024, SINGLE):.0f}", f"{intensity('gemm', 8192, SINGLE):.0f}"],
    "O3": lambda: [f"{intensity('gemm', 8192):.0f} and {intensity('gemv', 8192):.2f}"],
    "O4": lambda: [f"{intensity('attention_math', 4096):.1f} → {intensity('attention_fused', 4096):.0f}"],
    "O5": lambda: [f"{peak(A10G) / (intensity('gemv', 8192) * dram(A10G)):.0f}×"],
    "O6": lambda: [f"{gemm_256()[0]:.1%}".replace("%", " %"), f"{gemm_256()[2] * 1e6:.1f} µs", "33.6 MFLOP"],
    "L1": lambda: [f"{2 * 70e9 / 1e9:.0f} GB"],
    "L2": lambda: [f"{2 * 70e9 / dram(H100) * 1e3:.1f} ms"],
    "L3": lambda: [f"{dram(H100) / (2 * 70e9):.1f} tokens/s"],
    "L4": lambda: [f"{2 * 70e9 / 2**30:.0f} GiB", f"{(H100.memory_bytes or 0) / 2**30:.0f} GiB"],
    "D1": lambda: [f"{decode.facts(decode.cases(ARTICLE), A10)['ceiling_tokens_per_s']:.0f} tokens/s"],
    "D2": lambda: [f"{166 / CEILING:.1%}".replace("%", " %")],
    "D3": lambda: [f"{decode.facts(decode.cases(ARTICLE), A10)['critical_batch']:.0f}"],
    "D4": lambda: [f"{128 * 6.0 / 8.5:.1f}×", f"{128 * roof_s('decode', 1) / roof_s('decode', 128):.0f}×"],
    "D5": lambda: [f"{8.5 / 6.0:.2f}×", f"{roof_s('decode', 128) / roof_s('decode', 1):.2f}×"],
    "D6": lambda: [f"{4 * roof_s('decode', 128) / roof_s('decode', 512):.2f}×"],
    "D7": lambda: [
        f"{BATCH_512 * 2 * P / 1e12:.1f} TFLOP/s",
        f"{BATCH_512 * 2 * P / peak(A10):.1%}".replace("%", " %"),
    ],
    "T1": lambda: [f"{166 / 53:.2f}×", f"{53 / TRAIN_CEILING:.1%}".replace("%", " %"), f"{TRAIN_CEILING:.1f}"],
    "T2": lambda: [f"{97 * 53} tokens/s", f"{128 / 97:.2f}×"],
    "T3": lambda: [f"{6 * P * 8000 / 1e12:.1f} TFLOP/s"],
    "T4": lambda: [
        f"{6 * P * 8000 / peak(A10):.1%}".replace("%", " %"),
        f"{70e12 / peak(A10):.1%}".replace("%", " %"),
    ],
    "T5": lambda: [f"{counted_over_6pt():.1%}".replace("%", " %")],
    "T6": lambda: [f"{train.facts(train.cases(ARTICLE), A10)['critical_tokens']:.0f} tokens"],
    "V1": lambda: [f"{vision_intensity('resnet50', 'inference'):.1f} FLOP/B"],
    "V2": lambda: [f"{vision_intensity('vit_b_16', 'train'):.0f} FLOP/B"],
    "V3": lambda: [
        f"{0.40 * vision_intensity('resnet50', 'inference') / A10.ridge_point(BF16):.1%} MFU".replace("%", " %")
    ],
    "V4": lambda: [
        f"{vision_intensity('resnet50', 'inference'):.1f} < {ridge(A10)}",
        f"< {vision_intensity('vit_b_16', 'train'):.0f}",
    ],
    "H1": lambda: [f"{peak(H100) / peak(A100):.2f}×"],
    "H2": lambda: [f"{dram(H100) / dram(A100):.2f}×"],
    "H3": lambda: [f"{mfu_after(1.5):.1%}".replace("%", " %"), f"{0.32 / mfu_after(1.0):.2f}×"],
    "H4": lambda: [f"{ridge(A100)} < 200 < {ridge(H100)}"],
    "H5": lambda: [f"{at_200(H100) / at_200(A100):.2f}×"],
}


def rows() -> dict[str, list[str]]:
    """Rows of the page's tables by their id."""
    found = {}
    for line in PAGE.read_text().splitlines():
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        if line.startswith("| ") and re.fullmatch(r"[A-Z]\d", cells[0]):
            assert cells[0] not in found, f"{cells[0]} appears twice"
            found[cells[0]] = cells
    return found


def test_every_row_of_the_page_is_recomputed_and_no_other() -> None:
    assert set(rows()) == set(OURS)


@pytest.mark.parametrize("row", OURS)
def test_the_page_says_what_we_compute(row: str) -> None:
    said = rows()[row][2]
    for number in OURS[row]():
        assert re.search(rf"(?<![\d.]){re.escape(number)}", said), f"{row} says {said!r}, computed {number}"


def test_the_published_points_are_below_the_roof_of_the_article_s_machine() -> None:
    for sweep in ("decode", "train"):
        for mark in article.marks(sweep, "a10"):  # type: ignore[arg-type]
            assert mark.items_per_s < mark.size / roof_s(sweep, mark.size)


def test_the_text_below_the_tables_adds_up() -> None:
    text = " ".join(PAGE.read_text().split())
    assert f"= {18.0 / 8.9:.2f} · 139".removeprefix("= ") in text
    assert f"{18.0 / 8.9 * 139:.0f}, or {ridge(B200)} at 7.7 TB/s" in text
    assert f"{dram(H200) / dram(H100) - 1:.0%} more bandwidth".replace("%", " %") in text
    assert f"117 / 150 = {117 / 150:.0%}".replace("%", " %") in text
    at_128, at_1 = roof_s("decode", 128) / 8.5e-3, roof_s("decode", 1) / 6.0e-3
    assert f"at {at_128:.0%} of its roof, at batch 1 at {at_1:.0%}".replace("%", " %") in text
    assert f"one product of 3 · 22 = {3 * 2 * 11}" in text and decode.cases(ARTICLE)[0].settings["blocks"] == 11
    assert f"end at {mfu_after(at_200(H100) / at_200(A100)):.1%} MFU".replace("%", " %") in text


def commands() -> list[str]:
    """Commands of the page that need neither hardware nor torch."""
    found = re.findall(r"^`(roofline [^`]+)`$", PAGE.read_text(), flags=re.MULTILINE)
    return [c for c in found if "vision" not in c]


@pytest.mark.parametrize("command", commands())
def test_every_command_of_the_page_runs(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert command_line(shlex.split(command)[1:]) == 0
    assert capsys.readouterr().out.strip()


def test_the_page_has_a_command_for_every_section() -> None:
    sections = re.split(r"^## ", PAGE.read_text(), flags=re.MULTILINE)[1:]
    assert len(sections) == 7
    assert all(re.search(r"^`roofline ", section, flags=re.MULTILINE) for section in sections)
