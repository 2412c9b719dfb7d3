"""What one empty op costs the host: the third wall."""

import time
from datetime import date

import torch

from roofline.clock.timers import Clock, synchronise
from roofline.core.machine import Ceiling


def launch_cost(device: str, *, seconds: float, clock: Clock = time.perf_counter, calls: int = 500) -> Ceiling:
    """Host time of one empty op: a one-element `torch.add`, s per call, the median of many batches.

    Batches are short enough that a device's queue never fills, which would make the host wait.
    """
    x = torch.ones(1, device=device)

    def batch(count: int) -> float:
        synchronise(device)
        start = clock()
        for _ in range(count):
            torch.add(x, x)
        return clock() - start

    batch(calls)
    begin, costs = clock(), [batch(calls) / calls]
    while clock() - begin < seconds:
        costs.append(batch(calls) / calls)
    costs.sort()
    return Ceiling(
        costs[len(costs) // 2],
        "measured",
        f"host time of a one-element torch.add, median of {len(costs)} × {calls} calls, {date.today().isoformat()}",
    )
