"""The four experiments by name; each module has `cases`, `program`, `predict`, `memory_bytes` and `facts`."""

from types import ModuleType

from roofline.sweeps import decode, ops, train, vision
from roofline.sweeps.case import SweepName

EXPERIMENTS: dict[SweepName, ModuleType] = {"ops": ops, "decode": decode, "train": train, "vision": vision}


def experiment(name: SweepName) -> ModuleType:
    """The module of an experiment."""
    return EXPERIMENTS[name]
