"""What lies where on the roofline plot: roofs, slopes, points and the star, as plain numbers for any drawing."""

from collections.abc import Iterable
from math import ceil, floor, log10

import msgspec

from roofline.core.machine import Machine, Origin
from roofline.core.precision import Precision
from roofline.core.run import Run
from roofline.core.units import Unit, percent, show
from roofline.errors import MachineError
from roofline.report.facts import byte_rows, plural, wall_s
from roofline.report.rows import Row, is_timed, op_rows, op_time

_MEMORY_LEVELS = ("dram", "l3", "l2", "l1")
_MOST_POINTS = 1000

# Roofs that share one line: same rate, origin, engine (whether vector) and unit (whether of integers).
_Key = tuple[float, str, bool, bool]


class Roof(msgspec.Struct, frozen=True):
    """A horizontal roof: the rate of one engine.

    Attributes:
        label: Precisions, engine, value and origin.
        rate: FLOP/s.
        ridge_point: Where it meets the bandwidth of memory, FLOP/B; None without that bandwidth.
        main: Whether the matrix work of the program is judged by it.
        vector: Whether it is the vector engine's.
    """

    label: str
    rate: float
    ridge_point: float | None
    main: bool
    vector: bool


class Slope(msgspec.Struct, frozen=True):
    """A slanted roof: the bandwidth of one memory level, B/s."""

    level: str
    label: str
    bandwidth: float


class Point(msgspec.Struct, frozen=True):
    """A row of ops where it lies.

    Attributes:
        row: The row.
        intensity: FLOP/B.
        rate: FLOP/s.
    """

    row: Row
    intensity: float
    rate: float


class Star(msgspec.Struct, frozen=True):
    """The whole program as one point.

    Attributes:
        intensity: FLOP/B by the bytes of the verdict.
        rate: FLOP/s.
        low: Least intensity over the known origins of bytes.
        high: Greatest.
        label: What the point and its bar are.
    """

    intensity: float
    rate: float
    low: float
    high: float
    label: str


class Picture(msgspec.Struct, frozen=True):
    """All that a roofline plot shows.

    Attributes:
        timed: Whether points are achieved rates; else attainable ones.
        roofs: From the highest down.
        slopes: From the fastest down.
        points: Rows of ops that have a place, most time first.
        star: The whole program; None without FLOP, bytes or time.
        notes: What could not be placed and why, with its share of time.
        x_range: Limits, FLOP/B.
        y_range: Limits, FLOP/s.
    """

    timed: bool
    roofs: tuple[Roof, ...]
    slopes: tuple[Slope, ...]
    points: tuple[Point, ...]
    star: Star | None
    notes: tuple[str, ...]
    x_range: tuple[float, float]
    y_range: tuple[float, float]


def picture(run: Run) -> Picture:
    """Place everything that a Run knows on the roofline plot."""
    placed = [Point(row, row.intensity, row.rate) for row in op_rows(run) if row.intensity and row.rate]
    placed.sort(key=lambda point: point.row.share or 0, reverse=True)
    roofs, slopes, star = _roofs(run), _slopes(run.machine), _star(run)
    points = tuple(placed[:_MOST_POINTS])
    xs = [p.intensity for p in points] + [3 * r.ridge_point for r in roofs if r.ridge_point]
    ys = [p.rate for p in points] + [r.rate for r in roofs]
    if star:
        xs, ys = [*xs, star.low, star.high], [*ys, star.rate]
    x_range = _range(xs, below=2, above=2)
    if slopes and roofs and not points and not star:
        ys = [*ys, x_range[0] * slopes[-1].bandwidth]
    return Picture(
        timed=is_timed(run),
        roofs=roofs,
        slopes=slopes,
        points=points,
        star=star,
        notes=tuple(_notes(run, placed)),
        x_range=x_range,
        y_range=_range(ys, below=2, above=3),
    )


def point_size(share: float | None) -> float:
    """Area of a point relative to the largest: its share of time, but never invisible."""
    return max(0.012, min(1.0, (share or 0) / 0.15))


def label_heights(drawn: Picture) -> list[float]:
    """Heights of the roofs' labels: above their lines; below where they would touch the label before."""
    gap = (drawn.y_range[1] / drawn.y_range[0]) ** 0.04
    heights: list[float] = []
    for roof in drawn.roofs:
        above, below = roof.rate * gap**0.2, roof.rate / gap**1.1
        if heights and above > heights[-1] / gap:
            above = min(below, heights[-1] / gap)
        heights.append(above)
    return heights


def decades(limits: tuple[float, float]) -> list[float]:
    """Powers of ten within limits, for ticks."""
    low, high = ceil(log10(limits[0]) - 1e-9), floor(log10(limits[1]) + 1e-9)
    return [10.0**n for n in range(low, high + 1)]


def tick(value: float, unit: Unit) -> str:
    """A tick's label: a power of ten needs no zeros after the point."""
    number, _, rest = show(value, unit).partition(" ")
    return f"{number.rstrip('0').rstrip('.') if '.' in number else number} {rest}"


