"""Plans side by side: machines as columns, or points of a sweep as rows."""

from collections import Counter
from collections.abc import Sequence
from textwrap import wrap

from roofline.core.units import percent, show
from roofline.plan.planner import Plan
from roofline.plan.questions import critical, limits, price_per_million
from roofline.plan.screen import title
from roofline.plan.sweep import Point, frontier
from roofline.plan.table import aligned

_WIDE = 100


def side_by_side(plans: Sequence[Plan], price_per_hour: float | None = None, width: int = _WIDE) -> list[str]:
    """One column per machine, one row per figure; as many machines beside one another as a screen has room for."""
    labels = [
        "",
        "step at the roof",
        "step expected",
        "tokens/s at the roof",
        "tokens/s expected",
        "bound",
        "MFU at the roof",
        "MBU at the roof",
        "critical batch of weights",
        "memory per device",
        "fits",
        "largest batch",
        *(["price per million tokens"] if price_per_hour is not None else []),
    ]
    lines = wrap(" · ".join(title(plans[0])[:-1]), width, break_on_hyphens=False)
    for block in _blocks(labels, [_column(p, price_per_hour) for p in plans], width):
        lines += ["", *aligned([labels, *block])]
    return lines


def _blocks(labels: Sequence[str], columns: Sequence[list[str]], width: int) -> list[list[list[str]]]:
    """Columns in groups that fit beside the labels, one at least."""
    room = width - max(map(len, labels))
    blocks: list[list[list[str]]] = []
    left = 0
    for cells in columns:
        needed = 2 + max(map(len, cells))
        if not blocks or needed > left:
            blocks.append([])
            left = room
        blocks[-1].append(cells)
        left -= needed
    return blocks


def _column(planned: Plan, price_per_hour: float | None) -> list[str]:
    found, room, expected = planned.answers(), planned.memory(), planned.expectation()
    at = critical(planned).weight_tokens if planned.setting.workload.phase == "decode" else None
    most = limits(planned).batch
    likely = found.tokens / expected.likely_s if expected else None
    interval = f"{show(expected.low_s, 's')} to {show(expected.high_s, 's')}" if expected else "n/a"
    cells = [
        planned.machine.key,
        show(found.step_s, "s"),
        interval,
        f"{found.tokens_per_s:,.0f}" if found.tokens_per_s else "n/a",
        f"{likely:,.0f}" if likely else "n/a",
        planned.bound().value,
        percent(found.mfu_fraction),
        percent(found.mbu_fraction),
        f"{at:,.0f}" if at else "n/a",
        show(room.total_bytes, "B", capacity=True),
        {True: "yes", False: "NO", None: "unknown"}[room.fits],
        f"{most:,}" if most is not None else "n/a",
    ]
    if price_per_hour is not None:
        least = price_per_million(found.tokens_per_s, planned.setting.parallel.devices, price_per_hour)
        cells.append(f"at least {least:.3g}" if least else "n/a")
    return cells


def sweep_table(points: Sequence[Point], limit_s: float | None = None, width: int = _WIDE) -> list[str]:
    """Points as rows; those on the frontier of time and throughput per device are marked.

    A narrow screen leaves out the throughput of all devices where there are several.
    """
    best = {id(p) for p in frontier(points)}
    names = list(points[0].values) if points else []
    many = any(p.devices > 1 for p in points)
    columns = [
        ["machine", *(p.machine for p in points)],
        *([n, *(f"{p.values[n]:,}" for p in points)] for n in names),
        ["roof time", *(show(p.step_s, "s") for p in points)],
        ["MFU", *(percent(p.mfu_fraction) for p in points)],
        ["MBU", *(percent(p.mbu_fraction) for p in points)],
        ["bound", *(p.bound or "n/a" for p in points)],
        ["memory", *(show(p.memory_bytes, "B", capacity=True) for p in points)],
        ["", *(_mark(p, id(p) in best, limit_s) for p in points)],
    ]
    rates = []
    if not many or width >= _WIDE:
        rates.append(["tokens/s", *(_count(p.tokens_per_s) for p in points)])
    if many:
        rates.append(["per device", *(_count(p.tokens_per_s_per_device) for p in points)])
    columns[-5:-5] = rates
    last = len(columns) - 1
    table = aligned(columns, left=(0, last - 2, last), width=width)
    for why, number in Counter(p.why for p in points if p.why).items():
        table += wrap(f"refused ({number} of {len(points)} points): {why}", width, break_on_hyphens=False)
    return table


def _mark(p: Point, best: bool, limit_s: float | None) -> str:
    if p.why:
        return "refused"
    if p.fits is False:
        return "does not fit"
    late = limit_s is not None and p.token_s is not None and p.token_s > limit_s
    return "over limit" if late else "frontier" if best else ""


def _count(value: float | None) -> str:
    return f"{value:,.0f}" if value is not None else "n/a"
