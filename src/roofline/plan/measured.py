"""A measured throughput on a planned step: MFU, HFU and MBU under the default convention, and the others."""

from textwrap import wrap

from roofline.core.precision import Precision
from roofline.core.units import percent, show
from roofline.plan.conventions import Score, Tokens, facts_of, score
from roofline.plan.planner import Plan
from roofline.plan.table import with_notes


def scored(planned: Plan, tokens_per_s: float, num_devices: int | None) -> Score:
    """Score a throughput of the plan's step.

    Args:
        planned: Names model, machine, precision and the bytes of a step.
        tokens_per_s: Tokens in the timed window over its length, all devices together.
        num_devices: Devices that worked on them; None: the plan's.

    Raises:
        UsageError: No convention counts a token of this model.
    """
    workload = planned.setting.workload
    devices = num_devices or planned.setting.parallel.devices
    if planned.architecture.model_type == "napkin" or workload.phase == "decode":
        return _by_plan(planned, tokens_per_s, devices)
    moved = sum(op.bytes.cached or 0 for op in planned.records) * planned.setting.parallel.devices
    return score(
        facts_of(planned.architecture),
        tokens_per_s=tokens_per_s,
        num_devices=devices,
        machine=planned.machine,
        tokens=Tokens(sequence=workload.past + workload.new_tokens),
        precision=_main(planned),
        phase="train" if workload.phase == "train" else "forward",
        recompute=workload.recompute if workload.phase == "train" else None,
        bytes_per_token=moved / planned.answers().tokens,
    )


def _by_plan(planned: Plan, tokens_per_s: float, devices: int) -> Score:
    """By the plan's own FLOP and bytes: conventions count tokens of whole sequences, decode only their last."""
    found = planned.answers()
    share = found.step_s * tokens_per_s / found.tokens * planned.setting.parallel.devices / devices
    return Score(
        tokens_per_s_per_device=tokens_per_s / devices,
        peak_flops_per_s=planned.machine.matrix_peak(_main(planned)).value,
        mfu_fraction=(found.mfu_fraction or 0) * share,
        hfu_fraction=(found.hfu_fraction or 0) * share,
        mbu_fraction=(found.mbu_fraction or 0) * share,
        rows=(),
    )


def _main(planned: Plan) -> Precision:
    """The precision of most of the matrix work."""
    return max(planned.records, key=lambda op: op.executed_flops).precision or planned.setting.precision


def rows(found: Score, width: int = 100) -> list[str]:
    """The score as lines: the default convention first."""
    head = (
        f"measured: {found.tokens_per_s_per_device:,.0f} tokens/s per device of "
        f"{show(found.peak_flops_per_s, 'FLOP/s')} dense: MFU {percent(found.mfu_fraction)}, "
        f"HFU {percent(found.hfu_fraction)}, MBU {percent(found.mbu_fraction)} by the plan's bytes"
    )
    lines = wrap(head, width, break_on_hyphens=False)
    if not found.rows:
        return lines
    columns = [
        ["convention", *(r.convention for r in found.rows)],
        ["counts", *(r.counts for r in found.rows)],
        ["per token", *(show(r.flops_per_token, "FLOP") for r in found.rows)],
        ["share of peak", *(percent(r.fraction) for r in found.rows)],
    ]
    notes = ["formula per token", *(r.formula for r in found.rows)]
    return [*lines, "", *with_notes(columns, notes, left=(0, 1), width=width)]
