"""The clock that a measured rate implies: what to say of a device that beats its peak."""

from roofline.core.machine import Ceiling, Machine


def implied_clock_hz(machine: Machine, peak: Ceiling, achieved: float) -> float | None:
    """Clock at which the peak would be the achieved rate: boost clock · achieved / peak.

    An RTX 2080 Ti rated 13.45 TFLOP/s at 1.545 GHz that reaches 15.88 runs at 1.824 GHz at least: a card above the
    boost clock of its datasheet, not an error.

    Args:
        machine: The device.
        peak: A compute ceiling of it, FLOP/s.
        achieved: Measured rate, FLOP/s.

    Returns:
        Hz; None where the datasheet names no clock or the ceiling is not the datasheet's.
    """
    if machine.boost_hz is None or peak.origin != "datasheet":
        return None
    return machine.boost_hz * achieved / peak.value
