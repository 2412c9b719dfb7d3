"""Decode and training: throughput, latency, MFU against size; roof, fitted roof, measured points, published marks."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

from roofline.report.sweeps.figures import style
from roofline.report.sweeps.figures.curve import roof_curve
from roofline.report.sweeps.figures.groups import Group, groups
from roofline.report.sweeps.figures.labels import Labels
from roofline.sweeps import article, mlp
from roofline.sweeps.case import Result, SweepName
from roofline.sweeps.decode import critical
from roofline.sweeps.summary import Point, knee

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_WEIGHT_BYTES = {"bf16": 2, "fp16": 2, "fp32": 4, "fp64": 8}
_CRITICAL: dict[SweepName, str] = {"decode": "critical batch", "train": "critical tokens"}


def decode(results: Sequence[Result]) -> "Figure":
    """Draw decode: throughput with the critical batch and the knee, latency, and both ratios."""
    return _steps(results, "decode", "Decode: batch is intensity", "batch (sequences)")


def train(results: Sequence[Result]) -> "Figure":
    """Draw training: throughput with the critical tokens, time of a step, and the MFU plateau."""
    return _steps(results, "train", "Training: tokens per step are intensity", "tokens per step")


class _Drawn(NamedTuple):
    """A group with its roof as a curve, its colour and its markers."""

    group: Group
    roof: list[Point]
    colour: str
    marker: str
    second: str


def _steps(results: Sequence[Result], name: SweepName, title: str, label: str) -> "Figure":
    figure, (left, middle, right) = style.new_figure(title, 3, width=14)
    drawn = []
    for i, group in enumerate(groups(name, results)):
        marker, second = (style.MARKERS[(2 * i + k) % len(style.MARKERS)] for k in (0, 1))
        roof = roof_curve(group.results)
        drawn.append(_Drawn(group, roof, style.COLOURS[i % len(style.COLOURS)], marker, second))
    for d in drawn:
        _throughput(left, d, name)
        _latency(middle, d, name)
        _ratios(right, d)
    sizes = sorted({r.case.size for r in results if r.case.sweep == name})
    for axes in (left, middle, right):
        style.size_axis(axes, sizes, label)
    _finish(left, middle, right)
    _mark_criticals(left, drawn, _criticals(name, results))
    return figure


def _throughput(axes: "Axes", d: _Drawn, name: SweepName) -> None:
    sizes = [p.size for p in d.roof]
    roofs = [p.size / p.roof_s if p.roof_s else None for p in d.roof]
    style.plot(axes, sizes, roofs, color=d.colour, linewidth=1.6, label=f"roof of {d.group.label}")
    if any(p.fitted_s for p in d.roof):
        fitted = [p.size / p.fitted_s if p.fitted_s else None for p in d.roof]
        look = {"color": d.colour, "linewidth": 1.2, "linestyle": "--"}
        style.plot(axes, sizes, fitted, label=f"fitted roof of {d.group.label}", **look)
    if d.group.measured:
        points = d.group.points
        _points(axes, d, [(p.size, p.items_per_s) for p in points], label=f"measured on {d.group.label}")
        found = knee(points)
        if found:
            best = max(p.items_per_s or 0.0 for p in points)
            look = {"marker": "*", "markersize": 14, "markeredgecolor": "black", "linestyle": ""}
            style.plot(axes, [found], [best], color=d.colour, label=f"knee in the points: {found:.0f}", **look)
    published = [(m.size, m.items_per_s) for m in _marks(name, d.group)]
    style.published(axes, published, label="published in the article (A10)")


def _latency(axes: "Axes", d: _Drawn, name: SweepName) -> None:
    sizes = [p.size for p in d.roof]
    style.plot(axes, sizes, [_ms(p.roof_s) for p in d.roof], color=d.colour, linewidth=1.6)
    style.plot(axes, sizes, [_ms(p.fitted_s) for p in d.roof], color=d.colour, linewidth=1.2, linestyle="--")
    if d.group.measured:
        _points(axes, d, [(p.size, _ms(p.step_s)) for p in d.group.points])
    style.published(axes, [(m.size, 1e3 * m.size / m.items_per_s) for m in _marks(name, d.group)])


def _marks(name: SweepName, group: Group) -> tuple[article.Mark, ...]:
    """The article's points, where the group is of its machine and its model."""
    settings = group.results[0].case.settings if group.results else {"model": ""}
    return () if "model" in settings else article.marks(name, group.machine.key, mlp.of(settings).params)


