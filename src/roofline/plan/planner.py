"""A model on a machine: op records, the Run that they make, and what follows from it."""

from collections.abc import Sequence
from typing import Any

import msgspec

from roofline.analysis import judge
from roofline.core.machine import Machine
from roofline.core.precision import Precision
from roofline.core.roof import Bound, roof_time
from roofline.core.run import Bytes, Flops, OpRecord, Run
from roofline.core.units import show
from roofline.core.work import Work
from roofline.errors import MachineError, UsageError
from roofline.plan.answers import Answers, answer, stretch
from roofline.plan.architecture import Architecture
from roofline.plan.capacity import Memory, memory
from roofline.plan.fitted import Expectation, expect
from roofline.plan.ops import Op
from roofline.plan.phases import step_ops
from roofline.plan.setting import Setting, setting
from roofline.plan.speculate import Draft, speculative_ops
from roofline.plan.workload import Parallel, Workload


class Plan(msgspec.Struct, frozen=True, kw_only=True):
    """One model, workload and split on one machine.

    Attributes:
        architecture: The model.
        setting: Workload, split, formats.
        machine: Whose roof.
        draft: How tokens are proposed, in speculative decoding.
        ops: Of the busiest rank, one step.
        records: The same as op records.
    """

    architecture: Architecture
    setting: Setting
    machine: Machine
    draft: Draft | None
    ops: tuple[Op, ...]
    records: tuple[OpRecord, ...]

    def memory(self) -> Memory:
        """What the busiest rank holds."""
        return memory(self.architecture, list(self.ops), self.setting, self.machine)

    def roofs(self) -> list[float]:
        """Least time of every op, s, in the order of `records`."""
        return [roof_time(op.work("cached", self.machine), self.machine).total_s for op in self.records]

    def bound(self) -> Bound:
        """The ceiling that binds all ops together."""
        total = Work()
        for op in self.records:
            total += op.work("cached", self.machine)
        return roof_time(total, self.machine).bound

    def expectation(self) -> Expectation | None:
        """Expected time by the fitted roof, where the machine has one."""
        found = expect(self.records, self.machine)
        return found and found.times(stretch(self))

    def answers(self) -> Answers:
        """Times, rates and ratios at the roof."""
        return answer(self)


def plan(
    architecture: Architecture,
    machine: Machine,
    workload: Workload | None = None,
    parallel: Parallel | None = None,
    draft: Draft | None = None,
) -> Plan:
    """Plan one step.

    Raises:
        UsageError: Sizes that make no sense or don't divide; a phase that the model doesn't have.
        MachineError: The machine lacks a ceiling that the plan needs.
    """
    how = setting(architecture, workload or Workload(), parallel or Parallel())
    if draft is not None and how.workload.phase != "decode":
        raise UsageError("speculative decoding needs --phase decode", "leave --draft out")
    ops = step_ops(architecture, how) if draft is None else speculative_ops(architecture, how, draft)
    return _placed(architecture, how, draft, tuple(ops), machine)


def elsewhere(planned: Plan, machine: Machine) -> Plan:
    """The same ops on another machine.

    Raises:
        MachineError: The machine lacks a ceiling that the plan needs.
    """
    return _placed(planned.architecture, planned.setting, planned.draft, planned.ops, machine)


def _placed(
    architecture: Architecture, how: Setting, draft: Draft | None, ops: tuple[Op, ...], machine: Machine
) -> Plan:
    _check_links(ops, machine)
    cache = machine.last_level_cache_bytes
    records = tuple(op.record(cache) for op in ops)
    return Plan(architecture=architecture, setting=how, machine=machine, draft=draft, ops=ops, records=records)


def _check_links(ops: Sequence[Op], machine: Machine) -> None:
    """Refuse a plan whose communication has no ceiling: it would come out free."""
    if any(op.network_bytes for op in ops) and "network" not in machine.bandwidth:
        raise MachineError(
            f'no network bandwidth between nodes is known for "{machine.name}"',
            'give it per device and direction: --network "50 GB/s"; or keep groups within a node (--node)',
        )
    if any(op.node_bytes for op in ops) and not {"nvlink", "pcie"} & set(machine.bandwidth):
        raise MachineError(
            f'no link between devices of a node is known for "{machine.name}"', 'give it: --nvlink "450 GB/s"'
        )


def run_of(planned: Plan) -> Run:
    """The plan as a judged Run.

    Raises:
        MachineError: The machine lacks the peak of the plan's main precision.
    """
    records = planned.records
    by_precision: dict[Precision, float] = {}
    for op in records:
        if op.executed_flops and op.precision:
            by_precision[op.precision] = by_precision.get(op.precision, 0.0) + op.executed_flops
    run = Run(
        kind="planned",
        workload=describe(planned),
        machine=planned.machine,
        flops=Flops(
            needed=sum(op.needed_flops for op in records),
            executed=sum(op.executed_flops for op in records),
            vector=sum(op.vector_flops for op in records),
            by_precision=by_precision,
        ),
        bytes=Bytes(
            compulsory=sum(_compulsory(op) for op in planned.ops),
            operator=sum(op.bytes.operator or 0 for op in records),
            cached=sum(op.bytes.cached or 0 for op in records),
        ),
        ops=records,
        warnings=tuple(_warnings(planned)),
    )
    return judge(run)


def _compulsory(op: Op) -> float:
    """Bytes that any execution moves: weights, cache, optimizer state; activations could stay on the chip."""
    return 0.0 if op.phase == "backward" else op.weight_bytes + op.state_bytes


def describe(planned: Plan) -> dict[str, Any]:
    """What is planned, as plain values."""
    workload, parallel = planned.setting.workload, planned.setting.parallel
    described: dict[str, Any] = {
        "target": planned.architecture.name,
        "phase": workload.phase,
        "batch": workload.batch,
        "tokens": workload.new_tokens if workload.phase != "decode" else None,
        "context": workload.past,
        "train": workload.phase == "train",
        "precision": str(workload.precision),
        "weights": planned.setting.storage.describe(),
        "kv_cache": planned.setting.kv.name,
        "parallel": {k: getattr(parallel, k) for k in parallel.__struct_fields__},
        "devices": parallel.devices,
    }
    if planned.draft is not None:
        described["draft"] = {
            "model": planned.draft.model.name if planned.draft.model else "mtp",
            "tokens": planned.draft.tokens,
            "acceptance": planned.draft.acceptance,
        }
    return described


def _warnings(planned: Plan) -> list[str]:
    """What to know before trusting the plan, each with the size of its effect."""
    found = [f"{note}" for note in planned.architecture.notes]
    room = planned.memory()
    if room.fits is False:
        found.append(
            f"does not fit: {show(room.total_bytes, 'B', capacity=True)} of "
            f"{show(room.capacity_bytes, 'B', capacity=True)} per device"
        )
    longest = planned.architecture.max_context
    length = planned.setting.workload.past + planned.setting.workload.new_tokens
    if longest and length > longest:
        found.append(f"a context of {length:,} is beyond the {longest:,} that the model was made for")
    cache = planned.machine.last_level_cache_bytes
    if cache and room.weights_bytes <= cache:
        found.append(
            f"all weights ({show(room.weights_bytes, 'B')}) fit into the last-level cache of "
            f"{show(cache, 'B', capacity=True)}: steps may beat this roof"
        )
    return found


def vary(planned: Plan, **changes: Any) -> Plan:
    """The same plan with fields of its workload changed."""
    workload = msgspec.structs.replace(planned.setting.workload, **changes)
    return plan(planned.architecture, planned.machine, workload, planned.setting.parallel, planned.draft)
