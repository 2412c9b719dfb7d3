"""The datasheet roof against the fitted roof on measured GEMMs: who is off by how much.

    pip install "roofline[fit]" && python benchmarks/roof_error.py [--by framework] [-o result.json]

On the shapes that the fit never saw. Datasheet: max(FLOP / peak, bytes / bandwidth). "3 parameters" is the same with
the fit's η, β and τ alone. Error: |predicted / measured − 1|; bias: median of predicted / measured − 1.
"noise" is how far two frameworks' times for one shape lie apart, the error that no model of the shape can beat.
"""

import argparse
import json
import sys
from itertools import combinations
from pathlib import Path
from typing import Any

import gemm_data
import msgspec
import numpy as np
from fit_roofs import TRAINED_ON, ratios
from gemm_data import Rows

from roofline import machines
from roofline.core.fit import FittedRoof, gemm_bytes
from roofline.core.machine import Machine
from roofline.core.precision import Precision

COLUMNS = ("machine", "precision", "framework", "shapes", "datasheet", "three", "fitted", "p90", "bias")
COLUMNS += ("long_datasheet", "long_fitted", "noise")
LONG_S = 100e-6


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--precisions", nargs="*", type=Precision, default=list(TRAINED_ON))
    parser.add_argument("--by", choices=("machine", "framework"), default="machine")
    parser.add_argument("-o", "--output", type=Path)
    options = parser.parse_args()
    lines = []
    for precision in options.precisions:
        for system, key in gemm_data.MACHINES.items():
            lines += lines_of(system, machines.find(key), precision, options.by)
    print(markdown(lines))
    if options.output:
        result = {"command": " ".join(sys.argv), "data": gemm_data.PACKAGE, "rows": lines}
        options.output.write_text(json.dumps(result, indent=2) + "\n")
    return 0


def lines_of(system: str, machine: Machine, precision: Precision, by: str) -> list[dict[str, Any]]:
    fit = machines.fits(machine).get(precision)
    if fit is None:
        return []
    loaded = gemm_data.load(system, precision)
    trained = [r for r in loaded if r.framework in TRAINED_ON[precision]]
    noise = apart(loaded if by == "framework" else trained)
    groups = {"all fitted": trained} if by == "machine" else {r.named + seen(r, precision): [r] for r in loaded}
    return [
        {
            "machine": machine.key,
            "precision": str(precision),
            "framework": name,
            **errors(rows, fit, machine),
            "noise": noise,
        }
        for name, rows in groups.items()
    ]


def seen(rows: Rows, precision: Precision) -> str:
    return "" if rows.framework in TRAINED_ON[precision] else " (not fitted)"


def errors(rows: list[Rows], fit: FittedRoof, machine: Machine) -> dict[str, Any]:
    """Errors on the shapes held out; each framework counts alike."""
    tested = [r.take(r.held_out) for r in rows]
    size = min(len(r.m) for r in tested)
    tested = [r.take(np.random.default_rng(gemm_data.SEED).permutation(len(r.m))[:size]) for r in tested]
    plain = FittedRoof(precision=fit.precision, compute_fraction=1, bandwidth_fraction=1, latency_s=0)
    plain = msgspec.structs.replace(plain, element_bytes=fit.element_bytes)
    fitted = np.concatenate([ratios(r, fit, machine) for r in tested])
    long = np.concatenate([r.seconds for r in tested]) > LONG_S
    datasheet = np.concatenate([three_parameters(r, plain, machine) for r in tested])
    return {
        "shapes": len(fitted),
        "datasheet": median_error(datasheet),
        "three": median_error(np.concatenate([three_parameters(r, fit, machine) for r in tested])),
        "fitted": median_error(fitted),
        "p90": float(np.quantile(np.abs(fitted - 1), 0.9)),
        "bias": float(np.median(fitted)) - 1,
        "long_datasheet": median_error(datasheet[long]),
        "long_fitted": median_error(fitted[long]),
    }


def three_parameters(rows: Rows, fit: FittedRoof, machine: Machine) -> np.ndarray:
    """Predicted / measured by max(FLOP / (η · peak), bytes / (β · bandwidth)) + τ."""
    shapes: Any = (rows.m, rows.n, rows.k)
    compute_s = 2 * rows.m * rows.n * rows.k / (fit.compute_fraction * machine.matrix_peak(fit.precision).value)
    memory_s = gemm_bytes(*shapes, fit) / (fit.bandwidth_fraction * machine.dram.value)
    return (np.maximum(compute_s, memory_s) + fit.latency_s) / rows.seconds


def median_error(ratio: np.ndarray) -> float:
    return float(np.median(np.abs(ratio - 1)))


def apart(rows: list[Rows]) -> float | None:
    """Median of |a / b − 1| over the shapes that two frameworks measured; the mean over pairs of frameworks."""
    times = [dict(zip(zip(r.m, r.n, r.k, strict=True), r.seconds, strict=True)) for r in rows]
    found = [float(np.median([abs(a[s] / b[s] - 1) for s in a.keys() & b.keys()])) for a, b in combinations(times, 2)]
    return sum(found) / len(found) if found else None


def markdown(lines: list[dict[str, Any]]) -> str:
    head = ["| " + " | ".join(COLUMNS) + " |", "|" + "---|" * len(COLUMNS)]
    return "\n".join(head + ["| " + " | ".join(cell(line[c], c) for c in COLUMNS) + " |" for line in lines])


def cell(value: Any, column: str) -> str:
    if value is None:
        return "n/a"
    return f"{100 * value:{'+' if column == 'bias' else ''}.1f} %" if isinstance(value, float) else str(value)


if __name__ == "__main__":
    raise SystemExit(main())
