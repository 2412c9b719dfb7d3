"""The time to expect: every op by the fitted roof of the machine, communication at its own roof."""

from collections.abc import Iterable

import msgspec

from roofline.core.machine import Machine
from roofline.core.precision import Precision
from roofline.core.roof import roof_time
from roofline.core.run import OpRecord


class Expectation(msgspec.Struct, frozen=True, kw_only=True):
    """Expected time of ops one after another.

    Attributes:
        low_s: Every op at the fast end of its interval, never below its roof.
        likely_s: By the fit.
        high_s: Every op at the slow end.
        source: What the fit is of.
    """

    low_s: float
    likely_s: float
    high_s: float
    source: str

    def times(self, factor: float) -> "Expectation":
        """All times multiplied: a pipeline's bubble."""
        return Expectation(
            low_s=self.low_s * factor,
            likely_s=self.likely_s * factor,
            high_s=self.high_s * factor,
            source=self.source,
        )


def expect(ops: Iterable[OpRecord], machine: Machine) -> Expectation | None:
    """Expected time of ops; None where the machine, or a precision of theirs, has no fit.

    Each op's low is at least its roof: what no kernel can beat, a fit can't either. Communication is taken at the
    roof of its link, as nobody fitted it.
    """
    from roofline.machines.fits import fits, fitted_time

    low = likely = high = 0.0
    used: set[Precision] = set()
    for op in ops:
        used |= {op.precision} if op.executed_flops and op.precision else set()
        roof_s = roof_time(op.work("cached", machine), machine).total_s
        if op.network_bytes or op.node_bytes:
            found: tuple[float, float, float] | None = (roof_s, roof_s, roof_s)
        else:
            found = fitted_time(op, machine)
        if found is None:
            return None
        likely += max(roof_s, found[0])
        low += max(roof_s, found[1])
        high += max(roof_s, found[2])
    # A precision without a fit of its own is judged by another of its rate.
    known = fits(machine)
    sources = dict.fromkeys(fit.source for p, fit in known.items() if p in used or not used & set(known))
    return Expectation(low_s=low, likely_s=likely, high_s=high, source="; ".join(sources))
