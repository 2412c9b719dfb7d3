"""Columns of text, aligned."""

from collections.abc import Sequence


def aligned(columns: Sequence[Sequence[str]], left: Sequence[int] = (0,)) -> list[str]:
    """Columns as lines, each as wide as its widest cell; numbers of `left` are aligned to the left."""
    widths = [max(len(cell) for cell in cells) for cells in columns]
    rows = []
    for row in zip(*columns, strict=True):
        padded = [
            f"{cell:<{w}}" if i in left else f"{cell:>{w}}"
            for i, (cell, w) in enumerate(zip(row, widths, strict=True))
        ]
        rows.append("  ".join(padded).rstrip())
    return rows
