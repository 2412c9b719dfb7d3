"""One op of a plan, with its bytes by kind, before it becomes an op record."""

from collections.abc import Iterable
from typing import Literal

import msgspec

from roofline.core.precision import Precision
from roofline.core.run import OpBytes, OpRecord, Phase

Kind = Literal["linear", "attention", "vector", "embedding", "scan", "collective", "optimizer"]


class Op(msgspec.Struct, frozen=True, kw_only=True):
    """All calls of one op. Every figure is the sum over the calls.

    Attributes:
        name: What it does.
        module: Where in the model.
        kind: Decides its backward pass.
        calls: How often it runs.
        shapes: Of one call.
        precision: Of its products.
        phase: Of the step.
        matrix: FLOP executed on the matrix engine.
        needed: Of these, what a perfect program would do; None: all.
        vector: FLOP on the vector engine.
        weight_bytes: Weights read.
        state_bytes: Cache or recurrent state read and written.
        input_bytes: Activations read.
        output_bytes: Activations written.
        node_bytes: Sent over the links of the node.
        network_bytes: Sent over the network.
        backward_matrix: FLOP of its backward pass; None: twice `matrix`.
        backward_needed: Of these, needed; None: twice `needed`.
        backward_bytes: Further bytes of its backward pass: a gradient that is larger than what was read.
        exact: Whether its FLOP are a count and not an estimate.
    """

    name: str
    module: str
    kind: Kind
    calls: int = 1
    shapes: str = ""
    precision: Precision
    phase: Phase = "forward"
    matrix: float = 0
    needed: float | None = None
    vector: float = 0
    weight_bytes: float = 0
    state_bytes: float = 0
    input_bytes: float = 0
    output_bytes: float = 0
    node_bytes: float = 0
    network_bytes: float = 0
    backward_matrix: float | None = None
    backward_needed: float | None = None
    backward_bytes: float = 0
    exact: bool = True

    @property
    def needed_matrix(self) -> float:
        """FLOP needed."""
        return self.matrix if self.needed is None else self.needed

    def times(self, n: float) -> "Op":
        """The op run `n` times as often."""
        if n == 1:
            return self
        scaled = {f: getattr(self, f) * n for f in _ADDED}
        also = {f: None if (v := getattr(self, f)) is None else v * n for f in _OPTIONAL}
        return msgspec.structs.replace(self, calls=round(self.calls * n), **scaled, **also)

    def record(self, cache_bytes: int) -> OpRecord:
        """The op as a record.

        Its `operator` bytes are all of its bytes. Its `cached` bytes leave activations out where those of one call
        fit into the last-level cache: then the op before has left them there.
        """
        held = self.weight_bytes + self.state_bytes
        passed = self.input_bytes + self.output_bytes
        stays = passed <= cache_bytes * self.calls and self.kind != "optimizer"
        return OpRecord(
            name=self.name,
            module=self.module,
            phase=self.phase,
            calls=self.calls,
            shapes=self.shapes,
            precision=self.precision,
            engine="matrix" if self.matrix else "vector" if self.vector else None,
            needed_flops=self.needed_matrix,
            executed_flops=self.matrix,
            vector_flops=self.vector,
            bytes=OpBytes(operator=held + passed, cached=held if stays else held + passed),
            network_bytes=self.network_bytes,
            node_bytes=self.node_bytes,
            formula="exact" if self.exact else "estimate",
        )


_ADDED = (
    "matrix",
    "vector",
    "weight_bytes",
    "state_bytes",
    "input_bytes",
    "output_bytes",
    "node_bytes",
    "network_bytes",
    "backward_bytes",
)
_OPTIONAL = ("needed", "backward_matrix", "backward_needed")


def merged(ops: Iterable[Op]) -> list[Op]:
    """Add up ops of one name, module, phase and shape, in the order of their first appearance."""
    found: dict[tuple[str, str, str, str], Op] = {}
    for op in ops:
        key = (op.name, op.module, op.phase, op.shapes)
        found[key] = _sum(found[key], op) if key in found else op
    return list(found.values())


def _sum(a: Op, b: Op) -> Op:
    added = {f: getattr(a, f) + getattr(b, f) for f in _ADDED}
    needed = None if a.needed is None and b.needed is None else a.needed_matrix + b.needed_matrix
    also = {f: _both(getattr(a, f), getattr(b, f)) for f in _OPTIONAL[1:]}
    return msgspec.structs.replace(a, calls=a.calls + b.calls, needed=needed, **added, **also)


def _both(a: float | None, b: float | None) -> float | None:
    return None if a is None or b is None else a + b
