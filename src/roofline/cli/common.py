"""Options and talk that several commands share."""

import os
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, redirect_stdout
from pathlib import Path
from typing import Any, TypeVar

import click

from roofline.cli.stdout import columns, emit, writing
from roofline.core.figures import absurd
from roofline.core.machine import Machine
from roofline.core.precision import Precision
from roofline.core.run import Run
from roofline.core.units import Unit, parse
from roofline.errors import RooflineError, UsageError
from roofline.targets.options import Options

F = TypeVar("F", bound=Callable[..., Any])
ORIGINS = ("compulsory", "fused", "cached", "operator", "module", "measured")


class Quantity(click.ParamType):  # type: ignore[type-arg]
    """A number with a unit, such as "989 TFLOP/s"."""

    def __init__(self, unit: Unit) -> None:
        self.unit = unit
        self.name = unit

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        """Read the quantity; zero is as wrong as nonsense."""
        try:
            number = value if isinstance(value, float) else parse(str(value), self.unit)
        except UsageError as error:
            self.fail(f"{error.message}; {error.hint}", param, ctx)
        if number <= 0:
            self.fail(f'"{value}" must be above 0 {self.unit}', param, ctx)
        if absurd(number):
            self.fail(f'"{value}" is beyond any {self.unit or "number"} that there is', param, ctx)
        return number


