"""Measurements that are believed or refused: rates against what no such machine can have, tried twice."""

import os
import time
from collections.abc import Callable, Mapping
from typing import TypeVar

import msgspec
import torch

from roofline.clock.gemm import gemm_rate
from roofline.clock.memory import CEILING_STREAMS, available_bytes, filled, stream_rates, working_set_bytes
from roofline.clock.sustained import HINT, WINDOW_S, ImplausibleError, Sustained, believe, cpu_limit, unsteady
from roofline.clock.timers import Clock, Progress, Timer, find_device
from roofline.core.machine import Machine
from roofline.core.precision import Precision

T = TypeVar("T")

# A card may clock above the boost that its datasheet's peak assumes (2080 Ti: 118 %); half as much again it can't.
MAX_OVER_DATASHEET = 1.5


class Plan(msgspec.Struct, frozen=True, kw_only=True):
    """How long to measure what.

    Attributes:
        gemm_s: By precision, s.
        memory_s: All kinds of traffic together, s.
        held_s: How fast the last-level cache is and how much it holds; 0: leave it out, s.
        sets_s: Rates by working set; 0: leave them out, s.
        cache_s: All caches together; 0: leave them out, s.
        links_s: PCIe and NVLink of a GPU; 0: leave them out, s.
        launch_s: Launch cost, s.
        sweep_s: The sweep over intensities; 0: leave it out, s.
        repeat_s: Repetition of each rate at the end; 0: leave it out, s.
        working_set_bytes: Of the memory kernels; None: by the last-level cache.
        times_cache: Working set / last-level cache, where the former is not given.
        largest_gemm: Largest M = N = K.
        window_s: Least length of a window, s.
        strict: Refuse unsteady rates; else take the best window and say so.
    """

    gemm_s: Mapping[Precision, float]
    memory_s: float
    held_s: float = 0.0
    sets_s: float = 0.0
    cache_s: float = 0.0
    links_s: float = 0.0
    launch_s: float = 0.1
    sweep_s: float = 0.0
    repeat_s: float = 0.0
    working_set_bytes: int | None = None
    times_cache: int = 4
    largest_gemm: int = 16384
    window_s: float = WINDOW_S
    strict: bool = True


class Bench(msgspec.Struct, frozen=True, kw_only=True):
    """What every measurement needs to know.

    Attributes:
        device: Where.
        machine: Its identity: cores, cache sizes, datasheet peaks where known.
        timer: Of the device.
        plan: How long to measure what.
        clock: Monotonic, in s.
        say: Told in words what is going on.
    """

    device: str
    machine: Machine
    timer: Timer
    plan: Plan
    clock: Clock = time.perf_counter
    say: Progress = lambda _: None

    @property
    def on_cpu(self) -> bool:
        """Whether the device is the host itself."""
        return find_device(self.device).type == "cpu"

    @property
    def working_set_bytes(self) -> int:
        """Bytes to stream over."""
        largest = max(self.machine.cache_bytes.values(), default=0)
        return self.plan.working_set_bytes or working_set_bytes(
            largest, available_bytes(self.device), times_cache=self.plan.times_cache
        )

    def buffer(self) -> torch.Tensor:
        """Random numbers to stream over."""
        return filled(self.device, self.working_set_bytes)


def believed_streams(bench: Bench, buffer: torch.Tensor, seconds: float) -> dict[str, Sustained]:
    """Rates of memory by kind of traffic, B/s.

    Raises:
        ImplausibleError: Twice nothing that can be believed.
    """
    datasheet = bench.machine.bandwidth.get("dram")
    limit = datasheet.value * MAX_OVER_DATASHEET if datasheet and datasheet.origin == "datasheet" else None

    def measure() -> dict[str, Sustained]:
        found = stream_rates(
            buffer,
            bench.timer,
            seconds=seconds,
            clock=bench.clock,
            window_s=bench.plan.window_s,
            progress=bench.say,
        )
        for name in CEILING_STREAMS:
            believe(f"{name} bandwidth", "B/s", found[name], limit=limit, limit_text="1.5 × the datasheet's")
            _refuse_unsteady(bench.plan, f"{name} bandwidth", found[name])
        believe(
            "copy bandwidth", "B/s", found["copy"], limit=2 * found["read"].best, limit_text="twice the read rate"
        )
        return found

    return _twice(measure)


def believed_gemms(bench: Bench) -> tuple[dict[Precision, Sustained], dict[str, str]]:
    """Matrix-multiply rates by precision, FLOP/s, and why a precision has none.

    Raises:
        ImplausibleError: Twice no fp32 rate that can be believed.
    """
    found: dict[Precision, Sustained] = {}
    refused: dict[str, str] = {}
    for precision, seconds in bench.plan.gemm_s.items():
        bench.say(f"GEMM {precision}")
        try:
            found[precision] = believed_gemm(bench, precision, seconds)
        except ImplausibleError as error:
            if precision == Precision.FP32:
                raise
            refused[precision.value] = error.message
        except (RuntimeError, TypeError) as error:  # MPS has no fp64: a TypeError
            if precision == Precision.FP32:
                raise
            refused[precision.value] = f"torch has no such product here ({str(error).splitlines()[0]})"
    return found, refused


def believed_gemm(
    bench: Bench, precision: Precision, seconds: float, only: tuple[int, int, int] | None = None
) -> Sustained:
    """Matrix-multiply rate in one precision, FLOP/s: of the fastest shapes, or of this one only.

    Raises:
        ImplausibleError: Twice nothing that can be believed.
        RuntimeError: torch has no such product on this device.
    """
    limit, words = _limit(precision, bench)
    unit = "OP/s" if precision.is_integer else "FLOP/s"

    def measure() -> Sustained:
        found = gemm_rate(
            precision,
            bench.device,
            bench.timer,
            seconds=seconds,
            clock=bench.clock,
            largest=bench.plan.largest_gemm,
            window_s=bench.plan.window_s,
            only=only,
        )
        believe(f"{precision} GEMM rate", unit, found, limit=limit, limit_text=words)  # type: ignore[arg-type]
        _refuse_unsteady(bench.plan, f"{precision} GEMM rate", found)
        return found

    return _twice(measure)


def _limit(precision: Precision, bench: Bench) -> tuple[float | None, str]:
    machine = bench.machine
    if bench.on_cpu:
        return cpu_limit(precision, max(machine.multiprocessors or 0, os.cpu_count() or 1))
    known = machine.matrix.get(precision) or machine.vector.get(precision)
    if known and known.origin == "datasheet":
        return known.value * MAX_OVER_DATASHEET, "1.5 × the datasheet's peak"
    return None, ""


def _refuse_unsteady(plan: Plan, name: str, found: Sustained) -> None:
    doubt = unsteady(name, found)
    if doubt and plan.strict:
        raise ImplausibleError(doubt, HINT)


def _twice(measure: Callable[[], T]) -> T:
    """Measure; if the result can't be believed, once more."""
    try:
        return measure()
    except ImplausibleError:
        return measure()
