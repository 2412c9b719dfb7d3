"""Which bytes an op touches: tensors to shape records, storages to numbers, views to regions."""

from functools import lru_cache
from math import ceil
from typing import Any, NamedTuple

import torch
from torch._subclasses.fake_tensor import FakeTensor, UnsupportedFakeTensorException, unset_fake_temporarily
from torch.multiprocessing.reductions import StorageWeakRef

from roofline.counter.call import Access, Region
from roofline.formulas.registry import Cost
from roofline.formulas.spec import TensorSpec

_INTEGERS = (torch.int32, torch.int64)
_MOST_VALUES = 4096
# The smallest piece of memory that a GPU fetches; CPUs fetch two of them at a time.
_SECTOR_BYTES = 32

# Running statistics that a schema does not say are updated; the formula says when they are not.
_RUNNING: frozenset[int | str] = frozenset({3, 4, "running_mean", "running_var"})
_UNDECLARED = dict.fromkeys(
    ("aten::native_batch_norm", "aten::cudnn_batch_norm", "aten::miopen_batch_norm"), _RUNNING
)


class Input(NamedTuple):
    """One tensor argument as the op finds it: its shape, its region, the bytes that a pass over it moves.

    Attributes:
        mutated: The op writes to it.
        write_only: The op only writes to it.
    """

    spec: TensorSpec
    region: Region
    nbytes: float
    mutated: bool
    write_only: bool


class Output(NamedTuple):
    """One tensor that an op returned, as `Input` has it."""

    spec: TensorSpec
    region: Region
    nbytes: float


class Writes(NamedTuple):
    """Arguments that an op writes to, and those of them that it only writes to (`out=`), by position and name."""

    mutated: frozenset[int | str]
    write_only: frozenset[int | str]


class Accesses:
    """Numbers the storages of one count and turns tensors into regions of them.

    Attributes:
        known_values: What real tensors of integers hold, by the id of the fake tensor that now stands for them.
    """

    def __init__(self) -> None:
        self.known_values: dict[int, tuple[int, ...]] = {}
        self._numbers: dict[int, int] = {}
        self._refs: list[StorageWeakRef] = []

    def arguments(self, args: Any, kwargs: Any, writes: Writes, seen: list[Input]) -> tuple[Any, dict[str, Any]]:
        """Replace every tensor in an op's arguments by its shape record, and list the tensors in call order."""

        def see(value: Any) -> Any:
            if isinstance(value, torch.Tensor):
                spec, region = self._spec(value), self.region(value)
                seen.append(Input(spec, region, _touched(spec, region), mutated, write_only))
                return spec
            if isinstance(value, list):
                return [see(item) for item in value]
            if isinstance(value, tuple):
                return tuple([see(item) for item in value])
            if isinstance(value, dict):
                return {key: see(item) for key, item in value.items()}
            return value

        specs = []
        mutates = bool(writes.mutated)
        mutated = write_only = False
        for i, value in enumerate(args):
            if mutates:
                mutated, write_only = i in writes.mutated, i in writes.write_only
            specs.append(see(value))
        named = {}
        for key, value in kwargs.items():
            if mutates:
                mutated, write_only = key in writes.mutated, key in writes.write_only
            named[key] = see(value)
        return tuple(specs), named

    def results(self, tree: Any, found: list[Output]) -> Any:
        """Replace every tensor in an op's result by its shape record, and list them."""
        if isinstance(tree, torch.Tensor):
            spec, region = self._spec(tree), self.region(tree)
            found.append(Output(spec, region, _touched(spec, region)))
            return spec
        if isinstance(tree, list | tuple):
            specs = [self.results(item, found) for item in tree]
            return tuple(specs) if isinstance(tree, tuple) else specs
        if isinstance(tree, dict):
            return {key: self.results(value, found) for key, value in tree.items()}
        return tree

    def read(self, inputs: list[Input], cost: Cost) -> tuple[Access, ...]:
        """Bytes read: each distinct region once, less where the formula knows better."""
        reads: dict[Region, float] = {}
        for i, (_, region, nbytes, _, write_only) in enumerate(inputs):
            n = 0.0 if write_only else nbytes
            if cost.read:
                n = cost.read.get(i, n)
            reads[region] = max(reads.get(region, 0.0), n)
        return tuple([Access(region, n) for region, n in reads.items() if n])

    def written(self, inputs: list[Input], outputs: list[Output], cost: Cost) -> tuple[Access, ...]:
        """Bytes written: outputs that are no mere aliases of inputs, and mutated arguments."""
        mutated = [i for i in inputs if i.mutated]
        untouched = {i.region.storage for i in inputs}
        if mutated:
            untouched -= {i.region.storage for i in mutated}
        regions = [(o.region, o.nbytes) for o in outputs if o.region.storage not in untouched]
        if mutated:
            returned = {region for region, _ in regions}
            regions += [(i.region, i.nbytes) for i in mutated if i.region not in returned]
        writes: dict[Region, float] = {}
        for i, (region, nbytes) in enumerate(regions):
            n = cost.written.get(i, nbytes) if cost.written else nbytes
            writes[region] = max(writes.get(region, 0.0), n)
        return tuple([Access(region, n) for region, n in writes.items() if n])

    def stated(self, nbytes: float) -> Access:
        """Bytes that somebody states without saying where: a region of their own."""
        number = len(self._refs)
        self._refs.append(StorageWeakRef(torch.UntypedStorage(0)))
        return Access(Region(number, 0, int(nbytes)), nbytes)

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

    def _spec(self, tensor: torch.Tensor) -> TensorSpec:
        dtype = dtype_name(tensor.dtype)
        if tensor.is_nested:
            return _nested_spec(tensor, dtype)
        shape = tuple(map(int, tensor.shape))
        if tensor.layout != torch.strided:
            return TensorSpec(shape, dtype, None, _nnz(tensor))
        values = self._values(tensor) if tensor.dtype in _INTEGERS else None
        return TensorSpec(shape, dtype, tuple(map(int, tensor.stride())), values=values)

    def _values(self, tensor: torch.Tensor) -> tuple[int, ...] | None:
        """What a row of integers holds, where it is known: offsets of packed sequences decide the work."""
        if id(tensor) in self.known_values:
            return self.known_values[id(tensor)]
        known = tensor.constant if isinstance(tensor, FakeTensor) else tensor
        return None if known is None else values_of(known)

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
        return Region(self._numbers[key], 0, int(self._spec(tensor).nbytes))


