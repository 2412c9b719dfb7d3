"""One screen in a terminal: verdict, ratios, time budget, the ops with the most to gain, coverage, advice."""

from typing import TYPE_CHECKING

from roofline.core import units
from roofline.core.run import Run
from roofline.report import facts
from roofline.report.palette import ANSI_PARTS, BOUNDS
from roofline.report.rows import Row, is_timed, op_kinds, op_time, printable

if TYPE_CHECKING:
    from rich.console import Console, Group
    from rich.table import Table
    from rich.text import Text

_WIDEST = 100
_OPS = 10
_ADVICE = 3
_WARNINGS = 3


def show(run: Run, console: "Console") -> None:
    """Print a Run on one screen, at most 100 columns wide.

    Args:
        run: What to show.
        console: Where to; colour, width and encoding are the console's.
    """
    width = min(console.width, _WIDEST)
    _print(console, _verdict(run), width)
    _print(console, _ratios(run), width)
    _print(console, _time(run, width, ascii_only=console.options.ascii_only), width)
    for block in (_ops(run, width), _advice(run)):
        if block is not None:
            console.print(block, width=width)
            console.print()
    _print(console, _coverage(run), width, last=True)


def _print(console: "Console", lines: "list[Text]", width: int, *, last: bool = False) -> None:
    for line in lines:
        console.print(line, width=width, soft_wrap=False, highlight=False)
    if lines and not last:
        console.print()


def _verdict(run: Run) -> "list[Text]":
    from rich.text import Text

    bound = run.verdict.bound.value if run.verdict else ""
    return [
        Text(" · ".join(facts.head(run)), style="bold"),
        Text(facts.sentence(run), style=f"bold {BOUNDS[bound].ansi}"),
    ]


def _ratios(run: Run) -> "list[Text]":
    from rich.text import Text

    ratios = facts.ratios(run)
    # As wide as the widest figure, or it would run into the note beside it.
    wide = max((len(ratio.value) for ratio in ratios), default=0)
    return [
        Text.assemble(f"{ratio.label:<18}", (f"{ratio.value:<{max(10, wide)}}", "bold"), "  ", (ratio.note, "dim"))
        for ratio in ratios
    ]


def _time(run: Run, width: int, *, ascii_only: bool) -> "list[Text]":
    """The time budget as bars; the roof time by bound where nothing was timed."""
    from rich.text import Text

    parts = facts.budget(run)
    lines = [Text.assemble(("time budget  " if parts else "time  ", "bold"), facts.time_line(run))]
    if not parts:
        parts = facts.roof_split(run)
        lines += [Text("roof time by bound", style="bold")] if parts else []
    times = units.column([part.seconds for part in parts], "s", narrow=True)
    for part, time in zip(parts, times, strict=True):
        cells = round((width - 34) * min(1.0, part.fraction or 0))
        bar = Text(("#" if ascii_only else "█") * cells, style=ANSI_PARTS[part.name])
        lines.append(Text.assemble(f"{part.name:<13}{time:>9}{units.percent(part.fraction):>9}  ", bar))
    return lines


def _ops(run: Run, width: int) -> "Group | None":
    """The ops with the most to gain; the module's column takes what room the others leave."""
    from rich.console import Group
    from rich.table import Table
    from rich.text import Text

    rows = op_kinds(run)[:_OPS]
    if not rows:
        return None
    timed, wide = is_timed(run), width >= _WIDEST
    table = Table(box=None, padding=(0, 1, 0, 0), pad_edge=False)
    table.add_column("op", no_wrap=True, overflow="ellipsis", max_width=22 if wide else 17)
    table.add_column("module", no_wrap=True)
    table.add_column("calls", justify="right", no_wrap=True)
    table.add_column("time" if timed else "roof time", justify="right", no_wrap=True)
    table.add_column("share", justify="right", no_wrap=True)
    table.add_column("bound", no_wrap=True, min_width=7)
    for name in ("of roof", "may save") if timed else ("FLOP/B",):
        table.add_column(name, justify="right", no_wrap=True)
    for cells in _cells(rows, 32 if wide else 15, timed=timed):
        table.add_row(*cells)
    return Group(Text(_ops_title(run), style="bold"), table)


def _ops_title(run: Run) -> str:
    kinds = len(op_kinds(run))
    shown = f"{_OPS} of {kinds:,} kinds of op" if kinds > _OPS else f"{facts.plural(kinds, 'kind')} of op"
    if is_timed(run):
        return f"{shown}, most to gain first; share of {units.show(op_time(run), 's')} op time"
    return f"{shown}, longest at the roof first; share of {units.show(op_time(run), 's')} roof time"


def _cells(rows: list[Row], room: int, *, timed: bool) -> "list[list[Text]]":
    from rich.text import Text

    times = units.column([r.op.seconds if timed else r.op.roof_s for r in rows], "s", narrow=True)
    gains = units.column([r.gain_s for r in rows], "s", narrow=True)
    cells = []
    for row, time, gain in zip(rows, times, gains, strict=True):
        of_roof = Text(units.percent(row.op.efficiency_fraction), style="bold magenta" if row.above_roof else "")
        last = [of_roof, Text(gain)] if timed else [Text(units.show(row.intensity, "FLOP/B").removesuffix(" FLOP/B"))]
        texts = [row.name, _tail(row.module, room), f"{row.op.calls:,}", time, units.percent(row.share)]
        bound = Text(row.bound or "n/a", style=BOUNDS[row.bound].ansi)
        cells.append([*(Text(t) for t in texts), bound, *last])
    return cells


def _tail(path: str, room: int) -> str:
    """The end of a path says more than its beginning."""
    return path if len(path) <= room else "…" + path[1 - room :]


def _advice(run: Run) -> "Table | None":
    from rich.table import Table
    from rich.text import Text

    grid = Table.grid(padding=(0, 1))
    for number, advice in enumerate(run.advice[:_ADVICE], start=1):
        saves = f"saves at most {units.show(advice.saves_at_most_s, 's')}"
        if advice.saves_at_most_s is None:
            saves = "not timed, gain unknown"
        evidence = (f"; {printable(advice.evidence)}", "dim")
        grid.add_row(f"{number}.", Text.assemble((printable(advice.action), "bold"), f": {saves}", evidence))
    return grid if grid.row_count else None


def _coverage(run: Run) -> "list[Text]":
    from rich.text import Text

    style = "yellow" if run.coverage.unknown_ops else ""
    lines = [Text(line, style=style) for line in facts.coverage(run, most=5)]
    lines += [Text(f"warning: {printable(text)}", style="yellow") for text in run.warnings[:_WARNINGS]]
    more = len(run.warnings) - _WARNINGS
    if more > 0:
        lines.append(
            Text(
                f"and {facts.plural(more, 'more warning')}: see the report (-o report.html) or --json", style="yellow"
            )
        )
    return lines
