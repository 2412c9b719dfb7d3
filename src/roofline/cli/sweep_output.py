"""What a sweep gives the user: a screen or one JSON document on stdout, and files."""

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import msgspec

from roofline.cli.common import check_place, say
from roofline.core.machine import Machine
from roofline.core.run import write_whole
from roofline.errors import RooflineError, UsageError
from roofline.sweeps.case import Case, Result, SweepName
from roofline.sweeps.summary import document, point

FORMATS = (".png", ".svg", ".md", ".json")


class Swept(NamedTuple):
    """A sweep that has ended, and what to know of it."""

    name: SweepName
    cases: Sequence[Case]
    results: Sequence[Result]
    machine: Machine | None
    warnings: Sequence[str]


def check_outputs(outputs: Sequence[Path]) -> None:
    """Refuse outputs that can't be written before the long work begins."""
    for output in outputs:
        if output.suffix.lower() not in FORMATS:
            raise UsageError(f"can't write {output}: a sweep is written as {', '.join(FORMATS)}", "choose another -o")
        check_place(output)


def deliver(swept: Swept, outputs: Sequence[Path], *, as_json: bool) -> None:
    """Write the files, then the screen, so that a reader who closes the pipe early still gets the files.

    Raises:
        RunFileError: A file can't be written; the others and the screen were.
    """
    for result in swept.results:
        if result.outcome == "failed":
            say(f"warning: {result.case.label} failed: {result.why}")
    failed: RooflineError | None = None
    for output in outputs:
        try:
            write_whole(output, _file(swept, output.suffix.lower()))
            say(f"wrote {output}")
        except RooflineError as error:
            failed = failed or error
    if as_json:
        sys.stdout.write(_json(swept).decode())
        sys.stdout.flush()
    else:
        _show(swept)
    if failed is not None:
        raise failed


def _show(swept: Swept) -> None:
    from rich.console import Console

    from roofline.report.sweeps.text import show

    # A pipe has no width; a table cut to 80 columns would lose figures there.
    width = None if sys.stdout.isatty() else 120
    show(swept.name, swept.cases, [point(r) for r in swept.results], swept.machine, Console(width=width))


def _json(swept: Swept) -> bytes:
    return msgspec.json.format(msgspec.json.encode(document(*swept)), indent=2) + b"\n"


def _file(swept: Swept, suffix: str) -> bytes:
    """The sweep in the format of a suffix."""
    if suffix == ".json":
        return _json(swept)
    if suffix == ".md":
        from roofline.report.sweeps.text import markdown

        return markdown(swept.name, swept.cases, [point(r) for r in swept.results], swept.machine).encode()
    from roofline.report.sweeps.figures import render

    return render(swept.name, swept.results, "png" if suffix == ".png" else "svg")
