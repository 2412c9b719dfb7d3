"""Our sustained ceilings of a CPU against independent ones, side by side in one run.

    python benchmarks/calibrate_vs_stream.py [--rounds 5] [-o result.json]

Memory: read, copy and triad in C with OpenMP (stream_kernels.c beside this file), compiled with
gcc -O3 -march=native -fopenmp, over the same working set and with the same convention: bytes that the program
names, write-allocate not counted. GEMM: a plain sweep of torch matmuls, square and rectangular.
The two sides alternate in rounds and the best of each counts, so that other programs on the machine hit both
alike. A ratio of 0.95 or more is the aim.
"""

import argparse
import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import torch

from roofline.clock.environment import busy_warning, environment
from roofline.clock.gemm import DTYPES, gemm_rate
from roofline.clock.memory import available_bytes, stream_rates, working_set_bytes
from roofline.clock.timers import timer_for
from roofline.core.precision import Precision
from roofline.core.units import show
from roofline.machines import detect

SOURCE = Path(__file__).with_name("stream_kernels.c")
SWEEP = [(n, n, n) for n in (256, 384, 512, 768, 1024, 1536, 2048, 3072, 4096)]
SWEEP += [(1024, 1024, 4096), (512, 512, 4096), (4096, 4096, 1024), (4096, 512, 1024), (2048, 2048, 512)]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("-o", "--output", type=Path)
    options = parser.parse_args()
    described = environment("cpu")
    print(described["cpu"]["name"], f"{torch.get_num_threads()} threads", f"torch {torch.__version__}", sep=", ")
    print(busy_warning(described) or f"load average at the start: {described['load_average']}")
    rows = [*memory_rows(options.rounds), *gemm_rows(options.rounds)]
    print(f"{'':14}{'ours':>16}{'independent':>16}{'ratio':>8}")
    for row in rows:
        shown = [show(row[side], row["unit"]) for side in ("ours", "independent")]
        print(f"{row['name']:14}{shown[0]:>16}{shown[1]:>16}{row['ours'] / row['independent']:8.3f}")
    if options.output:
        result = {"command": sys.argv, "environment": described, "rows": rows}
        options.output.write_text(json.dumps(result, indent=2) + "\n")
    return 0


def memory_rows(rounds: int) -> list[dict]:
    size = working_set_bytes(detect("cpu").last_level_cache_bytes, available_bytes("cpu"))
    print(f"memory working set: {show(size, 'B', capacity=True)}")
    ours: dict[str, float] = {}
    theirs: dict[str, float] = {}
    with tempfile.TemporaryDirectory() as folder:
        program = compiled(Path(folder))
        for _ in range(rounds):
            run = subprocess.run([program, str(size), "4"], capture_output=True, text=True, check=True)
            keep_best(theirs, {name: float(value) for name, value in map(str.split, run.stdout.splitlines())})
            found = stream_rates("cpu", timer_for("cpu"), size_bytes=size, seconds=2.5, clock=time.perf_counter)
            keep_best(ours, {name: rate.best for name, rate in found.items()})
    return [{"name": n, "unit": "B/s", "ours": ours[n], "independent": theirs[n]} for n in ("read", "copy", "triad")]


def gemm_rows(rounds: int) -> list[dict]:
    rows = []
    for precision in (Precision.FP32, Precision.BF16):
        ours = theirs = 0.0
        for _ in range(rounds):
            found = gemm_rate(precision, "cpu", timer_for("cpu"), seconds=2.5, clock=time.perf_counter)
            ours = max(ours, found.best)
            theirs = max(theirs, plain_sweep(DTYPES[precision]))
        rows.append({"name": f"GEMM {precision}", "unit": "FLOP/s", "ours": ours, "independent": theirs})
    return rows


def plain_sweep(dtype: torch.dtype) -> float:
    """Best of C = A @ B over all shapes, each for a tenth of a second at least: FLOP/s."""
    best = 0.0
    for m, n, k in SWEEP:
        a, b = torch.randn(m, k).to(dtype), torch.randn(k, n).to(dtype)
        a @ b
        start, calls, fastest_s = time.perf_counter(), 0, float("inf")
        while calls < 3 or time.perf_counter() - start < 0.1:
            # Calls are timed in groups of 10 ms, as long as our windows: shorter ones show bursts, not what lasts.
            group, begin = 0, time.perf_counter()
            while time.perf_counter() - begin < 0.01:
                a @ b
                group += 1
            fastest_s = min(fastest_s, (time.perf_counter() - begin) / group)
            calls += group
        best = max(best, 2 * m * n * k / fastest_s)
    return best


def compiled(folder: Path) -> Path:
    program = folder / "stream_kernels"
    subprocess.run(["gcc", "-O3", "-march=native", "-fopenmp", str(SOURCE), "-o", str(program)], check=True)
    return program


def keep_best(best: dict[str, float], found: dict[str, float]) -> None:
    for name, value in found.items():
        best[name] = max(best.get(name, 0.0), value)


if __name__ == "__main__":
    raise SystemExit(main())
