"""Time of a step by the fitted roof of its machine: what well-tuned kernels reach, and what each costs beside."""

from roofline.core.machine import Machine
from roofline.core.run import Run
from roofline.machines.fits import fitted_time


def step_seconds(run: Run, machine: Machine) -> float | None:
    """Sum of the ops' times by the fitted roof, s; None where the machine, or one op, has no fit."""
    times = [fitted_time(op, machine) for op in run.ops if op.roof_s]
    if not times or any(time is None for time in times):
        return None
    return sum(time[0] for time in times if time is not None)
