"""Per-op times from torch.profiler, in a pass of its own: the profiler slows what it watches."""

import os
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any, Literal

import msgspec
import torch
from torch.profiler import ProfilerActivity, profile, record_function

from roofline.clock.timers import Progress, Step, find_device, no_garbage_collection, synchronise

Kind = Literal["op", "autograd", "host"]
Shapes = tuple[tuple[int, ...], ...]

_MARK = "roofline.step"
# Values of torch's RecordScope for dispatched functions and for autograd nodes.
_FUNCTION, _BACKWARD = 0, 1


class Event(msgspec.Struct, frozen=True, kw_only=True):
    """One event of the profiler and those inside it.

    Attributes:
        name: As a counter spells it ("aten.mm"), or a scope's own name.
        kind: A dispatched op, an autograd node, or a scope of the host (annotations, optimizer steps).
        shapes: Of the tensor arguments; scalars and tensors without dimensions are left out.
        start_s: Since the start of the profile, s.
        host_s: Host time from its start to its end, s.
        device_s: Device time of the kernels that it and the events inside it launched, s.
        thread: Number of the host thread.
        children: Events inside it, in start order.
    """

    name: str
    kind: Kind
    shapes: Shapes = ()
    start_s: float = 0.0
    host_s: float = 0.0
    device_s: float = 0.0
    thread: int = 0
    children: "tuple[Event, ...]" = ()


class ProfiledStep(msgspec.Struct, frozen=True, kw_only=True):
    """One step under the profiler.

    Attributes:
        events: Outermost events of all host threads, in start order.
        wall_s: From its start until the device is done, profiler overhead included, s.
        busy_s: Time in which at least one kernel ran on the device; on CPU, in which an op ran, s.
    """

    events: tuple[Event, ...]
    wall_s: float
    busy_s: float


class Profile(msgspec.Struct, frozen=True, kw_only=True):
    """Some steps under the profiler.

    Attributes:
        steps: Each step.
        on_device: Times of ops are device times of their kernels, not host times.
        overhead_s: What one event inside another adds to the outer one, s.
        doubts: What to know before trusting the times.
    """

    steps: tuple[ProfiledStep, ...]
    on_device: bool
    overhead_s: float = 0.0
    doubts: tuple[str, ...] = ()


def can_profile(device: str) -> bool:
    """Whether torch.profiler gives per-op times on this device: not on MPS, whose kernels it doesn't see."""
    return torch.device(device).type in ("cpu", "cuda", "xpu")


def profile_step(
    step: Step, device: str, *, steps: int = 3, warmup: int = 1, progress: Progress | None = None
) -> Profile:
    """Run a step a few times under torch.profiler.

    Args:
        step: Runs the program once. What it raises goes through untouched.
        device: Where it runs.
        steps: Steps to profile.
        warmup: Steps to run before, unwatched.
        progress: Told in words what is going on.
    """
    place = find_device(device)
    on_device = place.type != "cpu"
    activities = [ProfilerActivity.CPU]
    if on_device:
        activities.append(getattr(ProfilerActivity, place.type.upper()))
    if progress:
        progress("per-op times")
    for _ in range(warmup):
        step()
    synchronise(device)
    overhead_s = 0.0 if on_device else event_overhead_s()
    with no_garbage_collection(), _quiet(), profile(activities=activities, record_shapes=True) as watched:
        for _ in range(steps):
            with record_function(_MARK):
                step()
                synchronise(device)
    found = read_steps(watched.events() or (), on_device=on_device)
    doubts = []
    if on_device and not any(s.busy_s for s in found):
        doubts.append(
            "the profiler saw no kernels on the device, so there are no per-op times; "
            "it may lack the permission to read performance counters"
        )
    return Profile(steps=found, on_device=on_device, overhead_s=overhead_s, doubts=tuple(doubts))


