"""The conventions as Markdown, for docs/mfu.md: `python -m roofline.plan.conventions.markdown docs/mfu.md`."""

import sys
from collections.abc import Iterable
from pathlib import Path

from roofline.plan.conventions.recompute import recomputations
from roofline.plan.conventions.table import conventions

START = "<!-- conventions: start (made by python -m roofline.plan.conventions.markdown docs/mfu.md) -->"
END = "<!-- conventions: end -->"
_HEADS = ("name", "FLOP per token", "numerator", "used by", "source", "mind")
_AGAIN = ("recompute", "what runs again", "adds per token", "used by", "source")


def markdown() -> str:
    """Write the conventions and the recomputations as two tables."""
    rows = [
        (
            f"`{c.name}`",
            c.formula,
            "wrong" if c.fault else f"{c.counts} ({'MFU' if c.counts == 'needed' else 'HFU'})",
            c.used_by,
            c.source,
            c.fault or c.caveat,
        )
        for c in conventions()
    ]
    again = [(f"`{r.name}`", r.title, r.formula, r.used_by, r.source) for r in recomputations()]
    return f"{_table(_HEADS, rows)}\n\n{_table(_AGAIN, again)}"


def updated(document: str) -> str:
    """Put the tables between the two marks of a document."""
    assert START in document and END in document, "the document has lost its marks"
    before, rest = document.split(START, 1)
    _, after = rest.split(END, 1)
    return f"{before}{START}\n\n{markdown()}\n\n{END}{after}"


def _table(heads: Iterable[str], rows: Iterable[tuple[str, ...]]) -> str:
    names = list(heads)
    return "\n".join([_row(names), _row("---" for _ in names), *(_row(r) for r in rows)])


def _row(cells: Iterable[str]) -> str:
    return f"| {' | '.join(cells)} |"


def main(arguments: list[str]) -> None:
    """Print the tables, or put them into the document named by the first argument."""
    if not arguments:
        sys.stdout.write(markdown() + "\n")
        return
    path = Path(arguments[0])
    path.write_text(updated(path.read_text("utf-8")), "utf-8")


if __name__ == "__main__":
    main(sys.argv[1:])
