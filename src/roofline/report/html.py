"""One self-contained page: interactive plot, verdict, budget, sortable op table, modules, ceilings. No network."""

import json
from base64 import b64encode
from hashlib import sha256
from pathlib import Path
from typing import Any

from roofline.core.run import ModuleTotal, Run
from roofline.core.units import Unit, column, percent, show
from roofline.report import facts
from roofline.report.interactive import figure
from roofline.report.palette import BOUNDS, PARTS
from roofline.report.points import picture
from roofline.report.rows import Row, ceiling_rows, is_timed, module_rows, op_rows, op_time, printable

_PAGE = Path(__file__).parent / "page"
_MOST_ROWS = 5000
_MODULE_HEAD = ("calls", "needed FLOP", "executed FLOP", "vector FLOP", "operator bytes", "op time", "share")

# A cell as (what is shown, what it sorts by); text sorts by itself.
Cell = tuple[str, float | None]


def render(run: Run) -> str:
    """Render a Run as one HTML page; the same Run gives the same page."""
    from jinja2 import Environment, FileSystemLoader, StrictUndefined
    from markupsafe import Markup
    from plotly.offline import get_plotlyjs

    environment = Environment(
        loader=FileSystemLoader(_PAGE),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    scripts = [get_plotlyjs(), (_PAGE / "page.js").read_text("utf-8")]
    return environment.get_template("page.html.jinja").render(
        style=Markup((_PAGE / "page.css").read_text("utf-8")),
        scripts=[Markup(script) for script in scripts],
        script_hashes=[_hash(script) for script in scripts],
        figure=figure(run),
        **_content(run),
    )


def _hash(script: str) -> str:
    """Name a script in the page's policy, so that only it may run, whatever a name in the Run contains."""
    return "sha256-" + b64encode(sha256(script.encode()).digest()).decode()


def _content(run: Run) -> dict[str, Any]:
    from roofline import __version__

    rows, timed = op_rows(run), is_timed(run)
    return {
        "title": facts.title(run),
        "head": facts.head(run),
        "sentence": facts.sentence(run),
        "bound": run.verdict.bound.value if run.verdict else "",
        "colours": {bound: look.colour for bound, look in BOUNDS.items()},
        "ratios": facts.ratios(run),
        "time": facts.time_line(run),
        **_budget(run),
        "origin": run.verdict.bytes_origin if run.verdict else "best known",
        "notes": "; ".join(picture(run).notes),
        "advice": [(printable(a.action), _saves(a.saves_at_most_s), printable(a.evidence)) for a in run.advice],
        "warnings": [printable(text) for text in run.warnings],
        "coverage": facts.coverage(run),
        "incomplete": bool(run.coverage.unknown_ops),
        "timed": timed,
        "op_time": show(op_time(run), "s"),
        "op_head": _op_head(timed=timed),
        "op_rows": [_op_cells(row, timed=timed) for row in rows[:_MOST_ROWS]],
        "rows_left": len(rows) - _MOST_ROWS,
        "module_head": _MODULE_HEAD if timed else _MODULE_HEAD[:-2],
        "module_rows": _modules(run, timed=timed),
        "flops": facts.flop_rows(run),
        "bytes": [(origin, show(b, "B"), show(i, "FLOP/B")) for origin, b, i in facts.byte_rows(run)],
        "machine": _machine(run),
        "workload": _pairs(run.workload),
        "environment": _pairs(run.environment),
        "made_by": f"roofline {__version__}, schema {run.schema}, {run.kind}",
    }


def _saves(seconds: float | None) -> str:
    return "not timed: gain unknown" if seconds is None else f"saves at most {show(seconds, 's')}"


def _budget(run: Run) -> dict[str, Any]:
    parts, name = facts.budget(run), "Time budget"
    if not parts:
        parts = facts.roof_split(run)
        name = "Roof time by bound" if parts else "Time"
    times = column([part.seconds for part in parts], "s")
    bars = [
        (p.name, PARTS[p.name], f"{100 * (p.fraction or 0):.4f}%", time, percent(p.fraction), p.meaning)
        for p, time in zip(parts, times, strict=True)
    ]
    return {"budget": bars, "budget_name": name}


def _op_head(*, timed: bool) -> list[tuple[str, bool]]:
    """Column heads, and whether the column holds numbers; what decides comes first."""
    first = ["time", "share", "of roof", "may save"] if timed else ["roof time", "share"]
    last = ["calls", "intensity", "rate", "matrix FLOP", "vector FLOP", "bytes"]
    return [
        ("op", False),
        ("module", False),
        ("bound", False),
        *((name, True) for name in (*first, *last)),
        *((name, False) for name in ("precision", "phase", "shapes")),
    ]


def _op_cells(row: Row, *, timed: bool) -> list[Cell]:
    op = row.op
    gain = [(percent(op.efficiency_fraction), op.efficiency_fraction), _cell(row.gain_s, "s")] if timed else []
    return [
        (row.name, None),
        (row.module, None),
        (row.bound or "n/a", None),
        _cell(op.seconds if timed else op.roof_s, "s"),
        (percent(row.share), row.share),
        *gain,
        (f"{op.calls:,}", float(op.calls)),
        _cell(row.intensity, "FLOP/B"),
        _cell(row.rate, "FLOP/s"),
        _flops(op.executed_flops, op.formula),
        _flops(op.vector_flops, op.formula),
        _cell(row.moved_bytes, "B"),
        (op.precision.value if op.precision else "n/a", None),
        (op.phase, None),
        (row.shapes or "n/a", None),
    ]


def _cell(value: float | None, unit: Unit) -> Cell:
    return (show(value, unit), value)


def _flops(flops: float, formula: str) -> Cell:
    """FLOP of a row; what has no formula is unknown, not zero."""
    if formula == "none":
        return ("unknown", None)
    return (f"{'≈ ' if formula == 'estimate' and flops else ''}{show(flops, 'FLOP')}", flops)


def _modules(run: Run, *, timed: bool) -> list[tuple[int, str, str, list[str]]]:
    """Depth, path, class, figures under `_MODULE_HEAD`."""
    rows, whole = module_rows(run), op_time(run) if timed else None
    return [
        (depth, printable(total.path) or "(program)", printable(total.kind), _figures(total, whole, timed=timed))
        for depth, total in rows
    ]


def _figures(total: ModuleTotal, whole: float | None, *, timed: bool) -> list[str]:
    share = total.seconds / whole if total.seconds is not None and whole else None
    return [
        f"{total.calls:,}",
        show(total.needed_flops, "FLOP"),
        show(total.executed_flops, "FLOP"),
        show(total.vector_flops, "FLOP"),
        show(total.operator_bytes, "B"),
        *([show(total.seconds, "s"), percent(share)] if timed else []),
    ]


def _machine(run: Run) -> dict[str, Any] | None:
    machine = run.machine
    if not machine:
        return None
    memory = show(machine.memory_bytes, "B", capacity=True) if machine.memory_bytes else "n/a"
    caches = [f"{level} {show(size, 'B', capacity=True)}" for level, size in machine.cache_bytes.items()]
    return {
        "name": printable(machine.name),
        "memory": ", ".join([f"memory {memory}", *caches]),
        "read_on": printable(machine.read_on),
        "ceilings": ceiling_rows(machine),
        "notes": [printable(note) for note in machine.notes],
    }


def _pairs(values: dict[str, Any]) -> list[tuple[str, str]]:
    """Plain JSON values as text; unknown is n/a."""
    return [(printable(key), _text(value)) for key, value in values.items()]


def _text(value: Any) -> str:
    if value is None:
        return "n/a"
    if isinstance(value, dict | list | tuple):
        return printable(json.dumps(value, ensure_ascii=False, default=str).replace("null", "n/a"))
    return printable({True: "yes", False: "no"}.get(value, value) if isinstance(value, bool) else value)
