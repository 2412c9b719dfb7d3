"""The CPU at hand: its name, the cores this process may use, caches and memory. No ceilings: those are measured."""

import os
import platform
import re
import sys
from collections.abc import Iterable
from pathlib import Path

import msgspec

from roofline.core.machine import Level, Machine

_LEVELS: dict[int, Level] = {1: "l1", 2: "l2", 3: "l3"}
_SIZE = re.compile(r"(\d+)([KMG]?)")
_SCALE = {"": 1, "K": 2**10, "M": 2**20, "G": 2**30}
_SYSTEM = Path("/sys/devices/system/cpu")


class CacheEntry(msgspec.Struct, frozen=True):
    """One cache as one CPU sees it.

    Attributes:
        level: 1, 2, 3.
        kind: "Data", "Instruction" or "Unified".
        size_bytes: Capacity.
        shared_with: The CPUs that share it, as the kernel lists them: "0-3".
    """

    level: int
    kind: str
    size_bytes: int
    shared_with: str


def detect() -> Machine:
    """Describe the CPU of this computer; the cores are those that this process may run on."""
    if sys.platform == "darwin":
        return _mac()
    cpus = sorted(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else list(range(os.cpu_count() or 1))
    return describe(
        model_name(_text(Path("/proc/cpuinfo"))) or platform.processor() or platform.machine(),
        cores=len(cpus),
        caches=cache_sizes(_entries(cpus)),
        memory_bytes=total_memory(_text(Path("/proc/meminfo"))),
    )


def describe(name: str, *, cores: int, caches: dict[Level, int], memory_bytes: int | None) -> Machine:
    """Make the machine of a CPU: an identity without rates.

    Args:
        name: Model name.
        cores: Cores that may be used.
        caches: Capacity by level, all caches of a level together, B.
        memory_bytes: Memory of the computer, B.
    """
    key = re.sub(r"[^a-z0-9]+", "-", re.sub(r"\((?:r|tm)\)", "", name.lower())).strip("-")
    return Machine(
        key=key or "cpu",
        name=name,
        kind="cpu",
        memory_bytes=memory_bytes,
        cache_bytes=caches,
        multiprocessors=cores,
        source="as the operating system reports it",
        notes=("its ceilings are measured, not published: roofline calibrate",),
    )


def model_name(cpuinfo: str) -> str:
    """Read the model off /proc/cpuinfo; ARM kernels give no name, so there it is empty."""
    found = re.search(r"^(?:model name|Model|cpu model)\s*:\s*(.+)$", cpuinfo, re.MULTILINE)
    return found[1].strip() if found else ""


def total_memory(meminfo: str) -> int | None:
    """Read the memory size off /proc/meminfo, B."""
    found = re.search(r"^MemTotal:\s*(\d+) kB$", meminfo, re.MULTILINE)
    return int(found[1]) * 1024 if found else None


def cache_sizes(entries: Iterable[CacheEntry]) -> dict[Level, int]:
    """Add up the capacity of each level, B: a cache that several CPUs share counts once, instructions don't."""
    distinct = {(e.level, e.shared_with): e.size_bytes for e in entries if e.kind != "Instruction"}
    total: dict[Level, int] = {}
    for (level, _), size in sorted(distinct.items()):
        if level in _LEVELS:
            total[_LEVELS[level]] = total.get(_LEVELS[level], 0) + size
    return total


def size(text: str) -> int:
    """Read the kernel's "48K", B; 0 if it is none."""
    found = _SIZE.fullmatch(text.strip())
    return int(found[1]) * _SCALE[found[2]] if found else 0


def _entries(cpus: Iterable[int]) -> list[CacheEntry]:
    found = []
    for number in cpus:
        for folder in sorted((_SYSTEM / f"cpu{number}" / "cache").glob("index*")):
            level = _text(folder / "level").strip()
            if level.isdigit():
                kind, shared = _text(folder / "type").strip(), _text(folder / "shared_cpu_list").strip()
                found.append(CacheEntry(int(level), kind, size(_text(folder / "size")), shared))
    return found


def _mac() -> Machine:
    caches: dict[Level, int] = {"l1": int(sysctl("hw.l1dcachesize") or 0), "l2": int(sysctl("hw.l2cachesize") or 0)}
    memory = sysctl("hw.memsize")
    return describe(
        sysctl("machdep.cpu.brand_string") or platform.machine(),
        cores=int(sysctl("hw.physicalcpu") or os.cpu_count() or 1),
        caches={level: bytes_ for level, bytes_ in caches.items() if bytes_},
        memory_bytes=int(memory) if memory else None,
    )


def sysctl(name: str) -> str:
    """Ask macOS for one value; empty where there is none."""
    import subprocess  # slow to import, and only detection needs it

    try:
        answer = subprocess.run(["sysctl", "-n", name], capture_output=True, text=True, timeout=10, check=True)
    except (OSError, subprocess.SubprocessError):
        return ""
    return answer.stdout.strip()


def _text(path: Path) -> str:
    try:
        return path.read_text("utf-8", errors="replace")
    except OSError:
        return ""
