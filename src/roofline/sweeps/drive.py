"""Run the cases of a sweep that have no result yet, and keep each result as it comes."""

from collections.abc import Callable, Iterator, Sequence

from roofline.sweeps.case import Case, Result, Where
from roofline.sweeps.results import ResultsFile

NextCase = Callable[[], Case | None]
Runner = Callable[[NextCase, Where], Iterator[Result]]
# Told of each result, and of the cases that are left.
Watch = Callable[[Result, Sequence[Case]], None]


class Queue:
    """Cases that are left, in order; those larger than one that ran out of memory are skipped.

    Attributes:
        left: Cases without a result.
    """

    def __init__(self, cases: Sequence[Case], done: Sequence[Result], keep: Callable[[Result], None]) -> None:
        keys = {r.key for r in done}
        self.left = [case for case in cases if case.key not in keys]
        self._keep = keep
        self._full: dict[str, Result] = {}
        for result in done:
            self.note(result)

    def next(self) -> Case | None:
        """The next case to run; records the skipped ones before it."""
        while self.left:
            case = self.left.pop(0)
            full = self._full.get(_series(case))
            if full is None or case.size <= full.case.size:
                return case
            why = f"{full.case.label} ran out of memory"
            self._keep(
                Result(
                    key=case.key,
                    case=case,
                    outcome="skipped",
                    why=why,
                    machine=full.machine,
                    environment=full.environment,
                )
            )
        return None

    def note(self, result: Result) -> None:
        """Remember that a case ran out of memory."""
        if result.outcome != "out_of_memory":
            return
        name = _series(result.case)
        known = self._full.get(name)
        if known is None or result.case.size < known.case.size:
            self._full[name] = result


def drive(
    cases: Sequence[Case],
    where: Where,
    runner: Runner,
    file: ResultsFile,
    *,
    machine: str | None = None,
    watch: Watch = lambda result, left: None,
) -> list[Result]:
    """Run what has no result yet.

    Args:
        cases: All cases of the sweep.
        where: Where and how they are measured.
        runner: Takes cases one by one from a function and gives their results in any order.
        file: Holds earlier results and takes the new ones, each as it comes.
        machine: Key of the machine whose results count as done; None: any.
        watch: Told of each new result.

    Returns:
        The results of all cases, in the order of the cases.
    """
    done = [r for case in cases if (r := file.find(case, machine)) is not None]

    def keep(result: Result) -> None:
        file.append(result)
        watch(result, queue.left)

    queue = Queue(cases, done, keep)
    for result in runner(queue.next, where):
        queue.note(result)
        keep(result)
    return [r for case in cases if (r := file.find(case, machine)) is not None]


def _series(case: Case) -> str:
    """What cases that differ only in size share."""
    return "/".join((case.sweep, case.series, case.precision, case.device, str(sorted(case.settings.items()))))
