"""The steps of gpu.sh: each in its own process, with its own share of the time, told in summary.md as it ends."""

import argparse
import json
import os
import shutil
import subprocess
import sys
import time
from pathlib import Path
from typing import NamedTuple

from roofline.core.units import percent, show

HERE = Path(__file__).parent


class Step(NamedTuple):
    """One step.

    Attributes:
        name: Of its log file.
        title: In the summary.
        command: What runs.
        limit_s: Longest time.
        shows: File whose text goes into the summary, or None for the tail of the log.
    """

    name: str
    title: str
    command: list[str]
    limit_s: float
    shows: str | None = None


class Summary:
    """summary.md, on the disk after every line."""

    def __init__(self, path: Path) -> None:
        self.path = path
        path.write_text("")

    def add(self, text: str) -> None:
        """Append text."""
        with self.path.open("a") as file:
            file.write(text.rstrip() + "\n\n")
            file.flush()
            os.fsync(file.fileno())


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="gpu.sh", description="Measure what a CUDA machine can tell.")
    parser.add_argument("--to", type=Path, default=Path(os.environ.get("OUT") or "build/gpu-results"))
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--minutes", type=float, default=7.5)
    parser.add_argument("--quick", action="store_true", help="tiny sizes, to try the script itself")
    parser.add_argument("--only", default="", help="steps by name, such as sweep-ops,gpu-tests; all by default")
    chosen = parser.parse_args(arguments)
    only = set(filter(None, chosen.only.split(",")))
    known = {step.name for step in steps(chosen.device, chosen.to, quick=chosen.quick)} | {"ncu"}
    if not only <= known:
        parser.error(f"unknown step {', '.join(sorted(only - known))}; known: {', '.join(sorted(known))}")
    chosen.to.mkdir(parents=True, exist_ok=True)
    summary = Summary(chosen.to / "summary.md")
    summary.add(f"# GPU check\n\nCommand: `bash benchmarks/gpu.sh {' '.join(arguments)}`")
    summary.add(machine_lines(chosen.device))
    deadline = time.monotonic() + 60 * chosen.minutes
    failed = 0
    for step in steps(chosen.device, chosen.to, quick=chosen.quick):
        if not only or step.name in only:
            failed += not run(step, chosen.to, summary, deadline)
    if not only or "ncu" in only:
        failed += not counters(chosen.device, chosen.to, summary, deadline)
    summary.add(f"{'All steps ended well' if not failed else f'{failed} steps did not end well'}.")
    print(f"summary: {summary.path}")
    return 1 if failed else 0


def steps(device: str, folder: Path, *, quick: bool) -> list[Step]:
    """What runs, in the order of what is worth most if time runs out."""
    roofline = [sys.executable, "-m", "roofline.cli.main"]
    # A CPU has no datasheet, and trying the script is no time to measure its ceilings in every process.
    judged = ["--machine", "a10"] if quick else []
    calibrate = [*roofline, "calibrate", "--device", device, "-o", str(folder / "calibrate.json")]
    found = [Step("calibrate", "Calibration", [*calibrate, *(["--quick"] if quick else [])], 75)]
    for name, small, limit_s in (
        ("decode", ["--params", "20000", "--batches", "1,4"], 45),
        ("train", ["--params", "20000", "--tokens", "1,4"], 60),
        ("ops", ["--ops", "add,gemm", "--sizes", "64"], 100),
        ("vision", ["--models", "resnet18", "--modes", "inference", "--batches", "1"], 100),
    ):
        few = ["--batches", "1,8,64,256"] if name == "vision" else []  # counting each takes longer than timing it
        sizes = small if quick else ["--scale", "article", *few]
        seconds = "0.01" if quick else "0.2"
        files = ["--results", str(folder / f"{name}.jsonl"), "-o", str(folder / f"{name}.md")]
        command = [*roofline, "sweep", name, "--device", device, "--seconds", seconds, *sizes, *judged, *files]
        found.append(Step(f"sweep-{name}", f"Sweep {name}", command, limit_s, f"{name}.md"))
    for model, train in (("resnet50", False), ("vit_b_16", True)):
        target, batch = ("torchvision:resnet18", "1") if quick else (f"torchvision:{model}", "64")
        mode = ["--train"] if train else []
        files = ["-o", str(folder / f"{model}.json")]
        command = [*roofline, "measure", target, "--device", device, "--batch", batch, "--precision", "bf16"]
        command += [*mode, "--seconds", "0.1" if quick else "3", *judged, *files]
        found.append(Step(f"per-op-{model}", f"Per-op times: {model}{' training' if train else ''}", command, 45))
    # Only files with such tests, as the others may import what is not here; and another torch warns of other things.
    marked = [str(p) for p in sorted((HERE.parent / "tests").glob("test_*.py")) if "mark.gpu" in p.read_text()]
    tests = [sys.executable, "-m", "pytest", "-q", "-m", "gpu", "-p", "no:cacheprovider", "-W", "ignore", *marked]
    found.append(Step("gpu-tests", "Tests marked gpu", tests, 60))
    # Trying the script is a question of whether, not of how long.
    return [step._replace(limit_s=5 * step.limit_s) for step in found] if quick else found


