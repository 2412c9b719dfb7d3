"""The roofline as a PNG or SVG: log–log plot, and under it where the time goes. No pyplot, no global state."""

from io import BytesIO
from textwrap import wrap
from typing import TYPE_CHECKING, Any, Literal

from roofline.core.run import Run
from roofline.core.units import column, percent, show
from roofline.report import facts
from roofline.report.palette import BOUNDS, PARTS, STAR
from roofline.report.points import Picture, Point, Roof, Slope, decades, label_heights, picture, point_size, tick

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_DPI = 150
_LARGEST = 500
_ALONG = 0.6
_NAMED = 5
_INDENT = "\N{NO-BREAK SPACE}" * 4  # an SVG collapses plain spaces
# Text of an SVG stays text: it can be searched, and the file stays small. No name may be read as mathematics.
_STYLE = {
    "text.parse_math": False,
    "svg.fonttype": "none",
    "svg.hashsalt": "roofline",
    "font.size": 9,
}


def render(run: Run, form: Literal["png", "svg"], *, size: tuple[float, float] = (11.5, 7.2)) -> bytes:
    """Draw the roofline and the time budget of a Run; the same Run gives the same bytes.

    Args:
        run: What to draw.
        form: The picture's format.
        size: Width and height, inches.
    """
    import matplotlib

    with matplotlib.rc_context({**matplotlib.rcParamsDefault, **_STYLE}):
        figure = _figure(run, size)
        out = BytesIO()
        metadata: dict[str, Any] = {"Date": None} if form == "svg" else {}
        figure.savefig(out, format=form, dpi=_DPI, metadata=metadata)
    return out.getvalue()


def _figure(run: Run, size: tuple[float, float]) -> "Figure":
    from matplotlib.figure import Figure

    figure = Figure(figsize=size, dpi=_DPI, facecolor="white")
    width, height = size
    sentence = wrap(facts.sentence(run), int(width * 12), max_lines=2, placeholder=" …")
    # The margins are the same length at any size: labels don't grow with the picture.
    left, right, top, foot = 1.05 / width, 1 - 2.75 / width, 1 - (0.9 + 0.2 * len(sentence)) / height, 1.7 / height
    plot = figure.add_axes((left, foot, right - left, top - foot))
    bar = figure.add_axes((left, 0.7 / height, right - left, 0.25 / height))
    edge = 0.35 / width
    head = _short(" · ".join(facts.head(run)), int(width * 9.5))
    figure.text(edge, 1 - 0.34 / height, head, fontsize=12, fontweight="bold")
    below = 1 - 0.45 / height
    figure.text(edge, below, "\n".join(sentence), fontsize=9.5, color="#333333", va="top", linespacing=1.3)
    drawn = picture(run)
    _axes(plot, drawn)
    _roofs(plot, drawn)
    _points(plot, drawn)
    _star(plot, drawn)
    _legend(plot, drawn)
    _budget(bar, run)
    notes = [line for line in facts.coverage(run, most=3) if line.startswith("unknown")]
    notes += ["Not on the plot: " + "; ".join(drawn.notes)] if drawn.notes else []
    lines = wrap(". ".join(notes), int(width * 15), max_lines=2, placeholder=" …")
    figure.text(edge, 0.4 / height, "\n".join(lines), fontsize=7.5, color="#555555", va="top", linespacing=1.3)
    return figure


def _axes(plot: "Axes", drawn: Picture) -> None:
    plot.set_xscale("log")
    plot.set_yscale("log")
    plot.set_xlim(*drawn.x_range)
    plot.set_ylim(*drawn.y_range)
    for axis, limits, unit in ((plot.xaxis, drawn.x_range, "FLOP/B"), (plot.yaxis, drawn.y_range, "FLOP/s")):
        ticks = decades(limits)
        axis.set_ticks(ticks, [tick(value, unit).removesuffix(" FLOP/B") for value in ticks])  # type: ignore[arg-type]
    plot.set_xlabel("arithmetic intensity (FLOP/B)")
    rate = "achieved rate (FLOP/s)" if drawn.timed else "attainable rate (FLOP/s): nothing was timed"
    plot.set_title(rate, loc="left", fontsize=9, x=-0.02)
    plot.grid(True, which="major", color="#E3E3E3", linewidth=0.6)
    plot.set_axisbelow(True)
    for side in ("top", "right"):
        plot.spines[side].set_visible(False)
    if not drawn.roofs and not drawn.slopes and not drawn.points:
        plot.text(0.5, 0.5, "no machine and no timed op: nothing to place", transform=plot.transAxes, ha="center")


