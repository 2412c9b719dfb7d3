"""Does the `cached` count tell which of two working sets this CPU serves from its caches?

Sums a vector eight times over, once small and once large against each cache level, and prints what `operator`
and `cached` count beside the rate that the CPU reached. Where `cached` says that most passes hit, the rate per byte
asked for must lie above that of the vector that misses.

    python benchmarks/cached_vs_measured.py
"""

import time

import msgspec
import torch

from roofline import machines
from roofline.core.machine import Machine
from roofline.core.units import show
from roofline.counter import Program, counted_run, record

PASSES = 8
REPEATS = 15


def passes(vector: torch.Tensor) -> list[torch.Tensor]:
    return [vector.sum() for _ in range(PASSES)]


def best_s(vector: torch.Tensor) -> float:
    passes(vector)
    samples = []
    for _ in range(REPEATS):
        start = time.perf_counter()
        passes(vector)
        samples.append(time.perf_counter() - start)
    return min(samples)


def traffic(vector: torch.Tensor, machine: Machine) -> tuple[float, float]:
    """Bytes by `operator` and by `cached`."""
    found = counted_run(record(lambda: Program(lambda: passes(vector))), machine, {}).bytes
    return found.operator or 0.0, found.cached or 0.0


def main() -> None:
    machine = machines.detect("cpu")
    print(f"{machine.name}, {torch.get_num_threads()} threads")
    for level, capacity in machine.cache_bytes.items():
        if level == "l1":
            continue
        alone = msgspec.structs.replace(machine, cache_bytes={level: capacity})
        print(f"{level.upper()} of {show(capacity, 'B', capacity=True)}:")
        rates = []
        for nbytes in (capacity // 4, min(capacity * 4, 2**31)):
            vector = torch.ones(nbytes // 4)
            operator, cached = traffic(vector, alone)
            rates.append(operator / best_s(vector))
            print(
                f"  {show(nbytes, 'B', capacity=True)}: operator {show(operator, 'B')}, cached {show(cached, 'B')} "
                f"({1 - cached / operator:.0%} predicted to hit), served at {show(rates[-1], 'B/s')}"
            )
        print(f"  the small one is served {rates[0] / rates[1]:.2f} times as fast")


if __name__ == "__main__":
    main()
