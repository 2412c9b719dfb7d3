"""Decode and training: throughput, latency, MFU against size; roof, fitted roof, measured points, published marks."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from roofline.report.sweeps.figures import style
from roofline.report.sweeps.figures.groups import Group, groups
from roofline.sweeps import article
from roofline.sweeps.case import Result, SweepName
from roofline.sweeps.decode import critical
from roofline.sweeps.summary import knee

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_WEIGHT_BYTES = {"bf16": 2, "fp16": 2, "fp32": 4, "fp64": 8}


def decode(results: Sequence[Result]) -> "Figure":
    """Draw decode: throughput with the critical batch and the knee, latency, and both ratios."""
    figure, (left, middle, right) = style.new_figure("Decode: batch is intensity", 3, width=14)
    for i, group in enumerate(groups("decode", results)):
        _throughput(left, group, i, "decode")
        _latency(middle, group, i)
        _ratios(right, group, i)
    _finish(left, middle, right, results, "decode", "batch (sequences)")
    return figure


def train(results: Sequence[Result]) -> "Figure":
    """Draw training: throughput with the critical tokens, time of a step, and the MFU plateau."""
    figure, (left, middle, right) = style.new_figure("Training: tokens per step are intensity", 3, width=14)
    for i, group in enumerate(groups("train", results)):
        _throughput(left, group, i, "train")
        _latency(middle, group, i)
        _ratios(right, group, i)
    _finish(left, middle, right, results, "train", "tokens per step")
    return figure


def _throughput(axes: "Axes", group: Group, i: int, name: SweepName) -> None:
    sizes = [p.size for p in group.points]
    colour = style.COLOURS[i % len(style.COLOURS)]
    roofs = [p.size / p.roof_s if p.roof_s else None for p in group.points]
    style.plot(axes, sizes, roofs, color=colour, linewidth=1.6, label=f"roof of {group.label}")
    fitted = [(p.size, p.size / p.fitted_s) for p in group.points if p.fitted_s]
    if fitted:
        style.plot(axes, *zip(*fitted, strict=True), color=colour, linewidth=1.2, linestyle="--", label="fitted roof")
    if group.measured:
        style.plot(
            axes,
            sizes,
            [p.items_per_s for p in group.points],
            color=colour,
            linestyle="",
            markersize=6,
            marker=style.MARKERS[i % len(style.MARKERS)],
            markeredgecolor="black",
            label=f"measured on {group.label}",
        )
        found = knee(group.points)
        if found:
            best = max(p.items_per_s or 0.0 for p in group.points)
            style.plot(
                axes,
                [found],
                [best],
                marker="*",
                markersize=14,
                color=colour,
                markeredgecolor="black",
                linestyle="",
                label=f"knee in the points: {found:.0f}",
            )
    published = article.marks(name, group.machine.key)
    if published:
        style.plot(
            axes,
            [m.size for m in published],
            [m.items_per_s for m in published],
            linestyle="",
            marker="x",
            markersize=9,
            markeredgewidth=2,
            color=style.PUBLISHED,
            label="published in the article (A10)",
        )


def _latency(axes: "Axes", group: Group, i: int) -> None:
    sizes = [p.size for p in group.points]
    colour = style.COLOURS[i % len(style.COLOURS)]
    style.plot(axes, sizes, [_ms(p.roof_s) for p in group.points], color=colour, linewidth=1.6)
    if group.measured:
        style.plot(
            axes,
            sizes,
            [_ms(p.step_s) for p in group.points],
            color=colour,
            linestyle="",
            markersize=6,
            marker=style.MARKERS[i % len(style.MARKERS)],
            markeredgecolor="black",
        )
    published = article.marks(
        "decode" if group.points and group.points[0].series.startswith("decode") else "train", group.machine.key
    )
    if published:
        style.plot(
            axes,
            [m.size for m in published],
            [1e3 * m.size / m.items_per_s for m in published],
            linestyle="",
            marker="x",
            markersize=9,
            markeredgewidth=2,
            color=style.PUBLISHED,
        )


def _ratios(axes: "Axes", group: Group, i: int) -> None:
    sizes = [p.size for p in group.points]
    what = "" if group.measured else " at the roof"
    for values, ratio, line, k in (
        ([p.mfu_fraction for p in group.points], "MFU", "-", 0),
        ([p.mbu_fraction for p in group.points], "MBU", "--", 1),
    ):
        style.plot(
            axes,
            sizes,
            values,
            linestyle=line,
            color=style.COLOURS[(2 * i + k) % len(style.COLOURS)],
            linewidth=1.4,
            marker=style.MARKERS[(2 * i + k) % len(style.MARKERS)],
            markersize=5,
            markeredgecolor="black",
            label=f"{ratio}{what}, {group.label}",
        )


def _finish(
    left: "Axes", middle: "Axes", right: "Axes", results: Sequence[Result], name: SweepName, label: str
) -> None:
    sizes = sorted({r.case.size for r in results if r.case.sweep == name})
    for axes in (left, middle, right):
        style.size_axis(axes, sizes, label)
    for text in _criticals(name, results):
        style.mark_size(left, *text)
    # Room above the roof for the legend.
    left.set_yscale("log")
    left.set_ylim(top=8 * left.get_ylim()[1])
    style.rate_axis(left, "throughput (token/s)")
    style.rate_axis(middle, "time of a step (ms)")
    style.percent_axis(right, "share of the machine's ceiling")
    for axes, places in ((left, {"loc": "upper left"}), (right, {})):
        if axes.get_legend_handles_labels()[0]:
            style.key(axes, **places)


def _criticals(name: SweepName, results: Sequence[Result]) -> list[tuple[float, str]]:
    """Where the ridge point puts the critical size, per machine."""
    found: dict[float, str] = {}
    for result in results:
        machine = result.run.machine if result.run else None
        if result.case.sweep == name and machine is not None and "model" not in result.case.settings:
            ridge = machine.ridge_point(result.case.precision)
            size = critical(ridge, _WEIGHT_BYTES.get(result.case.precision, 2))
            word = "critical batch" if name == "decode" else "critical tokens"
            found[size] = f"{word} {size:.0f} ({machine.key})"
    return list(found.items())


def _ms(seconds: float | None) -> float | None:
    return None if seconds is None else 1e3 * seconds
