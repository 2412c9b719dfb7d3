"""A Run in a notebook: a plot headed by the verdict, the ratios, the ops with the most to gain."""

from html import escape

from roofline.core.run import Run
from roofline.core.units import column, percent
from roofline.report import facts
from roofline.report.rows import is_timed, op_kinds, printable

_OPS = 5


def render(run: Run) -> str:
    """Render a Run as HTML for `_repr_html_`: it needs no script and no network."""
    from roofline.report.figure import render as draw

    svg = draw(run, "svg", size=(9.5, 6.0)).decode()
    # The XML declaration and document type of a file have no place inside a page.
    plot = svg[svg.index("<svg") :]
    return f"<div>{plot}{_ratios(run)}{_ops(run)}<p>{'<br>'.join(escape(line) for line in _remarks(run))}</p></div>"


def _ratios(run: Run) -> str:
    found = facts.ratios(run)
    return _table([r.label for r in found], [[r.value for r in found]]) if found else ""


def _ops(run: Run) -> str:
    rows = op_kinds(run)[:_OPS]
    if not rows:
        return ""
    timed = is_timed(run)
    times = column([row.op.seconds if timed else row.op.roof_s for row in rows], "s")
    gains = column([row.gain_s for row in rows], "s")
    head = ["op", "module", "time" if timed else "roof time", "share", "bound", "of roof", "may save"]
    cells = [
        [row.name, row.module, t, percent(row.share), row.bound or "n/a", percent(row.op.efficiency_fraction), gain]
        for row, t, gain in zip(rows, times, gains, strict=True)
    ]
    last = None if timed else -2
    return _table(head[:last], [row[:last] for row in cells])


def _table(head: list[str], rows: list[list[str]]) -> str:
    top = "".join(f"<th>{escape(cell)}</th>" for cell in head)
    body = "".join("<tr>" + "".join(f"<td>{escape(cell)}</td>" for cell in row) + "</tr>" for row in rows)
    return f"<table><thead><tr>{top}</tr></thead><tbody>{body}</tbody></table>"


def _remarks(run: Run) -> list[str]:
    return [*facts.coverage(run, most=5), *(f"warning: {printable(text)}" for text in run.warnings)]