def _roofs(plot: "Axes", drawn: Picture) -> None:
    """Roofs start at the fastest memory level; slopes end at the highest roof."""
    x_low, x_high = drawn.x_range
    fastest = max((slope.bandwidth for slope in drawn.slopes), default=None)
    highest = max((roof.rate for roof in drawn.roofs), default=drawn.y_range[1])
    for slope in drawn.slopes:
        end = min(x_high, highest / slope.bandwidth)
        dram = slope.level == "dram"
        plot.plot(
            [x_low, end],
            [x_low * slope.bandwidth, end * slope.bandwidth],
            color="#222222" if dram else "#777777",
            linewidth=1.8 if dram else 1.0,
            linestyle="-" if dram else (0, (5, 2)),
        )
        _label_slope(plot, drawn, slope, end)
    for roof, y in zip(drawn.roofs, label_heights(drawn), strict=True):
        start = max(x_low, roof.rate / fastest) if fastest else x_low
        plot.plot(
            [start, x_high],
            [roof.rate, roof.rate],
            color="#222222" if roof.main else "#777777",
            linewidth=1.8 if roof.main else 1.0,
            linestyle=":" if roof.vector else "-",
        )
        plot.text(
            x_high, y, roof.label, ha="right", va="bottom", fontsize=8, color="#222222", bbox=_PAPER, zorder=2.5
        )
        if roof.main:
            _mark_ridge(plot, drawn, roof)


_PAPER = {"facecolor": "white", "edgecolor": "none", "alpha": 0.75, "pad": 0.6}


def _label_slope(plot: "Axes", drawn: Picture, slope: Slope, end: float) -> None:
    """Label a slope along its line, high up, where the fewest points are."""
    from math import atan2, degrees, log10

    start = max(drawn.x_range[0], drawn.y_range[0] / slope.bandwidth)
    x = start ** (1 - _ALONG) * end**_ALONG
    box = plot.get_window_extent()
    rise = box.height / log10(drawn.y_range[1] / drawn.y_range[0])
    run = box.width / log10(drawn.x_range[1] / drawn.x_range[0])
    plot.annotate(
        slope.label,
        (x, x * slope.bandwidth),
        xytext=(-2, 2),
        textcoords="offset points",
        fontsize=8,
        color="#222222",
        rotation=degrees(atan2(rise, run)),
        rotation_mode="anchor",
        ha="center",
        va="bottom",
        bbox={**_PAPER, "pad": 0},
        zorder=2.5,
    )


def _mark_ridge(plot: "Axes", drawn: Picture, roof: Roof) -> None:
    if not roof.ridge_point:
        return
    plot.plot(
        [roof.ridge_point] * 2, [drawn.y_range[0], roof.rate], color="#222222", linewidth=0.8, linestyle=(0, (2, 3))
    )
    plot.annotate(
        f"ridge point {show(roof.ridge_point, 'FLOP/B')}",
        (roof.ridge_point, drawn.y_range[0]),
        xytext=(3, 4),
        textcoords="offset points",
        fontsize=8,
        color="#222222",
        rotation=90,
        va="bottom",
        bbox=_PAPER,
        zorder=2.5,
    )


def _points(plot: "Axes", drawn: Picture) -> None:
    """Large points first, so that small ones stay in sight; those with most time carry a number."""
    for point in drawn.points:
        look = BOUNDS[point.row.bound]
        plot.scatter(
            [point.intensity],
            [point.rate],
            s=_LARGEST * point_size(point.row.share),
            marker=look.marker,
            color=look.colour,
            alpha=0.65,
            edgecolors="black",
            linewidths=0.5,
            zorder=3,
        )
    for numbers, point in _numbered(plot, drawn):
        radius = (_LARGEST * point_size(point.row.share)) ** 0.5 / 2
        plot.annotate(
            ", ".join(map(str, numbers)),
            (point.intensity, point.rate),
            xytext=(radius + 2, -radius - 5),
            textcoords="offset points",
            fontsize=8,
            fontweight="bold",
            zorder=6,
        )


