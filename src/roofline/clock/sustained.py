"""The rate that a machine keeps up, and whether the number can be believed."""

import os
from collections.abc import Sequence
from math import ceil
from statistics import median

import msgspec

from roofline.clock.timers import Clock, Step, Timer, no_garbage_collection
from roofline.core.precision import Precision
from roofline.core.units import Unit, percent, show
from roofline.errors import RooflineError

# A window this long dwarfs clock, loop and synchronisation (some µs) and outlasts a scheduler's time slice.
WINDOW_S = 10e-3
MIN_WINDOWS = 3
# Other programs only ever slow a window down, so the best windows must agree rather than all of them.
MAX_DISAGREEMENT = 0.25
# Windows that disagree get more time, and where the time is short, at least this many windows.
EXTENSION = 2
PATIENT_WINDOWS = 12
HINT = "stop other programs and run again: roofline calibrate; or give --peak-flops and --peak-bandwidth"
# FLOP (OP for int8) per cycle and core of the widest CPU engines sold: two 512-bit FMA units, and one matrix
# unit of 16 × 16 results (AMX: 16 × 16 × 32 bf16 multiply-adds in 16 cycles).
# fp32 has twice the two FMA units' 64, for CPUs that share a matrix unit for it (Apple).
FLOPS_PER_CYCLE = {
    Precision.FP64: 64,
    Precision.FP32: 128,
    Precision.BF16: 1024,
    Precision.FP16: 1024,
    Precision.FP8: 2048,
    Precision.INT8: 2048,
}
MAX_CLOCK_HZ = 6.5e9


class ImplausibleError(RooflineError):
    """A measured ceiling that can't be believed."""


class Sustained(msgspec.Struct, frozen=True, kw_only=True):
    """A rate measured over several windows.

    Attributes:
        what: What ran, such as "1024x1024x1024".
        best: Rate of the best window, per s.
        typical: Rate of the median window, per s.
        disagreement_fraction: How far the third best window is below the best.
        windows: How many.
        window_s: Length of the shortest, s.
    """

    what: str
    best: float
    typical: float
    disagreement_fraction: float
    windows: int
    window_s: float


def sustain(
    what: str,
    work: float,
    step: Step,
    timer: Timer,
    *,
    seconds: float,
    clock: Clock,
    window_s: float = WINDOW_S,
    patient: bool = True,
) -> Sustained:
    """Run a step in windows of at least `window_s` for `seconds`: rate = work · calls / time of the window.

    While the three best windows disagree, the patient go on, for up to twice as long and at least twelve windows.

    Args:
        what: What runs.
        work: FLOP or bytes of one call.
        step: One call.
        timer: Takes the time of some calls.
        seconds: Time to spend, s; at least three windows are run.
        clock: Monotonic, in s.
        window_s: Least length of a window, s.
        patient: Whether windows that disagree get more time.

    Raises:
        ImplausibleError: Calls take no time that the clock can see.
    """
    start = clock()
    with no_garbage_collection():
        calls = _calls_per_window(what, step, timer, window_s)
        windows: list[float] = []
        while True:
            windows.append(timer(step, calls))
            spent_s = clock() - start
            if len(windows) < MIN_WINDOWS or spent_s + windows[-1] < seconds:
                continue
            found = summarise_windows(what, work * calls, windows)
            enough = spent_s > EXTENSION * seconds and len(windows) >= PATIENT_WINDOWS
            if found.disagreement_fraction <= MAX_DISAGREEMENT or enough or not patient:
                return found


def summarise_windows(what: str, work: float, windows_s: Sequence[float]) -> Sustained:
    """Rates of windows that each did `work`."""
    rates = sorted((work / s for s in windows_s), reverse=True)
    third = rates[min(2, len(rates) - 1)]
    return Sustained(
        what=what,
        best=rates[0],
        typical=median(rates),
        disagreement_fraction=1 - third / rates[0],
        windows=len(rates),
        window_s=min(windows_s),
    )


def believe(name: str, unit: Unit, found: Sustained, *, limit: float | None, limit_text: str) -> None:
    """Refuse a rate that no such machine can have.

    Args:
        name: What the rate is, for the message.
        unit: Of the rate.
        found: The measured rate.
        limit: What no such machine exceeds, per s; None: no limit known.
        limit_text: How the limit comes about.

    Raises:
        ImplausibleError: With the reason.
    """
    if limit is not None and found.best > limit:
        raise ImplausibleError(
            f"measured {name} of {show(found.best, unit)} is implausible: above {show(limit, unit)} ({limit_text})",
            HINT,
        )


def unsteady(name: str, found: Sustained) -> str | None:
    """Say that the best windows contradict each other; None if they agree."""
    if found.disagreement_fraction <= MAX_DISAGREEMENT:
        return None
    return (
        f"measured {name} is unsteady: the three best of {found.windows} windows differ by "
        f"{percent(found.disagreement_fraction)} (at most {percent(MAX_DISAGREEMENT)})"
    )


def cpu_limit(precision: Precision, cores: int | None = None) -> tuple[float, str]:
    """No CPU computes faster: cores × clock × widest engine, FLOP/s, and the same in words."""
    n, per_cycle = cores or os.cpu_count() or 1, FLOPS_PER_CYCLE[precision]
    flop = "OP" if precision.is_integer else "FLOP"
    words = f"{n} cores × {show(MAX_CLOCK_HZ, 'Hz')} × {per_cycle} {flop} per cycle, the widest CPU engine sold"
    return n * MAX_CLOCK_HZ * per_cycle, words


def _calls_per_window(what: str, step: Step, timer: Timer, window_s: float) -> int:
    """Enough calls for a window, found by doubling: also the warm-up."""
    calls = 1
    # The shorter of two: one that was interrupted would pass for long enough.
    while (took_s := min(timer(step, calls), timer(step, calls))) < window_s:
        if calls >= 1 << 24:
            raise ImplausibleError(f"{what}: {calls} calls take no time that the clock can see", "check the clock")
        calls = max(calls + 1, ceil(calls * min(10.0, 1.2 * window_s / took_s if took_s > 0 else 10.0)))
    return calls
