"""What one empty op costs: the third wall. Launched op by op, with the wait for its end, and from a CUDA graph."""

import time
from collections.abc import Callable
from datetime import date
from statistics import median

import torch

from roofline.clock.timers import Clock, find_device, synchronise
from roofline.core.machine import Ceiling

GRAPH_KERNELS = 200


def launch_cost(device: str, *, seconds: float, clock: Clock = time.perf_counter, calls: int = 500) -> Ceiling:
    """Host time of one empty op: a one-element `torch.add`, s per call, the median of many batches.

    Batches are short enough that a device's queue never fills, which would make the host wait.
    """
    x = torch.ones(1, device=device)

    def batch() -> float:
        synchronise(device)
        start = clock()
        for _ in range(calls):
            torch.add(x, x)
        return (clock() - start) / calls

    cost, batches = _typical(batch, seconds, clock)
    return Ceiling(
        cost,
        "measured",
        f"host time of a one-element torch.add, median of {batches} × {calls} calls, {date.today().isoformat()}",
    )


def launches(device: str, *, seconds: float, clock: Clock = time.perf_counter) -> dict[str, float]:
    """What an empty op costs by the way that it is launched, s.

    - "round trip": launched and waited for; what a host that looks at each result pays
    - "graph" (CUDA, ROCm): each of 200 kernels replayed from one graph, end to end

    On a CPU an op has ended when it returns: nothing beside `launch_cost`.
    """
    kind = find_device(device).type
    if kind == "cpu":
        return {}
    x = torch.ones(1, device=device)

    def round_trip() -> float:
        synchronise(device)
        start = clock()
        torch.add(x, x)
        synchronise(device)
        return clock() - start

    found = {"round trip": _typical(round_trip, seconds / 2, clock)[0]}
    if kind == "cuda":
        found["graph"] = _in_graph(device, seconds / 2, clock)
    return found


def _in_graph(device: str, seconds: float, clock: Clock) -> float:
    with torch.cuda.device(find_device(device)):
        x, y = torch.ones(1, device=device), torch.ones(1, device=device)
        torch.add(x, x, out=y)
        torch.cuda.synchronize()
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            for _ in range(GRAPH_KERNELS):
                torch.add(x, x, out=y)

        def replay() -> float:
            torch.cuda.synchronize()
            start = clock()
            graph.replay()
            torch.cuda.synchronize()
            return (clock() - start) / GRAPH_KERNELS

        return _typical(replay, seconds, clock)[0]


def _typical(measure: Callable[[], float], seconds: float, clock: Clock) -> tuple[float, int]:
    """Median after one run to warm up, and of how many."""
    measure()
    begin, costs = clock(), [measure()]
    while clock() - begin < seconds:
        costs.append(measure())
    return median(costs), len(costs)
