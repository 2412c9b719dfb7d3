"""Run a program once under the recorder: on fake tensors, or for real where that can't be."""

import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from typing import Any, NamedTuple

from torch._subclasses.fake_tensor import (
    DataDependentOutputException,
    DynamicOutputShapeException,
    FakeTensorMode,
    UnsupportedFakeTensorException,
)

from roofline.counter.call import OpCall
from roofline.counter.control_flow import eager
from roofline.counter.fake_build import build_fake
from roofline.counter.isolation import untouched
from roofline.counter.modules import ModuleTracker
from roofline.counter.packing import positions_seen
from roofline.counter.parallel import shapes_unseen
from roofline.counter.program import Program
from roofline.counter.recorder import Recorder
from roofline.errors import RooflineError

# What a fake tensor raises when the program asks for a value that only a real one has.
_NEEDS_VALUES = (DataDependentOutputException, DynamicOutputShapeException, UnsupportedFakeTensorException)


class Recording(NamedTuple):
    """Everything that one counted step did.

    Attributes:
        calls: Ops in the order they ran.
        free_calls: Views, allocations and metadata beside them.
        alive: Storages that outlive the step.
        kinds: Class name by module path.
        module_calls: Forward calls by module path.
        module_bytes: Bytes by the `module` origin.
        failures: Ops whose formula broke, with the reason.
        fake: Whether it ran on fake tensors.
        why_real: Why it did not.
    """

    calls: list[OpCall]
    free_calls: int
    alive: set[int]
    kinds: dict[str, str]
    module_calls: dict[str, int]
    module_bytes: int
    failures: dict[str, str]
    fake: bool
    why_real: str = ""


def record(build: Callable[[], Program], *, may_run: bool = True) -> Recording:
    """Count one step of the program that `build` makes.

    It is built and run on fake tensors: nothing is allocated, nothing is computed. A program that needs a value
    (`.item()`, a data-dependent shape) is built and run once for real.

    Args:
        build: Makes the program, fresh at every call.
        may_run: Whether the real run is allowed.

    Raises:
        RooflineError: The program fails, or needs the real run and may not have it.
    """
    with eager(), _no_log_of_failures(), shapes_unseen():
        try:
            with untouched(values=False), FakeTensorMode(allow_non_fake_inputs=True) as fake:
                return _record(build_fake(build, fake), fake)
        except RooflineError:
            raise
        except Exception as error:
            why = _reason(error)
            if not may_run and isinstance(error, _NEEDS_VALUES):
                raise RooflineError(
                    f"the program can't be counted without running it: {why}", "use roofline measure, which runs it"
                ) from error
            if not may_run:
                raise
        with untouched(values=True):
            return _record(build(), None)._replace(why_real=why)


def _record(program: Program, fake: FakeTensorMode | None) -> Recording:
    recorder, tracker, output = _run(program, fake)
    if recorder.made_optimizer_state:
        # The first step of an optimizer allocates its state; every later one reads it. Count a later one.
        recorder, tracker, output = _run(program, fake)
    trains = any(c.phase == "backward" for c in recorder.calls)
    recording = Recording(
        calls=recorder.calls,
        free_calls=recorder.free_calls,
        alive=recorder.accesses.alive(),
        kinds=tracker.kinds,
        module_calls=tracker.calls,
        module_bytes=tracker.leaf_io.total(backward=trains),
        failures=recorder.failures,
        fake=fake is not None,
    )
    del output
    return recording


def _run(program: Program, fake: FakeTensorMode | None) -> tuple[Recorder, ModuleTracker, Any]:
    tracker = ModuleTracker(program.root)
    recorder = Recorder(tracker, fake)
    with positions_seen() if fake is not None else nullcontext(), recorder.recording():
        output = program.step()
    return recorder, tracker, output


@contextmanager
def _no_log_of_failures() -> Iterator[None]:
    """Keep torch from logging a traceback for an op that fails on fake tensors; the exception says it."""
    log = logging.getLogger("torch._subclasses.fake_tensor")
    before, log.disabled = log.disabled, True
    try:
        yield
    finally:
        log.disabled = before


def _reason(error: BaseException) -> str:
    """One line of an exception, short enough for a warning."""
    text = str(error).strip().splitlines()
    return f"{type(error).__name__}: {text[0][:160]}" if text else type(error).__name__
