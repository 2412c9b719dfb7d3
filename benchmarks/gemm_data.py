"""Measured GEMMs of the PyPI package aiconfigurator-core (Apache-2.0), as arrays.

    pip install "roofline[fit]"

Each row is one shape (m, n, k) under one framework: the time of a linear layer, from a CUDA graph, averaged over
calls that rotate through several copies of the weights and share one input. How many copies is part of the
protocol: it decides whether operands are still in L2. Read from the collectors in ai-dynamo/aiconfigurator,
collector/{trtllm,sglang,vllm}/collect_gemm.py.
"""

import importlib.util
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from roofline.core.fit import FittedRoof
from roofline.core.machine import Machine
from roofline.core.precision import Precision

PACKAGE = "aiconfigurator-core 0.12.0"
MACHINES = {
    "a100_sxm": "a100-sxm-80gb",
    "l40s": "l40s",
    "h100_sxm": "h100-sxm",
    "h200_sxm": "h200-sxm",
    "b200_sxm": "b200",
    "b300_sxm": "b300",
    "gb200": "gb200",
    "gb300": "gb300",
    "rtx_pro_6000_server": "rtx-pro-6000-server",
}
VERSIONS = {"sglang": ("0.5.14", "0.5.10"), "trtllm": ("1.3.0rc20", "1.0.0"), "vllm": ("0.24.0", "0.14.0")}
DTYPES = {
    Precision.BF16: "bfloat16",
    Precision.FP8: "fp8",
    Precision.FP4: "nvfp4",
    Precision.INT8: "sq",
}
SEED = 20261129
HELD_OUT = 1 / 3


@dataclass
class Rows:
    """Measurements of one machine, framework and precision; arrays of equal length."""

    framework: str
    version: str
    m: np.ndarray
    n: np.ndarray
    k: np.ndarray
    seconds: np.ndarray
    held_out: np.ndarray = field(default_factory=lambda: np.zeros(0, bool))

    @property
    def named(self) -> str:
        return f"{self.framework} {self.version}"

    def take(self, chosen: np.ndarray) -> "Rows":
        arrays = (a[chosen] for a in (self.m, self.n, self.k, self.seconds, self.held_out))
        return Rows(self.framework, self.version, *arrays)


def data_folder() -> Path:
    found = importlib.util.find_spec("aiconfigurator_core")
    if found is None or not found.submodule_search_locations:
        raise SystemExit('the measurements are not installed\nhint: pip install "roofline[fit]"')
    return Path(found.submodule_search_locations[0]) / "systems" / "data"


def load(system: str, precision: Precision) -> list[Rows]:
    """The rows of each framework's latest version, split by shape: a shape is held out in all of them or in none."""
    import pyarrow.compute as pc
    import pyarrow.parquet as pq

    found = []
    for framework, versions in VERSIONS.items():
        files = [data_folder() / system / "gemm" / framework / v / "gemm_perf.parquet" for v in versions]
        path = next((f for f in files if f.exists()), None)
        if path is None:
            continue
        table = pq.read_table(path)
        table = table.filter(pc.equal(table["gemm_dtype"], DTYPES[precision]))
        if table.num_rows:
            m, n, k, ms = (table[c].to_numpy() for c in ("m", "n", "k", "latency"))
            found.append(Rows(framework, path.parent.name, *(a.astype(float) for a in (m, n, k)), ms * 1e-3))
    for rows in found:
        rows.held_out = held_out(rows)
    return found


def held_out(rows: Rows) -> np.ndarray:
    """Whether each shape belongs to the random third: the same answer for a shape wherever it was measured."""
    drawn = [
        np.random.default_rng((SEED, int(m), int(n), int(k))).random()
        for m, n, k in zip(rows.m, rows.n, rows.k, strict=True)
    ]
    return np.array(drawn) < HELD_OUT


def hit_fraction(rows: Rows, fit: FittedRoof, machine: Machine) -> np.ndarray:
    """Share of the bytes that the protocol of a framework leaves in L2."""
    if fit.l2_share is None:
        return np.zeros_like(rows.m)
    capacity = machine.last_level_cache_bytes
    weights = rows.n * rows.k * fit.element_bytes
    copies = np.clip(np.ceil(capacity / weights), 1, 5) if rows.framework == "trtllm" else 6
    copies = 1 if fit.precision == Precision.FP4 and rows.framework == "vllm" else copies
    touched = copies * weights + rows.m * rows.k * fit.element_bytes + 2 * rows.m * rows.n
    return np.clip(2 - touched / (fit.l2_share * capacity), 0, 1)
