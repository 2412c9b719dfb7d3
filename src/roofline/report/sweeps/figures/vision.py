"""Vision: MFU and MBU against batch, and intensity against the ridge point."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from roofline.core.units import show
from roofline.report.sweeps.figures import style
from roofline.report.sweeps.figures.groups import by_series, groups
from roofline.report.sweeps.figures.labels import Labels, Place
from roofline.sweeps import article
from roofline.sweeps.case import Result

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


def vision(results: Sequence[Result]) -> "Figure":
    """Draw the sweep of the first machine at hand, measured points before predicted ones."""
    found = groups("vision", results)
    name = found[0].label if found else "no machine"
    how = "measured" if found and found[0].measured else "at the roof"
    origin = found[0].points[0].bytes_origin if found and found[0].points else None
    figure, (left, middle, right) = style.new_figure(f"Vision on {name} ({how}; {origin} bytes)", 3, width=14)
    drawn = by_series(found[0].points if found else ())
    for i, (series, points) in enumerate(drawn.items()):
        look: dict[str, Any] = {
            "color": style.COLOURS[i % len(style.COLOURS)],
            "marker": style.MARKERS[i % len(style.MARKERS)],
            "markeredgecolor": "black",
            "linewidth": 1.4,
            "linestyle": "-" if series.endswith("train") else "--",
        }
        batches = [p.size for p in points]
        style.plot(left, batches, [p.mfu_fraction for p in points], label=series, **look)
        style.plot(middle, batches, [p.mbu_fraction for p in points], **look)
        style.plot(right, batches, [p.intensity_flops_per_byte for p in points], **look)
    # The article's intensities are by this count of bytes.
    published = {s: i for s, i in article.INTENSITIES.items() if s in drawn and origin == "module"}
    style.published(
        right,
        [(article.INTENSITY_BATCH, intensity) for intensity in published.values()],
        label=f"published in the article (batch {article.INTENSITY_BATCH})",
    )
    sizes = {p.size for points in drawn.values() for p in points} or {1}
    for axes in (left, middle):
        style.size_axis(axes, sorted(sizes), "batch (images)")
    style.size_axis(right, sorted(sizes | {article.INTENSITY_BATCH} if published else sizes), "batch (images)")
    style.percent_axis(left, "MFU")
    style.percent_axis(middle, "MBU")
    style.rate_axis(right, "arithmetic intensity (FLOP/B)")
    if drawn:
        style.room_above(left, len(drawn))
        style.key(left, loc="upper left")
    ridges = {p.ridge_point_flops_per_byte for points in drawn.values() for p in points}
    _label_intensities(right, published, sorted(r for r in ridges if r))
    return figure


def _label_intensities(axes: "Axes", published: Mapping[str, float], ridges: Sequence[float]) -> None:
    """Write which model a cross is of, and which line is the ridge point."""
    for ridge in ridges:
        axes.axhline(ridge, color=style.ROOF, linewidth=1, linestyle=(0, (2, 3)))
    # Room for the legend, where there are crosses to explain.
    if published:
        axes.set_ylim(top=1.6 * axes.get_ylim()[1])
        style.key(axes, loc="upper left")
    labels = Labels(axes)
    labels.avoid_lines()
    labels.avoid_legend()
    low, high = axes.get_xlim()
    for ridge in ridges:
        # From the right to the left, just above the line, else just below it.
        along = [low * (high / low) ** (0.99 - 0.03 * k) for k in range(30)]
        places = [Place(x, ridge, 0, dy, "right", va) for dy, va in ((4, "bottom"), (-4, "top")) for x in along]
        labels.put(f"ridge point {show(ridge, 'FLOP/B')}", places, fontsize=8)
    for series, intensity in published.items():
        labels.near(
            f"{series} {intensity:.0f}", article.INTENSITY_BATCH, intensity, fontsize=8, color=style.PUBLISHED
        )
