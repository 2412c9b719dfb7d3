"""Sustained memory bandwidth, of DRAM and of each cache.

Convention: bytes are those that the program names, as STREAM counts them: a copy reads N and writes N. A CPU that
stores through its cache also reads each line before it overwrites it (write-allocate), which is not counted: the
bus then moves 3/2 of a copy's bytes and 4/3 of a triad's. Counts of ops follow the same convention, so the two
compare. An update in place names the line that it reads anyway, so it is free of write-allocate and its rate may
lie above the others; a plain write pays for write-allocate the most. Both are measured for the record.
"""

import mmap
import os
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path

import torch

from roofline.clock.sustained import Sustained, sustain
from roofline.clock.timers import Clock, Progress, Step, Timer
from roofline.core.machine import Level

# Working sets are this many times the last-level cache, so that less than a quarter of a pass can hit it.
TIMES_CACHE = 4
MEMORY_FRACTION = 0.25
SMALLEST_WORKING_SET = 256 * 2**20
# The memory ceiling is the best of these.
CEILING_STREAMS = ("read", "copy", "triad")
_FLOAT = 4
# The buffer has rows of this many numbers; six rows divide into halves and thirds.
_COLUMNS = 1024


def working_set_bytes(cache_bytes: int, available_bytes: int, *, times_cache: int = TIMES_CACHE) -> int:
    """Bytes to stream over: 4 × last-level cache, at least 256 MiB, at most a quarter of the free memory."""
    wanted = max(times_cache * cache_bytes, SMALLEST_WORKING_SET)
    return int(min(wanted, MEMORY_FRACTION * available_bytes)) // 4096 * 4096


