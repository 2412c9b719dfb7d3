"""Page faults: what it costs a program on a CPU to take memory from the system anew at every step."""

import mmap
import sys
import time
from collections.abc import Callable

import torch

from roofline.clock.timers import Clock, Step
from roofline.core.run import PageFaults

# Fewer faults per step cost microseconds.
_FEW = 64
_TOUCHED_BYTES = 16 * 2**20
_TRIES = 3


def page_faults(step: Step, device: str, *, clock: Clock = time.perf_counter) -> PageFaults | None:
    """Count the page faults of one more step, and measure what a fault costs here.

    The system fills a page with zeros when it is first touched. Allocators give large blocks back when they are freed
    (glibc: those of 32 MiB and more), so a program may pay for the same memory at every step.

    Args:
        step: Runs the program once; it ran before.
        device: Where it runs.
        clock: Monotonic, in s.

    Returns:
        None where hardly any occur, on other devices than the CPU, and where the system does not count them.
    """
    if torch.device(device).type != "cpu" or sys.platform == "win32":
        return None
    before = _faults()
    step()
    count = _faults() - before
    if count < _FEW:
        return None
    ones = b"\x01" * _TOUCHED_BYTES
    one_thread_s = _cost_s(lambda memory: memory.write(ones), clock)
    all_threads_s = _cost_s(lambda memory: torch.frombuffer(memory, dtype=torch.uint8).fill_(1), clock)
    # Threads that share the work take at least their part of it each, and at most all of it.
    least_s = one_thread_s / torch.get_num_threads()
    shared_s = min(one_thread_s, max(least_s, all_threads_s))
    return PageFaults(per_step=count, one_thread_s=count * one_thread_s, all_threads_s=count * shared_s)


def _faults() -> int:
    """Faults of this process so far that needed no disk."""
    import resource

    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt


def _cost_s(touch: Callable[[mmap.mmap], object], clock: Clock) -> float:
    """What a fault and giving its page back cost, s: writing fresh memory against writing it again, best tries."""
    cold_s, warm_s, freed_s, count = [], [], [], 1
    for _ in range(_TRIES):
        # Private, as allocators take it.
        fresh = mmap.mmap(-1, _TOUCHED_BYTES, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
        before, start = _faults(), clock()
        touch(fresh)
        cold_s.append(clock() - start)
        count = max(1, _faults() - before)
        fresh.seek(0)
        start = clock()
        touch(fresh)
        warm_s.append(clock() - start)
        start = clock()
        fresh.close()
        freed_s.append(clock() - start)
    return (max(0.0, min(cold_s) - min(warm_s)) + min(freed_s)) / count
