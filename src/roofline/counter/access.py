"""Which bytes an op touches: tensors to shape records, storages to numbers, views to regions."""

from functools import lru_cache
from typing import Any, NamedTuple

import torch
from torch._subclasses.fake_tensor import FakeTensor
from torch.multiprocessing.reductions import StorageWeakRef
from torch.utils._pytree import tree_leaves

from roofline.counter.call import Access, Region
from roofline.formulas.registry import Cost
from roofline.formulas.spec import TensorSpec

_INTEGERS = (torch.int32, torch.int64)
_MOST_VALUES = 4096


class Input(NamedTuple):
    """One tensor argument: its region, its size, and whether the op writes to it or only writes to it."""

    region: Region
    nbytes: float
    mutated: bool
    write_only: bool


class Accesses:
    """Numbers the storages of one count and turns tensors into regions of them."""

    def __init__(self) -> None:
        self._numbers: dict[int, int] = {}
        self._refs: list[StorageWeakRef] = []

    def specs(self, tree: Any) -> Any:
        """Replace every tensor in nested arguments by its shape record."""
        if isinstance(tree, torch.Tensor):
            return _spec(tree)
        if isinstance(tree, list | tuple):
            return tuple(self.specs(item) for item in tree) if isinstance(tree, tuple) else [*map(self.specs, tree)]
        if isinstance(tree, dict):
            return {key: self.specs(value) for key, value in tree.items()}
        return tree

    def inputs(self, func: Any, args: Any, kwargs: Any) -> list[Input]:
        """List the tensor arguments in call order, as the op finds them before it runs."""
        mutated, write_only = _mutations(func)
        found = []
        for key, value in [*enumerate(args), *kwargs.items()]:
            for tensor in _leaves(value):
                region = self.region(tensor)
                found.append(Input(region, _spec(tensor).nbytes, key in mutated, key in write_only))
        return found

    def read(self, inputs: list[Input], cost: Cost) -> tuple[Access, ...]:
        """Bytes read: each distinct region once, less where the formula knows better."""
        reads: dict[Region, float] = {}
        for i, item in enumerate(inputs):
            nbytes = cost.read.get(i, 0.0 if item.write_only else item.nbytes)
            reads[item.region] = max(reads.get(item.region, 0.0), nbytes)
        return tuple(Access(region, n) for region, n in reads.items() if n)

    def written(self, func: Any, inputs: list[Input], out: Any, cost: Cost) -> tuple[Access, ...]:
        """Bytes written: outputs that are no mere aliases of inputs, and mutated arguments."""
        untouched = {i.region.storage for i in inputs} - {i.region.storage for i in inputs if i.mutated}
        regions = [(self.region(t), _spec(t).nbytes) for t in _leaves(out)]
        regions = [r for r in regions if r[0].storage not in untouched]
        if not regions:
            regions = [(i.region, i.nbytes) for i in inputs if i.mutated]
        else:
            returned = {region for region, _ in regions}
            regions += [(i.region, i.nbytes) for i in inputs if i.mutated and i.region not in returned]
        writes: dict[Region, float] = {}
        for i, (region, nbytes) in enumerate(regions):
            writes[region] = cost.written.get(i, nbytes)
        return tuple(Access(region, n) for region, n in writes.items() if n)

    def region(self, tensor: torch.Tensor) -> Region:
        """The stretch of its storage that a tensor spans."""
        if tensor.layout != torch.strided:
            return self._sparse_region(tensor)
        if tensor.is_nested:
            storage = tensor.untyped_storage()
            return Region(self._number(storage), 0, int(storage.nbytes()))
        number = self._number(tensor.untyped_storage())
        item = tensor.element_size()
        start = int(tensor.storage_offset()) * item
        extent = 1 + sum((int(n) - 1) * int(s) for n, s in zip(tensor.shape, tensor.stride(), strict=True))
        return Region(number, start, start + (extent * item if tensor.numel() else 0))

    def alive(self) -> set[int]:
        """Numbers of the storages that something still holds."""
        return {number for number, ref in enumerate(self._refs) if not ref.expired()}

    def _number(self, storage: Any) -> int:
        key = storage._cdata
        if key not in self._numbers:
            # The weak reference keeps the address from being given to another storage.
            self._numbers[key] = len(self._refs)
            self._refs.append(StorageWeakRef(storage))
        return self._numbers[key]

    def _sparse_region(self, tensor: torch.Tensor) -> Region:
        """A sparse or opaque tensor has no storage of its own: stand in for it by its address."""
        key = -id(tensor)
        if key not in self._numbers:
            self._numbers[key] = len(self._refs)
            self._refs.append(StorageWeakRef(torch.empty(0).untyped_storage()))
        return Region(self._numbers[key], 0, int(_spec(tensor).nbytes))


def _leaves(value: Any) -> list[torch.Tensor]:
    if isinstance(value, torch.Tensor):
        return [value]
    return [t for t in tree_leaves(value) if isinstance(t, torch.Tensor)] if isinstance(value, list | tuple) else []


def _spec(tensor: torch.Tensor) -> TensorSpec:
    dtype = str(tensor.dtype).removeprefix("torch.")
    if tensor.is_nested:
        return _nested_spec(tensor, dtype)
    shape = tuple(map(int, tensor.shape))
    if tensor.layout != torch.strided:
        return TensorSpec(shape, dtype, None, _nnz(tensor))
    return TensorSpec(shape, dtype, tuple(map(int, tensor.stride())), values=_values(tensor))


def _nested_spec(tensor: torch.Tensor, dtype: str) -> TensorSpec:
    """A strided nested tensor: padded shape, stored elements, sequence lengths."""
    sizes = tensor._nested_tensor_size()
    padded = (len(sizes), *map(int, sizes.max(0).values.tolist()))
    return TensorSpec(padded, dtype, nnz=int(tensor.numel()), values=tuple(map(int, sizes[:, 0].tolist())))


def _values(tensor: torch.Tensor) -> tuple[int, ...] | None:
    """What a short row of integers holds, where it is known: offsets of packed sequences decide the work."""
    if tensor.dtype not in _INTEGERS or tensor.numel() > _MOST_VALUES or tensor.device.type != "cpu":
        return None
    known = tensor.constant if isinstance(tensor, FakeTensor) else tensor
    return None if known is None else tuple(map(int, known.flatten().tolist()))


def _nnz(tensor: torch.Tensor) -> int | None:
    sparse = (torch.sparse_coo, torch.sparse_csr, torch.sparse_csc, torch.sparse_bsr, torch.sparse_bsc)
    if tensor.layout not in sparse:
        return None
    values = tensor._values() if tensor.layout == torch.sparse_coo else tensor.values()
    return int(values.numel())


@lru_cache(maxsize=4096)
def _mutations(func: Any) -> tuple[frozenset[int | str], frozenset[int | str]]:
    """Arguments that an op writes to, and those of them that it only writes to (`out=`), by position and name."""
    schema = getattr(func, "_schema", None)
    if schema is None:
        return frozenset(), frozenset()
    mutated: set[int | str] = set()
    write_only: set[int | str] = set()
    for i, argument in enumerate(schema.arguments):
        if argument.alias_info is not None and argument.alias_info.is_write:
            keys = {argument.name} if argument.kwarg_only else {i, argument.name}
            mutated |= keys
            if argument.is_out:
                write_only |= keys
    return frozenset(mutated), frozenset(write_only)