def _roofs(run: Run) -> tuple[Roof, ...]:
    """Matrix roofs of the precisions in use, equal ones together, and the vector roofs."""
    if not run.machine:
        return ()
    main = run.verdict.precision if run.verdict else None
    used = {op.precision for op in run.ops if op.precision and op.executed_flops} | ({main} if main else set())
    wide = Precision.FP64 in {op.precision for op in run.ops if op.vector_flops}
    names: dict[_Key, list[Precision]] = {}
    for precision in (p for p in Precision if p in used):
        _add(names, run.machine, precision, vector=precision not in run.machine.matrix)
    for precision in (Precision.FP64, Precision.FP32) if wide else (Precision.FP32,):
        _add(names, run.machine, precision, vector=True)
    roofs = [_roof(run.machine, key, precisions, main) for key, precisions in names.items()]
    return tuple(sorted(roofs, key=lambda roof: roof.rate, reverse=True))


def _add(names: dict[_Key, list[Precision]], machine: Machine, precision: Precision, *, vector: bool) -> None:
    try:
        ceiling = machine.vector_peak(precision) if vector else machine.matrix_peak(precision)
    except MachineError:
        return
    if ceiling.value > 0:
        key = (ceiling.value, ceiling.origin, vector, precision.is_integer)
        same = names.setdefault(key, [])
        if precision not in same:
            same.append(precision)


def _roof(machine: Machine, key: _Key, precisions: list[Precision], main: Precision | None) -> Roof:
    rate, origin, vector, integer = key
    dram = machine.bandwidth.get("dram")
    unit: Unit = "OP/s" if integer else "FLOP/s"
    engine = " vector" if vector else ""
    return Roof(
        label=f"{', '.join(precisions)}{engine} {show(rate, unit)} ({_origin(origin)})",
        rate=rate,
        ridge_point=rate / dram.value if dram and dram.value > 0 else None,
        main=main in precisions and vector == (main not in machine.matrix),
        vector=vector,
    )


def _slopes(machine: Machine | None) -> tuple[Slope, ...]:
    if not machine:
        return ()
    found = [
        Slope(level, f"{level} {show(ceiling.value, 'B/s')} ({_origin(ceiling.origin)})", ceiling.value)
        for level, ceiling in machine.bandwidth.items()
        if level in _MEMORY_LEVELS and ceiling.value > 0
    ]
    return tuple(sorted(found, key=lambda slope: slope.bandwidth, reverse=True))


def _origin(origin: Origin | str) -> str:
    return "given by the user" if origin == "given" else origin


def _star(run: Run) -> Star | None:
    """The program at its executed matrix FLOP; at its vector FLOP where it has no matrix work."""
    flops, kind = run.flops.executed, "executed matrix FLOP"
    if not flops:
        flops, kind = run.flops.vector, "vector FLOP"
    seconds, how = _step_time(run)
    known = {origin: flops / moved for origin, moved, _ in byte_rows(run) if moved}
    if not flops or not seconds or not known:
        return None
    origin: str = run.verdict.bytes_origin if run.verdict else ""
    if origin not in known:
        origin = next(o for o in ("measured", "cached", "operator", *known) if o in known)
    low, high = min(known, key=lambda o: known[o]), max(known, key=lambda o: known[o])
    label = f"whole program: {kind}, {how}, {origin} bytes"
    if low != high:
        label += f"; bar: {low} to {high} bytes"
    return Star(known[origin], flops / seconds, known[low], known[high], label)


def _step_time(run: Run) -> tuple[float | None, str]:
    if wall_s(run) is not None:
        return wall_s(run), "wall time"
    if is_timed(run):
        return op_time(run), "op time"
    return (run.verdict.roof_s if run.verdict else None), "roof time"


def _notes(run: Run, placed: list[Point]) -> Iterable[str]:
    """Why rows are missing from the plot, and how much time they take."""
    timed = is_timed(run)
    missing: dict[str, list[Row]] = {}
    for row in op_rows(run):
        if row.flops is None:
            missing.setdefault("of unknown FLOP", []).append(row)
        elif not row.flops or row.op.network_bytes or row.op.node_bytes:
            missing.setdefault("that copy or communicate", []).append(row)
        elif row.moved_bytes == 0:
            missing.setdefault("served by the cache (no bytes from memory)", []).append(row)
        elif not row.intensity:
            missing.setdefault("of unknown bytes", []).append(row)
        elif not row.rate:
            missing.setdefault("without a time" if timed else "without a roof time", []).append(row)
    missing["with the least time"] = [point.row for point in placed[_MOST_POINTS:]]
    for why, rows in missing.items():
        if rows:
            shares = [row.share for row in rows if row.share is not None]
            share = f" ({percent(sum(shares))} of {'op' if timed else 'roof'} time)" if shares else ""
            yield f"{plural(len(rows), 'row')} of ops {why}{share}"


def _range(values: list[float], *, below: float, above: float) -> tuple[float, float]:
    known = [v for v in values if v > 0]
    if not known:
        return (0.1, 1000.0)
    low, high = min(known) / below, max(known) * above
    return (low, high) if high / low >= 100 else (low / 10, high * 10)
