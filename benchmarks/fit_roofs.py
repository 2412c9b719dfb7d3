"""Fit the roofs in src/roofline/machines/fitted/nvidia.toml to measured GEMMs.

    pip install "roofline[fit]" && python benchmarks/fit_roofs.py [--systems h100_sxm …] [--jobs 2]

Per device and precision: least mean |log(predicted / measured)| over two thirds of the shapes, by Nelder–Mead; a
parameter that the data don't show (the mean grows by less than 1 % without it) is left out; the throttle is judged by
kernels above 1 ms, the only ones that it is about. Errors are found on the shapes held out, with the parameters
rounded as they are written.

Fitted to TensorRT-LLM and SGLang, whose weights are random; vLLM's collector leaves the weights unset, and kernels
run faster on zeros, so its rows stay a check that the fit has never seen. In FP8 and FP4 the frameworks time a
linear layer that first quantises its activations, each with kernels of its own: SGLang alone is fitted there.
"""

import argparse
import json
import multiprocessing
from datetime import date
from pathlib import Path
from typing import Any

import gemm_data
import msgspec
import numpy as np
from gemm_data import Rows
from scipy.optimize import minimize

from roofline import machines
from roofline.core import units
from roofline.core.fit import FittedRoof, gemm_candidates
from roofline.core.machine import Machine
from roofline.core.precision import Precision

OUTPUT = Path(__file__).parents[1] / "src/roofline/machines/fitted/nvidia.toml"
TRAINED_ON = {
    Precision.BF16: ("trtllm", "sglang"),
    Precision.FP8: ("sglang",),
    Precision.FP4: ("sglang",),
    Precision.INT8: ("trtllm",),
}
ELEMENT_BYTES = {Precision.BF16: 2.0, Precision.FP8: 1.0, Precision.INT8: 1.0, Precision.FP4: 0.5 + 1 / 16}
COVERS = {Precision.BF16: "gemm", Precision.FP8: "quantised_linear", Precision.FP4: "quantised_linear"}
COVERS |= {Precision.INT8: "engine_layer"}
SAMPLES = 3000  # for the search; more don't move the parameters
NEGLIGIBLE = 0.01
LONG_S = 1e-3
# Bounds: shares of a peak end at 1, so that no fitted roof is above the datasheet's.
LOW = {"compute_fraction": 0.3, "bandwidth_fraction": 0.3, "latency_s": 5e-7, "wave_s": 0.0, "split_s": 0.0}
LOW |= {"throttle_fraction": 0.0, "l2_speedup": 1.0, "l2_share": 0.02}
LOW_FP4 = LOW | {"compute_fraction": 0.1}  # kernels reach less than a third of the B300's 13.5 PFLOP/s
HIGH = {"compute_fraction": 1.0, "bandwidth_fraction": 1.0, "latency_s": 2e-5, "wave_s": 1e-5, "split_s": 3e-5}
HIGH |= {"throttle_fraction": 1.0, "l2_speedup": 20.0, "l2_share": 1.0}
START = {"compute_fraction": 0.85, "bandwidth_fraction": 0.8, "latency_s": 2.5e-6, "wave_s": 5e-7, "split_s": 2e-6}
START |= {"throttle_fraction": 0.1, "l2_speedup": 3.0, "l2_share": 0.6}
OPTIONAL = (("l2_share",), ("l2_speedup", "l2_share"), ("throttle_fraction",), ("wave_s",))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--systems", nargs="*", default=list(gemm_data.MACHINES))
    parser.add_argument("--precisions", nargs="*", type=Precision, default=list(TRAINED_ON))
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("-o", "--output", type=Path, default=OUTPUT)
    options = parser.parse_args()
    wanted = [(system, precision) for precision in options.precisions for system in options.systems]
    with multiprocessing.Pool(options.jobs) as pool:
        found = [fit for fit in pool.starmap(fit_one, wanted, chunksize=1) if fit]
    found.sort(
        key=lambda pair: (list(gemm_data.MACHINES.values()).index(pair[0]), list(TRAINED_ON).index(pair[1].precision))
    )
    options.output.write_text(HEADER + "".join(written(key, fit) for key, fit in found))
    return 0


