"""Fused optimizer steps. Unfused ones dispatch elementwise and foreach ops, which `elementwise` counts.

FLOP per parameter:

| step | formula | FLOP |
|---|---|---|
| Adam, AdamW | m ← β₁·m + (1 − β₁)·g: 3; v ← β₂·v + (1 − β₂)·g²: 4; √v / c + ε: 3; p ← p − s·m/d: 3 | 13 |
| … weight decay | Adam g + λ·p: 2; AdamW p·(1 − lr·λ): 1 | |
| … amsgrad | max(v̂, v) | 1 |
| SGD | p − lr·g | 2 |
| … weight decay; momentum; Nesterov | g + λ·p; μ·m + (1 − d)·g; g + μ·m | 2; 3, or 2 with d = 0; 2 |
| Adagrad | s + g²: 2; √s + ε: 2; p − lr·g / …: 3 | 7 |
| Adagrad's weight decay | g + λ·p | 2 |
| maximise; gradient scaling | −g; g / scale | 1 |

Bytes: parameters and states read and written, gradients read; written too where they are unscaled.
Not counted: bias corrections, one per tensor.
"""

from typing import Any

from roofline.formulas.arithmetic import elements
from roofline.formulas.registry import Cost, formula
from roofline.formulas.spec import TensorSpec, tensors

Tensors = list[TensorSpec]


def _step(params: Tensors, flops: int, grads: Tensors, grad_scale: Any, maximize: bool) -> Cost:
    flops += maximize + (grad_scale is not None)
    # The schema lets the op write its gradients; it does so only to unscale them.
    kept = {} if grad_scale is not None else {len(params) + i: 0 for i, _ in enumerate(tensors(grads))}
    return Cost(vector=flops * elements(params), written=kept)


@formula("aten._fused_adam", "aten._fused_adam_")
def adam(
    params: Tensors,
    grads: Tensors,
    *states: Any,
    out: Any,
    weight_decay: float,
    amsgrad: bool,
    maximize: bool,
    grad_scale: Any = None,
    **_: Any,
) -> Cost:
    """Adam: 13 FLOP per parameter; 2 for weight decay, 1 each for amsgrad, maximise, gradient scaling."""
    return _step(params, 13 + 2 * bool(weight_decay) + amsgrad, grads, grad_scale, maximize)


@formula("aten._fused_adamw", "aten._fused_adamw_")
def adamw(
    params: Tensors,
    grads: Tensors,
    *states: Any,
    out: Any,
    weight_decay: float,
    amsgrad: bool,
    maximize: bool,
    grad_scale: Any = None,
    **_: Any,
) -> Cost:
    """AdamW: 13 FLOP per parameter; 1 each for weight decay, amsgrad, maximise, gradient scaling."""
    return _step(params, 13 + bool(weight_decay) + amsgrad, grads, grad_scale, maximize)


@formula("aten._fused_sgd", "aten._fused_sgd_")
def sgd(
    params: Tensors,
    grads: Tensors,
    momenta: Tensors,
    *,
    out: Any,
    weight_decay: float,
    momentum: float,
    dampening: float,
    nesterov: bool,
    maximize: bool,
    is_first_step: bool = False,
    grad_scale: Any = None,
    **_: Any,
) -> Cost:
    """SGD: 2 FLOP per parameter; weight decay 2, momentum 2 or 3, Nesterov 2. A first step only stores momenta."""
    flops = 2 + 2 * bool(weight_decay)
    if momentum:
        flops += (0 if is_first_step else 2 + bool(dampening)) + 2 * nesterov
    cost = _step(params, flops, grads, grad_scale, maximize)
    unread = {2 * len(params) + i: 0 for i, _ in enumerate(momenta)} if is_first_step else {}
    return Cost(vector=cost.vector, written=cost.written, read=unread)


@formula("aten._fused_adagrad", "aten._fused_adagrad_")
def adagrad(
    params: Tensors,
    grads: Tensors,
    *states: Any,
    out: Any,
    weight_decay: float,
    maximize: bool,
    grad_scale: Any = None,
    **_: Any,
) -> Cost:
    """Adagrad: 7 FLOP per parameter; 2 for weight decay, 1 each for maximise and gradient scaling."""
    return _step(params, 7 + 2 * bool(weight_decay), grads, grad_scale, maximize)