def _nested_spec(tensor: torch.Tensor, dtype: str) -> TensorSpec:
    """A strided nested tensor: padded shape, stored elements, sequence lengths."""
    sizes = tensor._nested_tensor_size()
    padded = (len(sizes), *map(int, sizes.max(0).values.tolist()))
    return TensorSpec(padded, dtype, nnz=int(tensor.numel()), values=tuple(map(int, sizes[:, 0].tolist())))


def _touched(spec: TensorSpec, region: Region) -> float:
    """Bytes that a pass over a tensor moves: its distinct elements, in whole sectors where they lie apart."""
    if spec.strides is None:
        return spec.nbytes
    return strided_bytes(spec.shape, spec.strides, spec.item_bytes, region.stop - region.start)


@lru_cache(maxsize=8192)
def strided_bytes(shape: tuple[int, ...], strides: tuple[int, ...], item_bytes: float, extent: int) -> float:
    """Bytes that a pass over a strided tensor moves, in sectors of 32 B.

    Elements that lie together form runs. One run moves its own bytes; of runs apart each moves whole sectors,
    but all of them no more than the `extent` from the first byte to the last. A broadcast dimension counts once.
    """
    run = 1
    runs = 1
    for stride, size in sorted((int(t), int(n)) for n, t in zip(shape, strides, strict=True) if t and n != 1):
        if runs == 1 and stride == run:
            run *= size
        else:
            runs *= size
    if runs == 1:
        return run * item_bytes
    return min(extent, runs * ceil(run * item_bytes / _SECTOR_BYTES) * _SECTOR_BYTES)


def values_of(tensor: torch.Tensor) -> tuple[int, ...] | None:
    """The contents of a small tensor of integers on the host; None for any other."""
    if tensor.dtype not in _INTEGERS or tensor.numel() > _MOST_VALUES or tensor.device.type != "cpu":
        return None
    with unset_fake_temporarily():
        return tuple(map(int, tensor.flatten().tolist()))


def _nnz(tensor: torch.Tensor) -> int | None:
    sparse = (torch.sparse_coo, torch.sparse_csr, torch.sparse_csc, torch.sparse_bsr, torch.sparse_bsc)
    if tensor.layout not in sparse:
        return None
    values = tensor._values() if tensor.layout == torch.sparse_coo else tensor.values()
    stored = int(values.numel())
    if not stored and tensor.numel() and isinstance(tensor, FakeTensor):
        # A fake copy, and a fake conversion, forgets what is stored: a count of it would be zero.
        raise UnsupportedFakeTensorException("a sparse tensor's stored elements have no fake form")
    return stored


def mutations(func: Any) -> Writes:
    """Which arguments an op's schema says that it writes to."""
    schema = getattr(func, "_schema", None)
    mutated: set[int | str] = set()
    write_only: set[int | str] = set()
    for i, argument in enumerate(schema.arguments if schema is not None else ()):
        if argument.alias_info is not None and argument.alias_info.is_write:
            keys = {argument.name} if argument.kwarg_only else {i, argument.name}
            mutated |= keys
            if argument.is_out:
                write_only |= keys
    if schema is not None:
        mutated |= _UNDECLARED.get(schema.name, frozenset())
    return Writes(frozenset(mutated), frozenset(write_only))


@lru_cache(maxsize=256)
def dtype_name(dtype: torch.dtype) -> str:
    """Torch's name of a dtype, without "torch."."""
    return str(dtype).removeprefix("torch.")
