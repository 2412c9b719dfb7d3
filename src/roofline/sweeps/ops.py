"""Ops: analytic work, measured time, a point on the roof each, and the classic table of intensities.

Each op has its work in closed form (what one ideal kernel would do, n its size, s bytes per element) and a step that
runs it. What torch really dispatches is counted beside it; where it is more than one kernel, the two differ.
"""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from roofline.core.machine import Machine
from roofline.core.precision import Precision
from roofline.core.run import BytesOrigin, OpBytes, OpRecord, Run
from roofline.errors import UsageError
from roofline.formulas import TensorSpec
from roofline.sweeps.case import Case
from roofline.sweeps.mlp import dtype
from roofline.sweeps.planned import planned_run
from roofline.sweeps.settings import Settings
from roofline.targets.made import Made, Target
from roofline.targets.options import Options


class Part(NamedTuple):
    """Work of one kernel.

    Attributes:
        name: What it does.
        matrix: FLOP on the matrix engine.
        vector: FLOP on the vector engine.
        bytes: Bytes read and written.
        shapes: Of a matrix product's inputs, as an op record spells them.
    """

    name: str
    matrix: float
    vector: float
    bytes: float
    shapes: str = ""


class Op(NamedTuple):
    """One op of the sweep.

    Attributes:
        name: On the command line and in figures.
        grows: What its size is.
        intensity: FLOP per byte in closed form: n the size, s bytes per element.
        small: Sizes for a CPU.
        article: Sizes for a GPU.
        work: Kernels of an ideal program, from n and s.
        build: Makes the step, from n, the dtype and the device.
        precision: The only one that it is run in; None: the sweep's.
    """

    name: str
    grows: str
    intensity: str
    small: tuple[int, ...]
    article: tuple[int, ...]
    work: Callable[[int, float], list[Part]]
    build: Callable[[int, Any, str], Callable[[], Any]]
    precision: Precision | None = None


def cases(settings: Settings) -> list[Case]:
    """One case per op and size.

    Raises:
        UsageError: There is no such op.
    """
    from roofline.sweeps.op_table import OPS

    names = [op.name for op in OPS]
    unknown = [name for name in settings.only if name not in names]
    if unknown:
        from difflib import get_close_matches

        near = ", ".join(get_close_matches(unknown[0], names, 3)) or ", ".join(names)
        raise UsageError(f'no op "{unknown[0]}" in the sweep', f"it has: {near}")
    return [
        Case(
            sweep="ops",
            series=op.name,
            size=size,
            precision=op.precision or settings.precision,
            device=settings.device,
        )
        for op in OPS
        if not settings.only or op.name in settings.only
        for size in (sorted(settings.sizes) or (op.small if settings.small else op.article))
    ]


def find(name: str) -> Op:
    """The op of a series."""
    from roofline.sweeps.op_table import OPS

    return next(op for op in OPS if op.name == name)


def closed_form(case: Case) -> list[Part]:
    """Work of the case in closed form."""
    return find(case.series).work(case.size, TensorSpec((1,), dtype(case.precision)).nbytes)


def closed_intensity(case: Case) -> float | None:
    """FLOP per byte of the case in closed form: matrix work, or vector work where there is no other."""
    parts = closed_form(case)
    flops = sum(p.matrix for p in parts) or sum(p.vector for p in parts)
    return flops / sum(p.bytes for p in parts) if flops else None


def program(case: Case) -> tuple[Target, Options]:
    """The case as a target to count or time."""
    op = find(case.series)

    def make(options: Options) -> Made:
        import torch

        return Made(step=op.build(case.size, getattr(torch, dtype(case.precision)), options.device))

    return Target(f"{op.name}, {op.grows} {case.size}", make), Options(device=case.device or "cpu")


def predict(case: Case, machine: Machine, origin: BytesOrigin | None) -> Run | None:
    """Judge the closed form by any machine, without torch."""
    parts = closed_form(case)
    records = [
        OpRecord(
            name=part.name,
            shapes=part.shapes,
            precision=case.precision,
            engine="matrix" if part.matrix else "vector" if part.vector else None,
            needed_flops=part.matrix,
            executed_flops=part.matrix,
            vector_flops=part.vector,
            bytes=OpBytes(operator=part.bytes),
        )
        for part in parts
    ]
    workload = {"target": case.label, "closed_form": find(case.series).intensity}
    return planned_run(records, machine, workload, origin=origin)


def memory_bytes(case: Case) -> float:
    """About what the case needs: all that it moves."""
    return sum(part.bytes for part in closed_form(case))


def facts(cases: Sequence[Case], machine: Machine | None) -> dict[str, Any]:
    """What the theory says before anything runs: where the ridge is."""
    if not cases or machine is None:
        return {}
    main = next((c.precision for c in cases if find(c.series).precision is None), cases[0].precision)
    return {"ridge_point_flops_per_byte": machine.ridge_point(main)}
