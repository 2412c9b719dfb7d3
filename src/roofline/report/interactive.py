"""The roofline as a plotly figure: plain data, coloured by the page for light and dark."""

from html import escape
from typing import Any

from roofline.core.run import Run
from roofline.core.units import Unit, percent, show
from roofline.report.palette import BOUNDS, STAR
from roofline.report.points import Picture, Point, decades, label_heights, picture, point_size, tick

_LARGEST_PX = 26


def figure(run: Run) -> dict[str, Any]:
    """Build traces and layout. `meta` names what colour the page gives a line: "ink" or "faint"."""
    drawn = picture(run)
    return {"traces": [*_slopes(drawn), *_roofs(drawn), *_points(drawn), *_star(drawn)], "layout": _layout(drawn)}


def _layout(drawn: Picture) -> dict[str, Any]:
    rate = "achieved rate" if drawn.timed else "attainable rate, nothing timed"
    return {
        "xaxis": _axis("arithmetic intensity (FLOP/B)", drawn.x_range, "FLOP/B"),
        "yaxis": _axis(f"{rate} (FLOP/s)", drawn.y_range, "FLOP/s"),
        "annotations": _annotations(drawn),
        "legend": {"orientation": "h", "x": 0, "xanchor": "left", "y": -0.16, "yanchor": "top"},
        "margin": {"l": 96, "r": 16, "t": 34, "b": 56},
        "hovermode": "closest",
        "hoverlabel": {"align": "left"},
        "paper_bgcolor": "rgba(0,0,0,0)",
        "plot_bgcolor": "rgba(0,0,0,0)",
    }


def _axis(title: str, limits: tuple[float, float], unit: Unit) -> dict[str, Any]:
    ticks = decades((limits[0] / 1e6, limits[1] * 1e6))
    return {
        "type": "log",
        "title": {"text": title},
        "range": [_log(limits[0]), _log(limits[1])],
        "tickmode": "array",
        "tickvals": ticks,
        "ticktext": [tick(value, unit).removesuffix(" FLOP/B") for value in ticks],
        "zeroline": False,
    }


def _annotations(drawn: Picture) -> list[dict[str, Any]]:
    """Labels at the right end of each roof, and the ridge point of the one that judges the program."""
    plain: dict[str, Any] = {"showarrow": False, "font": {"size": 11}, "yanchor": "bottom"}
    found = [
        {**plain, "x": 1, "xref": "paper", "xanchor": "right", "y": _log(height), "text": escape(roof.label)}
        for roof, height in zip(drawn.roofs, label_heights(drawn), strict=True)
    ]
    for roof in drawn.roofs:
        if roof.main and roof.ridge_point:
            text = f"ridge point {show(roof.ridge_point, 'FLOP/B')}"
            found.append(
                {**plain, "x": _log(roof.ridge_point), "y": 0, "yref": "paper", "xanchor": "left", "text": text}
            )
    return found


def _slopes(drawn: Picture) -> list[dict[str, Any]]:
    highest = max((roof.rate for roof in drawn.roofs), default=drawn.y_range[1])
    traces = []
    for slope in drawn.slopes:
        start, end = drawn.x_range[0] / 1e3, highest / slope.bandwidth
        dash = "solid" if slope.level == "dram" else "dash"
        xs, ys = [start, end], [start * slope.bandwidth, highest]
        traces.append(_line(slope.label, xs, ys, dash, ink=slope.level == "dram", legend=True))
    return traces


def _roofs(drawn: Picture) -> list[dict[str, Any]]:
    fastest = max((slope.bandwidth for slope in drawn.slopes), default=None)
    far = drawn.x_range[1] * 1e3
    traces = []
    for roof in drawn.roofs:
        start = roof.rate / fastest if fastest else drawn.x_range[0] / 1e3
        dash = "dot" if roof.vector else "solid"
        traces.append(_line(roof.label, [start, far], [roof.rate, roof.rate], dash, ink=roof.main))
        if roof.main and roof.ridge_point:
            ridge = [roof.ridge_point, roof.ridge_point]
            traces.append(_line("ridge point", ridge, [drawn.y_range[0] / 1e3, roof.rate], "dot", ink=False))
    return traces


def _line(
    label: str, xs: list[float], ys: list[float], dash: str, *, ink: bool, legend: bool = False
) -> dict[str, Any]:
    return {
        "type": "scatter",
        "mode": "lines",
        "x": xs,
        "y": ys,
        "name": escape(label),
        "meta": "ink" if ink else "faint",
        "line": {"dash": dash, "width": 2.5 if ink else 1.2},
        "hoverinfo": "name",
        "hoverlabel": {"namelength": -1},
        "showlegend": legend,
    }


def _points(drawn: Picture) -> list[dict[str, Any]]:
    traces = []
    for bound, look in BOUNDS.items():
        points = [point for point in drawn.points if point.row.bound == bound]
        if points:
            traces.append(
                {
                    "type": "scatter",
                    "mode": "markers",
                    "name": f"{look.label} ({len(points):,})",
                    "x": [point.intensity for point in points],
                    "y": [point.rate for point in points],
                    "hovertext": [_hover(point, timed=drawn.timed) for point in points],
                    "hoverinfo": "text",
                    "marker": {
                        "symbol": look.symbol,
                        "color": look.colour,
                        "size": [max(6.0, _LARGEST_PX * point_size(point.row.share) ** 0.5) for point in points],
                        "opacity": 0.75,
                        "line": {"width": 0.7},
                    },
                }
            )
    return traces


def _star(drawn: Picture) -> list[dict[str, Any]]:
    star = drawn.star
    if not star:
        return []
    text = f"<b>whole program</b><br>{show(star.intensity, 'FLOP/B')}, {show(star.rate, 'FLOP/s')}"
    text += f"<br>{escape(star.label.removeprefix('whole program: '))}"
    if star.low < star.high:
        text += f"<br>from {show(star.low, 'FLOP/B')} to {show(star.high, 'FLOP/B')}"
    return [
        {
            "type": "scatter",
            "mode": "markers",
            "name": escape(star.label),
            "x": [star.intensity],
            "y": [star.rate],
            "hovertext": [text],
            "hoverinfo": "text",
            "marker": {"symbol": "star", "color": STAR, "size": 17, "line": {"width": 1}},
            "error_x": {
                "type": "data",
                "symmetric": False,
                "array": [star.high - star.intensity],
                "arrayminus": [star.intensity - star.low],
                "color": STAR,
                "thickness": 2,
                "visible": star.low < star.high,
            },
        }
    ]


def _hover(point: Point, *, timed: bool) -> str:
    """What the pointer shows; plotly reads tags in it, so that names are escaped."""
    row, op = point.row, point.row.op
    where = " · ".join(part for part in (row.module, op.phase, row.shapes) if part)
    times = f"roof time {show(op.roof_s, 's')}"
    if timed:
        times = f"{show(op.seconds, 's')} ({escape(percent(row.share))} of op time), {times}"
        times += f", {escape(percent(op.efficiency_fraction))} of the roof"
    calls = f"{op.calls:,} call{'' if op.calls == 1 else 's'}"
    place = f"{show(point.intensity, 'FLOP/B')}, {show(point.rate, 'FLOP/s')}, {BOUNDS[row.bound].label}"
    guess = "" if op.formula == "exact" else f"<br>FLOP: {op.formula}"
    return f"<b>{escape(row.name)}</b>, {calls}<br>{escape(where)}<br>{times}<br>{place}{guess}"


def _log(value: float) -> float:
    from math import log10

    return log10(value)
