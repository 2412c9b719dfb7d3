"""Vision: MFU and MBU against batch, and intensity against the ridge point."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from roofline.core.units import show
from roofline.report.sweeps.figures import style
from roofline.report.sweeps.figures.groups import by_series, groups
from roofline.sweeps import article
from roofline.sweeps.case import Result

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def vision(results: Sequence[Result]) -> "Figure":
    """Draw the sweep of the first machine at hand, measured points before predicted ones."""
    found = groups("vision", results)
    name = found[0].label if found else "no machine"
    how = "measured" if found and found[0].measured else "at the roof"
    origin = found[0].points[0].bytes_origin if found and found[0].points else None
    figure, (left, middle, right) = style.new_figure(f"Vision on {name} ({how}; {origin} bytes)", 3, width=14)
    sizes: set[int] = set()
    ridges: set[float] = set()
    for i, (series, points) in enumerate(by_series(found[0].points if found else ()).items()):
        sizes |= {p.size for p in points}
        ridges |= {p.ridge_point_flops_per_byte for p in points if p.ridge_point_flops_per_byte}
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
        if series in article.INTENSITIES:
            style.plot(
                right,
                [article.INTENSITY_BATCH],
                [article.INTENSITIES[series]],
                marker="x",
                markersize=9,
                linestyle="",
                markeredgewidth=2,
                color=style.PUBLISHED,
            )
            sizes.add(article.INTENSITY_BATCH)
    for axes in (left, middle, right):
        style.size_axis(axes, sorted(sizes) or [1], "batch (images)")
    style.percent_axis(left, "MFU")
    style.percent_axis(middle, "MBU")
    style.rate_axis(right, "arithmetic intensity (FLOP/B)")
    for ridge in ridges:
        right.axhline(ridge, color=style.ROOF, linewidth=1, linestyle=(0, (2, 3)))
        right.annotate(
            f"ridge point {show(ridge, 'FLOP/B')}",
            (0.02, ridge),
            xycoords=("axes fraction", "data"),
            xytext=(0, 3),
            textcoords="offset points",
            fontsize=8,
        )
    if sizes:
        style.key(left)
        style.plot(
            right,
            [],
            [],
            marker="x",
            markersize=9,
            markeredgewidth=2,
            color=style.PUBLISHED,
            linestyle="",
            label=f"published in the article (batch {article.INTENSITY_BATCH})",
        )
        style.key(right)
    return figure
