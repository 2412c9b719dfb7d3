"""A throughput's MFU, HFU and MBU, under the default convention and all the others."""

import msgspec

from roofline.core.machine import Machine
from roofline.core.precision import Precision
from roofline.errors import UsageError
from roofline.plan.conventions.facts import ModelFacts
from roofline.plan.conventions.recompute import recomputations
from roofline.plan.conventions.rules import Convention, Phase, Tokens
from roofline.plan.conventions.table import conventions


class Row(msgspec.Struct, frozen=True, kw_only=True):
    """One convention's view of a throughput.

    Attributes:
        convention: Its name.
        formula: Its formula.
        counts: "needed" for an MFU, "executed" for an HFU.
        flops_per_token: FLOP that it charges for a token.
        flops_per_s: FLOP/s of one device.
        fraction: Share of the dense peak of one device.
    """

    convention: str
    formula: str
    counts: str
    flops_per_token: float
    flops_per_s: float
    fraction: float


class Score(msgspec.Struct, frozen=True, kw_only=True):
    """What a throughput is worth on a machine, per device.

    Attributes:
        tokens_per_s_per_device: Tokens per second ÷ devices.
        peak_flops_per_s: The dense peak that all fractions divide by.
        mfu_fraction: By the default convention.
        hfu_fraction: The same with what is recomputed; None where it is not said what is.
        mbu_fraction: Bytes per second ÷ bandwidth; None where no bytes per token were given.
        rows: Every convention that applies.
    """

    tokens_per_s_per_device: float
    peak_flops_per_s: float
    mfu_fraction: float
    hfu_fraction: float | None
    mbu_fraction: float | None
    rows: tuple[Row, ...]


def score(
    facts: ModelFacts,
    *,
    tokens_per_s: float,
    num_devices: int,
    machine: Machine,
    tokens: Tokens,
    precision: Precision = Precision.BF16,
    phase: Phase = "train",
    recompute: str | None = None,
    bytes_per_token: float | None = None,
) -> Score:
    """Score a measured throughput.

    Per device: MFU = tokens per second ÷ devices × FLOP per token ÷ dense peak. All tokens of the timed window
    count, over all ranks: gradient accumulation and data parallelism are in them; tensor, pipeline and sequence
    parallelism only share the same tokens among the devices.

    Args:
        facts: The model.
        tokens_per_s: Tokens in the timed window ÷ its length, of all devices together.
        num_devices: Devices that worked on them, whatever the parallelism.
        machine: One of them.
        tokens: Sequence length and packed documents.
        precision: What the matrix products run in.
        phase: "train" or "forward".
        recompute: What is recomputed ("none", "selective", "layers", "full"); None where it is not known.
        bytes_per_token: Bytes that one device moves per token of its share; None leaves MBU out.

    Raises:
        UsageError: A number is not positive, the recomputation is unknown or the sequence length is missing.
        MachineError: The machine has no such peak.
    """
    if not tokens_per_s > 0 or num_devices < 1:
        raise UsageError(
            f"{tokens_per_s:g} tokens/s on {num_devices} devices is no throughput", "both must be above zero"
        )
    peak = machine.matrix_peak(precision).value
    per_device = tokens_per_s / num_devices
    chosen = [c for c in conventions() if c.phase == phase and c.fits(facts) and not c.fault]
    rows = tuple(_row(c, facts, tokens, per_device, peak) for c in chosen)
    extra = _extra(chosen[0], facts, tokens, recompute) if phase == "train" and recompute else None
    bandwidth = machine.dram.value if bytes_per_token is not None else None
    return Score(
        tokens_per_s_per_device=per_device,
        peak_flops_per_s=peak,
        mfu_fraction=rows[0].fraction,
        hfu_fraction=None if extra is None else rows[0].fraction + extra * per_device / peak,
        mbu_fraction=None
        if bytes_per_token is None or bandwidth is None
        else bytes_per_token * per_device / bandwidth,
        rows=rows,
    )


def _row(convention: Convention, facts: ModelFacts, tokens: Tokens, per_device: float, peak: float) -> Row:
    flops = convention.flops_per_token(facts, tokens)
    return Row(
        convention=convention.name,
        formula=convention.formula,
        counts=convention.counts,
        flops_per_token=flops,
        flops_per_s=flops * per_device,
        fraction=flops * per_device / peak,
    )


def _extra(convention: Convention, facts: ModelFacts, tokens: Tokens, recompute: str) -> float:
    found = next((r for r in recomputations() if r.name == recompute), None)
    if found is None:
        known = ", ".join(r.name for r in recomputations())
        raise UsageError(f'unknown recomputation "{recompute}" (known: {known})', "give --recompute full")
    return found.extra(convention, facts, tokens)
