"""Many plans: a grid over batch, lengths and splits, on several machines."""

from collections.abc import Iterator, Sequence
from itertools import product

import msgspec

from roofline.core.machine import Machine
from roofline.errors import UsageError
from roofline.plan.architecture import Architecture
from roofline.plan.planner import Plan, elsewhere, plan
from roofline.plan.workload import Parallel, Workload

_WORKLOAD = ("batch", "context", "tokens", "chunk", "images")
_PARALLEL = ("tp", "pp", "dp", "ep", "cp", "zero")
_MOST = 100_000


class Point(msgspec.Struct, frozen=True, kw_only=True):
    """One point of a sweep; all times at the roof.

    Attributes:
        machine: Key of the machine.
        values: What was varied.
        devices: Devices.
        step_s: Step time, communication hidden as far as it goes; None where the point makes no sense.
        step_exposed_s: With no communication hidden.
        token_s: Of these, per new token of a sequence: step_s / new tokens.
        tokens_per_s: All devices together.
        tokens_per_s_per_device: The same per device.
        mfu_fraction: At the roof.
        mbu_fraction: At the roof.
        bound: The ceiling that binds all ops together.
        memory_bytes: Per device.
        fits: Whether they fit.
        why: Why the point makes no sense.
    """

    machine: str
    values: dict[str, int]
    devices: int = 0
    step_s: float | None = None
    step_exposed_s: float | None = None
    token_s: float | None = None
    tokens_per_s: float | None = None
    tokens_per_s_per_device: float | None = None
    mfu_fraction: float | None = None
    mbu_fraction: float | None = None
    bound: str | None = None
    memory_bytes: float | None = None
    fits: bool | None = None
    why: str = ""


def read_sweep(text: str) -> tuple[str, list[int]]:
    """Read "batch=1:512" (doubling), "batch=1:512:64" (in steps) or "batch=1,8,64".

    Raises:
        UsageError: It is none of these.
    """
    name, _, spec = text.partition("=")
    if name not in (*_WORKLOAD, *_PARALLEL):
        raise UsageError(
            f'--sweep can\'t vary "{name}"', f"vary one of {', '.join((*_WORKLOAD, *_PARALLEL))}: batch=1:512"
        )
    try:
        numbers = [_number(n) for part in spec.split(",") for n in part.split(":")]
        values = _range(numbers) if ":" in spec else numbers
    except ValueError:
        values = []
    if not values or len(values) > _MOST or min(values) < 0:
        raise UsageError(f'"{text}" is no sweep', "write it like batch=1:512, batch=1:512:64 or batch=1,8,64")
    return name, values


def _number(text: str) -> int:
    scale = {"k": 1024, "m": 1024**2}.get(text[-1:].lower(), 1)
    return int(text[:-1] if scale > 1 else text) * scale


def _range(ends: list[int]) -> list[int]:
    first, last, *step = ends
    if step:
        return list(range(first, last + 1, step[0])) if step[0] > 0 and (last - first) // step[0] <= _MOST else []
    values = []
    while first <= last and first > 0:
        values.append(first)
        first *= 2
    return values if not values or values[-1] == last else [*values, last]


def grid(
    architecture: Architecture,
    machines: Sequence[Machine],
    sweeps: Sequence[tuple[str, Sequence[int]]],
    workload: Workload | None = None,
    parallel: Parallel | None = None,
) -> Iterator[Point]:
    """Plan every combination of values on every machine; a combination that makes no sense says why.

    Args:
        architecture: The model.
        machines: Whose roofs.
        sweeps: Fields of the workload or the split, with their values.
        workload: What stays.
        parallel: What stays.
    """
    fixed_load, fixed_split = workload or Workload(), parallel or Parallel()
    names = [name for name, _ in sweeps]
    for values in product(*(values for _, values in sweeps)):
        chosen = dict(zip(names, values, strict=True))
        load = msgspec.structs.replace(fixed_load, **{k: v for k, v in chosen.items() if k in _WORKLOAD})
        split = msgspec.structs.replace(fixed_split, **{k: v for k, v in chosen.items() if k in _PARALLEL})
        yield from _points(architecture, machines, load, split, chosen)


def _points(
    architecture: Architecture,
    machines: Sequence[Machine],
    workload: Workload,
    parallel: Parallel,
    values: dict[str, int],
) -> Iterator[Point]:
    """One workload and split on every machine: the ops are the same, their roofs are not."""
    made: Plan | None = None
    for machine in machines:
        try:
            made = elsewhere(made, machine) if made else plan(architecture, machine, workload, parallel)
            yield _point(made, values)
        except UsageError as error:
            yield Point(machine=machine.key, values=values, devices=parallel.devices, why=error.message)


def _point(made: Plan, values: dict[str, int]) -> Point:
    found, room = made.answers(), made.memory()
    return Point(
        machine=made.machine.key,
        values=values,
        devices=made.setting.parallel.devices,
        step_s=found.step_s,
        step_exposed_s=found.step_exposed_s,
        token_s=found.step_s * made.setting.workload.batch / found.tokens,
        tokens_per_s=found.tokens_per_s,
        tokens_per_s_per_device=found.tokens_per_s_per_device,
        mfu_fraction=found.mfu_fraction,
        mbu_fraction=found.mbu_fraction,
        bound=made.bound().value,
        memory_bytes=room.total_bytes,
        fits=room.fits,
    )


def keeps(point: Point, limit_s: float) -> bool:
    """Whether a point keeps a limit of time per token, at the roof, and fits as far as is known."""
    return point.token_s is not None and point.token_s <= limit_s and point.fits is not False


def frontier(points: Sequence[Point]) -> list[Point]:
    """Points that no other one beats in both time and throughput per device; those that don't fit are left out."""
    fit = [p for p in points if p.step_s is not None and p.fits is not False]
    fit.sort(key=lambda p: (p.step_s or 0, -(p.tokens_per_s_per_device or 0)))
    best: list[Point] = []
    for p in fit:
        if not best or (p.tokens_per_s_per_device or 0) > (best[-1].tokens_per_s_per_device or 0):
            best.append(p)
    return best
