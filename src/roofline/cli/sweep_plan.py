"""`roofline sweep … --dry-run`, and how long a case is expected to take. Measures nothing."""

import sys
from collections.abc import Sequence
from typing import Any, NamedTuple

import msgspec

from roofline.core.machine import Machine
from roofline.core.units import show
from roofline.errors import MachineError, RooflineError
from roofline.sweeps.case import Case, Result, SweepName, Where, result_of
from roofline.sweeps.measure import count_case
from roofline.sweeps.summary import Point, document, point, step_seconds

# Building, counting and profiling a case, s; and steps that are run beside the timed ones.
_FIXED_S = 1.5
_STEPS = 12
# Programs reach about half of their roof.
_EFFICIENCY = 0.5


class Expected(NamedTuple):
    """A case that was not run.

    Attributes:
        point: What its roof says of it, as far as that is known.
        cost_s: About how long measuring it takes, s.
        result: Its prediction, if there is one.
    """

    point: Point
    cost_s: float | None = None
    result: Result | None = None


def cost_s(step_s: float | None, where: Where) -> float:
    """About how long measuring a case takes, s: fixed costs, warm-up and profile, and the time spent timing."""
    step = (step_s or 0.0) / _EFFICIENCY
    return _FIXED_S + max(1.25 * where.seconds, 5 * step) + _STEPS * step


def kept_machine(device: str) -> Machine | None:
    """The machine that a device is, from the database or with the ceilings kept of it; None where there are none."""
    from roofline import machines
    from roofline.clock.cache import kept_ceilings

    try:
        machine = machines.detect(device)
    except MachineError:
        machine = machines.unlisted(device)
    return machine if machine.matrix and machine.bandwidth else kept_ceilings(machine)


def show_plan(name: SweepName, cases: Sequence[Case], where: Where, *, as_json: bool, remote: bool = False) -> None:
    """Print what would run, and how long it would take where that can be predicted.

    Args:
        name: The sweep.
        cases: What would run.
        where: Where, and on which machine.
        as_json: Print one JSON document.
        remote: Whether workers elsewhere would run it.
    """
    expected = [_expected(case, where) for case in cases]
    why = _why_unknown(where, remote=remote)
    if as_json:
        made = _document(name, cases, expected, where.machine, [why] if why else [])
        sys.stdout.write(msgspec.json.format(msgspec.json.encode(made), indent=2).decode() + "\n")
        sys.stdout.flush()
        return
    from rich.console import Console

    console = Console(width=None if sys.stdout.isatty() else 120)
    _table(console, cases, expected, predicted=where.machine is not None)
    total = _total(expected)
    takes = f", about {total / 60:.1f} min here" if total is not None else ""
    console.print(f"{len(cases)} cases{takes}; nothing was run")
    if why:
        console.print(why, markup=False, highlight=False, soft_wrap=True)


def _expected(case: Case, where: Where) -> Expected:
    unknown = Point(series=case.series, size=case.size, key=case.key)
    if where.machine is None:
        return Expected(unknown)
    try:
        run = count_case(case, where.machine, where)
    except RooflineError as error:
        return Expected(msgspec.structs.replace(unknown, why=error.message))
    result = result_of(case, run)
    # It was not run, so it ended in no way.
    found = msgspec.structs.replace(point(result), outcome=None)
    return Expected(found, cost_s(step_seconds(run), where), result)


def _why_unknown(where: Where, *, remote: bool) -> str | None:
    """Why there are no predicted times, and how to get them."""
    if where.machine is not None:
        return None
    if remote:
        return "no predicted times: the workers' machine is not known here; name it with --machine"
    device = "" if where.device == "cpu" else f" --device {where.device}"
    return (
        "no predicted times: no ceilings of this machine are kept; "
        f"measure them: roofline calibrate{device} (or name a machine: --machine)"
    )


def _total(expected: Sequence[Expected]) -> float | None:
    """Expected time of all cases, s; None where no case has one."""
    known = [e.cost_s for e in expected if e.cost_s is not None]
    return sum(known) if known else None


def _table(console: Any, cases: Sequence[Case], expected: Sequence[Expected], *, predicted: bool) -> None:
    from rich.table import Table
    from rich.text import Text

    drawn = Table(box=None, pad_edge=False, header_style="bold")
    drawn.add_column("case", no_wrap=True)
    for head in ("step at the roof", "about") if predicted else ():
        drawn.add_column(head, justify="right", no_wrap=True)
    if predicted:
        drawn.add_column("bound", no_wrap=True)
    for case, found in zip(cases, expected, strict=True):
        bound = found.point.bound.value if found.point.bound else found.point.why
        known = (show(found.point.step_s, "s"), show(found.cost_s, "s"), Text(bound)) if predicted else ()
        drawn.add_row(Text(case.key), *known)
    console.print(drawn)


def _document(
    name: SweepName,
    cases: Sequence[Case],
    expected: Sequence[Expected],
    machine: Machine | None,
    warnings: Sequence[str],
) -> dict[str, Any]:
    """The plan with the keys of a sweep's document, and what measuring would take."""
    made = document(name, cases, [e.result for e in expected if e.result], machine, warnings)
    points = [{**msgspec.to_builtins(e.point), "cost_s": e.cost_s} for e in expected]
    return {**made, "dry_run": True, "cost_s": _total(expected), "points": points}
