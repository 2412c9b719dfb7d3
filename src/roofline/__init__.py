"""Which ceiling binds a program, how far below it the program is, and what moving it is worth.

What needs torch is imported on first use, so that `import roofline` stays fast and works without it.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

if TYPE_CHECKING:
    from roofline.analysis import judge as judge
    from roofline.api import count as count
    from roofline.api import devices as devices
    from roofline.api import measure as measure
    from roofline.core.machine import Machine as Machine
    from roofline.core.run import Run as Run
    from roofline.counter.annotate import annotate as annotate
    from roofline.errors import RooflineError as RooflineError
    from roofline.formulas import Cost as Cost
    from roofline.formulas import TensorSpec as TensorSpec
    from roofline.formulas import register_formula as register_formula

_HOME = {
    "annotate": "roofline.counter.annotate",
    "judge": "roofline.analysis",
    "count": "roofline.api",
    "devices": "roofline.api",
    "measure": "roofline.api",
    "Machine": "roofline.core.machine",
    "Run": "roofline.core.run",
    "RooflineError": "roofline.errors",
    "Cost": "roofline.formulas",
    "TensorSpec": "roofline.formulas",
    "register_formula": "roofline.formulas",
}
__all__ = ["__version__", *sorted(_HOME)]


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module 'roofline' has no attribute {name!r}")
    return getattr(import_module(_HOME[name]), name)


def __dir__() -> list[str]:
    return list(__all__)
