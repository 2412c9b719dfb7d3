"""A case of a sweep, where it runs, and what came of it: plain values that travel between processes."""

from typing import Any, Literal

import msgspec

from roofline.core.machine import Machine
from roofline.core.precision import Precision
from roofline.core.run import BytesOrigin, Run

SCHEMA = "roofline.sweep/1"
SweepName = Literal["ops", "decode", "train", "vision"]
Outcome = Literal["ok", "out_of_memory", "skipped", "failed"]


class Case(msgspec.Struct, frozen=True, kw_only=True):
    """One point of a sweep: all that decides its work.

    Attributes:
        sweep: Which experiment.
        series: Cases that differ only in size; where one runs out of memory, the larger ones are skipped.
        size: What grows: elements, N of a matrix, batch, tokens per step.
        precision: Of its matrix work, else of its data.
        settings: The rest: parameters, layers, mode, layout.
        device: Where it is timed: "cpu", "cuda"; "" for a prediction.
    """

    sweep: SweepName
    series: str
    size: int
    precision: Precision
    settings: dict[str, str | int | bool] = {}
    device: str = ""

    @property
    def key(self) -> str:
        """The case's name in a file of results: the same case has the same key in every process."""
        settings = [f"{name}={value}" for name, value in sorted(self.settings.items())]
        parts = [self.sweep, self.series, str(self.size), self.precision.value, self.device, *settings]
        return "/".join(part for part in parts if part)

    @property
    def label(self) -> str:
        """The case for people."""
        return f"{self.series} {self.size}"


class Where(msgspec.Struct, frozen=True, kw_only=True):
    """Where and how cases are measured.

    Attributes:
        device: Where they run.
        machine: Whose roof; None: the device's own, found where the case runs.
        seconds: Time spent timing each case, s.
        origin: Which count of bytes to judge by; None takes the best at hand.
    """

    device: str = "cpu"
    machine: Machine | None = None
    seconds: float = 1.0
    origin: BytesOrigin | None = None


class Result(msgspec.Struct, frozen=True, kw_only=True):
    """What came of a case: one line of a file of results.

    Attributes:
        schema: Version of the line.
        key: The case's key.
        case: The case.
        outcome: "ok", "out_of_memory", "skipped" (a smaller one ran out of memory) or "failed".
        why: Why it is not "ok".
        machine: Key of the machine whose roof it is judged by.
        environment: Where and with what it ran.
        run: The judged Run; None unless "ok".
    """

    schema: str = SCHEMA
    key: str
    case: Case
    outcome: Outcome
    why: str = ""
    machine: str | None = None
    environment: dict[str, Any] = {}
    run: Run | None = None


def result_of(case: Case, run: Run) -> Result:
    """The result of a case that ran (or was predicted)."""
    machine = run.machine.key if run.machine else None
    return Result(key=case.key, case=case, outcome="ok", machine=machine, environment=run.environment, run=run)


def encode(value: Case | Where | Result) -> bytes:
    """Encode for a file or another process."""
    return msgspec.json.encode(value)