def _numbered(plot: "Axes", drawn: Picture) -> list[tuple[list[int], Point]]:
    """The points to number; those that would write over one another share one label."""
    groups: list[tuple[list[int], Point]] = []
    near = plot.figure.dpi / 72 * 14
    for number, point in enumerate(drawn.points[:_NAMED], start=1):
        here = plot.transData.transform((point.intensity, point.rate))
        for numbers, first in groups:
            there = plot.transData.transform((first.intensity, first.rate))
            if abs(here - there).max() < near:
                numbers.append(number)
                break
        else:
            groups.append(([number], point))
    return groups


def _star(plot: "Axes", drawn: Picture) -> None:
    star = drawn.star
    if not star:
        return
    if star.low < star.high:
        plot.plot(
            [star.low, star.high], [star.rate] * 2, color=STAR, linewidth=1.6, marker="|", markersize=9, zorder=4
        )
    plot.scatter([star.intensity], [star.rate], s=230, marker="*", color=STAR, edgecolors="black", zorder=5)


def _legend(plot: "Axes", drawn: Picture) -> None:
    """Outside the plot, where it hides no point: the markers, then the numbered ops."""
    handles = []
    for bound, look in BOUNDS.items():
        count = sum(point.row.bound == bound for point in drawn.points)
        if count:
            handles.append(_handle(look.marker, look.colour, f"{look.label} ({facts.plural(count, 'row')})"))
    if drawn.star:
        handles.append(_handle("*", STAR, "\n".join(wrap(drawn.star.label, 31))))
    time = "op time" if drawn.timed else "roof time"
    if handles:
        plot.legend(
            handles=handles,
            loc="upper left",
            bbox_to_anchor=(1.015, 1.02),
            frameon=False,
            fontsize=8,
            title=f"ops by bound; area: share of {time}",
            title_fontsize=8,
            alignment="left",
        )
    lines = [
        f"{number}  {_short(row.name, 23)}, {percent(row.share)}\n{_INDENT}{_tail(row.module, 34)}"
        for number, row in enumerate((point.row for point in drawn.points[:_NAMED]), start=1)
    ]
    if lines:
        text = "\n".join([f"most {time}:", *lines])
        plot.text(1.03, 0.0, text, transform=plot.transAxes, fontsize=8, va="bottom", linespacing=1.35)


def _handle(marker: str, colour: str, label: str) -> Any:
    from matplotlib.lines import Line2D

    size = 12 if marker == "*" else 8
    return Line2D(
        [], [], linestyle="", marker=marker, color=colour, markeredgecolor="black", markersize=size, label=label
    )


def _budget(axes: "Axes", run: Run) -> None:
    """One stacked bar with a key under it; wide parts carry their name as well."""
    from matplotlib.patches import Patch

    parts, said = facts.budget(run), f"time budget: {facts.time_line(run)}"
    if not parts:
        parts, said = facts.roof_split(run), facts.time_line(run)
        said += "; below: roof time by bound" if parts else ""
    axes.set_axis_off()
    axes.set_xlim(0, 1)
    left, handles = 0.0, []
    for part, time in zip(parts, column([part.seconds for part in parts], "s"), strict=True):
        fraction, colour = part.fraction or 0, PARTS[part.name]
        axes.barh(0, fraction, left=left, color=colour, edgecolor="white", height=1)
        if fraction > 0.12:
            ink = "black" if part.name in ("memory", "idle") else "white"
            axes.text(left + fraction / 2, 0, part.name, ha="center", va="center", fontsize=8.5, color=ink)
        left += fraction
        handles.append(Patch(color=colour, label=f"{part.name} {time} ({percent(part.fraction)})"))
    axes.text(0, 1.2, said, transform=axes.transAxes, fontsize=9, fontweight="bold")
    if handles:
        axes.legend(
            handles=handles,
            loc="upper left",
            bbox_to_anchor=(-0.005, 0.0),
            ncols=5,
            frameon=False,
            fontsize=8,
            handlelength=0.8,
            handletextpad=0.4,
            columnspacing=1.2,
            borderaxespad=0.3,
            borderpad=0,
        )


def _short(text: str, room: int) -> str:
    return text if len(text) <= room else text[: room - 1] + "…"


def _tail(text: str, room: int) -> str:
    return text if len(text) <= room else "…" + text[1 - room :]
