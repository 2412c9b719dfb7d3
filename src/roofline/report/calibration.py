"""A calibration as a PNG or SVG: the measured points of the sweep under the roof that they make."""

from io import BytesIO
from textwrap import wrap
from typing import TYPE_CHECKING, Any, Literal

from roofline.core.precision import Precision
from roofline.core.roof import attainable
from roofline.core.units import show
from roofline.machines.calibration import Calibration
from roofline.report import working_sets
from roofline.report.palette import BOUNDS, STAR
from roofline.report.points import decades, tick

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_STYLE = {"text.parse_math": False, "svg.fonttype": "none", "svg.hashsalt": "roofline", "font.size": 9}
_LEFT, _RIGHT = 0.05, 4.0


def render(machine: Calibration, form: Literal["png", "svg"]) -> bytes:
    """Draw the measured roofline: memory and cache slopes, the roofs of all precisions, the sweep's points.

    Beside it the bandwidth by working set, where that was measured.

    Args:
        machine: A full calibration; one without a sweep is drawn as its ceilings alone.
        form: The picture's format.
    """
    import matplotlib

    with matplotlib.rc_context({**matplotlib.rcParamsDefault, **_STYLE}):
        from matplotlib.figure import Figure

        # Two panels where there are working sets to show, else the roofline alone.
        wide = 1.6 if machine.working_sets else 1.0
        figure = Figure(figsize=(10.0 * wide, 6.2), dpi=150, facecolor="white")
        plot = figure.add_axes((0.10 / wide, 0.13, 0.86 / wide, 0.70))
        left = 0.03 / wide
        figure.text(left, 0.955, f"Measured roofline of {machine.name}", fontsize=12, fontweight="bold", va="top")
        head = "\n".join(wrap(_sentence(machine), 130))
        figure.text(left, 0.91, head, fontsize=9, color="#333333", va="top")
        if machine.working_sets:
            working_sets.draw(figure.add_axes((0.675, 0.17, 0.31, 0.66)), machine)
        _frame(plot, machine)
        _roofs(plot, machine)
        _points(plot, machine)
        out = BytesIO()
        metadata: dict[str, Any] = {"Date": None} if form == "svg" else {}
        figure.savefig(out, format=form, metadata=metadata)
    return out.getvalue()


def _sentence(machine: Calibration) -> str:
    unseen = [str(p) for p, c in machine.matrix.items() if c.value < _lowest(machine)]
    threads = f"{machine.multiprocessors} cores, " if machine.kind == "cpu" and machine.multiprocessors else ""
    if not machine.sweep:
        return f"{threads}no sweep was measured; {machine.read_on}"
    main = Precision(machine.sweep_precision)
    peak, dram = machine.matrix_peak(main), machine.dram
    return (
        f"{threads}{main.upper()}: {show(peak.value, 'FLOP/s')} sustained, memory {show(dram.value, 'B/s')}, "
        f"ridge point {show(machine.ridge_point(main), 'FLOP/B')}. Points: memory kernels and products of a tall "
        f"matrix with a small one, best windows; bytes that the program names; {machine.read_on}"
        + (f". Too slow to be seen: {', '.join(p.upper() for p in unseen)}" if unseen else "")
    )


def _x_range(machine: Calibration) -> tuple[float, float]:
    at = [p.intensity_flops_per_byte for p in machine.sweep]
    ridges = [machine.ridge_point(p) for p in machine.matrix]
    return min([_LEFT, *(x / 2 for x in at)]), _RIGHT * max([*at, *ridges, 1.0])


def _lowest(machine: Calibration) -> float:
    """Where the y axis begins: the memory slope and all points are seen, a precision in emulation is not."""
    return min([_x_range(machine)[0] * machine.dram.value, *(p.flops_per_s for p in machine.sweep)]) / 2


def _frame(plot: "Axes", machine: Calibration) -> None:
    x_range = _x_range(machine)
    rates = [c.value for c in (*machine.matrix.values(), *machine.vector.values())]
    y_range = _lowest(machine), 3 * max([*rates, machine.dram.value])
    plot.set_xscale("log")
    plot.set_yscale("log")
    plot.set_xlim(*x_range)
    plot.set_ylim(*y_range)
    plot.xaxis.set_ticks(decades(x_range), [tick(v, "FLOP/B").removesuffix(" FLOP/B") for v in decades(x_range)])
    plot.yaxis.set_ticks(decades(y_range), [tick(v, "FLOP/s") for v in decades(y_range)])
    plot.set_xlabel("arithmetic intensity (FLOP/B)")
    plot.set_title("sustained rate", loc="left", fontsize=9, x=-0.02)
    plot.grid(True, which="major", color="#E3E3E3", linewidth=0.6)
    for side in ("top", "right"):
        plot.spines[side].set_visible(False)


