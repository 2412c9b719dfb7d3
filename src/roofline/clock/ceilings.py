"""The sustained ceilings of this machine, measured on the spot."""

import time
from collections.abc import Mapping
from datetime import date
from itertools import pairwise
from typing import Literal

import msgspec
import torch

from roofline.clock.gemm import shape_of
from roofline.clock.guarded import Bench, Plan, believed_gemm, believed_gemms, believed_streams
from roofline.clock.launch import launch_cost, launches
from roofline.clock.links import link_rates
from roofline.clock.memory import CEILING_STREAMS, cache_rates
from roofline.clock.sustained import Sustained, unsteady
from roofline.clock.sweep import intensity_sweep, stream_points
from roofline.clock.timers import Clock, Progress, find_device, no_garbage_collection, timer_for
from roofline.clock.working_sets import last_cache, working_sets
from roofline.core.machine import Ceiling, Level, Machine
from roofline.core.precision import Precision
from roofline.core.units import percent, show
from roofline.machines.calibration import SweepPoint, WorkingSet

# Where an fp32 product runs: on a CPU, matrix and vector work share the FMA units (fp64 too); on NVIDIA without
# TF32, on the CUDA cores; on AMD, on the matrix cores, which tell nothing of the vector rate.
Engine = Literal["both", "vector", "matrix"]
_FP32_TEXT = {"both": "GEMM {}, same FMA units", "vector": "GEMM {} without the matrix engine"}
_LEVEL_TEXT: dict[Level, str] = {"pcie": "slower direction: {}", "nvlink": "{}"}
# Two measurements of one ceiling within this are one result.
AGREEMENT = 0.10


class Ceilings(msgspec.Struct, frozen=True, kw_only=True):
    """What was measured; rates as `core.machine.Machine` has them.

    Attributes:
        matrix: By precision, FLOP/s (OP/s for int8).
        vector: By precision, FLOP/s.
        bandwidth: By level, B/s.
        launch_s: Host time of one empty op, s.
        streams: Rates of memory by kind of traffic, B/s.
        held_bytes: What the last-level cache holds, where less than its capacity, B.
        working_sets: Rates by size of the working set.
        refused: What could not be measured, and why.
        doubts: What was measured but is unsteady, and how much.
        launches_s: What launching costs by way, s (see `launch.launches`).
        sweep_precision: What the sweep computed in.
        sweep: Rates from low to high intensity.
        agreement: By ceiling, second measurement / first.
        measured_on: Date, ISO 8601.
    """

    matrix: Mapping[Precision, Ceiling]
    vector: Mapping[Precision, Ceiling]
    bandwidth: Mapping[Level, Ceiling]
    launch_s: Ceiling
    streams: Mapping[str, float]
    held_bytes: int | None = None
    working_sets: tuple[WorkingSet, ...] = ()
    refused: Mapping[str, str] = {}
    doubts: tuple[str, ...] = ()
    launches_s: Mapping[str, float] = {}
    sweep_precision: str = ""
    sweep: tuple[SweepPoint, ...] = ()
    agreement: Mapping[str, float] = {}
    measured_on: str = ""


def quick(
    device: str, machine: Machine, *, progress: Progress | None = None, clock: Clock = time.perf_counter
) -> Ceilings:
    """Measure in about 6 s on two cores: GEMM per precision, memory, caches, launch cost. For `roofline measure`.

    An unsteady rate is no refusal here but a doubt, so that a busy machine still gets an answer.
    """
    gemm_s = {Precision.FP32: 0.6, Precision.BF16: 0.6, Precision.FP16: 0.3, Precision.FP64: 0.3, Precision.INT8: 0.3}
    plan = Plan(gemm_s=_for(device, gemm_s), memory_s=1.0, held_s=0.4, cache_s=0.2, times_cache=2, strict=False)
    return measure_ceilings(device, machine, plan, progress=progress, clock=clock)


def full(
    device: str, machine: Machine, *, progress: Progress | None = None, clock: Clock = time.perf_counter
) -> Ceilings:
    """Measure in under 60 s on two cores, for `roofline calibrate`.

    As `quick`, longer, and: each cache, working sets of all sizes, the links of a GPU, the sweep over intensities,
    and all rates but those of links once more at the end, to see whether two measurements agree.
    """
    gemm_s = {Precision.FP32: 4.0, Precision.BF16: 4.0, Precision.FP16: 2.0, Precision.FP64: 2.0}
    gemm_s |= {Precision.INT8: 2.0, Precision.FP8: 1.0}
    plan = Plan(
        gemm_s=_for(device, gemm_s),
        memory_s=5.0,
        held_s=1.0,
        sets_s=2.0,
        cache_s=1.5,
        links_s=1.5,
        launch_s=0.5,
        sweep_s=3.5,
        repeat_s=1.0,
    )
    return measure_ceilings(device, machine, plan, progress=progress, clock=clock)


