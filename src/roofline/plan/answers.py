"""What a plan answers: step time, latency, throughput, MFU, MBU, at the roof."""

from typing import TYPE_CHECKING

import msgspec

from roofline.core.machine import Machine
from roofline.core.roof import roof_time
from roofline.core.run import OpRecord
from roofline.core.work import Work
from roofline.plan.phases import images_per_sequence, microbatches

if TYPE_CHECKING:
    from roofline.plan.planner import Plan


class Answers(msgspec.Struct, frozen=True, kw_only=True):
    """Figures of one step at the roof. No step of this program on this machine can be faster.

    Attributes:
        step_s: Step time with communication hidden behind computation as far as it goes.
        step_exposed_s: Step time with no communication hidden.
        bubble_s: Of these, idle time of the pipeline.
        communication_s: Time that communication needs.
        tokens: Tokens that a step yields (decode: expected, with speculation) or reads, on all devices.
        tokens_per_s: tokens / step_s.
        tokens_per_s_per_device: The same per device.
        mfu_fraction: Needed matrix FLOP at peak / step_s, per device.
        hfu_fraction: Executed matrix FLOP at peak / step_s.
        mbu_fraction: Bytes at bandwidth / step_s.
        weights_read_bytes: Weights read per step and device.
        kv_read_bytes: Cache and state moved per step and device.
        flops_needed: Matrix FLOP needed per step and device.
    """

    step_s: float
    step_exposed_s: float
    bubble_s: float
    communication_s: float
    tokens: float
    tokens_per_s: float | None
    tokens_per_s_per_device: float | None
    mfu_fraction: float | None
    hfu_fraction: float | None
    mbu_fraction: float | None
    weights_read_bytes: float
    kv_read_bytes: float
    flops_needed: float


def answer(planned: "Plan") -> Answers:
    """Answer a plan.

    The pipeline: with M micro-batches and p stages, forward and backward take (M + p − 1) / M of a rank's own time;
    in decode a token passes all stages, and M ≥ p micro-batches keep them busy.
    """
    roofs = [(op, roof_time(op.work("cached", planned.machine), planned.machine)) for op in planned.records]
    talk = sum(r.total_s for op, r in roofs if _is_talk(op))
    work = sum(r.total_s for op, r in roofs if not _is_talk(op))
    late = sum(r.total_s for op, r in roofs if op.phase == "optimizer")
    longer = stretch(planned)
    # Hidden communication still takes its share of the memory's bandwidth.
    together = sum((op.work("cached", planned.machine) for op in planned.records if op.phase != "optimizer"), Work())
    busy = max(work - late, talk, roof_time(together, planned.machine).total_s)
    hidden = busy * longer + late
    exposed = (work - late + talk) * longer + late
    tokens = _tokens(planned)
    total = sum((op.work("cached", planned.machine) for op, _ in roofs), Work())
    peaks = roof_time(total, planned.machine)
    needed = sum(op.needed_flops for op in planned.records)
    executed = sum(op.executed_flops for op in planned.records)
    hfu = peaks.matrix_s / hidden if hidden else None
    rate = tokens / hidden if hidden else None
    return Answers(
        step_s=hidden,
        step_exposed_s=exposed,
        bubble_s=(longer - 1) * busy,
        communication_s=talk,
        tokens=tokens,
        tokens_per_s=rate,
        tokens_per_s_per_device=rate / planned.setting.parallel.devices if rate else None,
        mfu_fraction=hfu * needed / executed if hfu and executed else None,
        hfu_fraction=hfu,
        mbu_fraction=peaks.memory_s / hidden if hidden else None,
        weights_read_bytes=sum(op.weight_bytes for op in planned.ops),
        kv_read_bytes=sum(op.state_bytes for op in planned.ops if op.kind != "optimizer"),
        flops_needed=needed,
    )


def _is_talk(op: OpRecord) -> bool:
    return bool(op.node_bytes or op.network_bytes)


def stretch(planned: "Plan") -> float:
    """How much longer a step is than a rank's own time, for the pipeline."""
    stages, parts = planned.setting.parallel.pp, microbatches(planned.setting)
    if planned.setting.workload.phase == "decode":
        return max(1.0, stages / parts)
    return (parts + stages - 1) / parts


def _tokens(planned: "Plan") -> float:
    workload = planned.setting.workload
    if planned.draft is not None:
        return workload.batch * planned.draft.accepted
    tower = planned.architecture.tower
    if planned.architecture.is_tower and tower is not None:
        return workload.batch * images_per_sequence(tower, True, planned.setting) * (tower.tokens or 0)
    return workload.batch * workload.new_tokens


def critical_tokens(machine: Machine, bits: float, precision: str) -> float | None:
    """Tokens per weight read at which a product turns compute-bound: peak / bandwidth · bits / 16.

    A product does 2 FLOP per weight and token, and reads bits / 8 B per weight, once.
    """
    from roofline.core.precision import Precision
    from roofline.errors import MachineError

    try:
        return machine.ridge_point(Precision(precision)) * bits / 16
    except MachineError:
        return None
