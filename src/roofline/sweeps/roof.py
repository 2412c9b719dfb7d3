"""Least time of a step by the bytes that it is judged by, so that no ratio at that roof exceeds 100 %."""

import msgspec

from roofline.core.roof import roof_time
from roofline.core.run import Run
from roofline.core.work import Work

# Counts of bytes that rows of ops have; the others are known of the whole program alone.
_BY_ROW = ("operator", "cached", "measured")


def roof_seconds(run: Run) -> float | None:
    """Roof time of one step, s; None before the Run is judged.

    T_roof = Σ max(F_op / peak, B_op / bandwidth) where rows have the bytes judged by; else, as for `module` bytes, of
    the whole program at once: max(ΣF / peak, B / bandwidth). The roof of the verdict falls back on other bytes there,
    and a ratio of the two counts could pass 100 %.
    """
    v, machine = run.verdict, run.machine
    if v is None or machine is None:
        return None
    known = [op for op in run.ops if op.roof_s is not None]
    if v.bytes_origin in _BY_ROW and all(getattr(op.bytes, v.bytes_origin) is not None for op in known):
        return v.roof_s
    moved = getattr(run.bytes, v.bytes_origin)
    total = msgspec.structs.replace(sum((op.work() for op in known), Work()), read_bytes=moved, written_bytes=0)
    return roof_time(total, machine).total_s