@no_garbage_collection()
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
    then refused. A ceiling that is measured twice is the better of both.

    Args:
        device: Where.
        machine: Its identity: cores, cache sizes, datasheet peaks where known.
        plan: How long to measure what.
        progress: Told in words what is going on.
        clock: Monotonic, in s.

    Raises:
        ImplausibleError: No fp32 rate or no memory bandwidth that can be believed.
    """
    bench = Bench(
        device=device,
        machine=machine,
        timer=timer_for(device, clock),
        plan=plan,
        clock=clock,
        say=progress or (lambda _: None),
    )
    # Memory first: a CPU clocks down under matrix work and needs a while to recover.
    buffer = bench.buffer()
    streams = believed_streams(bench, buffer, plan.memory_s)
    last = _last_cache(bench, buffer)
    sets = _working_sets(bench, buffer, streams)
    gemm, refused = believed_gemms(bench)
    levels = {**_caches(bench), **_links(bench)}
    bench.say("launch cost")
    launch = launch_cost(device, seconds=plan.launch_s, clock=clock)
    more_launches = launches(device, seconds=plan.launch_s, clock=clock) if plan.sweep_s else {}
    sweep_precision, sweep = _sweep(bench, buffer, gemm, streams)
    agreement = _repeat(bench, buffer, streams, levels, gemm) if plan.repeat_s else {}
    if last:
        level = max(machine.cache_bytes, key=lambda name: machine.cache_bytes[name])
        levels[level] = max(last[0], levels.get(level, last[0]), key=lambda s: s.best)
    found = _assemble(streams, levels, gemm, refused, launch, fp32_on=_fp32_engine(device))
    return msgspec.structs.replace(
        found,
        held_bytes=_less(last[1], machine) if last else None,
        working_sets=sets,
        launches_s=more_launches,
        sweep=sweep,
        sweep_precision=sweep_precision,
        agreement=agreement,
        doubts=(
            *found.doubts,
            *inversions({level: c.value for level, c in found.bandwidth.items()}),
            *disagreements(agreement),
        ),
    )


def disagreements(agreement: Mapping[str, float]) -> tuple[str, ...]:
    """Say that ceilings came out differently when they were measured again: one sentence or none.

    Args:
        agreement: By ceiling, second measurement / first.
    """
    apart = {name: 1 - min(ratio, 1 / ratio) for name, ratio in agreement.items()}
    far = [f"{name} by {percent(difference)}" for name, difference in apart.items() if difference > AGREEMENT]
    if not far:
        return ()
    return (f"the machine is too noisy: two measurements differ, {', '.join(far)} (at most {percent(AGREEMENT)})",)


def inversions(levels: Mapping[Level, float]) -> tuple[str, ...]:
    """Say which caches came out slower than what lies behind them: no such cache exists, so something disturbed.

    Args:
        levels: Rate by memory level, B/s.
    """
    order: list[Level] = [level for level in ("l1", "l2", "l3", "dram") if level in levels]
    return tuple(
        f"{near} bandwidth of {show(levels[near], 'B/s')} is below that of {far} ({show(levels[far], 'B/s')})"
        for near, far in pairwise(order)
        if levels[near] < (1 - AGREEMENT) * levels[far]
    )


def _last_cache(bench: Bench, buffer: torch.Tensor) -> tuple[Sustained, int] | None:
    """On a CPU only: a GPU's launches outlast the reading of what its L2 holds."""
    machine, plan = bench.machine, bench.plan
    if not plan.held_s or not bench.on_cpu or not machine.cache_bytes:
        return None
    bench.say("the last-level cache")
    return last_cache(
        buffer, bench.timer, machine.cache_bytes, seconds=plan.held_s, clock=bench.clock, window_s=plan.window_s / 2
    )


def _less(held: int, machine: Machine) -> int | None:
    return held if held < max(machine.cache_bytes.values()) else None


def _working_sets(bench: Bench, buffer: torch.Tensor, streams: Mapping[str, Sustained]) -> tuple[WorkingSet, ...]:
    """Windows of half the length are enough for a curve."""
    if not bench.plan.sets_s:
        return ()
    bench.say("working sets")
    return working_sets(
        buffer,
        bench.timer,
        smallest_bytes=min(bench.machine.cache_bytes.values(), default=2**20),
        known={rate.what: rate.best for rate in streams.values()},
        seconds=bench.plan.sets_s,
        clock=bench.clock,
        window_s=bench.plan.window_s / 2,
    )


def _caches(bench: Bench) -> dict[Level, Sustained]:
    machine, plan = bench.machine, bench.plan
    if not plan.cache_s or not machine.cache_bytes:
        return {}
    bench.say("caches")
    return cache_rates(
        machine.cache_bytes,
        (machine.multiprocessors or 1) if bench.on_cpu else 1,
        bench.timer,
        seconds=plan.cache_s,
        clock=bench.clock,
        window_s=plan.window_s,
        device=bench.device,
    )


