"""The main job: count a program, get the machine's ceilings, time it, join the times, judge."""

from collections.abc import Callable
from contextlib import nullcontext
from typing import Any

import msgspec

from roofline.analysis import judge
from roofline.core.machine import Machine
from roofline.core.run import BytesOrigin, Run
from roofline.errors import MachineError, RooflineError, UsageError
from roofline.targets.made import Made, Target
from roofline.targets.meta import no_data, runs_on_meta
from roofline.targets.options import Options
from roofline.targets.running import running

# Passes whose speed differs by more than this get a warning.
_DRIFT = 1.15
Say = Callable[[str], None]


def measure_target(
    target: Target,
    options: Options,
    machine: Callable[[], Machine],
    *,
    seconds: float = 10.0,
    origin: BytesOrigin | None = None,
    say: Say = lambda line: None,
) -> Run:
    """Count and time a target, and judge it.

    Args:
        target: What to measure.
        options: How to set it up, and where it runs.
        machine: Gives the machine to judge by; called after counting, as it may have to calibrate.
        seconds: Time to spend timing, s.
        origin: Which count of bytes to judge by; None takes the best at hand.
        say: Told each step in one line.

    Returns:
        A judged Run of kind "measured".

    Raises:
        RooflineError: The program fails, or the machine can't be judged by.
    """
    from roofline.clock.environment import busy_warning, environment
    from roofline.clock.faults import page_faults
    from roofline.clock.join import CountedCall, join
    from roofline.clock.profile import can_profile, profile_step
    from roofline.clock.stopwatch import time_step
    from roofline.counter import counted_run

    described = environment(options.device)
    say("1/5 counting the program on fake tensors")
    parts: list[Made] = []
    recording = _recorded(target, options, may_run=True, made=parts)
    _refuse_idle(target.label, recording)
    if parts[-1].meta:
        raise no_data(target.label)
    say("2/5 ceilings of the machine")
    roofs = machine()
    say(f"3/5 timing it for about {seconds:g} s")
    fused = None
    with running(target.label):
        program, made = _real_program(target, options)
        if options.compiled:
            # Imported only here: TorchInductor takes seconds to load.
            from roofline.counter.fused import FusedBytes

            fused = FusedBytes()
        with fused.watching() if fused else nullcontext():
            timing = time_step(program.step, options.device, seconds=seconds, compiled=options.compiled)
            timing = msgspec.structs.replace(timing, page_faults=page_faults(program.step, options.device))
        warnings = [*filter(None, [busy_warning(described)]), *_foreign(roofs, options.device)]
        times = None
        if can_profile(options.device):
            say("4/5 per-op times from the profiler")
            profile = profile_step(program.step, options.device)
            counted = [CountedCall(c.name, c.tensor_shapes) for c in recording.calls]
            joined = join(counted, profile, wall_s=timing.median_s)
            drift = _drift(profile, timing.median_s)
            times = [None if s is None else s * drift for s in joined.seconds]
            busy = (joined.matched_s + joined.unmatched_s) * drift
            timing = msgspec.structs.replace(timing, busy_s=_busy_s(profile, busy))
            warnings += [*profile.doubts, *_unmatched(joined), *_drifted(drift)]
    moved = None
    if fused is not None:
        moved, doubts_of_bytes = _fused_bytes(target, options, fused, recording, say)
        warnings += doubts_of_bytes
    say("5/5 judging")
    run = counted_run(recording, roofs, _workload(target, options, made), seconds=times, fused_bytes=moved)
    run = msgspec.structs.replace(
        run, kind="measured", timing=timing, environment=described, warnings=(*run.warnings, *warnings)
    )
    return judge(run, origin=origin)


def count_target(
    target: Target,
    options: Options,
    machine: Machine | None,
    *,
    origin: BytesOrigin | None = None,
    may_run: bool = False,
    say: Say = lambda line: None,
) -> Run:
    """Count a target on fake tensors and judge it by any machine; nothing is allocated, nothing is timed.

    Args:
        target: What to count.
        options: How to set it up.
        machine: Whose roof to judge by; None leaves the Run unjudged.
        origin: Which count of bytes to judge by.
        may_run: Whether a program that can't run on fake tensors may be run once for real.
        say: Told each step in one line.

    Raises:
        RooflineError: The program fails, or can't be counted without running it.
    """
    from roofline.clock.environment import environment
    from roofline.counter import counted_run

    say("counting the program on fake tensors")
    made: list[Made] = []
    recording = _recorded(target, options, may_run=may_run, made=made)
    if machine is not None:
        _refuse_idle(target.label, recording)
    fused, warnings = _fused_count(target, options, say) if options.compiled else (None, [])
    run = counted_run(recording, machine, _workload(target, options, made[-1]), fused_bytes=fused)
    run = msgspec.structs.replace(run, environment=environment(options.device), warnings=(*run.warnings, *warnings))
    return judge(run, origin=origin) if machine else run


def own_machine(device: str, say: Say) -> Machine:
    """The machine that a device is: from the database by its exact name, else with ceilings measured here.

    A CPU always has measured ceilings, cached with their date in the user's cache folder.
    """
    from roofline import machines
    from roofline.clock.cache import ceilings_for

    check_device(device)
    try:
        machine = machines.detect(device)
    except MachineError as error:
        say(f"{error.message}: its ceilings are measured here instead")
        machine = machines.unlisted(device)
    return machine if machine.matrix and machine.bandwidth else ceilings_for(device, machine, progress=say)