class Amount(click.FloatRange):
    """A number in a range; what is no number, or without end, is in none."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        """Read the number."""
        number = float(super().convert(value, param, ctx))
        if absurd(number):
            self.fail(f'"{value}" is no amount', param, ctx)
        return number


class Peak(click.ParamType):  # type: ignore[type-arg]
    """A matrix rate with the precision that it is for, "bf16=989 TFLOP/s"; without one, that of --precision."""

    name = "[PRECISION=]FLOP/s"

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> tuple[Precision | None, float]:
        """Read the precision and the rate."""
        if isinstance(value, tuple):
            return value
        name, equals, rate = str(value).rpartition("=")
        if equals and name not in set(Precision):
            self.fail(f'"{name}" is no precision; known: {", ".join(Precision)}', param, ctx)
        return Precision(name) if equals else None, Quantity("FLOP/s").convert(rate, param, ctx)


def options(*decorators: Callable[[F], F]) -> Callable[[F], F]:
    """Bundle options into one decorator."""

    def decorate(function: F) -> F:
        for decorator in reversed(decorators):
            function = decorator(function)
        return function

    return decorate


program_options = options(
    click.argument("target"),
    click.option("--batch", type=click.IntRange(min=1), help="Samples per step.  [default: the target's own]"),
    click.option("--tokens", type=click.IntRange(min=1), help="Tokens per sample, for models of text."),
    click.option("--train", is_flag=True, help="Forward and backward."),
    click.option("--optimizer", type=click.Choice(["adamw", "adam", "sgd"]), help="Add its step (with --train)."),
    click.option(
        "--precision",
        type=click.Choice(["bf16", "fp16", "fp32"]),
        help="bf16, fp16: autocast over FP32 weights.  [default: the program's own]",
    ),
    click.option("--channels-last", is_flag=True, help="Images and weights in channels-last layout."),
)

judge_options = options(
    click.option("--machine", metavar="NAME|FILE", help="Whose roof.  [default: the device's own]"),
    click.option("--peak-flops", type=Peak(), help='Override a matrix peak: "bf16=989 TFLOP/s".'),
    click.option("--peak-bandwidth", type=Quantity("B/s"), help='Override the memory bandwidth: "3.35 TB/s".'),
    click.option("--bytes", "origin", type=click.Choice(ORIGINS), help="Which count of bytes to judge by."),
)

output_options = options(
    click.option("--json", "as_json", is_flag=True, help="Print the Run as one JSON document."),
    click.option(
        "-o",
        "--output",
        "outputs",
        multiple=True,
        type=click.Path(path_type=Path),
        help="Write .html, .png, .svg, .md or .json; several times if wanted.",
    ),
)


def make_options(chosen: dict[str, Any]) -> Options:
    """Gather the program options of a command line.

    Raises:
        UsageError: Two of them contradict each other.
    """
    if chosen.get("optimizer") and not chosen.get("train"):
        raise UsageError("--optimizer needs --train", "add --train")
    precision = chosen.get("precision")
    return Options(
        batch=chosen.get("batch"),
        tokens=chosen.get("tokens"),
        train=chosen["train"],
        optimizer=chosen.get("optimizer"),
        precision=Precision(precision) if precision else None,
        compiled=chosen.get("compiled", False),
        channels_last=chosen["channels_last"],
        device=chosen.get("device", "cpu"),
    )


def chosen_machine(chosen: dict[str, Any], default: Callable[[], Machine]) -> Machine:
    """The machine to judge by: the one named, or the device's own, with the user's overrides.

    Raises:
        UsageError: Nobody says which precision the given peak is for.
    """
    from roofline import machines

    precision, peak = chosen.get("peak_flops") or (None, None)
    bandwidth = chosen.get("peak_bandwidth")
    named = chosen.get("machine")
    machine: Machine | None = None
    if named is not None:
        machine = machines.resolve(named)
    elif peak is None or bandwidth is None:
        machine = default()
    stated = precision or chosen.get("precision")
    if peak is not None and stated is None:
        raise UsageError(
            "--peak-flops needs the precision that it is for",
            'write --peak-flops "bf16=989 TFLOP/s", or add --precision',
        )
    return machines.override(machine, peak, bandwidth, Precision(stated) if stated else Precision.FP32)


def check_outputs(outputs: Iterable[Path], *read: str | None) -> None:
    """Refuse outputs that can't be written before the long work begins.

    Args:
        outputs: What is to be written.
        *read: What the command reads: a file among these is not written over.

    Raises:
        RooflineError: One can't.
    """
    # A folder is read for its config.json.
    files = {os.path.realpath(path) for given in read if given for path in (given, Path(given) / "config.json")}
    for output in outputs:
        _check_output(output)
        if os.path.realpath(output) in files:
            raise UsageError(f"{output} is what the command reads, and would be written over", "choose another -o")


def check_origin(origin: str | None, *, compiled: bool) -> None:
    """Refuse a count of bytes that there won't be, before the long work begins.

    Raises:
        UsageError: Nothing here gives it.
    """
    if origin == "fused" and not compiled:
        raise UsageError('there are no "fused" bytes of a program that is not compiled', "add --compile")
    if origin == "measured":
        raise UsageError('no "measured" bytes: only counters of the hardware give them', "choose another --bytes")


def _check_output(output: Path) -> None:
    from roofline.report import check_suffix

    check_suffix(output)
    check_place(output)


def check_place(output: Path) -> None:
    """Refuse a file that can't be written where it is to be.

    Raises:
        RooflineError: The folder is missing or not writable, or the file is a folder.
    """
    try:
        if not output.parent.is_dir():
            raise UsageError(f"there is no folder {output.parent}", "make it first, or choose another -o")
        if output.is_dir():
            raise UsageError(f"{output} is a folder", "choose a file with -o")
    except OSError as error:
        raise UsageError(f"can't write {output}: {error.strerror}", "choose another -o") from None
    if not os.access(output.parent, os.W_OK):
        raise RooflineError(f"can't write {output}: the folder is not writable", "choose another -o")


def deliver(run: Run, *, as_json: bool, outputs: Iterable[Path]) -> None:
    """Give the user a judged Run: on stdout as a screen or as JSON, and in files if asked for.

    Raises:
        RooflineError: A file can't be written; the others and the screen come all the same.
    """
    failed: RooflineError | None = None
    # Files first, so that a reader who closes the pipe early still gets them.
    for output in outputs:
        try:
            say(f"wrote {run.report(output)}")
        except RooflineError as error:
            failed = error
    emit(run.to_json() + b"\n" if as_json else _screen(run))
    if failed is not None:
        raise failed


def _screen(run: Run) -> str:
    """The Run on one screen, in colour where stdout is a terminal."""
    from rich.console import Console

    from roofline.report.terminal import show

    console = Console(width=columns())
    # Rich writes nothing to the console when a capture ends, but that, too, can fail.
    with writing(), console.capture() as captured:
        show(run, console)
    return captured.get()


@contextmanager
def program_talks_on_stderr() -> Iterator[None]:
    """Send what the user's program prints to stderr, also from C++ and child processes: stdout is the result."""
    sys.stdout.flush()
    kept = os.dup(1)
    os.dup2(2, 1)
    try:
        with redirect_stdout(sys.stderr):
            yield
    finally:
        sys.stdout.flush()
        os.dup2(kept, 1)
        os.close(kept)


def say(line: str) -> None:
    """Talk: one line on stderr."""
    print(line, file=sys.stderr, flush=True)