def _links(bench: Bench) -> dict[Level, Sustained]:
    if not bench.plan.links_s or bench.on_cpu:
        return {}
    bench.say("links")
    return link_rates(
        bench.device, bench.machine.bandwidth, bench.timer, seconds=bench.plan.links_s, clock=bench.clock
    )


def _sweep(
    bench: Bench, buffer: torch.Tensor, gemm: Mapping[Precision, Sustained], streams: Mapping[str, Sustained]
) -> tuple[str, tuple[SweepPoint, ...]]:
    """fp32 on a CPU, whose memory kernels are fp32 too; bf16 on a GPU where it has it."""
    if not bench.plan.sweep_s:
        return "", ()
    precision = Precision.BF16 if not bench.on_cpu and Precision.BF16 in gemm else Precision.FP32
    points = intensity_sweep(
        precision,
        buffer,
        bench.timer,
        peak=gemm[precision].best,
        seconds=bench.plan.sweep_s,
        clock=bench.clock,
        window_s=bench.plan.window_s,
        progress=bench.say,
    )
    return precision.value, (*stream_points(streams), *points)


def _repeat(
    bench: Bench,
    buffer: torch.Tensor,
    streams: dict[str, Sustained],
    levels: dict[Level, Sustained],
    gemm: dict[Precision, Sustained],
) -> dict[str, float]:
    """Measure the rates again; keep the better result, tell second / first."""
    bench.say("once more, to see whether the results agree")
    ratios = {}
    # What is unsteady now is told as a disagreement, not refused.
    bench = msgspec.structs.replace(bench, plan=msgspec.structs.replace(bench.plan, strict=False))
    again = believed_streams(bench, buffer, bench.plan.repeat_s)
    first, second = (_best_stream(rates) for rates in (streams, again))
    ratios["memory bandwidth"] = second.best / first.best
    streams |= {name: rate for name, rate in again.items() if rate.best > streams[name].best}
    for level, rate in _caches(bench).items():
        ratios[f"{level} bandwidth"] = rate.best / levels[level].best
        levels[level] = max(levels[level], rate, key=lambda s: s.best)
    for precision, found in gemm.items():
        # The same shape: another search would compare two shapes.
        repeated = believed_gemm(bench, precision, bench.plan.repeat_s, shape_of(found))
        ratios[f"{precision} GEMM"] = repeated.best / found.best
        gemm[precision] = max(found, repeated, key=lambda s: s.best)
    return ratios


def _best_stream(streams: Mapping[str, Sustained]) -> Sustained:
    return max((streams[name] for name in CEILING_STREAMS), key=lambda s: s.best)


def _assemble(
    streams: Mapping[str, Sustained],
    levels: Mapping[Level, Sustained],
    gemm: Mapping[Precision, Sustained],
    refused: Mapping[str, str],
    launch: Ceiling,
    *,
    fp32_on: Engine,
) -> Ceilings:
    rates = {f"{name} bandwidth": streams[name] for name in CEILING_STREAMS}
    rates |= {f"{level} bandwidth": s for level, s in levels.items()}
    rates |= {f"{p} GEMM rate": s for p, s in gemm.items()}
    bandwidth = {level: _ceiling(s, _LEVEL_TEXT.get(level, "read, all cores: {}")) for level, s in levels.items()}
    bandwidth["dram"] = _ceiling(_best_stream(streams), "best of read, copy, triad: {}, write-allocate not counted")
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
    if ceilings.held_bytes:
        capacity = max(machine.cache_bytes.values(), default=0)
        notes.append(
            f"of the last-level cache of {show(capacity, 'B', capacity=True)}, a program here gets "
            f"{show(ceilings.held_bytes, 'B', capacity=True)}: it is shared, or a part is reserved"
        )
    notes += [f"{name} has no measured ceiling: {why}" for name, why in ceilings.refused.items()]
    notes += [f"{doubt}; stop other programs and run: roofline calibrate" for doubt in ceilings.doubts]
    return msgspec.structs.replace(
        machine,
        matrix={**machine.matrix, **ceilings.matrix},
        vector={**machine.vector, **ceilings.vector},
        bandwidth={**machine.bandwidth, **ceilings.bandwidth},
        streams=ceilings.streams,
        held_bytes=ceilings.held_bytes,
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


def _ceiling(found: Sustained, text: str) -> Ceiling:
    """A measured ceiling with how it was measured."""
    return Ceiling(
        found.best,
        "measured",
        f"{text.format(found.what)}; best of {found.windows} windows of {show(found.window_s, 's')} or more, "
        f"median {percent(found.typical / found.best)} of it; {date.today().isoformat()}",
    )
