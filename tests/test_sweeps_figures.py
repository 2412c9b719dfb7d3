"""Figures of sweeps: nothing is written over anything else, and the roof bends where the ridge point says."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from itertools import combinations
from typing import TYPE_CHECKING, Any

import matplotlib
import msgspec
import pytest

from roofline import machines
from roofline.analysis import judge
from roofline.core.precision import Precision
from roofline.report.sweeps.figures import ops as ops_figure
from roofline.report.sweeps.figures import ridge, steps, style, vision
from roofline.report.sweeps.figures.curve import roof_curve
from roofline.sweeps import article, decode, ops, train
from roofline.sweeps.case import Case, Result, result_of
from roofline.sweeps.measure import count_case
from roofline.sweeps.settings import Settings
from roofline.sweeps.summary import point
from sweep_cases import A10, WHERE

if TYPE_CHECKING:
    from matplotlib.figure import Figure

SETTINGS = Settings(precision=Precision.BF16)


def at_the_roof(module: Any, *keys: str) -> list[Result]:
    found = []
    for key in keys:
        machine = machines.resolve(key)
        found += [result_of(case, count_case(case, machine, WHERE)) for case in module.cases(SETTINGS)]
    return found


def slower(result: Result, times: float) -> Result:
    """The case as if it had been timed at so many times its roof."""
    from roofline.core.run import Timing

    run = result.run
    assert run is not None and run.verdict is not None and run.verdict.roof_s is not None
    step_s = times * run.verdict.roof_s
    timing = Timing(median_s=step_s, samples_s=(step_s,) * 3, spread_fraction=0, stable=True)
    return result_of(result.case, judge(msgspec.structs.replace(run, timing=timing, kind="measured")))


def scattered(results: Sequence[Result]) -> list[Result]:
    """As measured: some at half of the roof, some at a thirtieth, many close together."""
    return [slower(r, (2.0, 3.0, 30.0, 1.3, 2.1)[i % 5]) for i, r in enumerate(results)]


def vision_points() -> list[Result]:
    """ResNet-50 and ViT at the article's intensities and others: a GEMM on an A10, with as many bytes as takes."""
    (gemm,) = ops.cases(Settings(precision=Precision.BF16, only=("gemm",), sizes=(64,)))
    run = count_case(gemm, A10, WHERE)
    found = []
    for series, intensities in {"resnet50 inference": (36, 53, 60), "vit_b_16 train": (126, 332, 562)}.items():
        for size, intensity in zip((1, 4, 16), intensities, strict=True):
            case = Case(sweep="vision", series=series, size=size, precision=Precision.BF16)
            moved = msgspec.structs.replace(run.bytes, module=run.flops.executed / intensity)
            found.append(result_of(case, judge(msgspec.structs.replace(run, bytes=moved), origin="module")))
    return found


@contextmanager
def drawn(draw: Callable[[], "Figure"]) -> Iterator["Figure"]:
    """A figure in the look that it is saved in, laid out."""
    with matplotlib.rc_context({**matplotlib.rcParamsDefault, **style._RC}):
        figure = draw()
        figure.draw_without_rendering()
        yield figure


