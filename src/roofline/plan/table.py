"""Columns of text, aligned, within the width of a screen."""

from collections.abc import Sequence

_LEAST = 8


def aligned(
    columns: Sequence[Sequence[str]], left: Sequence[int] = (0,), *, width: int | None = None, cut: Sequence[int] = ()
) -> list[str]:
    """Columns as lines, each as wide as its widest cell.

    Args:
        columns: Cells, the head first.
        left: Columns that are aligned to the left; others are numbers.
        width: Of the screen; None: as wide as need be.
        cut: Columns that may be cut where the lines are wider than the screen, in this order; numbers never are.
    """
    widths = [max(len(cell) for cell in cells) for cells in columns]
    gaps = len(widths) - 1
    gap = 2 if width is None or sum(widths) + 2 * gaps <= width else 1
    for i in cut if width is not None else ():
        over = sum(widths) + gap * gaps - (width or 0)
        widths[i] = min(widths[i], max(_LEAST, widths[i] - max(0, over)))
    rows = []
    for row in zip(*columns, strict=True):
        padded = [
            f"{_short(cell, w):<{w}}" if i in left else f"{cell:>{w}}"
            for i, (cell, w) in enumerate(zip(row, widths, strict=True))
        ]
        rows.append((" " * gap).join(padded).rstrip())
    return rows


def _short(text: str, room: int) -> str:
    """The beginning of a sentence, the end of a path: what says most."""
    if len(text) <= room:
        return text
    return text[: room - 1] + "…" if " " in text else "…" + text[1 - room :]


def with_notes(
    columns: Sequence[Sequence[str]], notes: Sequence[str], left: Sequence[int] = (0,), *, width: int | None = None
) -> list[str]:
    """Columns as lines, each with a note beside it; below it, indented, where the line would be too wide."""
    lines = aligned(columns, left, width=width)
    start = max(map(len, lines)) + 2
    shown: list[str] = []
    for line, note in zip(lines, notes, strict=True):
        beside = f"{line:<{start}}{note}"
        shown += [beside] if width is None or len(beside) <= width else [line, f"    {note}"]
    return shown
