"""A sweep as a table: the columns of each experiment, for the terminal and for Markdown."""

from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from roofline.core.roof import Bound
from roofline.core.units import column, percent, show
from roofline.sweeps.case import SweepName
from roofline.sweeps.ops import find
from roofline.sweeps.remarks import FAR_BELOW, Cause, Kind
from roofline.sweeps.summary import Point

_MARKS: dict[Kind, str] = {"above_roof": "↑", "far_below_roof": "↓"}
_BELOW = f"below {percent(FAR_BELOW, 2)} of the roof, held by {{}} and no ceiling"
_MEANINGS: dict[Cause, str] = {
    "cache": "above the roof",
    "traffic": "above the roof",
    "clock": "above the roof",
    "page_faults": _BELOW.format("page faults"),
    "overhead": _BELOW.format("the host"),
    "short_calls": _BELOW.format("the fixed cost of short calls, or slow kernels,"),
    "kernels": _BELOW.format("slow kernels"),
}
_OUTCOMES = {"out_of_memory": "out of memory", "skipped": "skipped", "failed": "failed"}


class Table(NamedTuple):
    """Heads and rows of text; numbers are aligned right."""

    heads: list[str]
    rows: list[list[str]]


def table(name: SweepName, points: Sequence[Point], *, wide: bool = False) -> Table:
    """The points of a sweep as rows of text; wide tables say more than a terminal has room for."""
    heads: list[str] = []
    columns: list[list[str]] = []
    for head, cells in _COLUMNS[name](points, wide):
        heads.append(head)
        columns.append(cells)
    return Table(heads, [list(row) for row in zip(*columns, strict=True)])


def fact_lines(name: SweepName, facts: dict[str, Any], points: Sequence[Point]) -> list[str]:
    """The facts of a sweep, one sentence each."""
    lines = []
    if name in ("decode", "train") and "params" in facts:
        lines.append(f"{_count(facts['params'])} parameters")
    if "ceiling_tokens_per_s" in facts:
        what = "weights read once per step" if name == "decode" else "three passes over the weights per step"
        lines.append(f"bandwidth ceiling at size 1: {facts['ceiling_tokens_per_s']:.0f} token/s ({what})")
    for key, word in (("critical_batch", "critical batch"), ("critical_tokens", "critical tokens per step")):
        if key in facts:
            lines.append(f"{word}, from the ridge point: {facts[key]:.0f}")
    for key in ("knee_batch", "knee_tokens"):
        if key in facts and len(points) > 1 and points[-1].items_per_s:
            found = facts[key]
            lines.append(
                f"knee in the points: {found:.0f}" if found else "knee in the points: throughput still rises"
            )
    if name in ("ops", "vision") and "ridge_point_flops_per_byte" in facts:
        lines.append(f"ridge point: {show(facts['ridge_point_flops_per_byte'], 'FLOP/B')}")
    if name == "train":
        lines += _accounting(facts, points)
    return lines


def _count(number: float) -> str:
    """A count of parameters as people say it."""
    for size, word in ((1e9, "billion"), (1e6, "million")):
        if number >= size:
            return f"{number / size:.3g} {word}"
    return f"{number:,.0f}"


def _accounting(facts: dict[str, Any], points: Sequence[Point]) -> list[str]:
    """6·P·T beside what was counted."""
    known = [p for p in points if p.flops]
    if not known or "params" not in facts:
        return []
    last = known[-1]
    assert last.flops is not None
    share = last.flops / (6 * facts["params"] * last.size)
    return [f"counted matrix FLOP / (6·P·T): {percent(share)} (the first layer's input needs no gradient)"]


def _ops(points: Sequence[Point], wide: bool) -> list[tuple[str, list[str]]]:
    grows = [("of", [find(p.series).grows for p in points])] if wide else []
    closed = [("I in closed form (s bytes per element)", [find(p.series).intensity for p in points])] if wide else []
    return [
        ("op", [p.series for p in points]),
        ("size", [str(p.size) for p in points]),
        *grows,
        *closed,
        ("FLOP/B", _numbers(points, lambda p: p.closed_intensity_flops_per_byte)),
        ("counted", _numbers(points, lambda p: p.intensity_flops_per_byte)),
        *_time(points),
        ("rate", column([p.flops_per_s for p in points], "FLOP/s", same_prefix=False)),
        ("of roof", [percent(p.efficiency_fraction) for p in points]),
        ("bound", _bounds(points)),
    ]


