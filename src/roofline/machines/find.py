"""Lookup by name: a key, a full name or an alias, exactly. Never a part of a name, never a fallback."""

from roofline.core.machine import Machine
from roofline.errors import MachineError
from roofline.machines.database import describe, fold, keys_of, machine, names

_OTHERWISE = (
    'list all: roofline devices; or give the ceilings: --peak-flops "bf16=125 TFLOP/s" --peak-bandwidth "600 GB/s"'
)


def find(name: str) -> Machine:
    """Find a machine by key, full name or alias.

    Case, blanks against hyphens, and whether the vendor is in front don't matter; everything else does: "H100" is no
    machine, because an H100 PCIe has three quarters of the rate of an H100 SXM; "Apple A10" is not NVIDIA's A10.

    Raises:
        MachineError: The name is unknown, or several machines share it.
    """
    keys = keys_of(name)
    if not keys:
        raise unknown(name)
    if len(keys) > 1:
        raise ambiguous(name, [machine(key) for key in keys])
    return machine(keys[0])


def ambiguous(name: str, candidates: list[Machine], *, apart: str = "") -> MachineError:
    """Make the error for a name that several machines share."""
    hint = f"name one: {', '.join(m.key for m in candidates)}"
    return MachineError(f'"{name}" is ambiguous: {describe(candidates)}', f"{hint}; {apart}" if apart else hint)


def unknown(name: str) -> MachineError:
    """Make the error for a name that no machine has, with near names where there are some."""
    import difflib

    known = names()
    near = difflib.get_close_matches(fold(name), known.spelled, n=4, cutoff=0.6)
    spelled = ", ".join(f'"{known.spelled[n]}"' for n in near)
    return MachineError(f'unknown machine "{name}"' + (f"; near names: {spelled}" if near else ""), _OTHERWISE)
