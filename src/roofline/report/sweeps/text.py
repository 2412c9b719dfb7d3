"""A sweep on the terminal, and as Markdown to paste."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from roofline.core.machine import Machine
from roofline.report.sweeps.table import Table, fact_lines, remark_lines, table
from roofline.sweeps.case import Case, SweepName
from roofline.sweeps.summary import Point, facts

if TYPE_CHECKING:
    from rich.console import Console


def title(name: SweepName, points: Sequence[Point], machine: Machine | None) -> str:
    """What is shown, on which machine, measured or predicted."""
    how = "measured" if any(p.timed for p in points) else "predicted"
    return f"sweep {name} · {machine.name if machine else 'machine unknown'} · {how}"


def show(
    name: SweepName, cases: Sequence[Case], points: Sequence[Point], machine: Machine | None, console: "Console"
) -> None:
    """Print a sweep."""
    from rich.table import Table as RichTable
    from rich.text import Text

    console.print(Text(title(name, points, machine), style="bold"))
    made: Table = table(name, points)
    drawn = RichTable(box=None, pad_edge=False, header_style="bold")
    for i, head in enumerate(made.heads):
        left = i == 0 or head == "bound"
        drawn.add_column(head, justify="left" if left else "right", no_wrap=True)
    for row in made.rows:
        drawn.add_row(*(Text(cell) for cell in row))
    console.print(drawn)
    for line in [*fact_lines(name, facts(name, cases, points, machine), points), *remark_lines(points)]:
        console.print(Text(line))


def markdown(name: SweepName, cases: Sequence[Case], points: Sequence[Point], machine: Machine | None) -> str:
    """Write a sweep as Markdown."""
    made = table(name, points, wide=True)
    lines = [f"## {title(name, points, machine)}", ""]
    lines += [f"- {line}" for line in fact_lines(name, facts(name, cases, points, machine), points)]
    lines += ["", "| " + " | ".join(made.heads) + " |", "|" + "---|" * len(made.heads)]
    lines += ["| " + " | ".join(cell.replace("|", "\\|") for cell in row) + " |" for row in made.rows]
    remarks = remark_lines(points)
    lines += ["", *(f"- {line}" for line in remarks)] if remarks else []
    return "\n".join(lines) + "\n"
