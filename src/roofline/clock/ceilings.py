"""The sustained ceilings of this machine, measured on the spot."""

import os
import time
from collections.abc import Callable, Mapping
from datetime import date
from typing import Literal, TypeVar

import msgspec
import torch

from roofline.clock.gemm import gemm_rate
from roofline.clock.launch import launch_cost
from roofline.clock.memory import available_bytes, cache_rates, stream_rates, working_set_bytes
from roofline.clock.sustained import HINT, ImplausibleError, Sustained, believe, cpu_limit, unsteady
from roofline.clock.timers import Clock, Progress, Timer, find_device, timer_for
from roofline.core.machine import Ceiling, Level, Machine
from roofline.core.precision import Precision
from roofline.core.units import percent, show

T = TypeVar("T")
# Where an fp32 product runs: on a CPU, matrix and vector work share the FMA units (fp64 too); on NVIDIA without
# TF32, on the CUDA cores; on AMD, on the matrix cores, which tell nothing of the vector rate.
Engine = Literal["both", "vector", "matrix"]
_FP32_TEXT = {"both": "GEMM {}, same FMA units", "vector": "GEMM {} without the matrix engine"}

# A card may clock above the boost that its datasheet's peak assumes (2080 Ti: 118 %); half as much again it can't.
MAX_OVER_DATASHEET = 1.5


class Plan(msgspec.Struct, frozen=True, kw_only=True):
    """How long to measure what.

    Attributes:
        gemm_s: By precision, s.
        memory_s: Read, copy, triad and update together, s.
        cache_s: All caches together; 0: leave them out, s.
        launch_s: Launch cost, s.
        working_set_bytes: Of the memory kernels; None: by the last-level cache.
        largest_gemm: Largest M = N = K.
        window_s: Least length of a window, s.
        strict: Refuse unsteady rates; else take the best window and say so.
    """

    gemm_s: Mapping[Precision, float]
    memory_s: float
    cache_s: float = 0.0
    launch_s: float = 0.1
    working_set_bytes: int | None = None
    largest_gemm: int = 16384
    window_s: float = 10e-3
    strict: bool = True


class Ceilings(msgspec.Struct, frozen=True, kw_only=True):
    """What was measured; rates as `core.machine.Machine` has them.

    Attributes:
        matrix: By precision, FLOP/s (OP/s for int8).
        vector: By precision, FLOP/s.
        bandwidth: By level, B/s.
        launch_s: Host time of one empty op, s.
        streams: Read, copy, triad and update rates of memory, B/s.
        refused: What could not be measured, and why.
        doubts: What was measured but is unsteady, and how much.
        measured_on: Date, ISO 8601.
    """

    matrix: Mapping[Precision, Ceiling]
    vector: Mapping[Precision, Ceiling]
    bandwidth: Mapping[Level, Ceiling]
    launch_s: Ceiling
    streams: Mapping[str, float]
    refused: Mapping[str, str] = {}
    doubts: tuple[str, ...] = ()
    measured_on: str = ""


def quick(
    device: str, machine: Machine, *, progress: Progress | None = None, clock: Clock = time.perf_counter
) -> Ceilings:
    """Measure in about 8 s on two cores: GEMM per precision, memory, launch cost. For `roofline measure`.

    An unsteady rate is no refusal here but a doubt, so that a busy machine still gets an answer.
    """
    gemm_s = {Precision.FP32: 0.9, Precision.BF16: 1.0, Precision.FP16: 0.5, Precision.FP64: 0.5, Precision.INT8: 0.5}
    plan = Plan(gemm_s=_for(device, gemm_s), memory_s=1.8, strict=False)
    return measure_ceilings(device, machine, plan, progress=progress, clock=clock)


def full(
    device: str, machine: Machine, *, progress: Progress | None = None, clock: Clock = time.perf_counter
) -> Ceilings:
    """Measure in under 60 s on two cores: as `quick`, longer, and each cache. For `roofline calibrate`."""
    gemm_s = {Precision.FP32: 6.0, Precision.BF16: 8.0, Precision.FP16: 4.0, Precision.FP64: 5.0, Precision.INT8: 4.0}
    plan = Plan(gemm_s=_for(device, gemm_s), memory_s=10.0, cache_s=3.0, launch_s=0.5)
    return measure_ceilings(device, machine, plan, progress=progress, clock=clock)