def run(step: Step, folder: Path, summary: Summary, deadline: float) -> bool:
    """Run one step within its share and what is left; whether it ended well."""
    left_s = min(step.limit_s, deadline - time.monotonic())
    print(f"== {step.title}", flush=True)
    if left_s < 5:
        summary.add(f"## {step.title}\n\nLeft out: the time is up.")
        return False
    begin = time.monotonic()
    log = folder / f"{step.name}.log"
    with log.open("wb") as file:
        try:
            code: int | str = subprocess.run(
                step.command, stdout=file, stderr=subprocess.STDOUT, timeout=left_s, check=False
            ).returncode
        except subprocess.TimeoutExpired:
            code = f"stopped after {left_s:.0f} s"
    # pytest ends with 5 where it has no test to run.
    well = code == 0 or (step.name == "gpu-tests" and code == 5)
    took = f"{time.monotonic() - begin:.0f} s"
    head = f"## {step.title}\n\n{took}" + ("" if well else f", exit {code}; see {log.name}")
    summary.add(f"{head}\n\n{shown(step, folder, log)}")
    return well


def shown(step: Step, folder: Path, log: Path) -> str:
    """The step's own Markdown, or its results so far, or the tail of its log."""
    path = folder / step.shows if step.shows else None
    if path and path.exists():
        return path.read_text()
    if path and path.with_suffix(".jsonl").exists():
        return so_far(path.with_suffix(".jsonl"))
    lines = log.read_text(errors="replace").splitlines()
    return "```\n" + "\n".join(lines[-25:]) + "\n```"


def so_far(path: Path) -> str:
    """Results of a sweep that did not end, as Markdown."""
    from roofline.report.sweeps.text import markdown
    from roofline.sweeps.results import load
    from roofline.sweeps.summary import point

    results, _ = load(path)
    if not results:
        return "No case ended."
    run = next((r.run for r in results if r.run), None)
    cases = [r.case for r in results]
    return markdown(cases[0].sweep, cases, [point(r) for r in results], run.machine if run else None)


def machine_lines(device: str) -> str:
    """What ran it: device, driver, versions, commit."""
    import torch

    from roofline.clock.environment import environment

    described = environment(device) if device == "cpu" or torch.cuda.is_available() else {}
    lines = [
        f"- {name}: {described[name]}"
        for name in ("date", "python", "packages", "gpu", "cpu", "commit")
        if described.get(name)
    ]
    if shutil.which("nvidia-smi"):
        query = ["nvidia-smi", "--query-gpu=name,driver_version,clocks.max.sm,power.limit", "--format=csv,noheader"]
        done = subprocess.run(query, capture_output=True, text=True, check=False, timeout=20)
        lines.append(f"- nvidia-smi: {done.stdout.strip() or done.stderr.strip()}")
    return "\n".join(lines)


def counters(device: str, folder: Path, summary: Summary, deadline: float) -> bool:
    """DRAM bytes of ten ops from hardware counters, beside our estimates; whether that ended well."""
    title = "## DRAM bytes of ten ops: counters beside our estimates"
    left_s = min(90.0, deadline - time.monotonic())
    ncu = shutil.which("ncu")
    if device == "cpu" or ncu is None or left_s < 20:
        why = "no ncu here" if ncu is None else "no GPU asked for" if device == "cpu" else "the time is up"
        summary.add(f"{title}\n\nLeft out: {why}. Our estimates alone:")
        summary.add(comparison(estimates(device), {}))
        return True
    print("== ncu", flush=True)
    log = folder / "ncu.csv"
    command = [ncu, "--csv", "--page", "raw", "--print-units", "base", "--profile-from-start", "off"]
    command += ["--cache-control", "none", "--metrics", "dram__bytes_read.sum,dram__bytes_write.sum"]
    command += [sys.executable, str(HERE / "gpu_ten_ops.py"), "--run"]
    with log.open("wb") as file:
        try:
            subprocess.run(command, stdout=file, stderr=subprocess.STDOUT, timeout=left_s, check=False)
        except subprocess.TimeoutExpired:
            summary.add(f"{title}\n\nncu was stopped after {left_s:.0f} s.")
    from gpu_ten_ops import OPS, dram_bytes

    measured = dram_bytes(log.read_text(errors="replace"), [name for name, _ in OPS])
    note = "" if measured else "\n\nncu gave no counters; see ncu.csv (it may lack the permission for them)."
    summary.add(f"{title}{note}\n\n{comparison(estimates(device), measured)}")
    return bool(measured)


def estimates(device: str) -> dict[str, tuple[float, float | None]]:
    """`operator` and `cached` bytes of the ten ops, by the cache of the device."""
    from gpu_ten_ops import counted

    from roofline import machines

    return counted(machines.detect(device))


def comparison(ours: dict[str, tuple[float, float | None]], measured: dict[str, float]) -> str:
    """The table, and the same as JSON in the summary's folder would have it."""
    lines = ["| op | measured | operator | off by | cached | off by |", "|---|---|---|---|---|---|"]
    for name, (operator, cached) in ours.items():
        seen = measured.get(name)
        off = [
            percent(estimate / seen - 1) if seen and estimate is not None else "n/a"
            for estimate in (operator, cached)
        ]
        cells = [name, show(seen, "B"), show(operator, "B"), off[0], show(cached, "B"), off[1]]
        lines.append("| " + " | ".join(cells) + " |")
    raw = {name: {"operator": o, "cached": c, "measured": measured.get(name)} for name, (o, c) in ours.items()}
    return "\n".join(lines) + f"\n\n<!-- {json.dumps(raw)} -->"


if __name__ == "__main__":
    sys.path.insert(0, str(HERE))
    sys.exit(main(sys.argv[1:]))
