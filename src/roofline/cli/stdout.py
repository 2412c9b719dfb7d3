"""Where results go: stdout, whole, as wide as the screen is; quietly where nobody reads on."""

import os
import select
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from shutil import get_terminal_size
from typing import TextIO

from roofline.errors import RooflineError

_PIPED = 80
_NARROWEST = 40
_WIDEST = 100


def emit(result: str | bytes) -> None:
    """Print a result on stdout, as the last thing that a command does.

    A reader who closes the pipe early (`| head`) has what he wanted: that is no error, and changes no exit status.

    Raises:
        RooflineError: stdout can't take it for another reason, such as a full disk.
    """
    with writing():
        if isinstance(result, bytes):
            sys.stdout.flush()
            sys.stdout.buffer.write(result)
        else:
            sys.stdout.write(result)
        sys.stdout.flush()


@contextmanager
def writing() -> Iterator[None]:
    """Take what goes wrong in writing to stdout: a closed pipe is passed over, another fault is one line.

    Raises:
        RooflineError: stdout can't take it for another reason than a closed pipe.
    """
    try:
        yield
    except BrokenPipeError:
        forget(sys.stdout)
    except OSError as error:
        forget(sys.stdout)
        raise RooflineError(
            f"can't write the result: {error.strerror}", "free some space, or send stdout elsewhere"
        ) from None


def columns() -> int:
    """How wide a screen may be, at most 100: $COLUMNS, else the terminal's width, else 80 where there is none."""
    return min(_WIDEST, max(_NARROWEST, get_terminal_size((_PIPED, 24)).columns))


def forget(stdout: TextIO) -> None:
    """Send what is left in the buffer nowhere: Python would fail once more on it when it exits."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, stdout.fileno())
    os.close(nowhere)


def closed(stdout: TextIO) -> bool:
    """Whether the other end of the pipe that stdout goes into is closed; taken so where a system can't say."""
    try:
        asked = select.poll()
        asked.register(stdout.fileno(), 0)
        return any(event & (select.POLLERR | select.POLLHUP) for _, event in asked.poll(0))
    except (AttributeError, OSError, ValueError):
        return True


def attach() -> None:
    """Give a stream that the caller has closed (`>&-`) to the null device.

    Else the next file that is opened takes its number, and what a child process prints goes into that file.
    """
    for number, name in ((1, "stdout"), (2, "stderr")):
        if getattr(sys, name) is None:
            opened = os.open(os.devnull, os.O_WRONLY)
            if opened != number:
                os.dup2(opened, number)
                os.close(opened)
            setattr(sys, name, open(number, "w", encoding="utf-8", closefd=False))  # noqa: SIM115 — for good
