"""Normalisation, forward and backward: batch, layer, group, RMS, weight norm.

FLOP per element of x; N elements share a mean and a variance. x̂ = (x − μ)·r.

| part | formula | FLOP |
|---|---|---|
| statistics | μ = Σx / N: 1; σ² = Σ(x − μ)² / N: 3 | 4 |
| normalise | (x − μ)·r | 2 |
| scale, shift | ·w, + b, where given | 1 each |
| RMS statistics; normalise | Σx²: 2; x·r: 1 | 3 |

Backward, from the incoming gradient g:

| part | formula | FLOP |
|---|---|---|
| x̂ again, where dx or dw needs it | (x − μ)·r | 2 (RMS 1) |
| scaled gradient | h = g·w, where w is given | 1 |
| sums | Σh: 1; Σh·x̂: 2 | 3 (RMS 2) |
| dx | r·(h − mean h − x̂·mean(h·x̂)) | 4 (RMS 3) |
| dw; db | Σg·x̂; Σg | 2; 1 |

In a batch norm w is constant over what is summed, so that the sums for dx are dw and db: dx costs 4 more, or
1 (g·w·r) in evaluation, where the statistics are constants.

Bytes: x, g and the result once each. A kernel keeps a row (layer norm) or re-reads it from cache; a training batch
norm whose channels exceed the cache really reads x twice, which only measured bytes show.

Not counted: what is done once per row or channel (square root, running statistics).
"""

from collections.abc import Sequence
from typing import Any

import msgspec

from roofline.formulas.arithmetic import aten, elements, per_input, position, unread
from roofline.formulas.registry import Cost, formula
from roofline.formulas.spec import TensorSpec

STATISTICS = 4
NORMALISE = 2
SUMS = 3
INPUT_GRADIENT = 4


def _forward(x: TensorSpec, weight: Any, bias: Any, *, statistics: bool) -> Cost:
    affine = (weight is not None) + (bias is not None)
    return Cost(vector=elements(x) * (STATISTICS * statistics + NORMALISE + affine))


@formula(*aten("native_batch_norm cudnn_batch_norm miopen_batch_norm _native_batch_norm_legit"))
@formula(*aten("_native_batch_norm_legit_functional"))
def batch_norm(
    x: TensorSpec, weight: Any, bias: Any, mean: Any, var: Any, training: bool, *args: Any, out: Any, **_: Any
) -> Cost:
    """Batch norm: 6 FLOP per element in training, 2 in evaluation, and 1 each for weight and bias.

    In evaluation the running statistics, which come after the results, are not written.
    """
    work = _forward(x, weight, bias, statistics=training)
    return work if training else msgspec.structs.replace(work, written=unread((mean, var), position(out)))


@formula(
    "aten._native_batch_norm_legit.no_stats", *aten("_batch_norm_with_update _batch_norm_with_update_functional")
)
def batch_norm_training(x: TensorSpec, weight: Any, bias: Any, *args: Any, out: Any, **_: Any) -> Cost:
    """Batch norm with the batch's own statistics: 6 FLOP per element, and 1 each for weight and bias."""
    return _forward(x, weight, bias, statistics=True)


@formula(*aten("_native_batch_norm_legit_no_training _batch_norm_no_update batch_norm_elemt"))
def batch_norm_evaluation(x: TensorSpec, weight: Any, bias: Any, *args: Any, out: Any, **_: Any) -> Cost:
    """Batch norm with given statistics: 2 FLOP per element, and 1 each for weight and bias."""
    return _forward(x, weight, bias, statistics=False)


@formula("aten.native_layer_norm")
def layer_norm(x: TensorSpec, shape: Sequence[int], weight: Any, bias: Any, *args: Any, out: Any, **_: Any) -> Cost:
    """Layer norm: 6 FLOP per element, and 1 each for weight and bias."""
    return _forward(x, weight, bias, statistics=True)


@formula("aten.native_group_norm")
def group_norm(x: TensorSpec, weight: Any, bias: Any, *args: Any, out: Any, **_: Any) -> Cost:
    """Group norm: 6 FLOP per element, and 1 each for weight and bias."""
    return _forward(x, weight, bias, statistics=True)


@formula("aten._fused_rms_norm")
def rms_norm(x: TensorSpec, shape: Sequence[int], weight: Any, *args: Any, out: Any, **_: Any) -> Cost:
    """RMS norm, x / √(mean x²)·w: 3 FLOP per element, and 1 for the weight."""
    return Cost(vector=x.numel * (3 + (weight is not None)))


def _batch_norm_gradients(x: TensorSpec, *, training: bool, mask: Sequence[bool]) -> Cost:
    dx, dw, db = mask
    if training and dx:
        return Cost(vector=x.numel * (NORMALISE + SUMS + INPUT_GRADIENT))
    return Cost(vector=x.numel * (dx + (NORMALISE + 2) * dw + db))


