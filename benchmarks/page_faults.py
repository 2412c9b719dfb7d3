"""What page faults cost a model on this CPU: our estimate against the same model without them, side by side.

    python benchmarks/page_faults.py [--model resnet50] [--batch 16] [--rounds 3] [-o OUTPUT.md]

Two processes take turns: one as it comes, and one whose allocator keeps its memory (glibc's MALLOC_MMAP_THRESHOLD_
and MALLOC_TRIM_THRESHOLD_). The difference of their times is what the faults cost; our estimate lies between that of
pages shared by all threads and of pages taken by one.
"""

import argparse
import json
import os
import subprocess
import sys
from datetime import date
from pathlib import Path
from typing import Any

KEEPS = {"MALLOC_MMAP_THRESHOLD_": "1000000000", "MALLOC_TRIM_THRESHOLD_": "10000000000"}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--model", default="resnet50")
    parser.add_argument("--batch", type=int, default=16)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("-o", "--output", type=Path)
    options = parser.parse_args()
    usual, keeping = [], []
    for number in range(options.rounds):
        print(f"round {number + 1}", file=sys.stderr)
        usual.append(measured(options, {}))
        keeping.append(measured(options, KEEPS))
    fast = min(run["timing"]["median_s"] for run in keeping)
    run = min(usual, key=lambda run: run["timing"]["median_s"])
    best, described = run["timing"], run["environment"]
    faults, gained_s = best["page_faults"], best["median_s"] - fast
    if faults is None:
        print("hardly any page faults here: nothing to compare")
        return 0
    lines = [
        f"# Page faults, {date.today().isoformat()}",
        "",
        f"{described['cpu']['name']}, {described['threads']} threads, torch {described['packages']['torch']}, "
        f"roofline {described['roofline']} at {described['commit']}",
        "",
        f"    python benchmarks/page_faults.py --model {options.model} --batch {options.batch} "
        f"--rounds {options.rounds}",
        "",
        f"FP32 inference, best of {options.rounds} rounds, per step:",
        "",
        f"- as it comes: {1e3 * best['median_s']:.0f} ms, {faults['per_step']:,} page faults",
        f"- with an allocator that keeps its memory: {1e3 * fast:.0f} ms, so faults cost {1e3 * gained_s:.0f} ms",
        f"- our estimate: {1e3 * faults['all_threads_s']:.0f} ms if all threads share them, "
        f"{1e3 * faults['one_thread_s']:.0f} ms if one takes them all",
    ]
    text = "\n".join(lines) + "\n"
    print(text)
    if options.output:
        options.output.write_text(text)
    return 0


def measured(options: argparse.Namespace, variables: dict[str, str]) -> dict[str, Any]:
    """One measured Run, from a process of its own."""
    command = [sys.executable, "-m", "roofline", "measure", f"torchvision:{options.model}", "--json"]
    command += ["--batch", str(options.batch), "--precision", "fp32", "--seconds", "5"]
    done = subprocess.run(command, env={**os.environ, **variables}, capture_output=True, text=True, check=True)
    found: dict[str, Any] = json.loads(done.stdout)
    return found


if __name__ == "__main__":
    raise SystemExit(main())
