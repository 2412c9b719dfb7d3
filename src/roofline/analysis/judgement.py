"""Judge a Run against its machine: per-op roofs, time budget, verdict, advice, findings."""

import msgspec

from roofline.analysis.advice import advise
from roofline.analysis.budget import time_budget
from roofline.analysis.findings import findings
from roofline.analysis.verdict import choose_origin, decide
from roofline.core.machine import Machine
from roofline.core.roof import roof_time
from roofline.core.run import BytesOrigin, OpRecord, Run
from roofline.errors import MachineError


def judge(run: Run, machine: Machine | None = None, *, origin: BytesOrigin | None = None) -> Run:
    """Say which ceiling binds and how far below it the program is.

    Args:
        run: Counted, measured, planned or imported.
        machine: Whose roof; None takes the Run's own.
        origin: Which count of bytes to judge by; None takes the best model of DRAM traffic at hand.

    Returns:
        The Run with per-op roofs, verdict, time budget, advice, and warnings added.

    Raises:
        MachineError: There is no machine, or it lacks the ceiling that the program's main work needs.
        UsageError: The Run has no bytes of that origin.
    """
    machine = machine or run.machine
    if machine is None:
        raise MachineError("there is no machine to judge by", "name one: --machine h100-sxm (see: roofline devices)")
    chosen = choose_origin(run, origin)
    ops, missing = _with_roofs(run.ops, machine, chosen)
    run = msgspec.structs.replace(run, machine=machine, ops=ops)
    budget = time_budget(run)
    run = msgspec.structs.replace(run, time_budget=budget, verdict=decide(run, budget, chosen))
    return msgspec.structs.replace(
        run, advice=advise(run), warnings=_merged(run.warnings, (*missing, *findings(run)))
    )


def _with_roofs(
    ops: tuple[OpRecord, ...], machine: Machine, origin: BytesOrigin
) -> tuple[tuple[OpRecord, ...], tuple[str, ...]]:
    """Give every op its roof time; an op in a precision without a rate has none, and a warning says so."""
    judged: list[OpRecord] = []
    missing: dict[str, float] = {}
    for op in ops:
        try:
            roof = roof_time(op.work(origin, machine), machine)
        except MachineError as error:
            missing[error.message] = missing.get(error.message, 0.0) + op.executed_flops
            judged.append(msgspec.structs.replace(op, roof_s=None, bound=None, efficiency_fraction=None))
            continue
        efficiency = roof.total_s / op.seconds if op.seconds else None
        bound = roof.bound if roof.total_s else None
        judged.append(msgspec.structs.replace(op, roof_s=roof.total_s, bound=bound, efficiency_fraction=efficiency))
    total = sum(op.executed_flops for op in ops)
    if total and sum(missing.values()) > 0.5 * total:
        raise MachineError(next(iter(missing)), "choose another --precision, or give the peak: --peak-flops")
    return tuple(judged), tuple(
        f"{message}: {flops / total:.1%} of the matrix FLOP has no roof" if total else message
        for message, flops in missing.items()
    )


def _merged(old: tuple[str, ...], new: tuple[str, ...]) -> tuple[str, ...]:
    """Old warnings and new ones, each once: judging a Run twice says nothing twice."""
    return tuple(dict.fromkeys((*old, *new)))
