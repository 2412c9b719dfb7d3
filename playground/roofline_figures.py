"""Redraw every figure of the article from saved results.

    python playground/roofline_figures.py roofline-sweep-*.jsonl --to figures
    python playground/roofline_figures.py --predict a10,h100-sxm --to figures

Measured and predicted points of one sweep share a figure. Figures without points are left out, and said so.
"""

import argparse
import sys
from pathlib import Path

from roofline.errors import RooflineError, UsageError
from roofline.report.sweeps.figures import NAMES, figure
from roofline.sweeps.case import Result, SweepName, Where, result_of

PREDICTED: tuple[SweepName, ...] = ("ops", "decode", "train")
NEEDS: dict[str, SweepName] = {
    "ops_roofline": "ops",
    "gemm_efficiency": "ops",
    "decode": "decode",
    "train": "train",
    "vision": "vision",
}


def main(arguments: list[str]) -> int:
    """Draw what the results at hand allow; returns the exit status."""
    parser = argparse.ArgumentParser(description="Redraw every figure of the article from saved results.")
    parser.add_argument("results", nargs="*", type=Path, help="JSONL files of roofline sweep")
    parser.add_argument("--predict", default="", help="machines to predict, separated by commas; needs no results")
    parser.add_argument("--vision", action="store_true", help="predict vision as well; takes torch and a minute")
    parser.add_argument("--to", type=Path, default=Path("figures"), help="folder to draw into")
    parser.add_argument("--form", choices=["png", "svg"], default="png")
    chosen = parser.parse_args(arguments)
    try:
        results = [r for path in chosen.results for r in loaded(path)]
        for key in filter(None, chosen.predict.split(",")):
            results += predicted(key.strip(), vision=chosen.vision)
        drawn = draw(results, chosen.to, chosen.form)
    except RooflineError as error:
        print(f"error: {error.message}\nhint: {error.hint}", file=sys.stderr)
        return error.exit_code
    for path in drawn:
        print(path)
    return 0


def loaded(path: Path) -> list[Result]:
    """Results of a file; lines that are none are named on stderr."""
    from roofline.sweeps.results import load

    results, warnings = load(path)
    for line in warnings:
        print(f"warning: {line}", file=sys.stderr)
    return results


def predicted(key: str, *, vision: bool) -> list[Result]:
    """The sweeps at the roof of a machine."""
    from roofline import machines
    from roofline.sweeps.experiments import experiment
    from roofline.sweeps.measure import count_case
    from roofline.sweeps.precision import of_machine
    from roofline.sweeps.settings import Settings

    machine = machines.resolve(key)
    settings = Settings(precision=of_machine(machine))
    found = []
    for name in (*PREDICTED, "vision") if vision else PREDICTED:
        where = Where(machine=machine, origin="module" if name == "vision" else None)
        found += [result_of(case, count_case(case, machine, where)) for case in experiment(name).cases(settings)]
    return found


def draw(results: list[Result], folder: Path, form: str) -> list[Path]:
    """Draw each figure whose sweep has points; the ridge points need none."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UsageError(f"can't make {folder}: {error.strerror}", "choose another folder with --to") from None
    sweeps = {r.case.sweep for r in results if r.run is not None}
    paths = []
    for name in NAMES:
        if name in NEEDS and NEEDS[name] not in sweeps:
            print(f"no {NEEDS[name]} results: {name} is left out", file=sys.stderr)
            continue
        path = folder / f"{name}.{form}"
        path.write_bytes(figure(name, results, "svg" if form == "svg" else "png"))
        paths.append(path)
    return paths


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