def available_bytes(device: str) -> int:
    """Memory that can be taken without harm: free on the device, or what Linux calls available."""
    if torch.device(device).type == "cuda":
        return int(torch.cuda.mem_get_info(device)[0])
    try:
        lines = Path("/proc/meminfo").read_text().splitlines()
        free = next(int(line.split()[1]) * 1024 for line in lines if line.startswith("MemAvailable"))
    except (OSError, StopIteration, ValueError, IndexError):
        free = _half_of_all()
    limits = [_group_limit(p) for p in ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes")]
    return min([free, *(limit for limit in limits if limit is not None)])


def _half_of_all() -> int:
    """Half of the machine's memory; where the system doesn't tell (Windows), what the smallest working set needs."""
    try:
        return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") // 2
    except (AttributeError, ValueError, OSError):
        return int(SMALLEST_WORKING_SET / MEMORY_FRACTION)


def stream_rates(
    buffer: torch.Tensor,
    timer: Timer,
    *,
    seconds: float,
    clock: Clock,
    window_s: float = 10e-3,
    progress: Progress | None = None,
) -> dict[str, Sustained]:
    """Read, write, copy, triad and update rates over one working set, B/s.

    - read: the better of a sum and a matrix-vector product, N bytes
    - write: a = 1, N bytes
    - copy: b = a, 2 N bytes
    - triad: c = a + 3 b, 3 N bytes
    - update: a = -a in place, 2 N bytes

    Args:
        buffer: From `filled`: all operands of a kernel together.
        timer: Of its device.
        seconds: Time to spend, about, s.
        clock: Monotonic, in s.
        window_s: Least length of a window, s.
        progress: Told in words what is going on.
    """
    found: dict[str, Sustained] = {}
    all_kernels = list(kernels(buffer))
    for name, what, nbytes, step in all_kernels:
        if progress:
            progress(f"memory: {name}")
        rate = sustain(what, nbytes, step, timer, seconds=seconds / len(all_kernels), clock=clock, window_s=window_s)
        if name not in found or rate.best > found[name].best:
            found[name] = rate
    return found


def cache_rates(
    capacities: Mapping[Level, int],
    cores: int,
    timer: Timer,
    *,
    seconds: float,
    clock: Clock,
    window_s: float = 10e-3,
    device: str = "cpu",
) -> dict[Level, Sustained]:
    """Read rate of each CPU cache, all cores together, or of a GPU's L2, B/s.

    One row that fits into half of the cache (and, from the second level on, is at most 16 times the level below)
    is summed over and over by all threads: a row expanded with stride 0 takes no other memory, and no call ends in
    between. A sum may be slower than the cache, so the rate is one that the cache is sure to sustain.

    Args:
        capacities: By level, B, all caches of a level together. The third is taken for shared, those below
            for split among the cores.
        cores: How many; 1 for a GPU, whose L2 is one for all.
        timer: Of the device.
        seconds: Time to spend, about, s.
        clock: Monotonic, in s.
        window_s: Least length of a window, s.
        device: Where.
    """
    found: dict[Level, Sustained] = {}
    below = 0
    for level, capacity in sorted(capacities.items()):
        own = capacity if level == "l3" else capacity // cores
        row = min(own // 2, 16 * below) if below else own // 2
        if row > below:
            step, nbytes = _row_sums(row, device)
            what = f"sum over {row / 1024:.0f} KiB"
            share_s = seconds / len(capacities)
            found[level] = sustain(what, nbytes, step, timer, seconds=share_s, clock=clock, window_s=window_s)
        below = own
    return found


def filled(device: str, size_bytes: int) -> torch.Tensor:
    """Random numbers, one block repeated: drawing every one would take longer than all the measuring.

    Args:
        device: Where.
        size_bytes: About how many bytes.

    Returns:
        (rows, 1024) float32; the rows divide by 6.
    """
    rows = max(6, size_bytes // (_FLOAT * _COLUMNS) // 6 * 6)
    random = torch.Generator(device=device).manual_seed(0)
    block = torch.rand((min(rows, 1024), _COLUMNS), device=device, generator=random)
    buffer = _on_huge_pages(rows) if torch.device(device).type == "cpu" else None
    if buffer is None:
        buffer = torch.empty((rows, _COLUMNS), device=device)
    for some in buffer.split(len(block)):
        some.copy_(block[: len(some)])
    return buffer


def _on_huge_pages(rows: int) -> torch.Tensor | None:
    """On pages of 2 MiB where Linux gives them: with pages of 4 KiB the look-up of addresses binds before memory."""
    if not hasattr(mmap, "MADV_HUGEPAGE"):
        return None
    memory = mmap.mmap(-1, rows * _COLUMNS * _FLOAT, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    with suppress(OSError):  # A kernel built without them.
        memory.madvise(mmap.MADV_HUGEPAGE)
    return torch.frombuffer(memory, dtype=torch.float32).view(rows, _COLUMNS)


def part(buffer: torch.Tensor, size_bytes: int) -> torch.Tensor:
    """The first rows of a buffer from `filled`, about this many bytes: a smaller one of the same kind."""
    return buffer[: max(6, size_bytes // (_FLOAT * _COLUMNS) // 6 * 6)]


def kernels(buffer: torch.Tensor) -> Iterator[tuple[str, str, float, Step]]:
    """Name, description, bytes per call and step of each kernel; all share one buffer."""
    total = float(buffer.nbytes)
    vector = torch.ones(_COLUMNS, device=buffer.device)
    result = torch.empty(len(buffer), device=buffer.device)
    a, b = buffer.chunk(2)
    x, y, z = buffer.chunk(3)
    yield "read", "torch.mv", total, lambda: torch.mv(buffer, vector, out=result)
    yield "read", "torch.sum", total, lambda: torch.sum(buffer)
    yield "copy", "Tensor.copy_", total, lambda: b.copy_(a)
    yield "triad", "torch.add with alpha", total, lambda: torch.add(x, y, alpha=3.0, out=z)
    # By −1, so that repetition neither overflows nor decays into subnormal numbers, which are slow.
    yield "update", "Tensor.mul_", 2 * total, lambda: buffer.mul_(-1.0)
    yield "write", "Tensor.fill_", total, lambda: buffer.fill_(1.0)


def _row_sums(row_bytes: int, device: str, total_bytes: int = 64 * 2**20) -> tuple[Step, float]:
    n = max(1, row_bytes // _FLOAT)
    repeats = max(64, total_bytes // (n * _FLOAT))
    rows = filled(device, 2 * n * _FLOAT).flatten()[:n].expand(repeats, n)
    result = torch.empty(repeats, device=device)
    return lambda: torch.sum(rows, dim=1, out=result), float(repeats * n * _FLOAT)


def _group_limit(path: str) -> int | None:
    """Memory limit of the container; "max" is none."""
    try:
        return int(Path(path).read_text())
    except (OSError, ValueError):
        return None
