"""How long a plan takes: a grid of 2,000 points through the API on one core, and `roofline plan` from cold.

    python benchmarks/plan_grid.py

Prints the medians of five grids (CPU time) and of five commands in fresh processes (wall time), with the load of the
machine beside them.
"""

import os
import platform
import statistics
import subprocess
import sys
import time

from roofline import machines
from roofline.plan.config import load
from roofline.plan.sweep import grid

COMMAND = [sys.executable, "-m", "roofline.cli.main", "plan", "llama-3.1-70b", "--machine", "h100-sxm"]


def grid_s() -> tuple[float, int]:
    """CPU time of 100 batches × 4 splits × 5 machines, s, and the points that made sense."""
    roofs = [machines.find(name) for name in ("h100-sxm", "h200-sxm", "b200", "mi300x", "a100-sxm-80gb")]
    model = load("llama-3.1-70b")
    start = time.process_time()
    points = list(grid(model, roofs, [("batch", range(1, 101)), ("tp", [1, 2, 4, 8])]))
    return time.process_time() - start, sum(p.step_s is not None for p in points)


def cold_s() -> float:
    """Wall time of one command in a fresh process, s."""
    start = time.perf_counter()
    subprocess.run(COMMAND, check=True, stdout=subprocess.DEVNULL)
    return time.perf_counter() - start


if __name__ == "__main__":
    grids = [grid_s() for _ in range(5)]
    colds = [cold_s() for _ in range(5)]
    seconds = [s for s, _ in grids]
    print(f"Python {platform.python_version()}, {os.cpu_count()} cores, load {os.getloadavg()[0]:.1f}")
    print(f"grid of {grids[0][1]} points: median {statistics.median(seconds):.2f} s of CPU time")
    print(f"{' '.join(COMMAND[3:])}: median {statistics.median(colds):.2f} s, least {min(colds):.2f} s")
