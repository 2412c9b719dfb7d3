"""Figures of sweeps by name; each is drawn from results alone."""

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from roofline.report.sweeps.figures.style import Form, saved
from roofline.sweeps.case import Result, SweepName

if TYPE_CHECKING:
    from matplotlib.figure import Figure

NAMES = ("ops_roofline", "gemm_efficiency", "decode", "train", "vision", "ridge")


def render(name: SweepName, results: Sequence[Result], form: Form) -> bytes:
    """Draw the main figure of a sweep.

    Args:
        name: The sweep.
        results: Measured or predicted, of one or several machines.
        form: The picture's format.
    """
    return figure("ops_roofline" if name == "ops" else name, results, form)


def figure(name: str, results: Sequence[Result], form: Form) -> bytes:
    """Draw one of the figures in `NAMES`; results of other sweeps are left out."""
    draw = _drawer(name)
    return saved(lambda: draw(results), form)


def _drawer(name: str) -> "Callable[[Sequence[Result]], Figure]":
    from roofline.report.sweeps.figures import ops, ridge, steps, vision

    drawers: dict[str, Callable[[Sequence[Result]], Figure]] = {
        "ops_roofline": ops.op_roofline,
        "gemm_efficiency": ops.gemm_efficiency,
        "decode": steps.decode,
        "train": steps.train,
        "vision": vision.vision,
        "ridge": lambda results: ridge.ridge(),
    }
    return drawers[name]
