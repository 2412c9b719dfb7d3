"""What a figure of a saved Run can be: a file from outside may hold any number that JSON can spell."""

from collections.abc import Iterator, Mapping
from typing import Any

import msgspec

# Nothing that a program does or a machine can is beyond these, and what is divided by what stays a finite number:
# the largest training runs do about 1e26 FLOP, the smallest time is a clock's tick of 1e-10 s.
LEAST, MOST = 1e-30, 1e30


def absurd(part: Any) -> str | None:
    """Find the first figure that is none: below zero, or neither 0 nor between 1e-30 and 1e30.

    Args:
        part: A Struct, map, tuple or figure; other values are left alone.

    Returns:
        Where it is and what it is, such as ".timing.median_s is -1"; None where every figure makes sense.
    """
    if isinstance(part, int | float):
        return None if part == 0 or LEAST <= part <= MOST else f" is {_brief(part)}"
    for name, inner in _parts(part):
        found = absurd(inner)
        if found is not None:
            return name + found
    return None


def _parts(part: Any) -> Iterator[tuple[str, Any]]:
    if isinstance(part, msgspec.Struct):
        yield from ((f".{name}", getattr(part, name)) for name in part.__struct_fields__)
    elif isinstance(part, Mapping):
        yield from ((f".{key}", inner) for key, inner in part.items())
    elif isinstance(part, tuple | list):
        yield from ((f"[{n}]", inner) for n, inner in enumerate(part))


def _brief(number: float) -> str:
    """The number in a few characters, however many digits it has."""
    if isinstance(number, int) and abs(number) > MOST:
        return f"a number of {number.bit_length()} bits"
    return f"{number:g}"
