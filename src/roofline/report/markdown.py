"""A summary to paste in an issue or a pull request (GitHub's Markdown)."""

import re
from collections.abc import Sequence

from roofline.core.run import Run
from roofline.core.units import column, percent, show
from roofline.report import facts
from roofline.report.rows import is_timed, op_kinds, op_time, printable

_OPS = 10


def render(run: Run) -> str:
    """Write the verdict, ratios, time, top ops, bytes, advice and warnings of a Run as Markdown."""
    blocks = [
        f"### {_prose(' · '.join(facts.head(run)))}",
        f"**{_prose(facts.sentence(run))}**",
        _table(("", "value", ""), [(r.label, r.value, _prose(r.note)) for r in facts.ratios(run)]),
        *_time(run),
        *_ops(run),
        *_totals(run),
        *_lists(run),
    ]
    return "\n\n".join(block for block in blocks if block) + "\n"


def _time(run: Run) -> list[str]:
    parts = facts.budget(run)
    line = f"**Time:** {facts.time_line(run)}"
    if not parts:
        parts = facts.roof_split(run)
        line += "; the roof time by bound:" if parts else ""
    times = column([part.seconds for part in parts], "s")
    rows = [(p.name, time, percent(p.fraction), p.meaning) for p, time in zip(parts, times, strict=True)]
    return [line, _table(("time budget" if run.time_budget else "bound", "time", "share", ""), rows)]


def _ops(run: Run) -> list[str]:
    rows = op_kinds(run)[:_OPS]
    if not rows:
        return []
    timed = is_timed(run)
    times = column([row.op.seconds if timed else row.op.roof_s for row in rows], "s")
    gains = column([row.gain_s for row in rows], "s")
    what, time = ("most to gain", "time") if timed else ("longest at the roof", "roof time")
    cells = [
        (
            _code(row.name),
            _code(row.module),
            f"{row.op.calls:,}",
            times[n],
            percent(row.share),
            show(row.intensity, "FLOP/B"),
            row.bound or "n/a",
            *((percent(row.op.efficiency_fraction), gains[n]) if timed else ()),
        )
        for n, row in enumerate(rows)
    ]
    total = f"{show(op_time(run), 's')} {'op' if timed else 'roof'} time"
    title = f"**Ops with {what}** ({len(rows)} of {facts.plural(len(run.ops), 'row')}; share of {total})"
    head = ("op", "module", "calls", time, "share", "intensity", "bound", *(("of roof", "may save") if timed else ()))
    return [title if timed else title.replace("Ops with longest", "Ops longest"), _table(head, cells)]


def _totals(run: Run) -> list[str]:
    rows = facts.byte_rows(run)
    sizes = column([size for _, size, _ in rows], "B")
    cells = [(origin, size, show(i, "FLOP/B")) for (origin, _, i), size in zip(rows, sizes, strict=True)]
    flops = _table(("work", "FLOP"), facts.flop_rows(run)) if run.flops.executed or run.flops.vector else ""
    return [flops, _table(("bytes by origin", "moved", "intensity"), cells)]


def _lists(run: Run) -> list[str]:
    advice = []
    for number, a in enumerate(run.advice, start=1):
        saves = f"saves at most {show(a.saves_at_most_s, 's')}" if a.saves_at_most_s is not None else "gain unknown"
        advice.append(f"{number}. **{_prose(a.action)}**: {saves} ({_prose(a.evidence)})")
    warnings = [f"- warning: {_prose(text)}" for text in run.warnings]
    coverage = [f"- {_prose(line)}" for line in facts.coverage(run)]
    return ["\n".join(advice), "\n".join([*coverage, *warnings])]


def _table(head: tuple[str, ...], rows: Sequence[tuple[str, ...]]) -> str:
    if not rows:
        return ""
    numeric = [
        n for n in range(len(head)) if n and all(re.match(r"([≥<>] )?[\d.,]+( |$)|n/a$", row[n]) for row in rows)
    ]
    rule = ["---:" if n in numeric else "---" for n in range(len(head))]
    return "\n".join("| " + " | ".join(cells) + " |" for cells in (head, rule, *rows))


def _code(name: str) -> str:
    """A name as code: nothing in it is markup, mention or column."""
    return "`" + name.replace("`", "'").replace("|", "\\|") + "`"


def _prose(text: str) -> str:
    """Text that says only itself: no HTML, no emphasis, no link, no table column, no mention."""
    text = printable(text).replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;").replace("@", "&#64;")
    return re.sub(r"([\\`*_\[\]|~])", r"\\\1", text)
