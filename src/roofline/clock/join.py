"""Measured times joined to counted calls: how long did each counted call take?

A counter that listens below autograd sees `aten.convolution`; the profiler sees `aten::conv2d`, inside it
`aten::convolution`, inside that the library's op. So the outermost event that bears a counted name gets all the
time inside it. What a wrapper around it takes itself (dispatch, autograd node) goes to the calls inside it, in
proportion to their time; a wrapper that is only a scope of the host (an annotation, an optimizer's step) keeps
its own time to itself, as Python between ops is nobody's op time. Ops without a counted name stay unmatched.
An in-place op and its functional form are one name here: autograd sums gradients in place unless a counter listens.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from statistics import fmean, median
from typing import Literal

import msgspec

from roofline.clock.profile import Event, Profile, Shapes, plain_shapes

Phase = Literal["forward", "backward", "optimizer"]
Key = tuple[str, Shapes]


class CountedCall(msgspec.Struct, frozen=True):
    """One counted call.

    Attributes:
        name: "aten.mm"; an overload after it is ignored, as the profiler gives none.
        shapes: Of the tensor arguments.
    """

    name: str
    shapes: tuple[tuple[int, ...], ...] = ()


class TimedOp(msgspec.Struct, frozen=True, kw_only=True):
    """One dispatched op of a profiled step.

    Attributes:
        name: "aten.mm".
        shapes: Of the tensor arguments, those with dimensions.
        start_s: Since the start of the profile, s.
        seconds: Its own and its wrappers' time, less the profiler's overhead, s.
        raw_s: Its time as the profiler gave it, s.
        thread: Number of the host thread.
        phase: Forward, backward (inside an autograd node) or optimizer (inside an optimizer's step).
    """

    name: str
    shapes: Shapes
    start_s: float
    seconds: float
    raw_s: float
    thread: int
    phase: Phase


class Joined(msgspec.Struct, frozen=True, kw_only=True):
    """Times of counted calls, per step.

    Attributes:
        seconds: Of each counted call, s; None where the profile has no such op.
        matched_s: Their sum.
        unmatched_s: Time of ops that nothing counted is known for, s.
        unmatched: The same by name, longest first.
        scale: What all times were multiplied by to fit into the wall time; 1 where they fitted.
    """

    seconds: tuple[float | None, ...]
    matched_s: float
    unmatched_s: float
    unmatched: Mapping[str, float]
    scale: float = 1.0

    @property
    def matched_fraction(self) -> float | None:
        """Share of the op time that was matched; None without any."""
        total = self.matched_s + self.unmatched_s
        return self.matched_s / total if total else None


def join(counted: Sequence[CountedCall], profile: Profile, *, wall_s: float | None = None) -> Joined:
    """Give each counted call its time, the median over the profiled steps.

    Calls and ops of one name and the same shapes are matched in order if there are as many of both; else those of
    one name in order; else a call gets the mean of the ops with its name and shapes.

    On CPU the profiler's overhead is taken off first (each event lengthens the one around it by
    `profile.overhead_s`); if the sum of matched and unmatched time is still above `wall_s`, all are scaled down to
    it. On a device kernel times are left as they are, as streams may overlap.

    Args:
        counted: In the order of the calls in one step.
        profile: Of the same step.
        wall_s: Wall time of one step without the profiler, s.
    """
    names = {c.name for c in counted}
    steps = [dispatched_ops(s.events, names, profile) for s in profile.steps]
    if not steps or (profile.on_device and not any(s.busy_s for s in profile.steps)):
        return Joined(seconds=(None,) * len(counted), matched_s=0.0, unmatched_s=0.0, unmatched={})
    seconds = _match(counted, [ops for ops, _ in steps])
    unmatched = _median_by_name([rest for _, rest in steps])
    for name, extra_s in _left_over(counted, seconds, [ops for ops, _ in steps]).items():
        unmatched[name] = unmatched.get(name, 0.0) + extra_s
    matched_s = sum(s for s in seconds if s is not None)
    total_s = matched_s + sum(unmatched.values())
    scale = wall_s / total_s if wall_s and not profile.on_device and total_s > wall_s else 1.0
    return Joined(
        seconds=tuple(None if s is None else s * scale for s in seconds),
        matched_s=matched_s * scale,
        unmatched_s=sum(unmatched.values()) * scale,
        unmatched={n: s * scale for n, s in sorted(unmatched.items(), key=lambda item: -item[1])},
        scale=scale,
    )


def dispatched_ops(
    events: Iterable[Event], names: Iterable[str], profile: Profile
) -> tuple[list[TimedOp], dict[str, float]]:
    """Find the ops that bear one of `names`, in start order, and the time by name of all others, s."""
    walk = _Walk({_plain(name) for name in names}, profile)
    for event in events:
        walk.enter(event, "forward")
    return sorted(walk.found, key=lambda op: op.start_s), dict(walk.rest)


class _Walk:
    """A walk through the tree of events that keeps what it finds."""

    def __init__(self, names: set[str], profile: Profile) -> None:
        self.names = names
        self.on_device = profile.on_device
        self.overhead_s = profile.overhead_s
        self.found: list[TimedOp] = []
        self.rest: defaultdict[str, float] = defaultdict(float)

    def enter(self, event: Event, phase: Phase) -> None:
        phase = _phase(event, phase)
        if event.kind == "op" and _plain(event.name) in self.names:
            self.found.append(self._timed(event, phase))
            return
        first = len(self.found)
        for child in event.children:
            self.enter(child, phase)
        own_s = self._own_s(event)
        inside = self.found[first:]
        if event.kind == "host":
            # Kernels launched by hand-written code directly under a scope are still somebody's work.
            self.rest[event.name] += own_s if self.on_device else 0.0
        elif inside:
            self.found[first:] = _shared(inside, own_s)
        else:
            self.rest[event.name] += own_s

    def _timed(self, event: Event, phase: Phase) -> TimedOp:
        return TimedOp(
            name=event.name,
            shapes=event.shapes,
            start_s=event.start_s,
            seconds=self._whole_s(event),
            raw_s=event.device_s if self.on_device else event.host_s,
            thread=event.thread,
            phase=phase,
        )

    def _own_s(self, event: Event) -> float:
        """Time of an event outside the events in it, which each cost the profiler some time around them."""
        if self.on_device:
            return max(0.0, event.device_s - sum(c.device_s for c in event.children))
        inside_s = sum(c.host_s + self.overhead_s for c in event.children)
        return max(0.0, event.host_s - inside_s)

    def _whole_s(self, event: Event) -> float:
        if self.on_device:
            return event.device_s
        return self._own_s(event) + sum(self._whole_s(c) for c in event.children)


def _phase(event: Event, outer: Phase) -> Phase:
    if event.kind == "autograd":
        return "backward"
    return "optimizer" if event.kind == "host" and event.name.startswith("Optimizer.step") else outer


def _shared(ops: Sequence[TimedOp], extra_s: float) -> list[TimedOp]:
    """Give `extra_s` to ops in proportion to their time; in equal parts where they have none."""
    total = sum(op.seconds for op in ops)
    parts = [op.seconds / total if total else 1 / len(ops) for op in ops]
    return [
        msgspec.structs.replace(op, seconds=op.seconds + extra_s * part) for op, part in zip(ops, parts, strict=True)
    ]


def _match(counted: Sequence[CountedCall], steps: Sequence[Sequence[TimedOp]]) -> list[float | None]:
    """Time of each counted call: in order by name and shapes, else in order by name, else the mean of the like."""
    seconds: list[float | None] = [None] * len(counted)
    by_name = _places(_plain(c.name) for c in counted)
    by_key = _places(_key(c) for c in counted)
    for name, places in by_name.items():
        steps_of_name = [[op for op in step if _plain(op.name) == name] for step in steps]
        keys = list(dict.fromkeys(_key(counted[i]) for i in places))
        if all(_fits(by_key[key], _of_key(steps_of_name, key)) for key in keys):
            for key in keys:
                _in_order(seconds, by_key[key], _of_key(steps_of_name, key))
        elif _fits(places, steps_of_name):
            _in_order(seconds, places, steps_of_name)
        else:
            for key in keys:
                _mean(seconds, by_key[key], _of_key(steps_of_name, key))
    return seconds


def _in_order(seconds: list[float | None], places: Sequence[int], steps: Sequence[Sequence[TimedOp]]) -> None:
    fitting = [step for step in steps if len(step) == len(places)]
    for at, place in enumerate(places):
        seconds[place] = median(step[at].seconds for step in fitting)


def _mean(seconds: list[float | None], places: Sequence[int], steps: Sequence[Sequence[TimedOp]]) -> None:
    """Never hand out more than there is: with fewer ops than calls, the calls share the ops' time."""
    times = [op.seconds for step in steps for op in step]
    if not times:
        return
    per_step = len(times) / len(steps)
    each_s = fmean(times) * min(1.0, per_step / len(places))
    for place in places:
        seconds[place] = each_s