def _points(axes: "Axes", d: _Drawn, points: Sequence[tuple[int, float | None]], **look: str) -> None:
    """Measured points, in the look of their group."""
    style.plot(
        axes,
        [x for x, _ in points],
        [y for _, y in points],
        color=d.colour,
        marker=d.marker,
        linestyle="",
        markersize=6,
        markeredgecolor="black",
        **look,
    )


def _ratios(axes: "Axes", d: _Drawn) -> None:
    """MFU and MBU: of measured points, or along the roof with a marker at each size of the sweep."""
    what = "" if d.group.measured else " at the roof"
    along = d.group.points if d.group.measured else d.roof
    marked = {p.size for p in d.group.points}
    for ratio, line, marker, face in (("MFU", "-", d.marker, d.colour), ("MBU", "--", d.second, "white")):
        values = [p.mfu_fraction if ratio == "MFU" else p.mbu_fraction for p in along]
        known = [p for p, value in zip(along, values, strict=True) if value is not None]
        style.plot(
            axes,
            [p.size for p in along],
            values,
            linestyle=line,
            color=d.colour,
            linewidth=1.4,
            marker=marker,
            markevery=[i for i, p in enumerate(known) if p.size in marked],
            markersize=5,
            markerfacecolor=face,
            markeredgecolor="black",
            label=f"{ratio}{what}, {d.group.label}",
        )


def _finish(left: "Axes", middle: "Axes", right: "Axes") -> None:
    # Room above the roof for the legend.
    left.set_yscale("log")
    left.set_ylim(top=8 * left.get_ylim()[1])
    style.rate_axis(left, "throughput (token/s)")
    style.rate_axis(middle, "time of a step (ms)")
    style.percent_axis(right, "share of the machine's ceiling")
    style.room_above(right, len(right.get_legend_handles_labels()[0]))
    for axes in (left, right):
        if axes.get_legend_handles_labels()[0]:
            style.key(axes, loc="upper left")


def _mark_criticals(axes: "Axes", drawn: Sequence[_Drawn], criticals: Sequence[tuple[float, str]]) -> None:
    """Draw the critical sizes, and write what they are where nothing else is."""
    for size, _ in criticals:
        style.dotted(axes, size)
    labels = Labels(axes)
    labels.avoid_legend()
    labels.avoid_lines()
    for size, text in criticals:
        labels.beside_vertical(text, size, fontsize=8, color=style.ROOF)


def _criticals(name: SweepName, results: Sequence[Result]) -> list[tuple[float, str]]:
    """Where the ridge point puts the critical size, per machine; whose it is, where they differ."""
    found: dict[float, list[str]] = {}
    for result in results:
        machine = result.run.machine if result.run else None
        if result.case.sweep == name and machine is not None and "model" not in result.case.settings:
            ridge = machine.ridge_point(result.case.precision)
            size = critical(ridge, _WEIGHT_BYTES.get(result.case.precision, 2))
            names = found.setdefault(size, [])
            if machine.name not in names:
                names.append(machine.name)
    return [
        (size, f"{_CRITICAL[name]} {size:.0f}" + (f", {' and '.join(names)}" if len(found) > 1 else ""))
        for size, names in sorted(found.items())
    ]


def _ms(seconds: float | None) -> float | None:
    return None if seconds is None else 1e3 * seconds
