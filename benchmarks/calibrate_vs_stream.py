"""Our sustained ceilings of a CPU against independent ones, side by side in one run.

    python benchmarks/calibrate_vs_stream.py [--rounds 6] [--one-thread] [-o benchmarks/results/calibrate-DATE]

Memory, over the same working set and with the same convention (bytes that the program names, write-allocate not
counted): our read, copy and triad against the best of

- STREAM-like C with OpenMP (stream_kernels.c beside this file), gcc -O3 -march=native -fopenmp
- likwid-bench (load, copy, STREAM triad; the widest vectors of this CPU, ordinary stores), where it is installed
- sysbench memory (read only: its write fills memory without reading), where it is installed

likwid's kernels with non-temporal stores are shown apart: they spare the write-allocate, so their rates are of other
traffic. GEMM: a plain sweep of torch matmuls, square and rectangular.

The sides alternate in rounds, each waits for a quiet moment, and the best of each counts, so that other programs on
the machine hit both alike; where the cores are busy all the time the result says that it is too noisy. There,
--one-thread compares one thread of each side by processor time. A ratio of 0.95 or more is the aim.
"""

import argparse
import json
import os
import re
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from datetime import date
from pathlib import Path
from typing import Any

import torch

from roofline.clock.environment import environment
from roofline.clock.gemm import DTYPES, gemm_rate
from roofline.clock.memory import available_bytes, filled, stream_rates, working_set_bytes
from roofline.clock.timers import timer_for
from roofline.core.precision import Precision
from roofline.core.units import show
from roofline.machines import detect

SOURCE = Path(__file__).with_name("stream_kernels.c")
SWEEP = [(n, n, n) for n in (256, 384, 512, 768, 1024, 1536, 2048, 3072, 4096)]
SWEEP += [(1024, 1024, 4096), (512, 512, 4096), (4096, 4096, 1024), (4096, 512, 1024), (2048, 2048, 512)]
AIM = 0.95
# Busier cores than this leave two sides that alternate with different shares of them: no ratio means anything.
QUIET = 0.8
# What likwid calls STREAM's triad is "stream"; its "triad" has a fourth array.
LIKWID = {"read": "load", "copy": "copy", "triad": "stream"}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--rounds", type=int, default=6)
    parser.add_argument("--patience", type=float, default=20.0, help="longest wait for a quiet moment, s")
    parser.add_argument(
        "--one-thread", action="store_true", help="one thread by processor time: for a machine that is never quiet"
    )
    parser.add_argument("-o", "--output", type=Path, help="write OUTPUT.md and OUTPUT.json")
    options = parser.parse_args()
    if options.one_thread:
        torch.set_num_threads(1)
        options.patience = 0.0
    described = environment("cpu")
    idle: list[float] = []
    rows = [*memory_rows(options, idle), *gemm_rows(options, idle)]
    result = {
        "command": " ".join(["python", "benchmarks/calibrate_vs_stream.py", f"--rounds {options.rounds}"])
        + (" --one-thread" if options.one_thread else ""),
        "one_thread": options.one_thread,
        "date": date.today().isoformat(),
        "environment": described,
        "idle_fraction_before_rounds": {"median": statistics.median(idle), "least": min(idle)},
        "rows": rows,
    }
    text = markdown(result)
    print(text)
    if options.output:
        options.output.with_suffix(".json").write_text(json.dumps(result, indent=2) + "\n")
        options.output.with_suffix(".md").write_text(text)
    return 0


