"""Which machine a device of this computer is. The readers are thin; `identify` decides.

torch is asked where it is installed, else NVIDIA's driver; CPUs and Apple's chips are asked through the system.
"""

import re

import msgspec

from roofline.core.machine import Machine
from roofline.errors import MachineError
from roofline.machines import apple, cpu, smi
from roofline.machines.identify import identify


def detect(device: str) -> Machine:
    """Identify a device of this computer.

    A CPU comes with its identity, caches and memory only: nobody publishes its ceilings, so they are measured.

    Args:
        device: "cpu", "cuda", "cuda:1" (NVIDIA or AMD), "xpu", "xpu:1" (Intel) or "mps" (Apple).

    Raises:
        MachineError: There is no such device, or it can't be told which machine it is.
    """
    kind, _, index = device.partition(":")
    if (index and not index.isdigit()) or kind not in ("cpu", "cuda", "xpu", "mps"):
        raise MachineError(f'unknown device "{device}"', "devices are cpu, cuda, cuda:1, xpu and mps")
    number = int(index) if index else None
    if kind == "cpu":
        return cpu.detect()
    if kind == "mps":
        return apple.detect()
    return _cuda(number) if kind == "cuda" else _xpu(number or 0)


def unlisted(device: str) -> Machine:
    """Describe a GPU that the database doesn't tell apart: its name, memory and multiprocessors, without rates.

    Args:
        device: "cuda", "cuda:1".

    Raises:
        MachineError: It is no GPU that torch can describe.
    """
    import torch

    if not device.startswith("cuda") or not torch.cuda.is_available():
        raise _absent(device)
    seen = torch.cuda.get_device_properties(torch.device(device))
    key = re.sub(r"[^a-z0-9]+", "-", seen.name.lower()).strip("-") or "gpu"
    return Machine(
        key=key,
        name=seen.name or "unnamed GPU",
        memory_bytes=seen.total_memory,
        cache_bytes={"l2": l2} if (l2 := getattr(seen, "L2_cache_size", 0)) else {},
        multiprocessors=seen.multi_processor_count,
    )


def _cuda(number: int | None) -> Machine:
    try:
        import torch
    except ImportError:
        return _from_driver(number or 0)
    if not torch.cuda.is_available():
        raise _absent("cuda")
    index = torch.cuda.current_device() if number is None else number
    if index >= torch.cuda.device_count():
        raise MachineError(f"no device cuda:{index}, there are {torch.cuda.device_count()}", "count from 0")
    seen = torch.cuda.get_device_properties(index)
    khz = getattr(seen, "clock_rate", 0)
    found = identify(
        seen.name,
        memory_bytes=seen.total_memory,
        multiprocessors=seen.multi_processor_count,
        clock_hz=1e3 * khz if khz else None,
        compute=f"{seen.major}.{seen.minor}",
    )
    uuid = getattr(seen, "uuid", None)
    if torch.version.hip or uuid is None:
        return found
    return _with_notes(found, smi.read(f"GPU-{uuid}"))


def _from_driver(index: int) -> Machine:
    seen = smi.read(str(index))
    if seen is None:
        raise _absent("cuda")
    # The driver's clock is left out: it tells no NVIDIA variants apart, and it does not report multiprocessors.
    return _with_notes(identify(seen.name, memory_bytes=seen.memory_bytes, compute=seen.compute), seen)


def _xpu(index: int) -> Machine:
    try:
        import torch
    except ImportError:
        raise _absent("xpu") from None
    if not torch.xpu.is_available() or index >= torch.xpu.device_count():
        raise _absent("xpu")
    seen = torch.xpu.get_device_properties(index)
    # A subslice is what Intel sells as a Xe core.
    return identify(seen.name, memory_bytes=seen.total_memory, multiprocessors=seen.gpu_subslice_count)


def _with_notes(found: Machine, seen: smi.Reading | None) -> Machine:
    notes = smi.below_default(seen) if seen else ()
    return msgspec.structs.replace(found, notes=(*found.notes, *notes)) if notes else found


def _absent(kind: str) -> MachineError:
    return MachineError(
        f'no "{kind}" device is visible here',
        "check the driver and torch's build, or judge by a machine that is not here: --machine NAME",
    )