def _steps(points: Sequence[Point], size: str) -> list[tuple[str, list[str]]]:
    first = next((p.items_per_s for p in points if p.items_per_s), None)
    ratios = [f"{p.items_per_s / first:.1f}×" if p.items_per_s and first else "" for p in points]
    return [
        (size, [str(p.size) for p in points]),
        *_time(points),
        ("token/s", [_rate(p.items_per_s) for p in points]),
        ("gain", ratios),
        ("rate", column([p.flops_per_s for p in points], "FLOP/s", same_prefix=False)),
        ("MFU", [percent(p.mfu_fraction) for p in points]),
        ("MBU", [percent(p.mbu_fraction) for p in points]),
        ("FLOP/B", _numbers(points, lambda p: p.intensity_flops_per_byte)),
        ("bound", _bounds(points)),
    ]


def _vision(points: Sequence[Point], wide: bool) -> list[tuple[str, list[str]]]:
    origin = [("bytes", [str(p.bytes_origin or "") for p in points])] if wide else []
    return [
        ("model", [p.series for p in points]),
        ("batch", [str(p.size) for p in points]),
        *_time(points),
        ("image/s", [_rate(p.items_per_s) for p in points]),
        ("MFU", [percent(p.mfu_fraction) for p in points]),
        ("MBU", [percent(p.mbu_fraction) for p in points]),
        ("FLOP/B", _numbers(points, lambda p: p.intensity_flops_per_byte)),
        *origin,
        ("bound", _bounds(points)),
    ]


def _time(points: Sequence[Point]) -> list[tuple[str, list[str]]]:
    """The time of a step; of predictions also by the fitted roof."""
    timed = any(p.timed for p in points)
    cells = [show(p.step_s, "s") if p.step_s is not None else _OUTCOMES.get(p.outcome or "", "n/a") for p in points]
    found = [("step" if timed else "roof time", cells)]
    if any(p.fitted_s is not None for p in points):
        found.append(("fitted", [show(p.fitted_s, "s") for p in points]))
    return found


def _bounds(points: Sequence[Point]) -> list[str]:
    """The bound, and a mark where a remark below the table belongs to it."""
    return [f"{_bound(p)} {_MARKS[p.remark.kind]}" if p.remark else _bound(p) for p in points]


def _bound(p: Point) -> str:
    """The bound; where honest counts of bytes differ, the likely one with a question mark."""
    if p.bound == Bound.UNCERTAIN and p.likely_bound:
        return f"{p.likely_bound.value}?"
    return p.bound.value if p.bound else ""


def remark_lines(points: Sequence[Point]) -> list[str]:
    """What the marks in the table mean: a line per cause, with the points and the reason of the foremost."""
    found: dict[tuple[Kind, str], list[Point]] = {}
    for p in points:
        if p.remark:
            found.setdefault((p.remark.kind, p.remark.cause), []).append(p)
    return [_remark_line(kind, own, points) for (kind, _), own in sorted(found.items())]


def _remark_line(kind: Kind, own: Sequence[Point], points: Sequence[Point]) -> str:
    """One line: the point furthest from the roof gives the reason."""
    sign = 1 if kind == "above_roof" else -1
    foremost = max(own, key=lambda p: sign * (p.efficiency_fraction or 0.0))
    assert foremost.remark is not None
    which = f"{foremost.series} {foremost.size}, at {percent(foremost.efficiency_fraction)}: " if len(own) > 1 else ""
    return f"{_MARKS[kind]} {_MEANINGS[foremost.remark.cause]}: {_listed(own, points)}. {which}{foremost.remark.why}"


def _listed(own: Sequence[Point], points: Sequence[Point]) -> str:
    """Some of the points: series, with their sizes unless all sizes are among them."""
    listed: dict[str, list[str]] = {}
    for p in own:
        listed.setdefault(p.series, []).append(str(p.size))
    sizes = Counter(p.series for p in points)
    return "; ".join(
        series if len(some) == sizes[series] > 1 else f"{series} {', '.join(some)}" for series, some in listed.items()
    )


def _numbers(points: Sequence[Point], value: Callable[[Point], float | None]) -> list[str]:
    known = [value(p) for p in points]
    return ["n/a" if v is None else show(v, "") if v >= 0.01 or v == 0 else f"{v:.2g}" for v in known]


def _rate(value: float | None) -> str:
    return "n/a" if value is None else f"{value:.3g}" if value < 100 else f"{value:,.0f}"


_COLUMNS: dict[SweepName, Callable[[Sequence[Point], bool], list[tuple[str, list[str]]]]] = {
    "ops": _ops,
    "decode": lambda points, wide: _steps(points, "batch"),
    "train": lambda points, wide: _steps(points, "tokens"),
    "vision": _vision,
}
