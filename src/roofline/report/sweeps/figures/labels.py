"""Where labels go: each to the first place near its point that covers no marker, line or other label.

Places are tried in a fixed order in pixels, so that the same points give the same picture.
"""

from collections.abc import Iterable, Sequence
from itertools import pairwise
from math import ceil, cos, hypot, inf, pi, sin
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.text import Annotation

_POINTS_PER_INCH = 72
# Labels further from their point than this, in points, get a thin line to it.
_LEADER = 15
_RADII = (11, 15, 20, 26, 33, 41, 50, 60)
# Straight up first, then turning away from there on both sides.
_ANGLES = tuple(pi / 2 + pi / 8 * ((k + 1) // 2) * (-1) ** k for k in range(16))
# Lines are avoided through boxes of this side, in pixels.
_STEP = 5
_MARGIN = 1.5
# What part of a label lies left of, or below, the point that it is aligned by.
_SHARES = {"left": 0.0, "bottom": 0.0, "center": 0.5, "right": 1.0, "top": 1.0}


class Box(NamedTuple):
    """A rectangle in pixels."""

    left: float
    bottom: float
    right: float
    top: float

    def overlap(self, other: "Box") -> float:
        """Shared area."""
        width = min(self.right, other.right) - max(self.left, other.left)
        height = min(self.top, other.top) - max(self.bottom, other.bottom)
        return max(0.0, width) * max(0.0, height)


class Place(NamedTuple):
    """Where a label may stand: a point of the data, and how far from it in points; by its middle, unless said."""

    x: float
    y: float
    dx: float
    dy: float
    ha: str = "center"
    va: str = "center"


class Labels:
    """Labels of one panel whose limits and scales are final."""

    def __init__(self, axes: "Axes") -> None:
        from matplotlib.backends.backend_agg import FigureCanvasAgg

        self._axes = axes
        figure: Any = axes.figure
        # The layout is made when the figure is drawn; pixels are known only then.
        figure.draw_without_rendering()
        self._renderer = FigureCanvasAgg(figure).get_renderer()
        self._scale = figure.dpi / _POINTS_PER_INCH
        self._taken: list[Box] = []
        box = axes.bbox
        self._panel = Box(box.x0, box.y0, box.x1, box.y1)

    def avoid_lines(self) -> None:
        """Keep labels off every line and marker that is drawn in the panel."""
        for line in self._axes.get_lines():
            pixels = [(float(x), float(y)) for x, y in line.get_transform().transform(line.get_xydata())]
            if line.get_linestyle() != "None":
                for begin, end in pairwise(pixels):
                    self._taken += _boxes_along(begin, end)
            if line.get_marker() not in (None, "None", ""):
                half = (line.get_markersize() + 2) / 2 * self._scale
                self._taken += [Box(x - half, y - half, x + half, y + half) for x, y in pixels]

    def avoid_legend(self) -> None:
        """Keep labels off the panel's legend."""
        legend = self._axes.get_legend()
        if legend is not None:
            self._taken.append(_box(legend.get_window_extent(self._renderer)))

    def near(self, text: str, x: float, y: float, **look: Any) -> "Annotation":
        """Label a point: as near as there is room, with a line to it where that is not close."""
        places = [Place(x, y, radius * cos(angle), radius * sin(angle)) for radius in _RADII for angle in _ANGLES]
        return self.put(text, places, **look)

    def near_all(self, named: Sequence[tuple[str, float, float]], size: float, **look: Any) -> None:
        """Label points with markers of `size` points; those that lie over one another share a label."""
        close = size / 2 * self._scale
        shared: list[tuple[list[str], tuple[float, float], tuple[float, float]]] = []
        for text, x, y in named:
            ((left, bottom),) = self._pixels([(x, y)])
            for texts, _, (own_x, own_y) in shared:
                if hypot(left - own_x, bottom - own_y) < close:
                    texts.append(text)
                    break
            else:
                shared.append(([text], (x, y), (left, bottom)))
        for texts, (x, y), _ in shared:
            self.near(", ".join(texts), x, y, **look)

    def beside_vertical(self, text: str, x: float, **look: Any) -> None:
        """Label a vertical line along it: at the foot if there is room, else higher up, on either side."""
        to_data = self._axes.transAxes + self._axes.transData.inverted()
        heights = [float(to_data.transform((0, 0.02 + 0.04 * k))[1]) for k in range(22)]
        places = [Place(x, y, dx, 0, ha, "bottom") for y in heights for dx, ha in ((3, "left"), (-3, "right"))]
        self.put(text, places, rotation=90, **look)

    def put(self, text: str, places: Sequence[Place], **look: Any) -> "Annotation":
        """Put a label at the first place that is free, else where it covers least."""
        label = self._axes.annotate(
            text, (places[0].x, places[0].y), xytext=(0, 0), textcoords="offset points", annotation_clip=False, **look
        )
        label.set_in_layout(False)
        extent = label.get_window_extent(self._renderer)
        size = extent.width + 2 * _MARGIN, extent.height + 2 * _MARGIN
        best = self._best(places, size)
        label.xy = (best.x, best.y)
        label.set_position((best.dx, best.dy))
        label.set_horizontalalignment(best.ha)  # type: ignore[arg-type]
        label.set_verticalalignment(best.va)  # type: ignore[arg-type]
        self._taken.append(self._box_at(best, size))
        if hypot(best.dx, best.dy) > _LEADER and best.ha == "center":
            self._lead(best, look.get("zorder", 3))
        return label

    def _best(self, places: Sequence[Place], size: tuple[float, float]) -> Place:
        """The first free place, else the first of those that cover least."""
        least, best = inf, places[0]
        for place in places:
            cost = round(self._cost(place, size))
            if cost < least:
                least, best = cost, place
            if not least:
                break
        return best

    def _cost(self, place: Place, size: tuple[float, float]) -> float:
        """Pixels of other things under the label and its leader, and of the label outside the panel."""
        box = self._box_at(place, size)
        outside = size[0] * size[1] - box.overlap(self._panel)
        covered = sum(box.overlap(other) for other in self._taken)
        return covered + 4 * outside + self._crossed(place)

    def _box_at(self, place: Place, size: tuple[float, float]) -> Box:
        """The box of a label of `size` pixels at a place."""
        ((x, y),) = self._pixels([(place.x, place.y)])
        left = x + place.dx * self._scale - _SHARES[place.ha] * size[0]
        bottom = y + place.dy * self._scale - _SHARES[place.va] * size[1]
        return Box(left, bottom, left + size[0], bottom + size[1])

    def _crossed(self, place: Place) -> float:
        """What the leader of a place would cross on its way: labels and other points' markers."""
        if hypot(place.dx, place.dy) <= _LEADER or place.ha != "center":
            return 0.0
        begin, end = self._leader(place)
        own = Box(begin[0] - 1, begin[1] - 1, begin[0] + 1, begin[1] + 1)
        blocking = [b for b in self._taken if b.right - b.left > 2 * _STEP and not b.overlap(own)]
        return sum(step.overlap(other) for step in _boxes_along(begin, end) for other in blocking)

    def _leader(self, place: Place) -> tuple[tuple[float, float], tuple[float, float]]:
        """The line from a point to its label, in pixels."""
        ((x, y),) = self._pixels([(place.x, place.y)])
        short = 1 - 6 / hypot(place.dx, place.dy)
        return (x, y), (x + place.dx * short * self._scale, y + place.dy * short * self._scale)

    def _lead(self, place: Place, zorder: float) -> None:
        end = 1 - 6 / hypot(place.dx, place.dy)
        line = self._axes.annotate(
            "",
            (place.x, place.y),
            xytext=(place.dx * end, place.dy * end),
            textcoords="offset points",
            arrowprops={"arrowstyle": "-", "color": "#777777", "linewidth": 0.6, "shrinkA": 0, "shrinkB": 0},
            zorder=zorder - 0.1,
        )
        line.set_in_layout(False)

    def _pixels(self, points: Iterable[tuple[float, float]]) -> list[tuple[float, float]]:
        return [(float(x), float(y)) for x, y in map(self._axes.transData.transform, points)]


def _box(extent: Any) -> Box:
    return Box(extent.x0, extent.y0, extent.x1, extent.y1)


def _boxes_along(begin: tuple[float, float], end: tuple[float, float]) -> list[Box]:
    """Small boxes along a line."""
    steps = max(1, ceil(hypot(end[0] - begin[0], end[1] - begin[1]) / _STEP))
    half = _STEP / 2
    found = []
    for i in range(steps + 1):
        x = begin[0] + (end[0] - begin[0]) * i / steps
        y = begin[1] + (end[1] - begin[1]) * i / steps
        found.append(Box(x - half, y - half, x + half, y + half))
    return found
