"""Plans side by side: machines as columns, or points of a sweep as rows."""

from collections.abc import Sequence

from roofline.core.units import percent, show
from roofline.plan.planner import Plan
from roofline.plan.questions import critical, limits, price_per_million
from roofline.plan.screen import title
from roofline.plan.sweep import Point, frontier
from roofline.plan.table import aligned


def side_by_side(plans: Sequence[Plan], price_per_hour: float | None = None) -> list[str]:
    """One column per machine, one row per figure."""
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
    columns = [labels, *(_column(p, price_per_hour) for p in plans)]
    return [" · ".join(title(plans[0])[:-1]), "", *aligned(columns)]


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


def sweep_table(points: Sequence[Point], limit_s: float | None = None) -> list[str]:
    """Points as rows; those on the frontier of time and throughput per device are marked."""
    best = {id(p) for p in frontier(points)}
    names = list(points[0].values) if points else []
    columns = [
        ["machine", *(p.machine for p in points)],
        *([n, *(f"{p.values[n]:,}" for p in points)] for n in names),
        ["step at the roof", *(show(p.step_s, "s") for p in points)],
        ["tokens/s", *(_count(p.tokens_per_s) for p in points)],
        ["per device", *(_count(p.tokens_per_s_per_device) for p in points)],
        ["MFU", *(percent(p.mfu_fraction) for p in points)],
        ["MBU", *(percent(p.mbu_fraction) for p in points)],
        ["bound", *(p.bound or "n/a" for p in points)],
        ["memory", *(show(p.memory_bytes, "B", capacity=True) for p in points)],
        ["", *(_mark(p, id(p) in best, limit_s) for p in points)],
    ]
    return aligned(columns, left=(0, len(columns) - 3, len(columns) - 1))


def _mark(p: Point, best: bool, limit_s: float | None) -> str:
    if p.why:
        return p.why
    if p.fits is False:
        return "does not fit"
    late = limit_s is not None and p.token_s is not None and p.token_s > limit_s
    return "over the limit" if late else "frontier" if best else ""


def _count(value: float | None) -> str:
    return f"{value:,.0f}" if value is not None else "n/a"
