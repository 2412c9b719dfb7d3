"""A machine measured on the spot: its ceilings, and how it behaves between them."""

from collections.abc import Mapping

import msgspec

from roofline.core.machine import Machine


class SweepPoint(msgspec.Struct, frozen=True):
    """One kernel of known intensity, timed.

    Attributes:
        what: What ran, such as "torch.mm 4194304x32 by 32x32".
        intensity_flops_per_byte: Of the bytes that the program names, FLOP/B.
        flops_per_s: Best sustained rate, FLOP/s.
    """

    what: str
    intensity_flops_per_byte: float
    flops_per_s: float


class WorkingSet(msgspec.Struct, frozen=True):
    """What one torch op sustains over a working set of some size.

    Attributes:
        size_bytes: All operands together, B.
        streams: Rate by kind of traffic, as `Machine.streams`, B/s.
    """

    size_bytes: int
    streams: Mapping[str, float]


class Calibration(Machine, frozen=True, kw_only=True):
    """A machine file with all that `roofline calibrate` saw; `--machine` takes it as it takes any machine.

    Attributes:
        sweep_precision: What the sweep computed in.
        sweep: From low to high intensity: the measured roofline.
        working_sets: Rates over working sets from the first cache to beyond the last.
        launches_s: What launching costs by way ("eager", "round trip", "graph"), s.
        agreement: By ceiling, second measurement / first: how far a repetition agrees.
        seconds: Time that all of it took, s.
    """

    sweep_precision: str = ""
    sweep: tuple[SweepPoint, ...] = ()
    working_sets: tuple[WorkingSet, ...] = ()
    launches_s: Mapping[str, float] = {}
    agreement: Mapping[str, float] = {}
    seconds: float = 0.0


def calibration(machine: Machine, **more: object) -> Calibration:
    """Extend a machine by what only a calibration knows (the fields of `Calibration`)."""
    return msgspec.convert({**msgspec.structs.asdict(machine), **more}, Calibration, from_attributes=True)
