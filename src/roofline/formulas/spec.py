"""The shape record: all that a formula may know of a tensor, from whatever source it comes."""

from collections.abc import Iterator
from math import prod
from typing import Any

import msgspec

from roofline.core.precision import Precision, dtype_bytes, precision_of


class TensorSpec(msgspec.Struct, frozen=True):
    """Shape, dtype and strides of a live tensor, a FakeTensor or a row of a trace.

    Attributes:
        shape: Sizes.
        dtype: torch's name, such as "bfloat16".
        strides: In elements; None stands for contiguous.
        nnz: Stored elements of a sparse tensor, or of a nested one whose shape is that of its padded form; None
            when dense.
        values: What a small integer tensor holds, where that is known and decides the work: the offsets of
            variable-length attention, the block counts of a mask. Of a nested tensor, the lengths of its sequences.
    """

    shape: tuple[int, ...]
    dtype: str = "float32"
    strides: tuple[int, ...] | None = None
    nnz: int | None = None
    values: tuple[int, ...] | None = None

    @property
    def ndim(self) -> int:
        """Number of dimensions."""
        return len(self.shape)

    @property
    def numel(self) -> int:
        """Number of logical elements."""
        return prod(self.shape)

    @property
    def item_bytes(self) -> float:
        """Bytes per element."""
        return dtype_bytes(self.dtype)

    @property
    def stored_numel(self) -> int:
        """Distinct elements in memory: a broadcast dimension (stride 0) counts once, a sparse zero not at all."""
        if self.nnz is not None:
            return self.nnz
        if self.strides is None or 0 not in self.strides:
            return self.numel
        return prod(n for n, stride in zip(self.shape, self.strides, strict=True) if stride != 0)

    @property
    def nbytes(self) -> float:
        """Bytes that a full pass over the tensor moves; indices of sparse layouts not included."""
        return self.stored_numel * self.item_bytes

    @property
    def precision(self) -> Precision | None:
        """The rate that arithmetic on it runs at; None for index types."""
        return precision_of(self.dtype)

    def __str__(self) -> str:
        return "x".join(map(str, self.shape)) or "scalar"


def tensors(tree: Any) -> Iterator[TensorSpec]:
    """Yield the TensorSpecs in nested lists, tuples and dicts, in order."""
    if isinstance(tree, TensorSpec):
        yield tree
    elif isinstance(tree, list | tuple):
        for item in tree:
            yield from tensors(item)
    elif isinstance(tree, dict):
        for item in tree.values():
            yield from tensors(item)