@formula("aten.native_batch_norm_backward")
def batch_norm_backward(
    grad: TensorSpec,
    x: TensorSpec,
    weight: Any,
    mean: Any,
    var: Any,
    save_mean: Any,
    save_invstd: Any,
    train: bool,
    eps: float,
    output_mask: Sequence[bool],
    *,
    out: Any,
    **_: Any,
) -> Cost:
    """Gradients of batch norm: 9 FLOP per element in training; in evaluation dx 1, dw 4, db 1."""
    return _batch_norm_gradients(x, training=train, mask=output_mask)


@formula("aten.batch_norm_backward")
def batch_norm_backward_reserve(
    grad: TensorSpec,
    x: TensorSpec,
    weight: Any,
    mean: Any,
    var: Any,
    save_mean: Any,
    save_var: Any,
    update: bool,
    eps: float,
    output_mask: Sequence[bool],
    reserve: TensorSpec,
    *,
    out: Any,
    **_: Any,
) -> Cost:
    """Gradients of batch norm: 9 FLOP per element in training; in evaluation dx 1, dw 4, db 1."""
    return _batch_norm_gradients(x, training=update, mask=output_mask)


@formula(*aten("cudnn_batch_norm_backward miopen_batch_norm_backward"))
def library_batch_norm_backward(x: TensorSpec, grad: TensorSpec, *args: Any, out: Any, **_: Any) -> Cost:
    """Gradients of batch norm in training, all three: 9 FLOP per element."""
    return _batch_norm_gradients(x, training=True, mask=(True, True, True))


def _row_norm_gradients(x: TensorSpec, weight: Any, mask: Sequence[bool]) -> Cost:
    dx, dw, db = mask
    per_element = NORMALISE * (dx or dw) + dx * ((weight is not None) + SUMS + INPUT_GRADIENT) + 2 * dw + db
    return Cost(vector=x.numel * per_element)


@formula("aten.native_layer_norm_backward")
def layer_norm_backward(
    grad: TensorSpec,
    x: TensorSpec,
    shape: Sequence[int],
    mean: TensorSpec,
    rstd: TensorSpec,
    weight: TensorSpec | None,
    bias: TensorSpec | None,
    output_mask: Sequence[bool],
    *,
    out: Any,
    **_: Any,
) -> Cost:
    """Gradients of layer norm: x̂ 2, h 1, sums 3, dx 4, dw 2, db 1 per element: 13 with all."""
    return _row_norm_gradients(x, weight, output_mask)


@formula("aten.native_group_norm_backward")
def group_norm_backward(
    grad: TensorSpec,
    x: TensorSpec,
    mean: TensorSpec,
    rstd: TensorSpec,
    weight: TensorSpec | None,
    n: int,
    c: int,
    hxw: int,
    group: int,
    output_mask: Sequence[bool],
    *,
    out: Any,
    **_: Any,
) -> Cost:
    """Gradients of group norm: as layer norm's, 13 FLOP per element with all."""
    return _row_norm_gradients(x, weight, output_mask)


@formula("aten._fused_rms_norm_backward")
def rms_norm_backward(
    grad: TensorSpec,
    x: TensorSpec,
    shape: Sequence[int],
    rstd: TensorSpec,
    weight: TensorSpec | None,
    output_mask: Sequence[bool],
    *,
    out: Any,
    **_: Any,
) -> Cost:
    """Gradients of RMS norm: x̂ 1, h 1, sum 2, dx 3, dw 2 per element: 9 with all."""
    dx, dw = output_mask
    return Cost(vector=x.numel * ((dx or dw) + dx * ((weight is not None) + 2 + 3) + 2 * dw))


@formula(*aten("batch_norm_gather_stats batch_norm_gather_stats_with_counts"))
def gather_statistics(x: TensorSpec, mean: TensorSpec, *args: Any, out: Any, **_: Any) -> Cost:
    """Statistics of all ranks combined, per rank and channel 2 for the mean, 4 for the variance; x is not read."""
    return Cost(vector=6 * mean.numel, read={0: 0})


@formula("aten.batch_norm_backward_reduce")
def batch_norm_backward_reduce(grad: TensorSpec, x: TensorSpec, *args: Any, out: Any, **_: Any) -> Cost:
    """Σg and Σg·(x − μ): 4 FLOP per element."""
    return Cost(vector=4 * x.numel)


@formula("aten.batch_norm_backward_elemt")
def batch_norm_backward_elemt(grad: TensorSpec, x: TensorSpec, *args: Any, out: Any, **_: Any) -> Cost:
    """r·w·(g − mean g − (x − μ)·c): 5 FLOP per element."""
    return Cost(vector=5 * x.numel)


# Statistics alone; v·g / norm(v): the norm 2, the scaling 1; its backward: Σ∇·v 2, (∇ − v·c)·s 3; renorm: likewise 3.
formula(*aten("batch_norm_stats batch_norm_update_stats"))(per_input(STATISTICS))
formula(*aten("_weight_norm_interface renorm"))(per_input(3, 10))
formula("aten._weight_norm_interface_backward")(per_input(5))
