"""Work: what a program asks of a machine. It adds and it scales."""

from collections.abc import Iterable, Mapping

import msgspec

from roofline.core.precision import Precision

Flops = Mapping[Precision, int | float]


class Work(msgspec.Struct, frozen=True, kw_only=True):
    """Operations by engine and precision, and bytes moved.

    Attributes:
        matrix: FLOP executed on the matrix engine (matmul, convolution, attention), by precision.
        needed: FLOP of `matrix` that a perfect program would still do: without recomputation, without the
            masked half of causal attention, without padding. None means all of `matrix`.
        vector: FLOP on the vector engine (elementwise, norms, softmax, reductions), by precision.
        read_bytes: Bytes read.
        written_bytes: Bytes written.
        cache_bytes: Bytes that the last-level cache passes on, wherever they come from.
        network_bytes: Bytes that this rank sends over the network.
        node_bytes: Bytes that this rank sends over the links within its node.
    """

    matrix: Flops = {}
    needed: Flops | None = None
    vector: Flops = {}
    read_bytes: int | float = 0
    written_bytes: int | float = 0
    cache_bytes: int | float = 0
    network_bytes: int | float = 0
    node_bytes: int | float = 0

    @property
    def executed_flops(self) -> int | float:
        """FLOP of matrix work that ran."""
        return sum(self.matrix.values())

    @property
    def needed_flops(self) -> int | float:
        """FLOP of matrix work that a perfect program would do."""
        return sum((self.matrix if self.needed is None else self.needed).values())

    @property
    def vector_flops(self) -> int | float:
        """FLOP of vector work."""
        return sum(self.vector.values())

    @property
    def moved_bytes(self) -> int | float:
        """Bytes read and written."""
        return self.read_bytes + self.written_bytes

    def __add__(self, other: "Work") -> "Work":
        needed = None
        if self.needed is not None or other.needed is not None:
            needed = _sum(w.matrix if w.needed is None else w.needed for w in (self, other))
        return Work(
            matrix=_sum((self.matrix, other.matrix)),
            needed=needed,
            vector=_sum((self.vector, other.vector)),
            read_bytes=self.read_bytes + other.read_bytes,
            written_bytes=self.written_bytes + other.written_bytes,
            cache_bytes=self.cache_bytes + other.cache_bytes,
            network_bytes=self.network_bytes + other.network_bytes,
            node_bytes=self.node_bytes + other.node_bytes,
        )

    def __mul__(self, times: int | float) -> "Work":
        return Work(
            matrix={p: f * times for p, f in self.matrix.items()},
            needed=None if self.needed is None else {p: f * times for p, f in self.needed.items()},
            vector={p: f * times for p, f in self.vector.items()},
            read_bytes=self.read_bytes * times,
            written_bytes=self.written_bytes * times,
            cache_bytes=self.cache_bytes * times,
            network_bytes=self.network_bytes * times,
            node_bytes=self.node_bytes * times,
        )

    __rmul__ = __mul__


def _sum(parts: Iterable[Flops]) -> dict[Precision, int | float]:
    total: dict[Precision, int | float] = {}
    for part in parts:
        for precision, flops in part.items():
            total[precision] = total.get(precision, 0) + flops
    return total
