"""`roofline sweep … --dry-run`, and how long a case is expected to take."""

from collections.abc import Sequence

from roofline.core.machine import Machine
from roofline.core.units import show
from roofline.errors import RooflineError
from roofline.sweeps.case import Case, Where
from roofline.sweeps.measure import count_case
from roofline.sweeps.summary import step_seconds

# Building, counting and profiling a case, s; and steps that are run beside the timed ones.
_FIXED_S = 1.5
_STEPS = 12
# Programs reach about half of their roof.
_EFFICIENCY = 0.5


def cost_s(step_s: float | None, where: Where) -> float:
    """About how long measuring a case takes, s: fixed costs, warm-up and profile, and the time spent timing."""
    step = (step_s or 0.0) / _EFFICIENCY
    return _FIXED_S + max(1.25 * where.seconds, 5 * step) + _STEPS * step


def show_plan(cases: Sequence[Case], machine: Machine | None, where: Where) -> None:
    """Print what would run, and how long it would take."""
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    drawn = Table(box=None, pad_edge=False, header_style="bold")
    for head in ("case", "step at the roof", "bound", "about"):
        drawn.add_column(head, justify="left" if head in ("case", "bound") else "right", no_wrap=True)
    total = 0.0
    for case in cases:
        step, bound = _step(case, machine, where)
        cost = cost_s(step, where)
        total += cost
        drawn.add_row(Text(case.key), show(step, "s"), bound, show(cost, "s"))
    console = Console()
    console.print(drawn)
    console.print(f"{len(cases)} cases, about {total / 60:.1f} min here; nothing was run")


def _step(case: Case, machine: Machine | None, where: Where) -> tuple[float | None, str]:
    if machine is None:
        return None, "n/a"
    try:
        run = count_case(case, machine, where)
    except RooflineError as error:
        return None, error.message
    return step_seconds(run), run.verdict.bound.value if run.verdict else ""
