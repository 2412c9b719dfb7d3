"""The fitted roofs of the database (`fitted/*.toml`), and the time to expect from an op by them."""

import re
import tomllib
from collections.abc import Mapping
from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import Any

import msgspec

from roofline.core import units
from roofline.core.fit import FittedRoof, gemm_bytes, gemm_time, op_time
from roofline.core.machine import Machine
from roofline.core.precision import Precision
from roofline.core.roof import roof_time
from roofline.core.run import OpRecord

_TIMES = ("latency", "wave", "split")
# Ops that are one GEMM, however a trace, a count or a plan spells the rest of the name.
_PRODUCTS = frozenset({"mm", "addmm", "bmm", "baddbmm", "matmul", "linear"})
# The two have the same rates and sizes on every device that has both; only BF16 was fitted.
_SAME_RATE = {Precision.FP16: Precision.BF16}


def fits(machine: Machine | str) -> Mapping[Precision, FittedRoof]:
    """Give the fitted roofs of a machine by precision; none where nobody measured it.

    A fit is a share of the datasheet's ceilings, so a machine whose ceilings were measured or given has none.

    Args:
        machine: The machine, or its key in the database.
    """
    if isinstance(machine, str):
        return _tables().get(machine, {})
    return {p: fit for p, fit in _tables().get(machine.key, {}).items() if _is_datasheet(machine, p)}


def fitted_time(op: OpRecord, machine: Machine) -> tuple[float, float, float] | None:
    """Time to expect from the calls of an op in all, s, with a low and a high one; None without a fit.

    A GEMM of known shape takes `gemm_time`; low and high are the 10th and 90th percentile of the fit's data. Other
    ops take `op_time`, which no data back: low is the datasheet roof, high as far on the other side.

    Bytes that the op's row doesn't fetch from DRAM (origins measured or cached against operator) come from L2.
    Launch by the host is not counted, nor is a reduction over tensor-parallel ranks.

    Only fits of bare GEMMs are applied: those of quantised layers don't tell the GEMM alone.
    """
    found = fits(machine)
    has_matrix = op.executed_flops > 0
    wanted = op.precision if has_matrix else Precision.BF16
    fit = found.get(_SAME_RATE.get(wanted, wanted)) if wanted else None
    if fit is None or fit.covers != "gemm" or op.network_bytes or op.calls < 1:
        return None
    shape = gemm_shape(op) if has_matrix else None
    if shape is None:
        return _unbacked(op, machine, fit)
    batch, m, n, k = shape
    moved = gemm_bytes(m, n, k, fit) * batch
    hit = max(0.0, 1 - op.bytes.best / op.calls / moved) if op.bytes.best else 0.0
    expected_s = op.calls * gemm_time(m, n, k, fit=fit, machine=machine, batch=batch, l2_hit_fraction=hit)
    return expected_s, expected_s * fit.low_ratio, expected_s * fit.high_ratio


def gemm_shape(op: OpRecord) -> tuple[int, int, int, int] | None:
    """Read (batch, m, n, k) of one call off an op's input shapes; None where they don't say.

    The op must be named for a product, and two of its inputs, multiplied as matrices, explain its FLOP exactly.
    """
    if not _PRODUCTS.intersection(re.split(r"[.:]+", op.name)):
        return None
    shapes = [_dims(text) for text in op.shapes.split(",")]
    matrices = [s for s in shapes if len(s) >= 2 and all(s)]
    flops = op.executed_flops / op.calls
    for a, b in pairwise(matrices):
        for right in (b, (*b[:-2], b[-1], b[-2])):
            shape = _product(a, right)
            if shape and 2 * shape[0] * shape[1] * shape[2] * shape[3] == flops:
                return shape
    return None


def _product(a: tuple[int, ...], b: tuple[int, ...]) -> tuple[int, int, int, int] | None:
    """The GEMM a @ b: batched over equal leading dimensions, or with all rows of `a` against one matrix `b`."""
    *lead, rows, inner = a
    if inner != b[-2]:
        return None
    if len(b) == 2:
        return 1, _count(lead) * rows, b[-1], inner
    return (_count(lead), rows, b[-1], inner) if tuple(lead) == b[:-2] else None


def _count(dims: list[int]) -> int:
    product = 1
    for d in dims:
        product *= d
    return product


def _dims(text: str) -> tuple[int, ...]:
    parts = text.strip().split("x")
    return tuple(int(p) for p in parts) if all(p.isdecimal() for p in parts) else ()


def _unbacked(op: OpRecord, machine: Machine, fit: FittedRoof) -> tuple[float, float, float]:
    work = op.work() * (1 / op.calls)
    expected_s, low_s = op_time(work, fit=fit, machine=machine), roof_time(work, machine).total_s
    return op.calls * expected_s, op.calls * low_s, op.calls * (2 * expected_s - low_s)


def _is_datasheet(machine: Machine, precision: Precision) -> bool:
    ceilings = (machine.matrix.get(precision), machine.bandwidth.get("dram"))
    return bool(machine.multiprocessors) and all(c is not None and c.origin == "datasheet" for c in ceilings)


@cache
def _tables() -> dict[str, dict[Precision, FittedRoof]]:
    found: dict[str, dict[Precision, FittedRoof]] = {}
    for path in sorted(Path(__file__).with_name("fitted").glob("*.toml")):
        written = tomllib.loads(path.read_text("utf-8"))
        shared = {name: value for name, value in written.items() if not isinstance(value, dict)}
        for key, by_precision in written.items():
            if isinstance(by_precision, dict):
                found[key] = {Precision(p): _fit(p, {**shared, **body}) for p, body in by_precision.items()}
    return found


def _fit(precision: str, body: dict[str, Any]) -> FittedRoof:
    times = {f"{name}_s": units.parse(body.pop(name), "s") for name in _TIMES if name in body}
    return msgspec.convert({"precision": precision, **times, **body}, FittedRoof)
