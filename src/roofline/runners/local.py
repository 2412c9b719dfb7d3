"""Run cases in this process, one after the other."""

from collections.abc import Iterator

from roofline.sweeps.case import Result, Where
from roofline.sweeps.drive import NextCase
from roofline.sweeps.measure import measure_case


def run_cases(next_case: NextCase, where: Where) -> Iterator[Result]:
    """Measure the cases that `next_case` gives until it gives none."""
    while (case := next_case()) is not None:
        yield measure_case(case, where)
