"""Ten ops whose DRAM bytes ncu counts: run under it with --run, or counted by us for the comparison.

Between ops a kernel that nothing else launches marks the border, so that kernels can be told apart by op. A buffer
larger than any L2 is written before each op, outside the profile: every op starts with its data in DRAM.
"""

import csv
import sys

from roofline.core.machine import Machine
from roofline.core.precision import Precision
from roofline.sweeps import ops
from roofline.sweeps.case import Case

# Of the sweep, with sizes beyond the L2 of an H200 (50 MB) where the op has any say in it.
OPS: tuple[tuple[str, Case], ...] = tuple(
    (name, Case(sweep="ops", series=name, size=size, precision=Precision.BF16))
    for name, size in (
        ("add", 1 << 26),
        ("gelu", 1 << 26),
        ("layer_norm", 32768),
        ("softmax", 32768),
        ("sum", 1 << 27),
        ("transposed_copy", 8192),
        ("gemv", 16384),
        ("gemm", 8192),
        ("conv3x3", 256),
        ("attention_math", 4096),
    )
)
_MARK = "spin_kernel"
_FLUSH_BYTES = 512 << 20


def run_under_ncu() -> None:
    """Run each op once inside the profile, a marker after each."""
    import torch

    junk = torch.empty(_FLUSH_BYTES, dtype=torch.uint8, device="cuda")
    profiler = torch.cuda.cudart()
    with torch.inference_mode():
        for name, case in OPS:
            step = ops.find(name).build(case.size, torch.bfloat16, "cuda")
            for _ in range(3):
                step()
            junk.fill_(1)
            torch.cuda.synchronize()
            profiler.cudaProfilerStart()
            step()
            torch.cuda._sleep(1)
            torch.cuda.synchronize()
            profiler.cudaProfilerStop()
            del step
            torch.cuda.empty_cache()


def dram_bytes(text: str, names: list[str]) -> dict[str, float]:
    """Bytes by op from ncu's raw CSV page: kernels up to the next marker belong to one op.

    Args:
        text: ncu's output: talk, then a head line that starts with "ID", a line of units, a row per kernel.
        names: The ops in the order in which they ran.
    """
    lines = text.splitlines()
    head = next((i for i, line in enumerate(lines) if line.startswith('"ID"')), None)
    if head is None:
        return {}
    found: dict[str, float] = {}
    left, moved = list(names), 0.0
    for row in csv.DictReader(lines[head:]):
        if not (row.get("ID") or "").isdecimal() or not left:
            continue
        if _MARK in (row.get("Kernel Name") or ""):
            found[left.pop(0)] = moved
            moved = 0.0
            continue
        moved += sum(_number(row.get(f"dram__bytes_{way}.sum")) for way in ("read", "write"))
    return found


def counted(machine: Machine) -> dict[str, tuple[float, float | None]]:
    """`operator` and `cached` bytes by op, counted on fake tensors: no device is needed."""
    from roofline.counter import counted_run, record
    from roofline.targets import program

    found = {}
    for name, case in OPS:
        target, options = ops.program(case)
        run = counted_run(record(lambda t=target, o=options: program(t, o)[0]), machine, {})
        assert run.bytes.operator is not None
        found[name] = (run.bytes.operator, run.bytes.cached)
    return found


def _number(text: str | None) -> float:
    try:
        return float((text or "").replace(",", ""))
    except ValueError:
        return 0.0


if __name__ == "__main__" and "--run" in sys.argv:
    run_under_ncu()