def fit_one(system: str, precision: Precision) -> tuple[str, FittedRoof] | None:
    machine = machines.find(gemm_data.MACHINES[system])
    rows = [r for r in gemm_data.load(system, precision) if r.framework in TRAINED_ON[precision]]
    if not rows or precision not in machine.matrix:
        return None
    base = {"precision": precision, "element_bytes": ELEMENT_BYTES[precision], "covers": COVERS[precision]}
    training = [sample(r.take(~r.held_out), SAMPLES // len(rows)) for r in rows]
    names = list(START)
    values = search(names, START, base, training, machine)
    for group in OPTIONAL:
        fewer = [n for n in names if n not in group]
        if len(fewer) < len(names):
            tried = search(fewer, values, base, training, machine)
            judges = [r.take(r.seconds > LONG_S) for r in training] if "throttle_fraction" in group else training
            with_it, without = (loss_of(base | found, judges, machine) for found in (values, tried))
            if without < with_it * (1 + NEGLIGIBLE):
                names, values = fewer, tried
    fit = described(base | rounded(values), rows, machine)
    print(written(machine.key, fit), flush=True)
    return machine.key, fit


def search(
    names: list[str], start: dict[str, float], base: dict[str, Any], rows: list[Rows], machine: Machine
) -> dict[str, float]:
    """The best values of `names`, on a scale where the bounds lie at infinity."""
    lowest = LOW_FP4 if base["precision"] == Precision.FP4 else LOW
    low, high, first = (np.array([table[n] for n in names]) for table in (lowest, HIGH, start))

    def values(x: np.ndarray) -> dict[str, float]:
        return dict(zip(names, low + (high - low) / (1 + np.exp(-np.clip(x, -30, 30))), strict=True))

    def loss(x: np.ndarray) -> float:
        return loss_of(base | values(x), rows, machine)

    inside = np.clip((first - low) / (high - low), 0.01, 0.99)
    x = np.log(inside / (1 - inside))
    for _ in range(2):
        x = minimize(
            loss, x, method="Nelder-Mead", options={"maxiter": 300, "adaptive": True, "xatol": 1e-3, "fatol": 1e-5}
        ).x
    return values(x)


def loss_of(values: dict[str, Any], rows: list[Rows], machine: Machine) -> float:
    """Mean |log(predicted / measured)|, each framework counting alike."""
    fit = FittedRoof(**values)
    return float(np.mean([np.mean(np.abs(np.log(ratios(r, fit, machine)))) for r in rows]))


def ratios(rows: Rows, fit: FittedRoof, machine: Machine) -> np.ndarray:
    """Predicted / measured."""
    hit = gemm_data.hit_fraction(rows, fit, machine)
    shapes: Any = (rows.m, rows.n, rows.k)
    candidates = gemm_candidates(*shapes, fit=fit, machine=machine, l2_hit_fraction=hit)
    best = next(candidates)
    for seconds in candidates:
        best = np.minimum(best, seconds)
    return best / rows.seconds


def sample(rows: Rows, size: int) -> Rows:
    chosen = np.random.default_rng(gemm_data.SEED).permutation(len(rows.m))[:size]
    return rows.take(chosen)


def rounded(values: dict[str, float]) -> dict[str, float]:
    """As the file will say it: times in three digits, shares in three decimals."""
    return {n: float(f"{v:.3g}") if n.endswith("_s") else round(float(v), 3) for n, v in values.items()}


def described(values: dict[str, Any], rows: list[Rows], machine: Machine) -> FittedRoof:
    """The fit with its errors on the shapes held out, each framework counting alike."""
    fit = FittedRoof(**values)
    tested = [r.take(r.held_out) for r in rows]
    size = min(len(r.m) for r in tested)
    ratio = np.concatenate([ratios(sample(r, size), fit, machine) for r in tested])
    error = np.abs(ratio - 1)
    facts = {
        "samples": sum(int((~r.held_out).sum()) for r in rows),
        "held_out": sum(len(r.m) for r in tested),
        "median_error_fraction": round(float(np.median(error)), 4),
        "p90_error_fraction": round(float(np.quantile(error, 0.9)), 4),
        "bias_fraction": round(float(np.median(ratio)) - 1, 4),
        "low_ratio": round(float(np.quantile(1 / ratio, 0.1)), 3),
        "high_ratio": round(float(np.quantile(1 / ratio, 0.9)), 3),
    }
    source = f"{gemm_data.PACKAGE} (Apache-2.0), {', '.join(r.named for r in rows)}"
    return FittedRoof(**values, **facts, source=source, read_on=date.today().isoformat())


def written(key: str, fit: FittedRoof) -> str:
    """One table of the file, without what doesn't apply."""
    lines = [f"\n[{key}.{fit.precision}]"]
    for name, value in msgspec.structs.asdict(fit).items():
        if name.endswith("_s") and value:
            lines.append(f'{name.removesuffix("_s")} = "{units.show(value, "s")}"')
        elif name != "precision" and value:
            lines.append(f"{name} = {json.dumps(value)}")
    return "\n".join(lines) + "\n"


HEADER = """# Written by benchmarks/fit_roofs.py; the parameters are explained in roofline/core/fit.py.
# Shares are of the dense datasheet peak and of the datasheet's DRAM bandwidth.
"""

if __name__ == "__main__":
    raise SystemExit(main())
