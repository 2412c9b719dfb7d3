"""How long `calls` calls of a step take on a device. The one place that synchronises."""

import gc
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch

from roofline.errors import UsageError

Step = Callable[[], object]
Clock = Callable[[], float]
Progress = Callable[[str], None]
Timer = Callable[[Step, int], float]


def timer_for(device: str, clock: Clock = time.perf_counter) -> Timer:
    """Give the timer of a device: a function of a step and a number of calls that returns seconds for all calls.

    - CPU: the clock around the calls.
    - CUDA, ROCm, XPU: the device is synchronised before and after; the result is the longer of the time between
      two events on the device's stream and the time that the host takes to issue the calls, so that a step that
      leaves the device waiting for the host (or ends in host work) shows its whole length.
    - MPS: the device is synchronised before and after; the clock around all of it.

    Args:
        device: "cpu", "cuda", "cuda:1", "mps" …
        clock: Monotonic, in s.

    Raises:
        UsageError: No such device here.
    """
    place = find_device(device)
    if place.type == "cpu":
        return _host_timer(clock)
    backend = getattr(torch, place.type)
    if place.type == "mps":
        return _synchronising_timer(clock, backend.synchronize)
    return _event_timer(clock, backend, place)


def find_device(device: str) -> torch.device:
    """Read a device's name and make sure that it is here.

    Raises:
        UsageError: The name is none of torch's, or there is no such device.
    """
    try:
        place = torch.device(device)
    except RuntimeError:
        raise UsageError(f'"{device}" is not a device that torch knows', "use cpu, cuda, cuda:1 or mps") from None
    if place.type == "cpu":
        return place
    backend = getattr(torch, place.type, None)
    if backend is None or not hasattr(backend, "synchronize") or not backend.is_available():
        raise UsageError(f'torch finds no "{place.type}" device here', "use --device cpu")
    count = backend.device_count()
    if place.index is not None and place.index >= count:
        raise UsageError(f'no device "{device}" here (there are {count})', f"use {place.type}:0")
    return place


def synchronise(device: str) -> None:
    """Wait until the device has done all that it was given."""
    place = find_device(device)
    if place.type == "cpu":
        return
    backend = getattr(torch, place.type)
    if place.type == "mps":
        backend.synchronize()
    else:
        backend.synchronize(place)


@contextmanager
def no_garbage_collection() -> Iterator[None]:
    """Collect garbage now, then keep the collector off, so that no sample pays for it.

    Where it is off already nothing is done: a collection takes tens of milliseconds with torch loaded.
    """
    if not gc.isenabled():
        yield
        return
    gc.collect()
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


def _host_timer(clock: Clock) -> Timer:
    def run(step: Step, calls: int) -> float:
        start = clock()
        for _ in range(calls):
            step()
        return clock() - start

    return run


def _synchronising_timer(clock: Clock, wait: Callable[[], object]) -> Timer:
    def run(step: Step, calls: int) -> float:
        wait()
        start = clock()
        for _ in range(calls):
            step()
        wait()
        return clock() - start

    return run


def _event_timer(clock: Clock, backend: Any, place: torch.device) -> Timer:
    def run(step: Step, calls: int) -> float:
        with backend.device(place):
            first, last = backend.Event(enable_timing=True), backend.Event(enable_timing=True)
            backend.synchronize()
            start = clock()
            first.record()
            for _ in range(calls):
                step()
            last.record()
            issued_s = clock() - start
            backend.synchronize()
            return max(first.elapsed_time(last) * 1e-3, issued_s)

    return run
