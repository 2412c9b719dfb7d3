"""What an audit says about one claim."""

from collections.abc import Iterable
from typing import Literal

import msgspec

from roofline.audit.quoted import Quoted
from roofline.core.units import Unit, percent, show

Subject = Literal["mfu", "hfu", "flops_per_s", "mbu", "bytes_per_s", "speedup"]
# holds: a right way to count gives it. fault: only a wrong one does. unexplained: none does.
Status = Literal["holds", "fault", "unexplained"]

# Peaks are quoted with three or four digits: 989, 989.4 and 989.5 are one peak.
_PEAK_ROUNDING = 5e-4
_DIGITS = 4


class Explanation(msgspec.Struct, frozen=True, kw_only=True):
    """One way of counting, and what it gives.

    Attributes:
        convention: Name of the convention; empty where the claim needs none.
        recompute: What it takes as recomputed.
        peak: What it divides by.
        division: How it shares the work among devices.
        fault: What is wrong with it; empty where it is a right way.
        value: What it gives, in the unit of the claim.
        arithmetic: How, line by line: what, and the numbers.
    """

    convention: str = ""
    recompute: str = "none"
    peak: str = ""
    division: str = ""
    fault: str = ""
    value: float
    arithmetic: tuple[tuple[str, str], ...] = ()


class Finding(msgspec.Struct, frozen=True, kw_only=True):
    """The judgement of one claim.

    Attributes:
        subject: What is claimed.
        unit: Unit of the figures; "" for ratios.
        claimed: The claimed figure.
        expected: The figure by the default convention, counted rightly; None where it can't be computed.
        status: Whether it adds up.
        sentence: In words.
        explanations: What reproduces the figure: right ways, or else mistakes.
        chance_fraction: Share of all figures as rough as this one that some mistake would reproduce: how little it
            says that one does; None where no mistake is named.
        arithmetic: The best explanation, or the right count where there is none.
    """

    subject: Subject
    unit: Unit = ""
    claimed: float
    expected: float | None = None
    status: Status
    sentence: str
    explanations: tuple[Explanation, ...] = ()
    chance_fraction: float | None = None
    arithmetic: tuple[tuple[str, str], ...] = ()

    @property
    def title(self) -> str:
        """The claim in words: "MFU 42.57 %", "speed-up 1.5×"."""
        if self.subject == "speedup":
            return f"{NAMES[self.subject]} {self.claimed:g}×"
        return f"{NAMES[self.subject]} {figure(self.claimed, self.unit)}"


NAMES: dict[Subject, str] = {
    "mfu": "MFU",
    "hfu": "HFU",
    "flops_per_s": "rate",
    "mbu": "MBU",
    "bytes_per_s": "bandwidth",
    "speedup": "speed-up",
}


def figure(value: float, unit: Unit) -> str:
    """Print a figure of an audit, one digit further than elsewhere."""
    return percent(value, _DIGITS) if unit == "" else show(value, unit, digits=_DIGITS)


def agrees(value: float, claimed: Quoted, inputs: Iterable[Quoted], tolerance: float | None) -> bool:
    """Whether a computed figure is the claimed one, within the rounding of all that went into both.

    Args:
        value: The computed figure.
        claimed: The claimed one.
        inputs: Quoted numbers that `value` was computed from.
        tolerance: Relative tolerance to use in place of the rounding.
    """
    return abs(value - claimed.value) <= reach_of(value, claimed, inputs, tolerance)


def reach_of(value: float, claimed: Quoted, inputs: Iterable[Quoted], tolerance: float | None) -> float:
    """How far a computed figure may be from the claimed one and still agree."""
    if tolerance is not None:
        return tolerance * claimed.value
    return claimed.slack + value * (_PEAK_ROUNDING + sum(q.relative_slack for q in inputs))
