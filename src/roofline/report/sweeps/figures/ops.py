"""Ops on the roof, and what a square GEMM reaches at each size."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from roofline.core.precision import Precision
from roofline.core.units import percent, show
from roofline.report.sweeps.figures import style
from roofline.report.sweeps.figures.groups import Group, by_series, groups
from roofline.sweeps.case import Result
from roofline.sweeps.summary import Point

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

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
    for axes, group in zip(panels, found, strict=False):
        _panel(axes, group, numbers)
    if found:
        _legend(figure, panels[-1], numbers)
    return figure


def _panel(axes: "Axes", group: Group, numbers: dict[str, int]) -> None:
    points = [p for p in group.points if p.intensity_flops_per_byte and p.flops_per_s]
    axes.set_xscale("log")
    axes.set_yscale("log")
    _roofs(axes, group, points)
    left_out = []
    for i, ops in enumerate(_FAMILIES.values()):
        for op in ops:
            own = sorted((p for p in points if p.series == op), key=lambda p: p.size)
            if not own:
                continue
            if op == "gemm":
                style.plot(
                    axes,
                    [p.intensity_flops_per_byte or 0.0 for p in own],
                    [p.flops_per_s for p in own],
                    color=style.COLOURS[i],
                    linewidth=1,
                    alpha=0.7,
                    marker=".",
                    zorder=3,
                )
            _mark(axes, own[-1], i, numbers[op])
    for series, own in by_series([p for p in group.points if not p.intensity_flops_per_byte]).items():
        left_out.append(f"{series} {percent(own[-1].mbu_fraction)} MBU")
    axes.set_title(group.label, loc="left", fontsize=10)
    axes.set_xlabel("arithmetic intensity, counted (FLOP/B)" if group.measured else "arithmetic intensity (FLOP/B)")
    axes.set_ylabel("achieved rate (FLOP/s)" if group.measured else "attainable rate (FLOP/s)")
    if left_out:
        axes.annotate(
            "no FLOP, not on the plot: " + ", ".join(left_out),
            (0, -0.13),
            xycoords="axes fraction",
            fontsize=7.5,
            color="#555555",
        )


def _roofs(axes: "Axes", group: Group, points: Sequence[Point]) -> None:
    """The roof of the sweep's main precision, and the vector engine's below it."""
    from matplotlib.ticker import FuncFormatter

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
    peak = ridge * bandwidth
    seen = [p.intensity_flops_per_byte or ridge for p in points] or [ridge]
    low, high = min(0.1, *seen) / 1.5, max(4 * ridge, *seen) * 1.5
    style.plot(axes, [low, ridge, high], [low * bandwidth, peak, peak], color=style.ROOF, linewidth=1.8)
    axes.set_xlim(low, high)
    axes.set_ylim(bottom=min([low * bandwidth, *((p.flops_per_s or peak) for p in points)]) / 2, top=3 * peak)
    axes.annotate(
        f"{show(peak, 'FLOP/s')}", (high, peak), xytext=(-2, 9), textcoords="offset points", ha="right", fontsize=8
    )
    axes.annotate(
        show(bandwidth, "B/s"), (low, low * bandwidth), xytext=(4, 62), textcoords="offset points", fontsize=8
    )
    style.mark_size(axes, ridge, f"ridge point {show(ridge, 'FLOP/B')}")
    if machine.vector:
        vector = machine.vector_peak(Precision.FP32).value
        if vector < peak:
            style.plot(
                axes, [vector / bandwidth, high], [vector, vector], color=style.FITTED, linewidth=1, linestyle=":"
            )
            axes.annotate(
                f"vector {show(vector, 'FLOP/s')}",
                (high, vector),
                xytext=(-2, 3),
                textcoords="offset points",
                ha="right",
                fontsize=8,
                color="#555555",
            )
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,.10g}"))
    axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: show(value, "FLOP/s", digits=1)))


def _mark(axes: "Axes", p: Point, family: int, number: int) -> None:
    assert p.intensity_flops_per_byte and p.flops_per_s
    style.plot(
        axes,
        [p.intensity_flops_per_byte],
        [p.flops_per_s],
        linestyle="",
        marker=style.MARKERS[family],
        markersize=9,
        color=style.COLOURS[family],
        markeredgecolor="black",
        alpha=0.85,
        zorder=4,
    )
    # Ops of one intensity lie over one another at the roof: their numbers fan out.
    angle = (-12, -22, 10, 20)[number % 4]
    axes.annotate(
        str(number),
        (p.intensity_flops_per_byte, p.flops_per_s),
        xytext=(7, angle),
        textcoords="offset points",
        fontsize=8,
        fontweight="bold",
        zorder=5,
        arrowprops={"arrowstyle": "-", "color": "#999999", "linewidth": 0.5} if abs(angle) > 12 else None,
    )


def _legend(figure: "Figure", axes: "Axes", numbers: dict[str, int]) -> None:
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
        style.plot(
            axes,
            [p.size for p in own],
            [_allowed(p) for p in own],
            color=colour,
            linewidth=1.6,
            label=f"roof of {group.label}",
        )
        fitted = [(p.size, _at(p, p.fitted_s)) for p in own if p.fitted_s]
        if fitted:
            style.plot(
                axes, *zip(*fitted, strict=True), color=colour, linestyle="--", linewidth=1.2, label="fitted roof"
            )
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
                label=f"measured on {group.label}",
            )
    style.size_axis(axes, sorted(sizes) or [1], "M = N = K")
    style.percent_axis(axes, "share of the dense peak (MFU)")
    if sizes:
        style.key(axes)
    return figure


def _allowed(p: Point) -> float | None:
    """MFU at the roof: what the intensity allows."""
    return _at(p, p.roof_s)


def _at(p: Point, seconds: float | None) -> float | None:
    if not seconds or not p.step_s or p.mfu_fraction is None:
        return None
    return p.mfu_fraction * p.step_s / seconds
