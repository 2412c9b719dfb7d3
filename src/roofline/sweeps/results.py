"""A file of results: one JSON line per case, appended whole as each case ends, so that a killed sweep resumes."""

import os
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType

import msgspec

from roofline.core.machine import Machine
from roofline.core.run import write_whole
from roofline.errors import RunFileError, UsageError
from roofline.sweeps.case import SCHEMA, Case, Result, encode


class ResultsFile:
    """Results of one or more sweeps, locked against a second sweep while open.

    Opening it drops a last line that a kill has cut short. Attributes:
        path: Where it is.
        results: What it holds, in order.
        warnings: Lines that could not be read, by number.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.results: list[Result] = []
        self.warnings: list[str] = []
        try:
            self._handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o644)
        except OSError as error:
            raise RunFileError(
                f"can't write {path}: {error.strerror}", "choose another file with --results"
            ) from None
        try:
            self._lock()
            self._drop_partial_line()
            self.results, self.warnings = parse(path.read_bytes(), str(path))
        except BaseException:
            os.close(self._handle)
            raise

    def __enter__(self) -> "ResultsFile":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        os.close(self._handle)

    def append(self, result: Result) -> None:
        """Add a result: one write of one whole line, on the disk before this returns.

        Raises:
            RunFileError: The disk is full, or the like.
        """
        line = encode(result) + b"\n"
        try:
            written = os.write(self._handle, line)
            if written < len(line):
                self._drop_partial_line()
                raise OSError(28, "the disk is full")
            os.fsync(self._handle)
        except OSError as error:
            raise RunFileError(f"can't write {self.path}: {error.strerror}", "free some space and resume") from None
        self.results.append(result)

    def find(self, case: Case, machine: str | None) -> Result | None:
        """The result of a case on a machine, if there is one; on any machine for None."""
        key = case.key
        same = (r for r in self.results if r.key == key)
        return next((r for r in same if machine is None or r.machine in (None, machine)), None)

    def _lock(self) -> None:
        try:
            import fcntl
        except ImportError:  # Windows has none; two sweeps into one file are then the user's business
            return
        try:
            fcntl.flock(self._handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            raise UsageError(
                f"another sweep is writing {self.path}", "wait for it, or choose another file with --results"
            ) from None

    def _drop_partial_line(self) -> None:
        size = os.fstat(self._handle).st_size
        data = self.path.read_bytes()
        if size and not data.endswith(b"\n"):
            os.ftruncate(self._handle, data.rfind(b"\n") + 1)


def parse(data: bytes, name: str) -> tuple[list[Result], list[str]]:
    """Read results from the lines of a file; lines that are none are named in the warnings.

    A key that appears twice on one machine (a file put together by hand) counts once, the last time.
    """
    found: dict[tuple[str, str | None], Result] = {}
    warnings = []
    for number, line in enumerate(data.splitlines(), start=1):
        if not line.strip():
            continue
        try:
            result = msgspec.json.decode(line, type=Result)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            warnings.append(f"{name}, line {number} is no result and is left out: {str(error)[:120]}")
            continue
        if result.schema != SCHEMA:
            warnings.append(f'{name}, line {number} has schema "{result.schema}", this version reads "{SCHEMA}"')
            continue
        found[result.key, result.machine] = result
    return list(found.values()), warnings


def forget(path: Path, outcomes: Sequence[str]) -> int:
    """Drop the lines with these outcomes, so that their cases run again; returns how many.

    Raises:
        RunFileError: The file can't be read or written.
    """
    if not path.exists():
        return 0
    results, _ = load(path)
    kept = [encode(r) + b"\n" for r in results if r.outcome not in outcomes]
    write_whole(path, b"".join(kept))
    return len(results) - len(kept)


def judged_by(path: Path, key: str) -> Machine | None:
    """The machine with this key that the results of a file were judged by; None without such results.

    Raises:
        RunFileError: The file can't be read.
    """
    if not path.exists():
        return None
    runs = [result.run for result in load(path)[0] if result.run is not None]
    return next((run.machine for run in runs if run.machine is not None and run.machine.key == key), None)


def load(path: Path) -> tuple[list[Result], list[str]]:
    """Read a file of results without locking it.

    Raises:
        RunFileError: It can't be read.
    """
    try:
        return parse(path.read_bytes(), str(path))
    except OSError as error:
        raise RunFileError(f"can't read {path}: {error.strerror}", "give a file of results of a sweep") from None