def markdown(result: dict[str, Any]) -> str:
    described, idle = result["environment"], result["idle_fraction_before_rounds"]
    comparable = result["one_thread"] or idle["median"] >= QUIET
    lines = [
        f"# Sustained ceilings against independent ones, {result['date']}",
        "",
        f"{described['cpu']['name']}, {described['threads']} threads, torch {described['packages']['torch']}, "
        f"roofline {described['roofline']} at {described['commit']}. Load average at the start "
        f"{described['load_average']}; before the rounds the cores were idle {idle['median']:.0%} of the time "
        f"(median), {idle['least']:.0%} at worst.",
        "",
        f"    {result['command']}",
        "",
        "| ceiling | ours | best independent | which | ratio | |",
        "|---|---|---|---|---|---|",
    ]
    for row in result["rows"]:
        best = max(row["independent"], key=row["independent"].get)
        ratio = row["ours"] / row["independent"][best]
        verdict = "ok" if ratio >= AIM else f"below {AIM}"
        if not comparable or row.get("other_traffic"):
            verdict = "other traffic" if comparable else "too noisy to tell"
        ours, theirs = (show(v, row["unit"]) for v in (row["ours"], row["independent"][best]))
        lines.append(f"| {row['name']} | {ours} | {theirs} | {best} | {ratio:.3f} | {verdict} |")
    lines += ["", "All independent rates, best of all rounds:", ""]
    for row in result["rows"]:
        listed = ", ".join(f"{name} {show(rate, row['unit'])}" for name, rate in row["independent"].items())
        lines.append(f"- {row['name']}: {listed}")
    return "\n".join(lines) + "\n"


def memory_rows(options: argparse.Namespace, idle: list[float]) -> list[dict[str, Any]]:
    size = working_set_bytes(detect("cpu").last_level_cache_bytes, available_bytes("cpu"))
    print(f"memory working set: {show(size, 'B', capacity=True)}", file=sys.stderr)
    ours: dict[str, float] = {}
    theirs: dict[str, dict[str, float]] = {
        name: {} for name in (*LIKWID, "copy, non-temporal", "triad, non-temporal")
    }
    with tempfile.TemporaryDirectory() as folder:
        program = compiled(Path(folder))
        for number in range(options.rounds):
            print(f"memory: round {number + 1}", file=sys.stderr)
            idle.append(quiet(options.patience))
            threads = {**os.environ, "OMP_NUM_THREADS": str(torch.get_num_threads())}
            run = subprocess.run([program, str(size), "4"], capture_output=True, text=True, check=True, env=threads)
            for name, value in map(str.split, run.stdout.splitlines()):
                keep_best(theirs[name], {"C with OpenMP": float(value)})
            idle.append(quiet(options.patience))
            clock = clock_of(options)
            found = stream_rates(filled("cpu", size), timer_for("cpu", clock), seconds=3.0, clock=clock)
            keep_best(ours, {name: rate.best for name, rate in found.items()})
            if options.one_thread:
                continue  # The other programs know the wall clock only.
            idle.append(quiet(options.patience))
            for name, rates in likwid(size).items():
                keep_best(theirs[name], rates)
            keep_best(theirs["read"], sysbench(size))
    rows = [{"name": n, "unit": "B/s", "ours": ours[n], "independent": theirs[n]} for n in LIKWID]
    for n in ("copy", "triad"):
        if rates := theirs[f"{n}, non-temporal"]:
            rows.append(
                {
                    "name": f"{n}, theirs non-temporal",
                    "unit": "B/s",
                    "ours": ours[n],
                    "independent": rates,
                    "other_traffic": True,
                }
            )
    return rows


def likwid(size: int) -> dict[str, dict[str, float]]:
    """Rates by kernel; nothing without likwid-bench."""
    if not shutil.which("likwid-bench"):
        return {}
    known = subprocess.run(["likwid-bench", "-a"], capture_output=True, text=True, check=True).stdout
    names = {line.split(" - ")[0].strip() for line in known.splitlines()}
    flags = Path("/proc/cpuinfo").read_text()
    vectors = [v for v, flag in (("avx512", "avx512f"), ("avx", " avx "), ("sse", "sse2")) if flag in flags]
    found: dict[str, dict[str, float]] = {}
    for ours, kernel in LIKWID.items():
        for stores, title in (("", ours), ("_mem", f"{ours}, non-temporal")):
            fitting = [name for kind in vectors if (name := f"{kernel}{stores}_{kind}") in names]
            if fitting and not (stores and ours == "read"):
                found[title] = {f"likwid {fitting[0]}": likwid_rate(fitting[0], size)}
    return found


