"""Losses and their backward.

FLOP per element; a reduction adds 1 (accumulation), a weight 1.

| loss | formula | forward | backward |
|---|---|---|---|
| mse | (x − t)² | 2 | 3 |
| smooth L1 | z < β ? ½·z²/β : z − β/2, z = abs(x − t) | 6 | 5 |
| Huber | z < δ ? ½·z² : δ·(z − δ/2) | 5 | 5 |
| binary cross entropy | −(t·log p + (1 − t)·log(1 − p)) | 8 | 5 |
| … with logits | (1 − t)·x + softplus(−x) | 9, or 13 with pos_weight | composite |
| soft margin | log(1 + exp(−t·x)) | 5 | 6 |
| NLL | −w[t]·x[t], per target | 1, or 2 with weights | the same |
| margin losses | max(0, m − x[t] + x) | 3 | 3 |
| CTC | per time step and state: three-way log-sum-exp 9, emission 1 | 10 | 20 |

Bytes: NLL reads one log-probability per target; its backward writes the whole gradient and does not read the
log-probabilities.
"""

from collections.abc import Sequence
from typing import Any

from roofline.formulas.arithmetic import aten, elements, per_output
from roofline.formulas.registry import Cost, Rule, formula
from roofline.formulas.spec import TensorSpec

NO_REDUCTION = 0
MEAN = 1


def _loss(flops: int) -> Rule:
    def rule(x: TensorSpec, target: TensorSpec, reduction: int = MEAN, *args: Any, out: Any, **_: Any) -> Cost:
        return Cost(vector=max(x.numel, target.numel) * (flops + (reduction != NO_REDUCTION)))

    rule.__doc__ = f"{flops} FLOP per element, and 1 for a reduction."
    return rule


formula("aten.mse_loss")(_loss(2))
formula("aten.smooth_l1_loss")(_loss(6))
formula("aten.huber_loss")(_loss(5))
formula("aten.soft_margin_loss")(_loss(5))
formula("aten.mse_loss_backward")(per_output(3))
formula(*aten("smooth_l1_loss_backward huber_loss_backward"))(per_output(5))
formula("aten.soft_margin_loss_backward")(per_output(6))


@formula("aten.binary_cross_entropy")
def binary_cross_entropy(
    p: TensorSpec, target: TensorSpec, weight: Any = None, reduction: int = MEAN, *, out: Any, **_: Any
) -> Cost:
    """−(t·log p + (1 − t)·log(1 − p)): 8 FLOP, 1 for a weight, 1 for a reduction."""
    return Cost(vector=p.numel * (8 + (weight is not None) + (reduction != NO_REDUCTION)))


@formula("aten.binary_cross_entropy_backward")
def binary_cross_entropy_backward(
    grad: TensorSpec, p: TensorSpec, target: TensorSpec, weight: Any = None, *args: Any, out: TensorSpec, **_: Any
) -> Cost:
    """g·(p − t) / (p·(1 − p)): 5 FLOP, 1 for a weight."""
    return Cost(vector=out.numel * (5 + (weight is not None)))


@formula("aten.binary_cross_entropy_with_logits")
def binary_cross_entropy_with_logits(
    x: TensorSpec,
    target: TensorSpec,
    weight: Any = None,
    pos_weight: Any = None,
    reduction: int = MEAN,
    *,
    out: Any,
    **_: Any,
) -> Cost:
    """(1 − t)·x − logσ(x): 9 FLOP; pos_weight 4, a weight 1, a reduction 1."""
    extra = 4 * (pos_weight is not None) + (weight is not None) + (reduction != NO_REDUCTION)
    return Cost(vector=x.numel * (9 + extra))


@formula(*aten("nll_loss_forward nll_loss2d_forward"))
def nll_loss(x: TensorSpec, target: TensorSpec, weight: Any, reduction: int, *args: Any, out: Any, **_: Any) -> Cost:
    """−w[t]·x[t]: one value read per target."""
    flops = 1 + (weight is not None) + (reduction != NO_REDUCTION)
    return Cost(vector=target.numel * flops, read={0: target.numel * x.item_bytes})


@formula(*aten("nll_loss_backward nll_loss2d_backward"))
def nll_loss_backward(
    grad: TensorSpec, x: TensorSpec, target: TensorSpec, weight: Any, *args: Any, out: TensorSpec, **_: Any
) -> Cost:
    """−w[t]·g at each target, zero elsewhere: the gradient is written whole, x not read."""
    return Cost(vector=target.numel * (1 + (weight is not None)), read={1: 0})


@formula(*aten("multi_margin_loss multilabel_margin_loss_forward"))
def margin_loss(x: TensorSpec, target: TensorSpec, *args: Any, out: Any, **_: Any) -> Cost:
    """Σ max(0, m − x[t] + x) over classes: 4 FLOP per element; an estimate, as the number of labels is data."""
    return Cost(vector=4 * x.numel, formula="estimate")


@formula(*aten("multi_margin_loss_backward multilabel_margin_loss_backward"))
def margin_loss_backward(grad: TensorSpec, x: TensorSpec, *args: Any, out: TensorSpec, **_: Any) -> Cost:
    """Gradient of the margin losses: 3 FLOP per element; an estimate."""
    return Cost(vector=3 * x.numel, formula="estimate")


def _ctc_states(log_probs: TensorSpec, targets: TensorSpec, target_lengths: Any) -> int:
    """States of the CTC lattice, 2·S + 1, over a batch: from the lengths where they are known."""
    batch = log_probs.shape[1] if log_probs.ndim == 3 else 1
    if isinstance(target_lengths, Sequence):
        return sum(2 * int(s) + 1 for s in target_lengths)
    return 2 * targets.numel + batch


@formula(*aten("_ctc_loss _cudnn_ctc_loss miopen_ctc_loss"))
def ctc_loss(
    log_probs: TensorSpec,
    targets: TensorSpec,
    input_lengths: Any,
    target_lengths: Any,
    *args: Any,
    out: Any,
    **_: Any,
) -> Cost:
    """Forward recursion over T steps and 2·S + 1 states: 10 FLOP each; log-probabilities of the labels are read."""
    states = _ctc_states(log_probs, targets, target_lengths)
    return Cost(vector=10 * log_probs.shape[0] * states, formula="estimate")


@formula("aten._ctc_loss_backward")
def ctc_loss_backward(
    grad: TensorSpec,
    log_probs: TensorSpec,
    targets: TensorSpec,
    input_lengths: Any,
    target_lengths: Any,
    *args: Any,
    out: TensorSpec,
    **_: Any,
) -> Cost:
    """Backward recursion and accumulation, 20 FLOP per step and state; exp and subtraction over all classes, 3."""
    states = _ctc_states(log_probs, targets, target_lengths)
    return Cost(vector=20 * log_probs.shape[0] * states + 3 * elements(out), formula="estimate")
