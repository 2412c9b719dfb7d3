"""Results sorted for figures: one group per machine, measured and predicted points apart."""

from collections.abc import Sequence
from typing import NamedTuple

from roofline.core.machine import Machine
from roofline.sweeps.case import Result, SweepName
from roofline.sweeps.summary import Point, point


class Group(NamedTuple):
    """Points of one sweep on one machine.

    Attributes:
        machine: Whose roof they are judged by.
        points: In the order of series and size; those without a time left out.
        measured: Whether they were timed.
        results: What they are made of.
    """

    machine: Machine
    points: tuple[Point, ...]
    measured: bool
    results: tuple[Result, ...] = ()

    @property
    def label(self) -> str:
        """The machine's name."""
        return self.machine.name


def groups(name: SweepName, results: Sequence[Result]) -> list[Group]:
    """The groups of a sweep, measured ones first."""
    found: dict[tuple[str, bool], list[Result]] = {}
    for result in results:
        if result.case.sweep == name and result.run is not None and result.run.machine is not None:
            key = (result.run.machine.key, result.run.timing is not None)
            found.setdefault(key, []).append(result)
    made = []
    for (_, measured), members in sorted(found.items(), key=lambda item: not item[0][1]):
        run = members[0].run
        assert run is not None and run.machine is not None
        points = sorted((point(r) for r in members), key=lambda p: (p.series, p.size))
        made.append(Group(run.machine, tuple(p for p in points if p.step_s), measured, tuple(members)))
    return made


def by_series(points: Sequence[Point]) -> dict[str, list[Point]]:
    """Points by op, or by model and mode."""
    found: dict[str, list[Point]] = {}
    for p in points:
        found.setdefault(p.series, []).append(p)
    return found
