"""Runs that nobody timed: ops from closed forms or from the formula table, judged by any machine. No torch."""

from collections.abc import Iterable
from typing import Any

from roofline.analysis import judge
from roofline.core.machine import Machine
from roofline.core.precision import Precision
from roofline.core.run import Bytes, BytesOrigin, Flops, OpBytes, OpRecord, Phase, Run
from roofline.formulas import TensorSpec
from roofline.formulas.registry import call, find_rule


def op_record(
    name: str, *inputs: TensorSpec, out: TensorSpec, module: str = "", phase: Phase = "forward", calls: int = 1
) -> OpRecord:
    """An op as the counter would record it, from the same formula and without tensors.

    Bytes: `operator`, inputs read once and the output written once, but for the formula's exceptions.

    Args:
        name: As in the formula table, such as "aten.mm".
        *inputs: Its tensors.
        out: Its result.
        module: Who calls it.
        phase: In which phase.
        calls: How often.
    """
    rule = find_rule(name)
    assert rule is not None, name
    cost = call(rule, inputs, {}, out)
    read = sum(cost.read.get(i, spec.nbytes) for i, spec in enumerate(inputs))
    written = cost.written.get(0, out.nbytes)
    needed = cost.matrix if cost.needed is None else cost.needed
    return OpRecord(
        name=name,
        module=module,
        phase=phase,
        calls=calls,
        shapes=", ".join(map(str, inputs)),
        precision=cost.precision or inputs[0].precision,
        engine="matrix" if cost.matrix else "vector" if cost.vector else None,
        needed_flops=needed * calls,
        executed_flops=cost.matrix * calls,
        vector_flops=cost.vector * calls,
        bytes=OpBytes(operator=(read + written + cost.workspace_bytes) * calls),
        formula=cost.formula,
    )


def planned_run(
    ops: Iterable[OpRecord],
    machine: Machine,
    workload: dict[str, Any],
    *,
    compulsory: float | None = None,
    origin: BytesOrigin | None = None,
) -> Run:
    """Judge ops that were never run.

    Args:
        ops: What runs in one step.
        machine: Whose roof.
        workload: What it is.
        compulsory: Bytes that any execution moves, where known.
        origin: Which count of bytes to judge by.
    """
    rows = tuple(ops)
    by_precision: dict[Precision, float] = {}
    for row in rows:
        if row.executed_flops and row.precision:
            by_precision[row.precision] = by_precision.get(row.precision, 0.0) + row.executed_flops
    cached = [row.bytes.cached for row in rows]
    run = Run(
        kind="planned",
        workload=workload,
        machine=machine,
        flops=Flops(
            needed=sum(row.needed_flops for row in rows),
            executed=sum(row.executed_flops for row in rows),
            vector=sum(row.vector_flops for row in rows),
            by_precision=by_precision,
        ),
        bytes=Bytes(
            operator=sum(row.bytes.operator or 0.0 for row in rows),
            cached=sum(b or 0.0 for b in cached) if all(b is not None for b in cached) else None,
            compulsory=compulsory,
        ),
        ops=rows,
    )
    return judge(run, origin=origin)
