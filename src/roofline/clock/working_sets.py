"""Memory bandwidth by the size of the working set, and how much the last-level cache really holds."""

from collections.abc import Mapping

import torch

from roofline.clock.memory import kernels, part
from roofline.clock.sustained import Sustained, sustain
from roofline.clock.timers import Clock, Timer
from roofline.core.machine import Level
from roofline.machines.calibration import WorkingSet

_SMALLEST = 24 * 2**10
# One kernel of each kind.
_KINDS = ("torch.sum", "Tensor.fill_", "Tensor.copy_", "torch.add with alpha")
# A cache that reads less than this much faster than what lies behind it can't be told from it.
_STEP = 1.25
_HALVINGS = 2


def working_sets(
    buffer: torch.Tensor,
    timer: Timer,
    *,
    smallest_bytes: int,
    known: Mapping[str, float],
    seconds: float,
    clock: Clock,
    window_s: float = 10e-3,
) -> tuple[WorkingSet, ...]:
    """Read, write, copy and triad rates over working sets that double, up to the whole buffer.

    One rate is that of a torch op, its call included: the smallest sets show what the call costs, not the cache.

    Args:
        buffer: From `filled`.
        timer: Of its device.
        smallest_bytes: Where to begin, B.
        known: Rates over the whole buffer by kernel, where they were measured, B/s.
        seconds: Time to spend, about, s.
        clock: Monotonic, in s.
        window_s: Least length of a window, s.
    """
    sizes = [buffer.nbytes]
    while sizes[-1] // 2 >= max(smallest_bytes, _SMALLEST):
        sizes.append(sizes[-1] // 2)
    share_s = seconds / len(sizes) / len(_KINDS)
    found = []
    for size in reversed(sizes):
        some, rates = part(buffer, size), dict[str, float]()
        for name, what, nbytes, step in kernels(some):
            if what not in _KINDS:
                continue
            if size == buffer.nbytes and what in known:
                rates[name] = known[what]
                continue
            rate = sustain(what, nbytes, step, timer, seconds=share_s, clock=clock, window_s=window_s, patient=False)
            rates[name] = rate.best
        found.append(WorkingSet(some.nbytes, rates))
    return tuple(found)


def last_cache(
    buffer: torch.Tensor,
    timer: Timer,
    capacities: Mapping[Level, int],
    *,
    seconds: float,
    clock: Clock,
    window_s: float = 10e-3,
) -> tuple[Sustained, int] | None:
    """How fast the last-level cache is read, B/s, and how much it really holds, B.

    Sets double from twice the cache below up to twice its capacity; the set where the rate falls through the
    geometric mean of the fastest and of the largest set is then narrowed down to within a fifth.

    Args:
        buffer: From `filled`: larger than the cache.
        timer: Of its device.
        capacities: By level, B.
        seconds: Time to spend, about, s.
        clock: Monotonic, in s.
        window_s: Least length of a window, s.

    Returns:
        None where the cache's rate can't be told from memory's.
    """
    below, capacity = ([0, *sorted(capacities.values())])[-2:]
    whole = min(buffer.nbytes, 2 * capacity)
    sizes: list[int] = []
    while (size := 2 * max(below, 2**20) << len(sizes)) < whole:
        sizes.append(size)
    sizes.append(whole)
    share_s = seconds / (len(sizes) + _HALVINGS)

    def read(size: int, *, patient: bool = False) -> Sustained:
        some = part(buffer, size)
        return sustain(
            f"sum over {size / 2**20:.0f} MiB",
            some.nbytes,
            lambda: torch.sum(some),
            timer,
            seconds=share_s,
            clock=clock,
            window_s=window_s,
            patient=patient,
        )

    found = [read(size) for size in sizes]
    fastest, memory = max(found, key=lambda f: f.best), found[-1].best
    if whole <= capacity or fastest.best < _STEP * memory:
        return None
    # This one is a ceiling, so it is measured with patience.
    first = found.index(fastest)
    found[first] = fastest = max(fastest, read(sizes[first], patient=True), key=lambda f: f.best)
    between = (fastest.best * memory) ** 0.5
    last = max(i for i, f in enumerate(found) if f.best >= between)
    low, high = sizes[last], sizes[last + 1]
    for _ in range(_HALVINGS):
        middle = int((low * high) ** 0.5)
        low, high = (middle, high) if read(middle).best >= between else (low, middle)
    return fastest, low if high < capacity else capacity