def boxes(axes: Any) -> tuple[list[tuple[str, Any]], list[Any]]:
    """Boxes of the texts and of the markers of a panel, in pixels; half a pixel less on each side."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.transforms import Bbox

    renderer = FigureCanvasAgg(axes.figure).get_renderer()
    texts = [(t.get_text(), t.get_window_extent(renderer).padded(-0.5)) for t in axes.texts if t.get_text()]
    markers = []
    for line in axes.get_lines():
        if line.get_marker() not in (None, "None", ""):
            half = line.get_markersize() / 2 * axes.figure.dpi / 72
            for x, y in line.get_transform().transform(line.get_xydata()):
                markers.append(Bbox([[x - half, y - half], [x + half, y + half]]))
    return texts, markers


FIGURES: dict[str, Callable[[], "Figure"]] = {
    "ops at the roof": lambda: ops_figure.op_roofline(at_the_roof(ops, "a10", "h100-sxm")),
    "ops measured": lambda: ops_figure.op_roofline(scattered(at_the_roof(ops, "a10"))),
    "decode": lambda: steps.decode(scattered(at_the_roof(decode, "a10"))),
    "decode of two": lambda: steps.decode(at_the_roof(decode, "a10", "h100-sxm")),
    "train": lambda: steps.train(scattered(at_the_roof(train, "a10"))),
    "ridge": ridge.ridge,
    "vision": lambda: vision.vision(vision_points()),
}


@pytest.mark.parametrize("name", FIGURES)
def test_no_label_covers_a_marker_or_another_label(name: str) -> None:
    with drawn(FIGURES[name]) as figure:
        for axes in figure.axes:
            texts, markers = boxes(axes)
            for (one, a), (other, b) in combinations(texts, 2):
                assert not a.overlaps(b), f"{one!r} covers {other!r}"
            for text, a in texts:
                assert not any(a.overlaps(m) for m in markers), f"{text!r} covers a marker"


def test_every_op_on_the_plot_has_its_number() -> None:
    with drawn(FIGURES["ops measured"]) as figure:
        numbers = [n for t in figure.axes[0].texts for n in t.get_text().split(", ") if n.isdigit()]
        # 17 ops have FLOP; embedding and the transposed copy have none.
        assert sorted(map(int, numbers)) == list(range(1, 18))


@pytest.mark.parametrize("module", [decode, train])
def test_the_roof_bends_at_the_critical_size_and_not_at_a_measured_one(module: Any) -> None:
    results = [r for r in at_the_roof(module, "h100-sxm") if r.case.size in (1, 64, 512)]
    curve = {p.size: p for p in roof_curve(results)}
    bends = [size for size, p in curve.items() if p.likely_bound == "compute"]
    # 989.5 TFLOP/s / 3.35 TB/s = 295 FLOP/B; activations that miss the cache push the bend up a little.
    assert 295 <= min(bends) <= 295 * 1.15
    assert {1, 64, 512} <= set(curve)


def test_the_curve_goes_through_the_roofs_of_the_points() -> None:
    results = scattered(at_the_roof(train, "a10"))
    # A cache that holds weights between the passes, as a CPU's can, leaves less to move than the closed form says.
    changed = []
    for r in results:
        run = r.run
        assert run is not None and run.verdict is not None and run.verdict.roof_s is not None
        verdict = msgspec.structs.replace(run.verdict, roof_s=run.verdict.roof_s * (0.8 if r.case.size < 208 else 1))
        changed.append(msgspec.structs.replace(r, run=msgspec.structs.replace(run, verdict=verdict)))
    curve = {p.size: p for p in roof_curve(changed)}
    for r in changed:
        assert curve[r.case.size].roof_s == pytest.approx(point(r).roof_s)
    rates = [p.size / p.roof_s for p in curve.values() if p.roof_s]
    assert max(rates) == pytest.approx(rates[-1], rel=1e-3), "the plateau has no hump"


def test_points_of_unlike_cases_make_no_curve() -> None:
    small = Settings(precision=Precision.BF16, params=1e6)
    mixed = [*at_the_roof(decode, "a10"), *(result_of(c, count_case(c, A10, WHERE)) for c in decode.cases(small))]
    assert [p.size for p in roof_curve(mixed)] == sorted(r.case.size for r in mixed)


def test_machines_are_named_beside_the_critical_batch_only_where_they_differ() -> None:
    for results, said in (
        (at_the_roof(decode, "a10"), ["critical batch 208"]),
        (
            at_the_roof(decode, "a10", "h100-sxm"),
            ["critical batch 208, NVIDIA A10", "critical batch 295, NVIDIA H100 SXM"],
        ),
    ):
        with drawn(lambda results=results: steps.decode(results)) as figure:
            assert [t.get_text() for t in figure.axes[0].texts] == said


def test_published_crosses_say_whose_they_are_and_need_the_article_s_bytes() -> None:
    results = vision_points()
    with drawn(lambda: vision.vision(results)) as figure:
        texts = [t.get_text() for t in figure.axes[2].texts]
        assert {"resnet50 inference 63", "vit_b_16 train 664"} <= set(texts)
    by_operator = [
        msgspec.structs.replace(r, run=judge(r.run, origin="operator")) for r in results if r.run is not None
    ]
    with drawn(lambda: vision.vision(by_operator)) as figure:
        assert not any("664" in t.get_text() for t in figure.axes[2].texts)


@pytest.mark.parametrize(("sweep", "name"), [("decode", "batch"), ("train", "tokens")])
def test_published_points_stand_where_the_article_says(sweep: Any, name: str) -> None:
    # The article: 166 token/s; 128 per 8.5 ms; 1.5 times that at 512. 53 token/s; 97 times that; 8 k.
    expected = {
        "decode": {1: 166.0, 128: 15059, 512: 22588},
        "train": {1: 53.0, 128: 5141, 1024: 8000, 4096: 8000},
    }[sweep]
    draw = {"decode": steps.decode, "train": steps.train}[sweep]
    results = at_the_roof({"decode": decode, "train": train}[sweep], "a10")
    with drawn(lambda: draw(results)) as figure:
        left, middle, _ = figure.axes
        (crosses,) = [line for line in left.get_lines() if line.get_marker() == "x"]
        assert dict(zip(crosses.get_xdata(), crosses.get_ydata(), strict=True)) == pytest.approx(expected, rel=1e-4)
        (times,) = [line for line in middle.get_lines() if line.get_marker() == "x"]
        found = dict(zip(times.get_xdata(), times.get_ydata(), strict=True))
        # Batch 1 in 6.0 ms and 128 in 8.5 ms; T = 1 in 1 / 53 s.
        assert found == pytest.approx({size: 1e3 * size / rate for size, rate in expected.items()}, rel=1e-3)
        if sweep == "decode":
            assert found[1] == pytest.approx(6.0, abs=0.05) and found[128] == pytest.approx(8.5)
    assert article.marks(sweep, "h100-sxm") == ()


def test_published_points_are_not_drawn_on_a_model_of_another_size() -> None:
    settings = Settings(precision=Precision.BF16, params=7e9)
    results = [result_of(case, count_case(case, A10, WHERE)) for case in decode.cases(settings)]
    with drawn(lambda: steps.decode(results)) as figure:
        assert not any(line.get_marker() == "x" for axes in figure.axes for line in axes.get_lines())
