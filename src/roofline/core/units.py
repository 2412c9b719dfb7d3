"""The only place that scales, prints or parses FLOP, FLOP/s, B, B/s and s.

Inside the program every quantity is unscaled SI: FLOP, B, s, FLOP/s, B/s, FLOP/B. Traffic and bandwidth
print with decimal prefixes (1 GB = 1e9 B), capacity with binary ones (1 GiB = 2**30 B).
"""

import math
import re
from collections.abc import Iterable
from typing import Literal

from roofline.errors import UsageError

Unit = Literal["FLOP", "FLOP/s", "OP", "OP/s", "B", "B/s", "FLOP/B", "s", "Hz", "W", ""]

_DECIMAL = {"": 1.0, "k": 1e3, "M": 1e6, "G": 1e9, "T": 1e12, "P": 1e15, "E": 1e18, "Z": 1e21}
_BINARY = {"": 1, "Ki": 2**10, "Mi": 2**20, "Gi": 2**30, "Ti": 2**40, "Pi": 2**50}
_SMALL = {"n": 1e-9, "µ": 1e-6, "m": 1e-3, "": 1.0}
# What may stand before a unit. Small prefixes belong to time alone: "5 mB/s" is a slip for "5 MB/s", not 5e-3 B/s.
_LARGE: dict[str, float] = {**_DECIMAL, "K": 1e3}
_BYTE_PREFIXES: dict[str, float] = {**_LARGE, **{k: float(v) for k, v in _BINARY.items()}}
_TIME_PREFIXES: dict[str, float] = {**_SMALL, "u": 1e-6, "μ": 1e-6}
# Spellings in lower case, but for the byte: a small b is a bit.
_UNITS: dict[str, Unit] = {
    "flop/s": "FLOP/s",
    "flops/s": "FLOP/s",
    "flop": "FLOP",
    "flops": "FLOP",
    "op/s": "OP/s",
    "op": "OP",
    "B/s": "B/s",
    "B": "B",
    "flop/B": "FLOP/B",
    "s": "s",
    "hz": "Hz",
    "w": "W",
    "": "",
}
# A comma only groups thousands ("1,979"): "1,5" could mean 1.5 or 15, so it is no number.
_QUANTITY = re.compile(
    r"\s*((?:[0-9]{1,3}(?:,[0-9]{3})+|[0-9][0-9_]*)(?:\.[0-9]*)?(?:[eE][+-]?[0-9]+)?|\.[0-9]+(?:[eE][+-]?[0-9]+)?)"
    r"\s*([^\s0-9,.]*)\s*"
)


def _digits(value: float, digits: int = 3) -> str:
    """So many significant digits, without an exponent: 0.0123, 1.23, 12.3, 123, 1230."""
    if value == 0:
        return "0"
    rounded = float(f"{value:.{digits}g}")
    decimals = max(0, digits - 1 - math.floor(math.log10(abs(rounded))))
    return f"{rounded:.{decimals}f}"


def _prefix(value: float, table: dict[str, float], digits: int = 3) -> str:
    """The prefix that leaves the significant digits of `value` at 1 or above."""
    fits = [p for p, scale in table.items() if abs(float(f"{value / scale:.{digits}g}")) >= 1]
    return max(fits, key=lambda p: table[p]) if fits else min(table, key=lambda p: table[p])


def _table(unit: Unit, *, capacity: bool) -> dict[str, float]:
    if unit == "s":
        return _SMALL
    if unit in ("FLOP/B", "W", ""):
        return {"": 1.0}
    return {k: float(v) for k, v in _BINARY.items()} if capacity else _DECIMAL


def show(value: float | None, unit: Unit, *, capacity: bool = False, digits: int = 3) -> str:
    """Print a quantity with three significant digits, a prefix and its unit.

    Args:
        value: Unscaled SI value; None, NaN and infinities print as "n/a".
        unit: The unit of `value`.
        capacity: Use binary prefixes (memory and cache sizes).
        digits: Significant digits, where an arithmetic must be followed further than three.
    """
    return column([value], unit, capacity=capacity, same_prefix=False, digits=digits)[0]


