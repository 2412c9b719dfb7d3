"""Do two calibrations of this machine agree, and how long do they take?

    python benchmarks/calibrate_twice.py [-o benchmarks/results/calibrate-twice-DATE.md]

`roofline calibrate` runs twice and `--quick` once, each in a process of its own. The aim: every ceiling within 10 %,
or a calibration that says itself that the machine is too noisy; under 60 s, and under 10 s with `--quick`.
"""

import argparse
import os
import subprocess
import sys
import tempfile
import time
from datetime import date
from pathlib import Path

import msgspec

from roofline.clock.environment import environment
from roofline.core.units import percent, show
from roofline.machines.calibration import Calibration

AIM = 0.10


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("-o", "--output", type=Path)
    options = parser.parse_args()
    # The second finds what the first has kept, and says where it differs.
    with tempfile.TemporaryDirectory() as cache:
        first, second, quick = (calibrated(cache, *flags) for flags in ((), (), ("--quick",)))
    text = markdown(first, second, quick)
    print(text)
    if options.output:
        options.output.write_text(text)
    return 0


def calibrated(cache: str, *flags: str) -> tuple[Calibration, float, str]:
    """A calibration, the wall time of the whole process in s, and the warnings that it printed."""
    path = Path(cache) / "machine.json"
    command = [sys.executable, "-m", "roofline", "calibrate", *flags, "-o", str(path)]
    start = time.perf_counter()
    done = subprocess.run(
        command, env={**os.environ, "XDG_CACHE_HOME": cache}, capture_output=True, text=True, check=True
    )
    took_s = time.perf_counter() - start
    warnings = [
        line.partition("; that one stays")[0] for line in done.stderr.splitlines() if line.startswith("warning: ")
    ]
    return msgspec.json.decode(path.read_bytes(), type=Calibration), took_s, "; ".join(warnings)


def markdown(*runs: tuple[Calibration, float, str]) -> str:
    described = environment("cpu")
    (first, first_s, _), (second, second_s, _), (quick, quick_s, _) = runs
    lines = [
        f"# Two calibrations, {date.today().isoformat()}",
        "",
        f"{first.name}, {first.multiprocessors} cores, torch {described['packages']['torch']}, roofline "
        f"{described['roofline']} at {described['commit']}. `python benchmarks/calibrate_twice.py`",
        "",
        f"Whole processes took {first_s:.0f} s, {second_s:.0f} s, and {quick_s:.1f} s with `--quick`.",
        "",
        "| ceiling | first | second | apart | quick |",
        "|---|---|---|---|---|",
    ]
    names = rates(first)
    apart: dict[str, float] = {}
    for name in names:
        a, b, c = (rates(m).get(name) for m in (first, second, quick))
        if a is None or b is None:
            continue
        apart[name] = 1 - min(a, b) / max(a, b)
        unit = "B/s" if name.startswith("memory") else "OP/s" if "int" in name else "FLOP/s"
        lines.append(f"| {name} | {show(a, unit)} | {show(b, unit)} | {percent(apart[name])} | {show(c, unit)} |")  # type: ignore[arg-type]
    worst = max(apart, key=lambda n: apart[n])
    agree = "agree within 10 %" if apart[worst] <= AIM else "differ by more than 10 %"
    lines += ["", f"The two {agree}; furthest apart: {worst}, {percent(apart[worst])}."]
    lines += [f"Run {i} said: {said}" for i, (_, _, said) in enumerate(runs, start=1) if said]
    held = [show(m.held_bytes, "B", capacity=True) if m.held_bytes else "all of it" for m in (first, second, quick)]
    lines += ["", f"The last-level cache holds, in this order: {', '.join(held)}."]
    return "\n".join(lines) + "\n"


def rates(machine: Calibration) -> dict[str, float]:
    found = {f"memory {level}": c.value for level, c in machine.bandwidth.items()}
    found |= {f"matrix {p}": c.value for p, c in machine.matrix.items()}
    return found | {f"memory {kind}": rate for kind, rate in machine.streams.items()}


if __name__ == "__main__":
    raise SystemExit(main())
