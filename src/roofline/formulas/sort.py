"""Sorting, selection, sets, histograms: comparisons by the textbook algorithm, so all FLOP are estimates.

| op | comparisons per row of n |
|---|---|
| sort, argsort, unique, mode | n·log₂ n |
| topk | n·log₂ k: a heap of k |
| kthvalue, median | 2·n: quickselect |
| unique_consecutive | n |
| searchsorted, bucketize, histogram with given bins | log₂ n per value looked up |
| histc, histogram with equal bins | 3 per value: subtract, multiply, add |

Comparisons of integers count 0, as all integer work. Bytes: input and result once; a radix or merge sort makes
several passes over the data that only measured bytes show.
"""

from math import log2
from typing import Any

from roofline.formulas.arithmetic import arithmetic, aten, elements, is_floating, position
from roofline.formulas.registry import Cost, formula
from roofline.formulas.spec import TensorSpec


def _row(x: TensorSpec, dim: int) -> int:
    return x.shape[dim] if x.ndim else 1


def _n_log_n(total: int, row: float) -> float:
    return total * log2(row) if row > 1 else 0


@formula(*aten("sort mode"))
def sort(x: TensorSpec, dim: Any = -1, *args: Any, out: Any, **named: Any) -> Cost:
    """n·log₂ n comparisons per row."""
    dim = named.get("dim", dim)
    # `sort.stable` takes `stable` where the others take `dim`.
    dim = -1 if isinstance(dim, bool) or dim is None else dim
    return Cost(vector=_n_log_n(x.numel, _row(x, dim)) * arithmetic(x, 1), formula="estimate")


@formula("aten.sort.stable", "aten.sort.values_stable")
def sort_stable(x: TensorSpec, stable: Any = None, dim: int = -1, *args: Any, out: Any, **_: Any) -> Cost:
    """n·log₂ n comparisons per row."""
    return sort(x, dim, out=out)


@formula("aten.topk")
def topk(x: TensorSpec, k: int, dim: int = -1, *args: Any, out: Any, **_: Any) -> Cost:
    """n·log₂ k comparisons per row, at least one per element."""
    return Cost(vector=x.numel * max(1.0, log2(max(k, 1))) * arithmetic(x, 1), formula="estimate")


@formula(*aten("kthvalue median nanmedian"))
def select_kth(x: TensorSpec, *args: Any, out: Any, **_: Any) -> Cost:
    """2·n comparisons per row."""
    return Cost(vector=2 * x.numel * arithmetic(x, 1), formula="estimate")


@formula(*aten("_unique _unique2"))
def unique(x: TensorSpec, *args: Any, out: Any, **_: Any) -> Cost:
    """Sort of all elements, and one comparison with the neighbour."""
    return Cost(vector=(_n_log_n(x.numel, x.numel) + x.numel) * arithmetic(x, 1), formula="estimate")


@formula(*aten("unique_dim unique_dim_consecutive"))
def unique_rows(x: TensorSpec, dim: int, *args: Any, out: Any, **_: Any) -> Cost:
    """Sort of the slices along dim, each comparison over a slice at worst."""
    return Cost(vector=_n_log_n(x.numel, _row(x, dim)) * arithmetic(x, 1), formula="estimate")


@formula("aten.unique_consecutive")
def unique_consecutive(x: TensorSpec, *args: Any, out: Any, **_: Any) -> Cost:
    """One comparison per element."""
    return Cost(vector=x.numel * arithmetic(x, 1))


@formula("aten.isin")
def isin(values: Any, among: Any, *args: Any, out: TensorSpec, **_: Any) -> Cost:
    """Sort of both lists together: (n + m)·log₂(n + m) comparisons."""
    total = elements((values, among))
    return Cost(vector=_n_log_n(total, total) * arithmetic((values, among), 1), formula="estimate")


def _lookups(table: TensorSpec, values: int, index: int, *, floating: bool) -> Cost:
    """Binary search of so many values in the last dimension of a table, the `index`-th tensor of the call."""
    steps = max(1.0, log2(max(_row(table, -1), 1)))
    touched = min(table.nbytes, values * steps * table.item_bytes)
    return Cost(vector=values * steps * floating, read={index: touched}, formula="estimate")


@formula("aten.searchsorted")
def searchsorted(table: TensorSpec, values: Any, *args: Any, out: TensorSpec, **_: Any) -> Cost:
    """log₂ n comparisons per value; of a long table only the path of each search is read."""
    return _lookups(table, out.numel, 0, floating=is_floating((table, values)))


@formula("aten.bucketize")
def bucketize(values: Any, table: TensorSpec, *args: Any, out: TensorSpec, **_: Any) -> Cost:
    """log₂ n comparisons per value; of a long table only the path of each search is read."""
    return _lookups(table, out.numel, position(values), floating=is_floating((table, values)))


@formula("aten.histc", "aten.histogram.bin_ct", "aten._histogramdd_from_bin_cts", "aten._histogramdd_bin_edges")
def histogram(x: TensorSpec, *args: Any, out: Any, **_: Any) -> Cost:
    """Equal bins: subtract, multiply, add, per value."""
    return Cost(vector=3 * x.numel * arithmetic(x, 1), formula="estimate")


@formula("aten.histogram", "aten._histogramdd_from_bin_tensors")
def histogram_bins(x: TensorSpec, bins: Any, *args: Any, out: Any, **_: Any) -> Cost:
    """Given bins: a binary search and an addition per value."""
    steps = log2(max(elements(bins), 2)) if not isinstance(bins, int) else 2
    return Cost(vector=x.numel * (1 + steps) * arithmetic(x, 1), formula="estimate")


@formula("aten.bincount")
def bincount(x: TensorSpec, weights: Any = None, *args: Any, out: TensorSpec, **_: Any) -> Cost:
    """Counts of integers: an addition per value where the values have weights."""
    return Cost(vector=x.numel * arithmetic(weights, 1))