def read_steps(events: Iterable[Any], *, on_device: bool) -> tuple[ProfiledStep, ...]:
    """Turn the profiler's FunctionEvents into steps.

    Args:
        events: With the attributes of torch's FunctionEvent; times in µs.
        on_device: Whether times of kernels count, rather than host times.
    """
    known = list(events)
    host = [e for e in known if e.device_type == torch.autograd.DeviceType.CPU]
    kernels = [e for e in known if e.device_type != torch.autograd.DeviceType.CPU and not e.is_user_annotation]
    marks = sorted((e for e in host if e.name == _MARK), key=lambda e: e.time_range.start)
    roots = [e for e in host if e.cpu_parent is None and e.name != _MARK]
    steps = []
    for mark in marks:
        start, end = mark.time_range.start, mark.time_range.end
        inside = [*mark.cpu_children, *(e for e in roots if start <= e.time_range.start < end)]
        tree = tuple(sorted(map(_event, inside), key=lambda e: e.start_s))
        if on_device:
            busy = [(k.time_range.start * 1e-6, k.time_range.end * 1e-6) for k in kernels]
            busy = [span for span in busy if start * 1e-6 <= span[0] < end * 1e-6]
        else:
            busy = [(e.start_s, e.start_s + e.host_s) for e in outermost_ops(tree)]
        steps.append(ProfiledStep(events=tree, wall_s=(end - start) * 1e-6, busy_s=union_s(busy)))
    return tuple(steps)


def outermost_ops(events: Iterable[Event]) -> Iterator[Event]:
    """Yield the events that are inside no other but scopes of the host."""
    for event in events:
        if event.kind == "host":
            yield from outermost_ops(event.children)
        else:
            yield event


def union_s(spans: Iterable[tuple[float, float]]) -> float:
    """Length of the union of intervals (start, end): overlaps count once."""
    total, reached = 0.0, float("-inf")
    for start, end in sorted(spans):
        total += max(0.0, end - max(start, reached))
        reached = max(reached, end)
    return total


def event_overhead_s(calls: int = 1000) -> float:
    """What the profiler adds per event, s: (profiled - plain) time of a one-element add, which is one event."""
    x, out = torch.ones(1), torch.ones(1)

    def loop() -> float:
        start = time.perf_counter()
        for _ in range(calls):
            torch.add(x, x, out=out)
        return (time.perf_counter() - start) / calls

    plain_s = min(loop() for _ in range(5))
    with _quiet(), profile(activities=[ProfilerActivity.CPU], record_shapes=True):
        profiled_s = min(loop() for _ in range(3))
    return max(0.0, profiled_s - plain_s)


def _event(raw: Any) -> Event:
    return Event(
        name=raw.name.replace("::", ".") if raw.scope == _FUNCTION else raw.name,
        kind=_kind(raw),
        shapes=plain_shapes(raw.input_shapes or ()),
        start_s=raw.time_range.start * 1e-6,
        host_s=(raw.time_range.end - raw.time_range.start) * 1e-6,
        device_s=raw.device_time_total * 1e-6,
        thread=raw.thread,
        children=tuple(_event(c) for c in sorted(raw.cpu_children, key=lambda e: e.time_range.start)),
    )


def _kind(raw: Any) -> Kind:
    if raw.scope == _BACKWARD or raw.name.startswith("autograd::engine::evaluate_function"):
        return "autograd"
    return "op" if raw.scope == _FUNCTION and "::" in raw.name and not raw.is_user_annotation else "host"


def plain_shapes(shapes: Iterable[Any]) -> Shapes:
    """Keep the shapes that are flat and not empty: the profiler shows numbers and lists as empty."""
    flat = (tuple(s) for s in shapes if isinstance(s, list | tuple) and s)
    return tuple(s for s in flat if all(isinstance(n, int) for n in s))


@contextmanager
def _quiet() -> Iterator[None]:
    """Keep the profiler's C++ log off stderr: on a CUDA build without a GPU it writes an error that is none."""
    name = "KINETO_LOG_LEVEL"
    before = os.environ.get(name)
    os.environ.setdefault(name, "99")
    try:
        yield
    finally:
        if before is None:
            os.environ.pop(name, None)
