"""What a Run is shown as: one output format per file, all from the same facts, rows and points."""

from collections.abc import Callable
from pathlib import Path

from roofline.core.run import Run, write_whole
from roofline.errors import UsageError


def write(run: Run, path: str | Path) -> Path:
    """Write a report in the format of the suffix; the file is complete or absent, never half-written.

    Args:
        run: What to report.
        path: Where to; the suffix names the format: .json, .html, .png, .svg or .md.

    Returns:
        The path written.

    Raises:
        UsageError: The suffix names no format.
        RunFileError: The file can't be written.
    """
    suffix = check_suffix(path)
    return write_whole(path, _FORMATS[suffix](run))


def check_suffix(path: str | Path) -> str:
    """Give the suffix of `path`, or refuse it before any long work is done.

    Raises:
        UsageError: The suffix names no format.
    """
    suffix = Path(path).suffix.lower()
    if suffix not in _FORMATS:
        found = f'its suffix "{suffix}" names no format' if suffix else "it has no suffix to name a format"
        raise UsageError(
            f"can't write {path}: {found} (known: {', '.join(_FORMATS)})",
            "end the name given to -o in one of these, such as report.html",
        )
    return suffix


def _json(run: Run) -> bytes:
    return bytes(run.to_json()) + b"\n"


def _html(run: Run) -> bytes:
    from roofline.report.html import render

    return render(run).encode()


def _png(run: Run) -> bytes:
    from roofline.report.figure import render

    return render(run, "png")


def _svg(run: Run) -> bytes:
    from roofline.report.figure import render

    return render(run, "svg")


def _markdown(run: Run) -> bytes:
    from roofline.report.markdown import render

    return render(run).encode()


_FORMATS: dict[str, Callable[[Run], bytes]] = {
    ".json": _json,
    ".html": _html,
    ".png": _png,
    ".svg": _svg,
    ".md": _markdown,
}
