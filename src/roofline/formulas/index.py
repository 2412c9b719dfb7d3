"""Gathers, scatters and embeddings: bytes by the rows touched.

A gather of m elements reads no more than m elements of its source, and never more than all of it: repeated rows come
from cache. A scatter in place writes the elements it hits and reads them only to accumulate; its functional form
first copies the destination. Accumulating costs 1 FLOP per element.

Not counted: index arithmetic; the part of a memory sector around a single element. A Boolean mask is taken to
select everything where the result does not tell how much it selects (an estimate).
"""

from collections.abc import Sequence
from math import prod
from typing import Any

from roofline.formulas.arithmetic import arithmetic, aten, elements, moves, position
from roofline.formulas.registry import Cost, formula
from roofline.formulas.spec import TensorSpec

Index = TensorSpec | None

formula(*aten("masked_select nonzero nonzero_static masked_scatter masked_scatter_backward"))(moves)


def _gathered(x: TensorSpec, count: float) -> float:
    return min(x.nbytes, count * x.item_bytes)


def _adds(x: TensorSpec, count: float) -> float:
    return count * arithmetic(x, 1, 2)


@formula(*aten("index _unsafe_index index_select gather take embedding"))
def gather(source: TensorSpec, *args: Any, out: TensorSpec, **_: Any) -> Cost:
    """Rows or elements copied from a source: as many bytes read of it as the result holds."""
    return Cost(read={0: _gathered(source, out.numel)})


@formula("aten._unsafe_masked_index")
def masked_index(source: TensorSpec, mask: TensorSpec, *args: Any, out: TensorSpec, **_: Any) -> Cost:
    """Gather where a mask holds, a constant elsewhere."""
    return Cost(read={0: _gathered(source, out.numel)})


def selected(x: TensorSpec, indices: Sequence[Index]) -> int:
    """Elements that x[indices] holds: the broadcast index shape times the dimensions left alone."""
    given = [i for i in indices if i is not None]
    masks = [i for i in given if i.dtype in ("bool", "uint8")]
    consumed = len(given) + sum(m.ndim - 1 for m in masks)
    used = {d for d, i in enumerate(indices) if i is not None}
    if masks:
        return x.numel if len(masks) == len(given) else elements(given)
    left = prod(n for d, n in enumerate(x.shape) if d not in used) if consumed else x.numel
    return _broadcast([i.shape for i in given]) * left


def _broadcast(shapes: Sequence[Sequence[int]]) -> int:
    rank = max((len(s) for s in shapes), default=0)
    padded = [(1,) * (rank - len(s)) + tuple(s) for s in shapes]
    return prod(max(sizes) if 0 not in sizes else 0 for sizes in zip(*padded, strict=True))


def _put(x: TensorSpec, indices: Sequence[Index], *, accumulate: bool, in_place: bool) -> Cost:
    hit = selected(x, indices)
    touched = min(x.nbytes, hit * x.item_bytes)
    return Cost(
        vector=_adds(x, hit) if accumulate else 0,
        read={0: touched if accumulate else 0} if in_place else {},
        written={0: touched} if in_place else {},
        formula="estimate" if any(i is not None and i.dtype == "bool" for i in indices) else "exact",
    )


@formula(*aten("index_put _unsafe_index_put _index_put_impl"))
def index_put(
    x: TensorSpec,
    indices: Sequence[Index],
    values: TensorSpec,
    accumulate: bool = False,
    *args: Any,
    out: Any,
    **_: Any,
) -> Cost:
    """Copy of x with the indexed elements replaced, or added to."""
    return _put(x, indices, accumulate=accumulate, in_place=False)


@formula(*aten("index_put_ _index_put_impl_"))
def index_put_in_place(
    x: TensorSpec,
    indices: Sequence[Index],
    values: TensorSpec,
    accumulate: bool = False,
    *args: Any,
    out: Any,
    **_: Any,
) -> Cost:
    """The indexed elements of x replaced, or added to; the rest of x is not touched."""
    return _put(x, indices, accumulate=accumulate, in_place=True)


@formula("aten._unsafe_masked_index_put_accumulate")
def masked_index_put(
    x: TensorSpec, mask: TensorSpec, indices: Sequence[Index], values: TensorSpec, *, out: TensorSpec, **_: Any
) -> Cost:
    """Copy of x with the masked values added at the indices: 1 FLOP per value."""
    return Cost(vector=_adds(x, values.numel))


def _hit(x: TensorSpec, hit: int, *, accumulate: bool, flops: float = 0) -> Cost:
    """Cost of writing `hit` elements of x in place."""
    touched = min(x.nbytes, hit * x.item_bytes)
    return Cost(vector=flops, read={0: touched if accumulate else 0}, written={0: touched})


