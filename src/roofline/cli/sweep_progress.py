"""The progress of a sweep on stderr: a bar with the time left, and one line per case."""

import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from roofline.cli.sweep_plan import cost_s
from roofline.core.units import show
from roofline.sweeps.case import Case, Result, Where
from roofline.sweeps.drive import Watch
from roofline.sweeps.experiments import experiment
from roofline.sweeps.summary import step_seconds


@contextmanager
def watching(cases: Sequence[Case], where: Where, left: int) -> Iterator[Watch]:
    """Show how far the sweep is; on a terminal with a bar, else one line per case."""
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn

    console = Console(stderr=True)
    costs = {case.key: _cost(case, where) for case in cases}
    begin = time.monotonic()
    spent = 0.0
    bar = Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("{task.fields[left]}"),
        console=console,
        transient=True,
        disable=not console.is_terminal,
    )

    def watch(result: Result, remaining: Sequence[Case]) -> None:
        nonlocal spent
        spent += costs[result.key] if result.outcome == "ok" else 0.0
        todo = sum(costs[case.key] for case in remaining)
        # The estimate weighs as much as one average case, then what was seen takes over.
        pace = (time.monotonic() - begin + 5.0) / (spent + 5.0)
        left_text = f"about {_clock(todo * pace)} left"
        bar.update(task, advance=1, left=left_text)
        bar.console.print(
            f"{result.case.label}: {_said(result)}" + ("" if console.is_terminal else f"  ({left_text})"),
            highlight=False,
            markup=False,
        )

    with bar:
        task = bar.add_task("sweep", total=left, left=f"about {_clock(sum(costs.values()))} left")
        yield watch


def _cost(case: Case, where: Where) -> float:
    """From the closed form where there is one; else growing with the size."""
    run = experiment(case.sweep).predict(case, where.machine, where.origin) if where.machine else None
    return cost_s(step_seconds(run), where) if run else cost_s(0.0, where) + 0.1 * case.size


def _said(result: Result) -> str:
    run = result.run
    if run is None or run.timing is None or run.verdict is None:
        return result.outcome.replace("_", " ") + (f" ({result.why})" if result.why else "")
    return f"{show(run.timing.median_s, 's')}, {run.verdict.bound.value}-bound".replace(
        "uncertain-bound", "uncertain"
    )


def _clock(seconds: float) -> str:
    return f"{seconds:.0f} s" if seconds < 90 else f"{seconds / 60:.0f} min"
