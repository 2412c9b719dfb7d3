"""What the counter keeps of one dispatched op: its cost, where it ran, and which bytes it touched."""

from typing import NamedTuple

from roofline.core.precision import Precision
from roofline.core.run import Formula, Phase
from roofline.formulas.registry import Cost


class Region(NamedTuple):
    """A stretch of one storage, as an op sees it.

    Attributes:
        storage: Number of the storage, unique within one count.
        start: First byte.
        stop: Byte after the last.
    """

    storage: int
    start: int
    stop: int


class Access(NamedTuple):
    """Bytes that an op reads from or writes to a region; fewer than its extent for gathers and broadcasts."""

    region: Region
    bytes: float


class OpCall(NamedTuple):
    """One call of one op.

    Attributes:
        name: "aten.mm": namespace and op, without the overload.
        module: Dotted path of the calling module.
        phase: Forward, backward or optimizer.
        tensor_shapes: Shapes of the input tensors.
        precision: Of the matrix work, else of the data.
        cost: What the formula says; a zero cost for an unknown op.
        formula: Exact, estimate or none.
        recomputed: Ran again for activation checkpointing, so none of it is needed.
        reads: Regions read, with the bytes that the op asks for.
        writes: Regions written.
    """

    name: str
    module: str
    phase: Phase
    tensor_shapes: tuple[tuple[int, ...], ...]
    precision: Precision | None
    cost: Cost
    formula: Formula
    recomputed: bool
    reads: tuple[Access, ...]
    writes: tuple[Access, ...]

    @property
    def shapes(self) -> str:
        """The input shapes for people: "64x3x224x224, 64x3x7x7"."""
        return ", ".join("x".join(map(str, shape)) or "scalar" for shape in self.tensor_shapes)

    @property
    def operator_bytes(self) -> float:
        """Bytes that the op asks for: reads, writes, and workspace written and read again."""
        return sum(a.bytes for a in self.reads) + sum(a.bytes for a in self.writes) + self.cost.workspace_bytes