def _roofs(plot: "Axes", machine: Calibration) -> None:
    x_low, x_high = _x_range(machine)
    main = machine.sweep_precision
    rates = {str(p): c.value for p, c in machine.matrix.items()}
    rates |= {str(p): c.value for p, c in machine.vector.items() if str(p) not in rates}
    highest = max(rates.values())
    for i, (level, ceiling) in enumerate(machine.bandwidth.items()):
        end = min(x_high, highest / ceiling.value)
        if level in ("pcie", "nvlink", "network") or end <= x_low:
            continue
        dram = level == "dram"
        plot.plot(
            [x_low, end],
            [x_low * ceiling.value, end * ceiling.value],
            color="#222222" if dram else "#777777",
            linewidth=1.8 if dram else 1.0,
            linestyle="-" if dram else "--",
        )
        name = "memory" if dram else level.upper()
        at = x_low ** (0.95 - 0.1 * i) * end ** (0.05 + 0.1 * i)
        _along(plot, at, ceiling.value, f"{name} {show(ceiling.value, 'B/s')}")
    for names, rate in _together(rates):
        if rate < plot.get_ylim()[0]:
            continue
        ridge = rate / machine.dram.value
        of_main = main in names
        colour, thick = ("#222222", 1.8) if of_main else ("#777777", 1.0)
        plot.plot([max(x_low, ridge), x_high], [rate, rate], color=colour, linewidth=thick)
        unit = "OP/s" if all(Precision(n).is_integer for n in names) else "FLOP/s"
        label = f"{', '.join(n.upper() for n in names)} {show(rate, unit)}"  # type: ignore[arg-type]
        plot.text(x_high, rate * 1.04, label, ha="right", va="bottom", fontsize=8, color="#222222")
        if of_main:
            plot.plot([ridge], [rate], marker="*", markersize=13, color=STAR, zorder=4)
            text = f"ridge point {show(ridge, 'FLOP/B')}"
            plot.annotate(text, (ridge, rate), xytext=(-6, 8), textcoords="offset points", ha="right", fontsize=8.5)


def _along(plot: "Axes", x: float, bandwidth: float, label: str) -> None:
    """Label a slope on its line."""
    from math import atan2, degrees, log10

    (x_low, x_high), (y_low, y_high), box = plot.get_xlim(), plot.get_ylim(), plot.get_window_extent()
    rise, run = box.height / log10(y_high / y_low), box.width / log10(x_high / x_low)
    plot.text(
        x,
        x * bandwidth,
        label,
        fontsize=8,
        color="#222222",
        rotation=degrees(atan2(rise, run)),
        rotation_mode="anchor",
        va="center",
        bbox={"facecolor": "white", "edgecolor": "none", "pad": 0.8},
    )


def _together(rates: dict[str, float], within: float = 0.12) -> list[tuple[list[str], float]]:
    """Roofs too close to label apart share the label and the higher rate."""
    found: list[tuple[list[str], float]] = []
    for name, rate in sorted(rates.items(), key=lambda item: -item[1]):
        if found and rate > found[-1][1] * (1 - within):
            found[-1][0].append(name)
        else:
            found.append(([name], rate))
    return found


def _points(plot: "Axes", machine: Calibration) -> None:
    if not machine.sweep:
        return
    peak, bandwidth = machine.matrix_peak(Precision(machine.sweep_precision)).value, machine.dram.value
    for point in machine.sweep:
        x, y = point.intensity_flops_per_byte, point.flops_per_s
        look = BOUNDS["memory" if x * bandwidth < peak else "compute"]
        plot.plot([x], [y], marker=look.marker, color=look.colour, markersize=6, linestyle="", zorder=3)
        if x > 1 and y < 0.995 * attainable(x, peak=peak, bandwidth=bandwidth):
            share = y / attainable(x, peak=peak, bandwidth=bandwidth)
            plot.annotate(
                f"{100 * share:.0f} %",
                (x, y),
                xytext=(4, -11),
                textcoords="offset points",
                fontsize=7,
                color="#555555",
            )
    for name in ("memory", "compute"):
        look = BOUNDS[name]
        plot.plot([], [], marker=look.marker, color=look.colour, linestyle="", label=f"measured, {look.label} side")
    plot.legend(loc="lower right", fontsize=8, frameon=False)