def measure_ceilings(
    device: str,
    machine: Machine,
    plan: Plan,
    *,
    progress: Progress | None = None,
    clock: Clock = time.perf_counter,
) -> Ceilings:
    """Measure the ceilings of a device.

    On CPU the vector ceilings are those of GEMM in fp32 and fp64, which runs on the same FMA units.
    The bandwidth of memory is the best of read, copy and triad. A result that can't be believed is measured again,
    then refused.

    Args:
        device: Where.
        machine: Its identity: cores, cache sizes, datasheet peaks where known.
        plan: How long to measure what.
        progress: Told in words what is going on.
        clock: Monotonic, in s.

    Raises:
        ImplausibleError: No fp32 rate or no memory bandwidth that can be believed.
    """
    say = progress or (lambda _: None)
    timer = timer_for(device, clock)
    # Memory first: a CPU clocks down under matrix work and needs a while to recover.
    streams = _streams(device, machine, timer, plan, clock, say)
    gemm, refused = _gemms(device, machine, timer, plan, clock, say)
    caches: dict[Level, Sustained] = {}
    if plan.cache_s and find_device(device).type == "cpu":
        say("caches")
        caches = cache_rates(
            machine.cache_bytes,
            machine.multiprocessors or 1,
            timer,
            seconds=plan.cache_s,
            clock=clock,
            window_s=plan.window_s,
        )
    say("launch cost")
    launch = launch_cost(device, seconds=plan.launch_s, clock=clock)
    return _assemble(streams, caches, gemm, refused, launch, fp32_on=_fp32_engine(device))


def _assemble(
    streams: Mapping[str, Sustained],
    caches: Mapping[Level, Sustained],
    gemm: Mapping[Precision, Sustained],
    refused: Mapping[str, str],
    launch: Ceiling,
    *,
    fp32_on: Engine,
) -> Ceilings:
    rates = {f"{name} bandwidth": s for name, s in streams.items() if name != "update"}
    rates |= {f"{level} bandwidth": s for level, s in caches.items()}
    rates |= {f"{p} GEMM rate": s for p, s in gemm.items()}
    best = max((streams[name] for name in ("read", "copy", "triad")), key=lambda s: s.best)
    bandwidth = {level: _ceiling(s, "read, all cores: {}") for level, s in caches.items()}
    bandwidth["dram"] = _ceiling(best, "best of read, copy, triad: {}, write-allocate not counted")
    shared = (Precision.FP32, Precision.FP64) if fp32_on == "both" else (Precision.FP32,)
    return Ceilings(
        matrix={p: _ceiling(s, "GEMM {}") for p, s in gemm.items() if fp32_on != "vector" or p != Precision.FP32},
        vector={p: _ceiling(gemm[p], _FP32_TEXT[fp32_on]) for p in shared if p in gemm and fp32_on != "matrix"},
        bandwidth=bandwidth,
        launch_s=launch,
        streams={name: s.best for name, s in streams.items()},
        refused=refused,
        doubts=tuple(doubt for name, s in rates.items() if (doubt := unsteady(name, s))),
        measured_on=date.today().isoformat(),
    )


def with_ceilings(machine: Machine, ceilings: Ceilings) -> Machine:
    """Give the machine with measured ceilings in the place of its own; those not measured stay."""
    rates = [f"{name} {show(rate, 'B/s')}" for name, rate in ceilings.streams.items()]
    notes = [f"memory: {', '.join(rates)}"]
    if ceilings.streams.get("update", 0.0) > ceilings.bandwidth["dram"].value:
        notes.append(
            "an update in place exceeds the memory ceiling, as it is free of write-allocate: "
            "such ops may run above the roof"
        )
    notes += [f"{name} has no measured ceiling: {why}" for name, why in ceilings.refused.items()]
    notes += [f"{doubt}; stop other programs and run: roofline calibrate" for doubt in ceilings.doubts]
    return msgspec.structs.replace(
        machine,
        matrix={**machine.matrix, **ceilings.matrix},
        vector={**machine.vector, **ceilings.vector},
        bandwidth={**machine.bandwidth, **ceilings.bandwidth},
        launch_s=ceilings.launch_s,
        read_on=ceilings.measured_on,
        notes=(*machine.notes, *notes),
    )