@formula("aten.index_add")
def index_add(
    x: TensorSpec,
    dim: int,
    index: TensorSpec,
    source: TensorSpec,
    *args: Any,
    out: TensorSpec,
    alpha: Any = 1,
    **_: Any,
) -> Cost:
    """Copy of x with rows of source added: 1 FLOP per element of source, 2 with alpha ≠ 1."""
    return Cost(vector=_adds(x, source.numel) * (1 + (alpha != 1)))


@formula("aten.index_add_")
def index_add_in_place(
    x: TensorSpec, dim: int, index: TensorSpec, source: TensorSpec, *args: Any, out: Any, alpha: Any = 1, **_: Any
) -> Cost:
    """Rows of source added to rows of x: 1 FLOP per element of source, 2 with alpha ≠ 1."""
    return _hit(x, source.numel, accumulate=True, flops=_adds(x, source.numel) * (1 + (alpha != 1)))


@formula(*aten("index_copy index_fill"))
def index_copy(x: TensorSpec, dim: int, index: TensorSpec, *args: Any, out: TensorSpec, **_: Any) -> Cost:
    """Copy of x with rows replaced."""
    return Cost()


@formula(*aten("index_copy_ index_fill_"))
def index_copy_in_place(x: TensorSpec, dim: int, index: TensorSpec, *args: Any, out: Any, **_: Any) -> Cost:
    """Rows of x replaced; the rest of x is not touched."""
    row = x.numel // x.shape[dim] if x.ndim and x.shape[dim] else x.numel
    return _hit(x, row * index.numel, accumulate=False)


@formula("aten.index_reduce")
def index_reduce(
    x: TensorSpec, dim: int, index: TensorSpec, source: TensorSpec, *args: Any, out: Any, **_: Any
) -> Cost:
    """Copy of x with rows of source combined into it: 1 FLOP per element of source."""
    return Cost(vector=_adds(x, source.numel))


@formula("aten.index_reduce_")
def index_reduce_in_place(
    x: TensorSpec, dim: int, index: TensorSpec, source: TensorSpec, *args: Any, out: Any, **_: Any
) -> Cost:
    """Rows of source combined into rows of x: 1 FLOP per element of source."""
    return _hit(x, source.numel, accumulate=True, flops=_adds(x, source.numel))


def _scatter(x: TensorSpec, index: TensorSpec, source: Any, *, reduces: bool, in_place: bool) -> Cost:
    hit = _hit(x, index.numel, accumulate=reduces, flops=_adds(x, index.numel) if reduces else 0)
    read = dict(hit.read) if in_place else {}
    if isinstance(source, TensorSpec):
        # Of a source larger than the index only the corner that the index covers is read.
        read[position(x, index)] = min(source.nbytes, index.numel * source.item_bytes)
    return Cost(vector=hit.vector, read=read, written=hit.written if in_place else {})


@formula("aten.scatter")
def scatter(
    x: TensorSpec, dim: int, index: TensorSpec, source: Any = None, *args: Any, out: Any, reduce: Any = None, **_: Any
) -> Cost:
    """Copy of x with elements replaced; with `reduce` combined, 1 FLOP per element."""
    return _scatter(x, index, source, reduces=reduce is not None, in_place=False)


@formula("aten.scatter_")
def scatter_in_place(
    x: TensorSpec, dim: int, index: TensorSpec, source: Any = None, *args: Any, out: Any, reduce: Any = None, **_: Any
) -> Cost:
    """Elements of x replaced; with `reduce` combined, 1 FLOP per element."""
    return _scatter(x, index, source, reduces=reduce is not None, in_place=True)


@formula(*aten("scatter_add scatter_reduce"))
def scatter_add(
    x: TensorSpec, dim: int, index: TensorSpec, source: TensorSpec, *args: Any, out: Any, **_: Any
) -> Cost:
    """Copy of x with elements of source combined into it: 1 FLOP each."""
    return _scatter(x, index, source, reduces=True, in_place=False)


@formula(*aten("scatter_add_ scatter_reduce_"))
def scatter_add_in_place(
    x: TensorSpec, dim: int, index: TensorSpec, source: TensorSpec, *args: Any, out: Any, **_: Any
) -> Cost:
    """Elements of source combined into x: 1 FLOP each."""
    return _scatter(x, index, source, reduces=True, in_place=True)


@formula("aten.put")
def put(
    x: TensorSpec, index: TensorSpec, source: TensorSpec, accumulate: bool = False, *, out: TensorSpec, **_: Any
) -> Cost:
    """Copy of x with elements at flat indices replaced, or added to."""
    return Cost(vector=_adds(x, index.numel) if accumulate else 0)


@formula("aten.put_")
def put_in_place(
    x: TensorSpec, index: TensorSpec, source: TensorSpec, accumulate: bool = False, *, out: Any, **_: Any
) -> Cost:
    """Elements of x at flat indices replaced, or added to."""
    return _hit(x, index.numel, accumulate=accumulate, flops=_adds(x, index.numel) if accumulate else 0)