def likwid_rate(kernel: str, size: int) -> float:
    threads = torch.get_num_threads()
    work = f"N:{size // 1000}kB:{threads}"
    run = subprocess.run(
        ["likwid-bench", "-t", kernel, "-w", work, "-i", "3"], capture_output=True, text=True, check=True
    )
    return 1e6 * float(re.search(r"^MByte/s:\s+([0-9.]+)", run.stdout, re.MULTILINE)[1])  # type: ignore[index]


def sysbench(size: int) -> dict[str, float]:
    """Read rate; nothing without sysbench."""
    if not shutil.which("sysbench"):
        return {}
    threads = torch.get_num_threads()
    # Each thread has a block of its own; sysbench wants a power of two.
    block = 1 << ((size // threads).bit_length() - 1)
    options = {
        "block-size": block,
        "total-size": 4 * threads * block,
        "oper": "read",
        "scope": "local",
    }
    flags = [f"--memory-{name}={value}" for name, value in options.items()]
    run = subprocess.run(
        ["sysbench", "memory", f"--threads={threads}", *flags, "run"], capture_output=True, text=True, check=True
    )
    found = re.search(r"\(([0-9.]+) MiB/sec\)", run.stdout)
    return {"sysbench": float(found[1]) * 2**20} if found else {}


def gemm_rows(options: argparse.Namespace, idle: list[float]) -> list[dict[str, Any]]:
    rows = []
    for precision in (Precision.FP32, Precision.BF16):
        ours = theirs = 0.0
        for number in range(options.rounds):
            print(f"GEMM {precision}: round {number + 1}", file=sys.stderr)
            idle.append(quiet(options.patience))
            clock = clock_of(options)
            found = gemm_rate(precision, "cpu", timer_for("cpu", clock), seconds=2.5, clock=clock)
            ours = max(ours, found.best)
            idle.append(quiet(options.patience))
            theirs = max(theirs, plain_sweep(DTYPES[precision], clock))
        independent = {"torch matmul sweep": theirs}
        rows.append({"name": f"GEMM {precision}", "unit": "FLOP/s", "ours": ours, "independent": independent})
    return rows


def clock_of(options: argparse.Namespace) -> Callable[[], float]:
    return time.thread_time if options.one_thread else time.perf_counter


def plain_sweep(dtype: torch.dtype, clock: Callable[[], float]) -> float:
    """Best of C = A @ B over all shapes, each for a tenth of a second at least: FLOP/s."""
    best = 0.0
    for m, n, k in SWEEP:
        a, b = torch.randn(m, k).to(dtype), torch.randn(k, n).to(dtype)
        a @ b
        start, calls, fastest_s = clock(), 0, float("inf")
        while calls < 3 or clock() - start < 0.1:
            # Calls are timed in groups of 10 ms, as long as our windows: shorter ones show bursts, not what lasts.
            group, begin = 0, clock()
            while clock() - begin < 0.01:
                a @ b
                group += 1
            fastest_s = min(fastest_s, (clock() - begin) / group)
            calls += group
        best = max(best, 2 * m * n * k / fastest_s)
    return best


def quiet(patience_s: float) -> float:
    """Wait until the cores idle for nine tenths of half a second, or patience ends; returns how idle they were."""
    begin = time.perf_counter()
    while True:
        before = ticks()
        time.sleep(0.5)
        idle, total = (b - a for a, b in zip(before, ticks(), strict=True))
        fraction = idle / total if total else 1.0
        if fraction >= 0.9 or time.perf_counter() - begin > patience_s:
            return fraction


def ticks() -> tuple[int, int]:
    """Idle and all processor time since the start, in ticks."""
    fields = [int(v) for v in Path("/proc/stat").read_text().split("\n", 1)[0].split()[1:]]
    return fields[3] + fields[4], sum(fields)


def compiled(folder: Path) -> Path:
    program = folder / "stream_kernels"
    subprocess.run(["gcc", "-O3", "-march=native", "-fopenmp", str(SOURCE), "-o", str(program)], check=True)
    return program


def keep_best(best: dict[str, float], found: dict[str, float]) -> None:
    for name, value in found.items():
        best[name] = max(best.get(name, 0.0), value)


if __name__ == "__main__":
    raise SystemExit(main())