def _fp32_engine(device: str) -> Engine:
    if find_device(device).type == "cpu":
        return "both"
    return "vector" if torch.version.cuda else "matrix"


def _for(device: str, gemm_s: dict[Precision, float]) -> dict[Precision, float]:
    """On CUDA also TF32, which no CPU has."""
    return {**gemm_s, Precision.TF32: 0.6} if find_device(device).type == "cuda" else gemm_s


def _streams(
    device: str, machine: Machine, timer: Timer, plan: Plan, clock: Clock, say: Progress
) -> dict[str, Sustained]:
    size = plan.working_set_bytes or working_set_bytes(machine.last_level_cache_bytes, available_bytes(device))
    datasheet = machine.bandwidth.get("dram")
    limit = datasheet.value * MAX_OVER_DATASHEET if datasheet and datasheet.origin == "datasheet" else None

    def measure() -> dict[str, Sustained]:
        found = stream_rates(
            device,
            timer,
            size_bytes=size,
            seconds=plan.memory_s,
            clock=clock,
            window_s=plan.window_s,
            progress=say,
        )
        for name in ("read", "copy", "triad"):
            believe(f"{name} bandwidth", "B/s", found[name], limit=limit, limit_text="1.5 × the datasheet's")
            _refuse_unsteady(plan, f"{name} bandwidth", found[name])
        believe(
            "copy bandwidth", "B/s", found["copy"], limit=2 * found["read"].best, limit_text="twice the read rate"
        )
        return found

    return _twice(measure)


def _gemms(
    device: str, machine: Machine, timer: Timer, plan: Plan, clock: Clock, say: Progress
) -> tuple[dict[Precision, Sustained], dict[str, str]]:
    found: dict[Precision, Sustained] = {}
    refused: dict[str, str] = {}
    for precision, seconds in plan.gemm_s.items():
        say(f"GEMM {precision}")
        try:
            found[precision] = _gemm(precision, device, machine, timer, seconds, plan, clock)
        except ImplausibleError as error:
            if precision == Precision.FP32:
                raise
            refused[precision.value] = error.message
        except (RuntimeError, NotImplementedError) as error:
            if precision == Precision.FP32:
                raise
            refused[precision.value] = f"torch has no such product here ({str(error).splitlines()[0]})"
    return found, refused


def _gemm(
    precision: Precision,
    device: str,
    machine: Machine,
    timer: Timer,
    seconds: float,
    plan: Plan,
    clock: Clock,
) -> Sustained:
    limit, words = _limit(precision, device, machine)
    unit = "OP/s" if precision.is_integer else "FLOP/s"

    def measure() -> Sustained:
        found = gemm_rate(
            precision,
            device,
            timer,
            seconds=seconds,
            clock=clock,
            largest=plan.largest_gemm,
            window_s=plan.window_s,
        )
        believe(f"{precision} GEMM rate", unit, found, limit=limit, limit_text=words)  # type: ignore[arg-type]
        _refuse_unsteady(plan, f"{precision} GEMM rate", found)
        return found

    return _twice(measure)


def _limit(precision: Precision, device: str, machine: Machine) -> tuple[float | None, str]:
    if find_device(device).type == "cpu":
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


def _ceiling(found: Sustained, text: str) -> Ceiling:
    """A measured ceiling with how it was measured."""
    return Ceiling(
        found.best,
        "measured",
        f"{text.format(found.what)}; best of {found.windows} windows of {show(found.window_s, 's')} or more, "
        f"median {percent(found.typical / found.best)} of it; {date.today().isoformat()}",
    )
