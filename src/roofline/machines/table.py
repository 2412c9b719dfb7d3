"""The database as Markdown, for docs/machines.md: `python -m roofline.machines.table docs/machines.md`."""

import sys
from collections.abc import Callable, Iterable, Mapping
from itertools import groupby
from pathlib import Path

from roofline.core import units
from roofline.core.machine import Ceiling, Machine
from roofline.core.precision import Precision
from roofline.machines.database import all_machines

START = "<!-- machines: start (made by python -m roofline.machines.table docs/machines.md) -->"
END = "<!-- machines: end -->"
# The ridge point is printed for the 16-bit format that a machine multiplies fastest in.
_RIDGE = (Precision.BF16, Precision.FP16)
Column = tuple[str, Callable[[Machine], str]]


def markdown() -> str:
    """Write the database as Markdown tables, one section per vendor."""
    sections = []
    for vendor, machines in groupby(all_machines(), key=lambda m: m.vendor):
        rows = list(machines)
        sections.append(f"### {vendor}\n\n{_table(_RATES, rows)}\n\n{_table(_FACTS, rows)}")
    return "\n\n".join(sections)


def updated(document: str) -> str:
    """Put the tables between the two marks of a document."""
    assert START in document and END in document, "the document has lost its marks"
    before, rest = document.split(START, 1)
    _, after = rest.split(END, 1)
    return f"{before}{START}\n\n{markdown()}\n\n{END}{after}"


def _table(columns: tuple[Column, ...], machines: Iterable[Machine]) -> str:
    lines = [_row(title for title, _ in columns), _row("---" for _ in columns)]
    lines += [_row(cell(m) for _, cell in columns) for m in machines]
    return "\n".join(lines)


def _row(cells: Iterable[str]) -> str:
    return f"| {' | '.join(cells)} |"


def _matrix(precision: Precision) -> Column:
    title = f"{precision} {'TOP/s' if precision.is_integer else 'TFLOP/s'}"
    return title, lambda m: _tera(m.matrix.get(precision))


def _vector(precision: Precision) -> Column:
    return f"vector {precision} TFLOP/s", lambda m: _tera(m.vector.get(precision))


def _tera(rate: Ceiling | None) -> str:
    """Print a rate as the database writes it: datasheets give four digits, `units` prints three."""
    return f"{rate.value / 1e12:.10g}" if rate else ""


def _ridge(m: Machine) -> str:
    found = next((p for p in _RIDGE if p in m.matrix), None)
    return f"{m.ridge_point(found):.0f}" if found and "dram" in m.bandwidth else ""


def _capacity(size: int | None) -> str:
    return units.show(size, "B", capacity=True) if size else ""


def _links(m: Machine) -> str:
    return _joined({level: f"{rate.value / 1e9:.6g}" for level, rate in m.bandwidth.items() if level != "dram"})


def _caches(m: Machine) -> str:
    return _joined({level: _capacity(size) for level, size in m.cache_bytes.items()})


def _joined(parts: Mapping[str, str]) -> str:
    return ", ".join(f"{name} {text}" for name, text in parts.items())


def _named(m: Machine) -> str:
    return ", ".join(f"`{alias}`" for alias in (m.name, *m.aliases))


def _source(m: Machine) -> str:
    own = {c.source for c in (*m.matrix.values(), *m.vector.values(), *m.bandwidth.values())} - {m.source}
    return "; ".join([f"{m.source} (read {m.read_on})", *sorted(own), *m.notes])


_RATES: tuple[Column, ...] = (
    ("machine", lambda m: f"`{m.key}`"),
    ("DRAM GB/s", lambda m: f"{m.dram.value / 1e9:.6g}"),
    *(_matrix(p) for p in (Precision.BF16, Precision.FP16, Precision.TF32, Precision.FP32, Precision.FP64)),
    *(_matrix(p) for p in (Precision.FP8, Precision.FP4, Precision.INT8, Precision.INT4)),
    *(_vector(p) for p in (Precision.FP32, Precision.FP64)),
    ("ridge point, 16-bit, FLOP/B", _ridge),
)
_FACTS: tuple[Column, ...] = (
    ("machine", lambda m: f"`{m.key}`"),
    ("names", _named),
    ("memory", lambda m: _capacity(m.memory_bytes)),
    ("caches", _caches),
    ("links, one direction, GB/s", _links),
    ("multiprocessors", lambda m: str(m.multiprocessors or "")),
    ("boost clock", lambda m: f"{m.boost_hz / 1e6:.0f} MHz" if m.boost_hz else ""),
    ("TDP", lambda m: f"{m.tdp_w:.0f} W" if m.tdp_w else ""),
    ("source and notes", _source),
)


def main(arguments: list[str]) -> None:
    """Print the tables, or put them into the document named by the first argument."""
    if not arguments:
        sys.stdout.write(markdown() + "\n")
        return
    path = Path(arguments[0])
    path.write_text(updated(path.read_text("utf-8")), "utf-8")


if __name__ == "__main__":
    main(sys.argv[1:])
