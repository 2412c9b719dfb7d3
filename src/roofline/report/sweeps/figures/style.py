"""One look for the figures of sweeps: Okabe and Ito's colours with a marker each, for print and for all eyes."""

from collections.abc import Iterable, Sequence
from io import BytesIO
from typing import TYPE_CHECKING, Any, Literal

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

Form = Literal["png", "svg"]
COLOURS = ("#0072B2", "#E69F00", "#009E73", "#D55E00", "#CC79A7", "#56B4E9", "#8C6D31", "#000000")
MARKERS = ("o", "s", "D", "^", "v", "P", "X", "*")
ROOF = "#222222"
FITTED = "#777777"
PUBLISHED = "#C2185B"
_RC = {"text.parse_math": False, "svg.fonttype": "none", "svg.hashsalt": "roofline", "font.size": 9}
_DPI = 150


def new_figure(title: str, panels: int, *, width: float = 11.5, height: float = 4.8) -> tuple["Figure", list["Axes"]]:
    """A figure with panels side by side, without pyplot's global state."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(width, height), dpi=_DPI, facecolor="white", layout="constrained")
    figure.suptitle(title, x=0.01, ha="left", fontsize=12, fontweight="bold")
    found = figure.subplots(1, panels, squeeze=False)[0]
    for axes in found:
        axes.grid(True, which="major", color="#E3E3E3", linewidth=0.6)
        axes.set_axisbelow(True)
        for side in ("top", "right"):
            axes.spines[side].set_visible(False)
    return figure, list(found)


def saved(draw: Any, form: Form) -> bytes:
    """Draw a figure and encode it; the same points give the same bytes.

    Args:
        draw: Makes the figure.
        form: The picture's format.
    """
    import matplotlib

    with matplotlib.rc_context({**matplotlib.rcParamsDefault, **_RC}):
        figure = draw()
        out = BytesIO()
        metadata: dict[str, Any] = {"Date": None} if form == "svg" else {}
        figure.savefig(out, format=form, dpi=_DPI, metadata=metadata)
    return out.getvalue()


def plot(axes: "Axes", xs: Iterable[float], ys: Iterable[float | None], **look: Any) -> None:
    """A line or markers through the points that are known."""
    known = [(x, y) for x, y in zip(xs, ys, strict=True) if y is not None]
    axes.plot([x for x, _ in known], [y for _, y in known], **look)


def size_axis(axes: "Axes", sizes: list[int], label: str) -> None:
    """A logarithmic axis of sizes with a tick at each."""
    axes.set_xscale("log", base=2)
    ticks = sorted(set(sizes))
    shown = ticks if len(ticks) <= 10 else ticks[:: -(-len(ticks) // 10)]
    axes.set_xticks(shown, [_short(size) for size in shown])
    axes.minorticks_off()
    axes.set_xlabel(label)


def rate_axis(axes: "Axes", label: str) -> None:
    """A logarithmic axis of plain numbers."""
    from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

    axes.set_yscale("log")
    low, high = axes.get_ylim()
    if high < 100 * low:
        axes.yaxis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0)))
    axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,.10g}"))
    axes.yaxis.set_minor_formatter(NullFormatter())
    axes.set_ylabel(label)


def percent_axis(axes: "Axes", label: str) -> None:
    """A linear axis of shares from 0."""
    from matplotlib.ticker import PercentFormatter

    axes.yaxis.set_major_formatter(PercentFormatter(xmax=1, decimals=0, symbol=" %"))
    axes.set_ylim(bottom=0)
    axes.set_ylabel(label)


def room_above(axes: "Axes", rows: int) -> None:
    """Leave room for a legend of so many rows above what a linear axis shows, without ticks there."""
    top = axes.get_ylim()[1]
    ticks = [float(tick) for tick in axes.get_yticks() if 0 <= tick <= top]
    axes.set_ylim(top=top * (1.04 + 0.06 * rows))
    axes.set_yticks(ticks)


def published(axes: "Axes", points: Sequence[tuple[float, float]], **look: Any) -> None:
    """Crosses at published points, if there are any."""
    if points:
        xs, ys = zip(*points, strict=True)
        look |= {"marker": "x", "markersize": 9, "markeredgewidth": 2, "linestyle": "", "color": PUBLISHED}
        plot(axes, xs, ys, **look)


def dotted(axes: "Axes", size: float) -> None:
    """A dotted vertical line at a size."""
    axes.axvline(size, color=ROOF, linewidth=0.9, linestyle=(0, (2, 3)))


def key(axes: "Axes", **places: Any) -> None:
    """The legend, inside the panel."""
    axes.legend(fontsize=8, frameon=True, framealpha=0.85, edgecolor="none", **({"loc": "best"} | places))


def _short(size: int) -> str:
    return f"{size // 1024}k" if size >= 1024 and size % 1024 == 0 else str(size)
