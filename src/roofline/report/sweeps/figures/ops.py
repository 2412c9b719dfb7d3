"""Ops on the roof, and what a square GEMM reaches at each size."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from roofline.core.precision import Precision
from roofline.core.units import percent, show
from roofline.report.sweeps.figures import style
from roofline.report.sweeps.figures.curve import roof_curve
from roofline.report.sweeps.figures.groups import Group, by_series, groups
from roofline.report.sweeps.figures.labels import Labels, Place
from roofline.sweeps.case import Result
from roofline.sweeps.summary import Point

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

# Side of a marker with its edge, in points.
_MARK = 11
_FAMILIES = {
    "elementwise and reductions": ("add", "gelu", "dropout", "sum"),
    "norms and softmax": ("layer_norm", "rms_norm", "softmax"),
    "GEMV and skinny GEMM": ("gemv", "gemm_m8", "gemm_m64"),
    "square and batched GEMM": ("gemm", "bmm"),
    "convolution": ("conv3x3", "depthwise"),
    "attention": ("attention_math", "attention_fused"),
    "optimizer": ("adamw",),
}


def op_roofline(results: Sequence[Result]) -> "Figure":
    """Draw every op at its largest size, GEMM at all, under the roof of each machine: one panel per machine."""
    found = groups("ops", results)
    how = "measured" if any(g.measured for g in found) else "predicted"
    figure, panels = style.new_figure(
        f"Ops under the roof ({how}; largest size of each op)",
        max(1, len(found)),
        width=6.2 * max(1, len(found)) + 4.2,
        height=6.2,
    )
    numbers = {name: i for i, name in enumerate((op for family in _FAMILIES.values() for op in family), start=1)}
    if found:
        # Before the labels, whose places depend on the room that it leaves.
        _legend(figure, numbers)
    for axes, group in zip(panels, found, strict=False):
        _panel(axes, group, numbers)
    return figure


class _Roof(NamedTuple):
    """The roof of a panel.

    Attributes:
        bandwidth: Of memory, B/s.
        peak: Of the sweep's main precision, FLOP/s.
        vector: Of the vector engine, FLOP/s; None where it is not below the peak.
        low: Least intensity drawn, FLOP/B.
        high: Largest intensity drawn, FLOP/B.
    """

    bandwidth: float
    peak: float
    vector: float | None
    low: float
    high: float

    @property
    def ridge(self) -> float:
        """Where slope and plateau meet, FLOP/B."""
        return self.peak / self.bandwidth


def _panel(axes: "Axes", group: Group, numbers: dict[str, int]) -> None:
    points = [p for p in group.points if p.intensity_flops_per_byte and p.flops_per_s]
    axes.set_xscale("log")
    axes.set_yscale("log")
    roof = _roof(group, points)
    _draw_roof(axes, roof, points)
    largest = {series: max(own, key=lambda p: p.size) for series, own in by_series(points).items()}
    gemm = sorted((p for p in points if p.series == "gemm"), key=lambda p: p.size)
    for i, ops in enumerate(_FAMILIES.values()):
        if "gemm" in ops:
            look: dict[str, Any] = {
                "color": style.COLOURS[i],
                "linewidth": 1,
                "alpha": 0.7,
                "marker": ".",
                "zorder": 3,
            }
            style.plot(axes, *_placed(gemm), **look)
        for op in ops:
            if op in largest:
                _mark(axes, largest[op], i)
    axes.set_title(group.label, loc="left", fontsize=10)
    axes.set_xlabel("arithmetic intensity, counted (FLOP/B)" if group.measured else "arithmetic intensity (FLOP/B)")
    axes.set_ylabel("achieved rate (FLOP/s)" if group.measured else "attainable rate (FLOP/s)")
    _left_out(axes, group)
    named = [(str(numbers[op]), *_at_point(p)) for op, p in largest.items() if op in numbers]
    _label(axes, roof, sorted(named, key=lambda n: int(n[0])))


def _placed(points: Sequence[Point]) -> tuple[list[float], list[float]]:
    return [_at_point(p)[0] for p in points], [_at_point(p)[1] for p in points]


def _at_point(p: Point) -> tuple[float, float]:
    assert p.intensity_flops_per_byte and p.flops_per_s
    return p.intensity_flops_per_byte, p.flops_per_s


def _left_out(axes: "Axes", group: Group) -> None:
    """Name the ops that have no place on a logarithmic axis."""
    without = by_series([p for p in group.points if not p.intensity_flops_per_byte])
    if without:
        said = ", ".join(f"{series} {percent(own[-1].mbu_fraction)} MBU" for series, own in without.items())
        axes.annotate(
            f"no FLOP, not on the plot: {said}", (0, -0.13), xycoords="axes fraction", fontsize=7.5, color="#555555"
        )


def _roof(group: Group, points: Sequence[Point]) -> _Roof:
    """The roof of the sweep's main precision, and the vector engine's below it."""
    machine = group.machine
    precision = max(
        machine.matrix,
        key=lambda p: (p in (Precision.BF16, Precision.FP16), machine.matrix[p].value),
        default=Precision.FP32,
    )
    gemm = [p for p in points if p.series == "gemm" and p.ridge_point_flops_per_byte]
    bandwidth = machine.dram.value
    known = gemm[0].ridge_point_flops_per_byte if gemm else None
    ridge = known or machine.ridge_point(precision)
    seen = [p.intensity_flops_per_byte or ridge for p in points] or [ridge]
    vector = machine.vector_peak(Precision.FP32).value if machine.vector else None
    return _Roof(
        bandwidth=bandwidth,
        peak=ridge * bandwidth,
        vector=vector if vector and vector < ridge * bandwidth else None,
        low=min(0.1, *seen) / 1.5,
        high=max(4 * ridge, *seen) * 1.5,
    )


def _draw_roof(axes: "Axes", roof: _Roof, points: Sequence[Point]) -> None:
    from matplotlib.ticker import FuncFormatter

    style.plot(axes, *zip(*_corners(roof), strict=True), color=style.ROOF, linewidth=1.8)
    if roof.vector:
        ends = [roof.vector / roof.bandwidth, roof.high]
        style.plot(axes, ends, [roof.vector] * 2, color=style.FITTED, linewidth=1, linestyle=":")
    style.dotted(axes, roof.ridge)
    lowest = min([roof.low * roof.bandwidth, *((p.flops_per_s or roof.peak) for p in points)])
    axes.set_xlim(roof.low, roof.high)
    axes.set_ylim(bottom=lowest / 2, top=3 * roof.peak)
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,.10g}"))
    axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: show(value, "FLOP/s", digits=1)))


def _corners(roof: _Roof) -> list[tuple[float, float]]:
    return [(roof.low, roof.low * roof.bandwidth), (roof.ridge, roof.peak), (roof.high, roof.peak)]


def _label(axes: "Axes", roof: _Roof, named: Sequence[tuple[str, float, float]]) -> None:
    """Write what the lines are, and the number of each op, over nothing else."""
    labels = Labels(axes)
    labels.avoid_lines()
    along = [roof.low * (roof.high / roof.low) ** (0.99 - 0.04 * k) for k in range(24)]
    flat = [x for x in along if x > roof.ridge] or [roof.high]
    slope = [x for x in reversed(along) if x < roof.ridge] or [roof.low]
    labels.put(show(roof.peak, "FLOP/s"), [Place(x, roof.peak, 0, 4, "right", "bottom") for x in flat], fontsize=8)
    labels.put(
        show(roof.bandwidth, "B/s"),
        [Place(x, x * roof.bandwidth, -6, 4, "right", "bottom") for x in slope],
        fontsize=8,
    )
    if roof.vector:
        right = [x for x in along if x > roof.vector / roof.bandwidth]
        places = [Place(x, roof.vector, 0, dy, "right", va) for x in right for dy, va in ((3, "bottom"), (-3, "top"))]
        labels.put(f"vector {show(roof.vector, 'FLOP/s')}", places, fontsize=8, color="#555555")
    labels.beside_vertical(f"ridge point {show(roof.ridge, 'FLOP/B')}", roof.ridge, fontsize=8, color=style.ROOF)
    labels.near_all(named, _MARK, fontsize=8, fontweight="bold", zorder=5)


def _mark(axes: "Axes", p: Point, family: int) -> None:
    x, y = _at_point(p)
    style.plot(
        axes,
        [x],
        [y],
        linestyle="",
        marker=style.MARKERS[family],
        markersize=_MARK - 2,
        color=style.COLOURS[family],
        markeredgecolor="black",
        alpha=0.85,
        zorder=4,
    )


def _legend(figure: "Figure", numbers: dict[str, int]) -> None:
    from matplotlib.lines import Line2D

    handles = []
    for i, (family, ops) in enumerate(_FAMILIES.items()):
        named = "\n".join(f"  {numbers[op]}  {op}" for op in ops)
        handles.append(
            Line2D(
                [],
                [],
                linestyle="",
                marker=style.MARKERS[i],
                color=style.COLOURS[i],
                markersize=8,
                markeredgecolor="black",
                label=f"{family}\n{named}",
            )
        )
    figure.legend(handles=handles, loc="outside right upper", fontsize=8, frameon=False)


def gemm_efficiency(results: Sequence[Result]) -> "Figure":
    """Draw the share of the peak that a square product reaches, against its size, with what the roof allows."""
    figure, (axes,) = style.new_figure("Square GEMM: the roof appears once the machine is full", 1, width=8)
    sizes: set[int] = set()
    for i, group in enumerate(groups("ops", results)):
        own = [p for p in group.points if p.series == "gemm"]
        if not own:
            continue
        sizes |= {p.size for p in own}
        colour, marker = style.COLOURS[i % len(style.COLOURS)], style.MARKERS[i % len(style.MARKERS)]
        roof = roof_curve([r for r in group.results if r.case.series == "gemm"])
        along = [p.size for p in roof]
        line = {"color": colour, "linewidth": 1.6, "label": f"roof of {group.label}"}
        style.plot(axes, along, [_at(p, p.roof_s) for p in roof], **line)
        if any(p.fitted_s for p in own):
            # At the sweep's sizes only: the fit knows tiles, which sizes between fill badly.
            line |= {"linestyle": "--", "linewidth": 1.2, "label": f"fitted roof of {group.label}"}
            style.plot(axes, [p.size for p in own], [_at(p, p.fitted_s) for p in own], **line)
        if group.measured:
            style.plot(
                axes,
                [p.size for p in own],
                [p.mfu_fraction for p in own],
                color=colour,
                marker=marker,
                linestyle="",
                markersize=7,
                markeredgecolor="black",
                clip_on=False,
                zorder=4,
                label=f"measured on {group.label}",
            )
    style.size_axis(axes, sorted(sizes) or [1], "M = N = K")
    style.percent_axis(axes, "share of the matrix engine's ceiling (MFU)")
    if sizes:
        style.room_above(axes, len(axes.get_legend_handles_labels()[0]))
        style.key(axes, loc="upper left")
    return figure


def _at(p: Point, seconds: float | None) -> float | None:
    """MFU of the point if a step took `seconds`."""
    if not seconds or not p.step_s or p.mfu_fraction is None:
        return None
    return p.mfu_fraction * p.step_s / seconds
