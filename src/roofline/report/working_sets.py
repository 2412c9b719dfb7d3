"""Bandwidth against the size of the working set: the right-hand panel of a calibration's picture."""

from typing import TYPE_CHECKING

from roofline.core.units import show
from roofline.machines.calibration import Calibration

if TYPE_CHECKING:
    from matplotlib.axes import Axes

# Okabe and Ito's colours, each with a marker of its own.
_LOOKS = {"read": ("#0072B2", "o"), "write": ("#E69F00", "s"), "copy": ("#009E73", "D"), "triad": ("#D55E00", "^")}
_MOST_TICKS = 9


def draw(plot: "Axes", machine: Calibration) -> None:
    """Draw a line per kind of traffic, and where each cache ends.

    Args:
        plot: Empty axes.
        machine: A calibration with working sets.
    """
    from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

    sizes = [row.size_bytes for row in machine.working_sets]
    plot.set_xscale("log", base=2)
    plot.set_yscale("log")
    for kind, (colour, marker) in _LOOKS.items():
        rates = [row.streams[kind] for row in machine.working_sets]
        plot.plot(sizes, rates, color=colour, marker=marker, markersize=5, linewidth=1.3, label=kind)
    shown = sizes[:: -(-len(sizes) // _MOST_TICKS)]
    plot.set_xticks(shown, [show(size, "B", capacity=True) for size in shown], rotation=35, ha="right")
    plot.xaxis.set_minor_formatter(NullFormatter())
    plot.minorticks_off()
    low, high = plot.get_ylim()
    plot.set_ylim(low / 1.5, high * 2)
    if high < 100 * low:
        plot.yaxis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0)))
    plot.yaxis.set_major_formatter(FuncFormatter(lambda value, _: show(value, "B/s", digits=1)))
    plot.set_xlabel("working set of one op, its call included")
    plot.set_title("bandwidth, bytes that the op names", loc="left", fontsize=9)
    plot.grid(True, which="major", color="#E3E3E3", linewidth=0.6)
    for side in ("top", "right"):
        plot.spines[side].set_visible(False)
    _caches(plot, machine, sizes)
    plot.legend(loc="upper right", fontsize=8, frameon=True, framealpha=0.85, edgecolor="none")


def _caches(plot: "Axes", machine: Calibration, sizes: list[int]) -> None:
    last = max(machine.cache_bytes.values(), default=0)
    for level, capacity in machine.cache_bytes.items():
        held = machine.last_level_cache_bytes if capacity == last else capacity
        if not sizes[0] <= held <= sizes[-1]:
            continue
        text = f"{level.upper()} {show(capacity, 'B', capacity=True)}"
        if held != capacity:
            text += f", {show(held, 'B', capacity=True)} of it held"
        plot.axvline(held, color="#222222", linewidth=0.9, linestyle=(0, (2, 3)))
        plot.annotate(
            text,
            (held, 0.02),
            xycoords=("data", "axes fraction"),
            xytext=(3, 0),
            textcoords="offset points",
            rotation=90,
            va="bottom",
            fontsize=8,
            bbox={"facecolor": "white", "edgecolor": "none", "alpha": 0.8, "pad": 0.5},
        )
