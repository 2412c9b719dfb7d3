"""The GPU of an Apple chip: the chip's name and its count of GPU cores say which one it is."""

import json
import sys

import msgspec

from roofline.core.machine import Machine
from roofline.errors import MachineError
from roofline.machines.cpu import sysctl
from roofline.machines.identify import identify


def detect() -> Machine:
    """Identify the GPU of this Mac; its memory is the computer's."""
    if sys.platform != "darwin":
        raise MachineError('no "mps" device: this is no Mac', "devices are cpu, cuda, cuda:1, xpu and mps")
    found = identify(sysctl("machdep.cpu.brand_string"), multiprocessors=gpu_cores(_displays()))
    memory = sysctl("hw.memsize")
    return msgspec.structs.replace(found, memory_bytes=int(memory) if memory else None)


def gpu_cores(displays: str) -> int | None:
    """Read the GPU core count off the JSON of `system_profiler SPDisplaysDataType`."""
    try:
        rows = json.loads(displays)["SPDisplaysDataType"]
        return next(int(row["sppci_cores"]) for row in rows if "sppci_cores" in row)
    except (ValueError, KeyError, TypeError, StopIteration):
        return None


def _displays() -> str:
    import subprocess  # slow to import, and only detection needs it

    query = ["system_profiler", "-json", "SPDisplaysDataType"]
    try:
        return subprocess.run(query, capture_output=True, text=True, timeout=30, check=True).stdout
    except (OSError, subprocess.SubprocessError):
        return ""