def column(
    values: Iterable[float | None],
    unit: Unit,
    *,
    capacity: bool = False,
    same_prefix: bool = True,
    digits: int = 3,
    narrow: bool = False,
) -> list[str]:
    """Print quantities for one table column, all under the prefix of the largest.

    With `narrow`, small ones get only one decimal more than the largest: 2.08 s, 0.064 s, <0.001 s.
    """
    table = _table(unit, capacity=capacity)
    known = list(values)
    finite = [abs(v) for v in known if v is not None and math.isfinite(v)]
    common = _prefix(max(finite), table, digits) if finite else ""
    shown = []
    for v in known:
        if v is None or not math.isfinite(v):
            shown.append("n/a")
            continue
        prefix = common if same_prefix or v == 0 else _prefix(v, table, digits)
        number = _digits(v / table[prefix], digits)
        if narrow:
            number = _narrow(
                number, v / table[prefix], len(_digits(max(finite) / table[common], digits).partition(".")[2])
            )
        shown.append(f"{number} {prefix}{unit}".strip())
    return shown


def _narrow(number: str, value: float, decimals: int) -> str:
    """Cut a printed number to one decimal more than the column's largest; what that leaves nothing of is "<"."""
    most = decimals + 1
    if len(number.partition(".")[2]) <= most:
        return number
    least = 10.0**-most
    return f"{value:.{most}f}" if abs(value) >= least / 2 else f"<{least:.{most}f}"


def percent(fraction: float | None, digits: int = 3) -> str:
    """Print a ratio as a percentage: 0.4567 → "45.7 %", 1.39 → "139 %"; None → "n/a".

    Nothing and hardly anything are not the same: 0 → "0 %", 1e-6 → "< 0.01 %".
    """
    if fraction is None or not math.isfinite(fraction):
        return "n/a"
    p = 100 * fraction
    if digits != 3:
        return f"{_digits(p, digits)} %"
    if abs(p) < 0.005:
        return "0 %" if p == 0 else "< 0.01 %" if p > 0 else "> -0.01 %"
    return f"{p:.0f} %" if p >= 99.95 else f"{_digits(p)} %" if p >= 1 else f"{p:.2f} %"


def parse(text: str, unit: Unit) -> float:
    """Read a quantity such as "989.5 TFLOP/s", "3.35e12", "80 GiB" or "30ms".

    A bare number, or one with a bare prefix ("989T"), is taken in `unit`. Prefixes are case-sensitive (M is a
    million, m a thousandth, and only of a second), so is the byte: "80 Gb" would be bits and is refused.

    Raises:
        UsageError: The text is no finite non-negative number, or is in another unit.
    """
    found = _QUANTITY.fullmatch(text)
    if found:
        number, rest = found.groups()
        for known, scale in sorted(_prefixes(unit).items(), key=lambda p: -len(p[0])):
            if rest.startswith(known) and _unit_of(rest[len(known) :], unit):
                value = float(number.replace("_", "").replace(",", "")) * scale
                if math.isfinite(value):
                    return value
    raise UsageError(f'"{text}" is not a quantity in {unit or "plain numbers"}', f"write it like {_example(unit)}")


def _unit_of(text: str, unit: Unit) -> bool:
    """Whether `text` spells `unit`; nothing at all stands for it."""
    spelled = _UNITS.get("".join(c if c in "bB" else c.lower() for c in text))
    return spelled == unit or text == ""


def _prefixes(unit: Unit) -> dict[str, float]:
    if unit == "s":
        return _TIME_PREFIXES
    return _BYTE_PREFIXES if unit in ("B", "B/s") else _LARGE


def _example(unit: Unit) -> str:
    return {
        "FLOP/s": '"989 TFLOP/s" or 989e12',
        "B/s": '"3.35 TB/s" or 3.35e12',
        "B": '"80 GiB"',
        "s": '"30 ms"',
        "FLOP/B": '"295 FLOP/B"',
    }.get(unit, f'"1.5 G{unit}"')