def check_device(device: str) -> None:
    """Refuse a device that torch can't run on, before the long work begins.

    Raises:
        UsageError: torch is missing, or the device is unknown or not there.
    """
    from roofline.targets.packages import need

    need("torch", "torch")
    from roofline.clock.timers import find_device

    find_device(device)


def _recorded(target: Target, options: Options, *, may_run: bool, made: list[Made] | None = None) -> Any:
    from roofline.counter import Program, record
    from roofline.targets import program

    eager = msgspec.structs.replace(options, compiled=False)

    def build() -> Program:
        found, parts = program(target, eager)
        if made is not None:
            made.append(parts)
        return found

    with running(target.label):
        return record(build, may_run=may_run)


def _refuse_idle(label: str, recording: Any) -> None:
    """Refuse to judge a program in which nothing was seen: its work is out of sight.

    Raises:
        RooflineError: It ran no op of torch at all.
    """
    if not recording.calls and not recording.free_calls:
        raise RooflineError(
            f"{label} ran no op of torch",
            "work in numpy, in other threads or in C++ is out of sight: give it as torch ops",
        )


def _real_program(target: Target, options: Options) -> tuple[Any, Made]:
    """A fresh instance for timing: what was counted is not what is timed.

    Raises:
        UsageError: The factory gives out the same module again, which was counted on fake tensors; or a step
            computes on the meta device.
    """
    from torch._subclasses.fake_tensor import FakeTensor

    from roofline.targets import program

    built, made = program(target, options)
    if built.root is not None and any(isinstance(p, FakeTensor) for p in built.root.parameters()):
        raise UsageError(
            f"{target.label} returns one module again and again", "let the factory make a new module at every call"
        )
    if made.step is not None and runs_on_meta(made.step):
        raise no_data(target.label)
    return built, made


def _foreign(roofs: Machine, device: str) -> list[str]:
    """Warn of a roof that is not that of the device that was timed."""
    from roofline import machines

    own = machines.detect(device)
    if own.key == roofs.key or (own.kind == roofs.kind == "cpu"):
        return []
    return [f"timed on {own.name} but judged by the roof of {roofs.name}: the ratios compare two machines"]


def _drift(profile: Any, wall_s: float) -> float:
    """How much slower the timed steps were than the profiled ones.

    On a CPU that others share, speed changes between the two passes; op times are brought to the speed of the timed
    one, or the difference would pass for idle time. Slower profiled steps are the profiler's own doing, which the
    join has taken off.
    """
    walls = sorted(step.wall_s for step in profile.steps)
    if profile.on_device or not walls:
        return 1.0
    return max(1.0, wall_s / walls[len(walls) // 2])


def _drifted(drift: float) -> list[str]:
    if drift <= _DRIFT:
        return []
    return [
        f"timed steps took {drift:.2f}× as long as profiled ones: the machine's speed changes; per-op times are "
        "scaled to the timed steps"
    ]


def _busy_s(profile: Any, op_s: float) -> float:
    """Time per step in which the device ran ops: union of kernels on a GPU, sum of op times on a CPU."""
    if not profile.on_device:
        return op_s
    busy = sorted(step.busy_s for step in profile.steps)
    return float(busy[len(busy) // 2]) if busy else op_s


def _workload(target: Target, options: Options, made: Made) -> dict[str, Any]:
    workload: dict[str, Any] = {"target": target.label, **options.workload()}
    if made.step is None:
        # A step decides for itself whether it trains, and is not called the one or the other.
        workload["train"] = options.train
    if made.items is not None:
        workload |= {"items": made.items, "item": made.item}
    return workload


def _unmatched(joined: Any) -> list[str]:
    """Warn of op time that belongs to no counted call, if it matters."""
    matched = joined.matched_fraction
    if matched is None or matched >= 0.9:
        return []
    names = ", ".join(list(joined.unmatched)[:3])
    return [f"{1 - matched:.0%} of the op time belongs to no counted op ({names}): per-op times are incomplete"]


def _fused_count(target: Target, options: Options, say: Say) -> tuple[float | None, list[str]]:
    """Bytes of the program through torch.compile, without running it; or why they are unknown."""
    from roofline.counter.fused import count_fused
    from roofline.targets import program

    say("scheduling the graph that torch.compile would make")
    found = count_fused(lambda: program(target, options)[0])
    return found.bytes, [f"the bytes of the fused graph are unknown: {found.why}"] if found.why else []


def _fused_bytes(
    target: Target, options: Options, compiled: Any, recording: Any, say: Say
) -> tuple[float | None, list[str]]:
    """Bytes of the compiled program, as `roofline count --compile` has them: with the loss, outside of its graphs.

    Where they can't be counted so, those of the graphs that were timed, and of the optimizer's step.
    """
    moved, doubts = _fused_count(target, options, say)
    if moved is not None or not compiled.graphs:
        return moved, doubts
    outside = sum(c.operator_bytes for c in recording.calls if c.phase == "optimizer")
    return float(compiled.total + outside), [
        f"fused bytes leave out what runs outside of the compiled graphs, such as the loss ({'; '.join(doubts)})"
    ]
