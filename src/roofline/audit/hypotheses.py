"""What people divide by: the right peak and the wrong ones, the right share of a device and the wrong ones."""

import msgspec

from roofline import machines
from roofline.audit.claim import Claim, Layout
from roofline.core.machine import Machine
from roofline.core.precision import Precision
from roofline.core.units import show

# Machines whose peak is written into training code or taken when a name is not recognised, and the variants of a
# chip that go by one short name.
_MISTAKEN = ("a100-sxm-80gb", "h100-sxm", "h100-pcie", "h100-nvl", "b200", "mi300x")
_SAME = 1e-3


class Peak(msgspec.Struct, frozen=True, kw_only=True):
    """A denominator: FLOP/s of one device."""

    value: float
    label: str
    fault: str = ""


class Division(msgspec.Struct, frozen=True, kw_only=True):
    """What becomes of one device's true rate: it is multiplied by `factor`."""

    factor: float
    label: str
    fault: str = ""


def peaks(machine: Machine, precision: Precision) -> tuple[Peak, ...]:
    """The dense peak of a machine, and what is mistaken for it; equal values are one.

    Raises:
        MachineError: The machine has no such peak.
    """
    dense = machine.matrix_peak(precision).value
    name = f"{precision.upper()} peak of {machine.name}"
    others = [
        Peak(
            value=2 * dense,
            label=f"sparse {name}",
            fault="the peak is the sparse one, twice what dense matrices can reach",
        ),
        Peak(
            value=dense / 2,
            label=f"half the dense {name}",
            fault="the peak is half the dense one: a dense figure was halved as if it were a sparse one",
        ),
        *_other_precisions(machine, precision),
        *_other_machines(machine, precision),
    ]
    found = [Peak(value=dense, label=f"dense {name}")]
    for peak in others:
        if not any(abs(peak.value / seen.value - 1) < _SAME for seen in found):
            found.append(peak)
    return tuple(found)


def _other_precisions(machine: Machine, precision: Precision) -> list[Peak]:
    rates = [(p, c.value) for p, c in machine.matrix.items() if p != precision and not p.is_integer]
    rates += [(Precision.FP32, machine.vector[Precision.FP32].value)] if Precision.FP32 in machine.vector else []
    return [
        Peak(
            value=value,
            label=f"{p.upper()} peak of {machine.name}",
            fault=f"the peak is that of {p.upper()}, but the work ran in {precision.upper()}",
        )
        for p, value in rates
    ]


def _other_machines(machine: Machine, precision: Precision) -> list[Peak]:
    found = []
    for key in _MISTAKEN:
        other = machines.find(key)
        if other.key != machine.key and precision in other.matrix:
            label = f"dense {precision.upper()} peak of {other.name}"
            fault = f"the peak is another machine's: {other.name}"
            found.append(Peak(value=other.matrix[precision].value, label=label, fault=fault))
    return found


def divisions(claim: Claim) -> tuple[Division, ...]:
    """The rate of one device, and what is mistaken for it.

    Right: tokens of all ranks in the timed window ÷ devices, whatever the parallelism.
    """
    n, layout = claim.devices, claim.layout
    found = [Division(factor=1, label=f"÷ {n} devices" if n > 1 else "one device")]
    if n > 1:
        found += [
            Division(
                factor=n, label="not divided", fault=f"the work of all {n} devices is divided by the peak of one"
            ),
            Division(
                factor=1 / n,
                label=f"÷ {n} devices, twice",
                fault=f"the throughput of one device was divided by {n} devices again",
            ),
        ]
    if n > layout.per_host and n % layout.per_host == 0:
        host = layout.per_host
        fault = f"the work of a host's {host} devices is divided by the peak of one"
        found.append(Division(factor=host, label=f"per host of {host} devices", fault=fault))
    return (*found, *_of_layout(layout))


def _of_layout(layout: Layout) -> list[Division]:
    """Faults of counting that come with a way of spreading the work."""
    found = []
    if layout.accumulation > 1:
        k = layout.accumulation
        fault = f"one micro-step is counted, but the time is that of all {k}"
        found.append(Division(factor=1 / k, label=f"1 of {k} micro-steps", fault=fault))
    for ranks, what, unit in (
        (layout.pipeline, "stage of the pipeline", "pipeline"),
        (layout.tensor, "shard of tensor parallelism", "tensor-parallel"),
    ):
        if ranks > 1:
            fault = f"a rank counts only its own {what}, and that share is divided by all devices again"
            found.append(Division(factor=1 / ranks, label=f"1 of {ranks} {unit} ranks", fault=fault))
    for ranks, unit in ((layout.sequence, "sequence-parallel"), (layout.tensor, "tensor-parallel")):
        if ranks > 1:
            fault = f"the {ranks} {unit} ranks work on the same tokens, and each counts them as its own"
            found.append(Division(factor=ranks, label=f"tokens × {ranks} {unit} ranks", fault=fault))
    if layout.sequence > 1:
        k = layout.sequence
        fault = f"tokens of a device are divided by its {k} sequence-parallel ranks a second time"
        found.append(Division(factor=1 / k, label=f"÷ {k} sequence-parallel ranks, twice", fault=fault))
    return found


def rate_line(value: float) -> str:
    """A FLOP rate of the arithmetic."""
    return show(value, "FLOP/s", digits=4)
