"""Embedding bags and the backward of embeddings: bytes by the rows touched. The lookup itself is a gather.

Reads and writes go by rows: a bag reads one row per index. The dense gradient is written whole, zeros included.
"""

from typing import Any

from roofline.formulas.arithmetic import aten, position
from roofline.formulas.registry import Cost, formula
from roofline.formulas.spec import TensorSpec

MEAN = 1


def _rows(weight: TensorSpec, indices: TensorSpec) -> float:
    return min(weight.nbytes, indices.numel * weight.shape[-1] * weight.item_bytes)


@formula("aten.embedding_dense_backward")
def embedding_dense_backward(grad: TensorSpec, indices: TensorSpec, *args: Any, out: TensorSpec, **_: Any) -> Cost:
    """Gradient of an embedding table: one addition per element of g."""
    return Cost(vector=grad.numel)


@formula("aten.embedding_renorm")
def embedding_renorm(weight: TensorSpec, indices: TensorSpec, *args: Any, out: TensorSpec, **_: Any) -> Cost:
    """Copy of a table with the rows looked up scaled to a norm: 3 FLOP per element of those rows."""
    return Cost(vector=3 * indices.numel * weight.shape[-1])


@formula("aten.embedding_renorm_")
def embedding_renorm_in_place(weight: TensorSpec, indices: TensorSpec, *args: Any, out: Any, **_: Any) -> Cost:
    """The rows looked up scaled to a norm: 3 FLOP per element of those rows; only they are read and written."""
    touched = _rows(weight, indices)
    return Cost(vector=3 * indices.numel * weight.shape[-1], read={0: touched}, written={0: touched})


@formula(*aten("_embedding_bag _embedding_bag_forward_only"))
def embedding_bag(
    weight: TensorSpec,
    indices: TensorSpec,
    offsets: TensorSpec,
    scale_grad_by_freq: bool = False,
    mode: int = 0,
    sparse: bool = False,
    per_sample_weights: TensorSpec | None = None,
    *args: Any,
    out: Any,
    **_: Any,
) -> Cost:
    """Sum, mean or max of the rows of each bag: 1 FLOP per element read, 1 for a weight, 1 per result for a mean."""
    width = weight.shape[-1]
    flops = indices.numel * width * (1 + (per_sample_weights is not None)) + out[0].numel * (mode == MEAN)
    return Cost(vector=flops, read={0: _rows(weight, indices)})


@formula(*aten("_embedding_bag_backward _embedding_bag_dense_backward"))
def embedding_bag_backward(grad: TensorSpec, indices: TensorSpec, *args: Any, out: Any, **_: Any) -> Cost:
    """Gradient of a bag's table: a scaling and an addition per element of each row looked up."""
    return Cost(vector=2 * indices.numel * grad.shape[-1])


@formula("aten._embedding_bag_per_sample_weights_backward")
def embedding_bag_weights_backward(
    grad: TensorSpec, weight: TensorSpec, indices: TensorSpec, *args: Any, out: TensorSpec, **_: Any
) -> Cost:
    """Gradient of the weights in a bag: a dot product of each row with the bag's gradient."""
    return Cost(vector=2 * indices.numel * weight.shape[-1], read={position(grad): _rows(weight, indices)})
