"""A number as someone quoted it: its value, and how far its rounding reaches."""

import re
from decimal import Decimal

import msgspec

from roofline.core.units import Unit, parse
from roofline.errors import UsageError

_NUMBER = re.compile(r"[0-9][0-9_,]*(\.[0-9]*)?([eE][+-]?[0-9]+)?|\.[0-9]+([eE][+-]?[0-9]+)?")
_ABOUT = "~≈ "


class Quoted(msgspec.Struct, frozen=True):
    """A quoted number.

    Attributes:
        value: Unscaled SI value; a fraction for a percentage.
        slack: Half a unit of its last digit: 0.005 for "45 %", 0.0005 for "45.0 %". 0 for a number known exactly.
    """

    value: float
    slack: float = 0

    @property
    def relative_slack(self) -> float:
        """Slack ÷ value."""
        return self.slack / abs(self.value) if self.value else 0


def quantity(text: str, unit: Unit = "") -> Quoted:
    """Read a number with a unit as it was quoted: "420 TFLOP/s", "66,523", "700k", "~1.5x".

    Raises:
        UsageError: It is no positive number in this unit.
    """
    bare = text.strip(_ABOUT)
    bare = bare.rstrip("x×") if unit == "" else bare
    try:
        value = parse(bare, unit)
    except UsageError as error:
        raise UsageError(f'"{text}" is not a quantity in {unit or "plain numbers"}', error.hint) from None
    if value <= 0:
        raise UsageError(f'"{text}" must be above 0', "quote the number that was claimed")
    return Quoted(value, value * _last_digit(bare))


def fraction(text: str) -> Quoted:
    """Read a ratio as it was quoted: "45%", "45.0 %", "0.45".

    A number above 1.5 without a percent sign is ambiguous and refused: 45 could be 45 % or a slip.

    Raises:
        UsageError: It is no positive ratio.
    """
    bare = text.strip(_ABOUT)
    try:
        found = quantity(bare.removesuffix("%"))
    except UsageError:
        raise UsageError(f'"{text}" is no ratio above 0', "write it like 45% or 0.45") from None
    if bare.endswith("%"):
        return Quoted(found.value / 100, found.slack / 100)
    if found.value > 1.5:
        raise UsageError(f'"{text}" is no ratio', f'write a percentage with its sign: "{bare}%"')
    return found


def _last_digit(text: str) -> float:
    """Half a unit of the last written digit ÷ the number."""
    found = _NUMBER.search(text)
    assert found is not None, "a parsed quantity has digits"
    number = Decimal(found.group().replace(",", "").replace("_", ""))
    exponent = number.as_tuple().exponent
    assert isinstance(exponent, int), "a parsed quantity is finite"
    return float(Decimal(5).scaleb(exponent - 1) / abs(number)) if number else 0.0