def _left_over(
    counted: Sequence[CountedCall], seconds: Sequence[float | None], steps: Sequence[Sequence[TimedOp]]
) -> dict[str, float]:
    """Time by name of ops that bear a counted name but found no counted call."""
    given: defaultdict[str, float] = defaultdict(float)
    calls: Counter[str] = Counter()
    for call, s in zip(counted, seconds, strict=True):
        given[_plain(call.name)] += s or 0.0
        calls[_plain(call.name)] += s is not None
    left = {}
    for name in given:
        seen = [[op.seconds for op in step if _plain(op.name) == name] for step in steps]
        if not any(len(times) == calls[name] for times in seen):
            left[name] = max(0.0, median(map(sum, seen)) - given[name])
    return left


def _median_by_name(steps: Sequence[Mapping[str, float]]) -> dict[str, float]:
    names = {name for step in steps for name in step}
    return {name: s for name in names if (s := median(step.get(name, 0.0) for step in steps)) > 0}


def _fits(places: Sequence[int], steps: Sequence[Sequence[TimedOp]]) -> bool:
    return any(len(step) == len(places) for step in steps)


def _of_key(steps: Sequence[Sequence[TimedOp]], key: Key) -> list[list[TimedOp]]:
    return [[op for op in step if op.shapes == key[1]] for step in steps]


def _places(keys: Iterable[object]) -> dict[object, list[int]]:
    found: dict[object, list[int]] = {}
    for at, key in enumerate(keys):
        found.setdefault(key, []).append(at)
    return found


def _key(call: CountedCall) -> Key:
    return _plain(call.name), plain_shapes(call.shapes)


def _plain(name: str) -> str:
    """Drop the overload and the mark of an in-place op: "aten.add_.Tensor" is "aten.add"."""
    packet = ".".join(name.replace("::", ".").split(".")[:2])
    return packet if packet.endswith("__") else packet.removesuffix("_")
