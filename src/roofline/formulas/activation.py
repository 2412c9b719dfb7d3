"""Activations and their backward.

Bytes: inputs and result once. σ is the sigmoid, g the incoming gradient.

FLOP per element of the result (convention in `arithmetic`):

| op | formula | FLOP |
|---|---|---|
| relu, threshold | max(0, x) | 1 |
| leaky_relu, prelu | x > 0 ? x : a·x | 2 |
| hardtanh, also as relu6 | two comparisons | 2 |
| hardsigmoid; hardswish | min(1, max(0, x/6 + ½)); times x | 4; 5 |
| silu | x·σ(x) | 5 |
| gelu, erf | ½·x·(1 + erf(x / √2)) | 5 |
| gelu, tanh | ½·x·(1 + tanh(√(2/π)·(x + 0.044715·x³))) | 9 |
| elu, selu, celu | x > 0 ? x : α·expm1(x) | 3 |
| softplus | log1p(exp(β·x)) / β | 4 |
| mish | x·tanh(log1p(exp x)) | 4 |
| glu | a·σ(b) | 5 |
| log_sigmoid | min(0, x) − log1p(exp(−abs x)) | 6 |
| hardshrink; softshrink | two tests; and a subtraction | 2; 3 |

Backward:

| op | formula | FLOP |
|---|---|---|
| relu, threshold | x > 0 ? g : 0 | 1 |
| sigmoid; tanh | g·y·(1 − y); g·(1 − y²) | 3 |
| silu | g·σ·(1 + x·(1 − σ)) | 9 |
| gelu, erf | g·(Φ + x·φ): Φ 4, φ 4, the rest 3 | 11 |
| gelu, tanh | argument 5, tanh 1, its derivative 2, that of the argument 3, the rest 7 | 18 |
| leaky_relu, hardtanh, hardshrink, softshrink | tests, a product | 2 |
| hardsigmoid; hardswish; elu | tests and products | 3; 5; 4 |
| softplus | g·z / (z + 1), z = exp(β·x) | 5 |
| log_sigmoid | g / (1 + exp x) | 4 |
| prelu | input gradient 2, weight gradient 2 | 4 |
| glu | σ 4, g·σ 1, g·a·σ·(1 − σ) 4, per element of g | 9 |
"""

from typing import Any

from roofline.formulas.arithmetic import arithmetic, aten, per_input, per_output
from roofline.formulas.registry import Cost, formula
from roofline.formulas.spec import TensorSpec

formula(*aten("relu threshold threshold_backward"))(per_output(1))
formula(*aten("hardtanh leaky_relu _prelu_kernel hardshrink leaky_relu_backward hardtanh_backward"))(per_output(2))
formula(*aten("hardshrink_backward softshrink_backward"))(per_output(2))
formula(*aten("elu celu softshrink sigmoid_backward tanh_backward hardsigmoid_backward logit_backward"))(
    per_output(3)
)
formula(*aten("hardsigmoid softplus mish elu_backward _prelu_kernel_backward log_sigmoid_backward"))(per_output(4))
formula(*aten("hardswish silu glu softplus_backward hardswish_backward"))(per_output(5))
formula(*aten("log_sigmoid_forward"))(per_output(6))
formula(*aten("silu_backward"))(per_output(9))
formula(*aten("glu_backward"))(per_input(9))
formula(*aten("rrelu_with_noise_backward"))(per_output(1))


@formula("aten.gelu")
def gelu(x: TensorSpec, *, out: TensorSpec, approximate: str = "none", **_: Any) -> Cost:
    """½·x·(1 + erf(x/√2)): 5 FLOP per element; 9 in the tanh form."""
    return Cost(vector=out.numel * arithmetic(x, 9 if approximate == "tanh" else 5))


@formula("aten.gelu_backward")
def gelu_backward(grad: TensorSpec, x: TensorSpec, *, out: TensorSpec, approximate: str = "none", **_: Any) -> Cost:
    """g·(Φ(x) + x·φ(x)): 11 FLOP per element; 18 in the tanh form."""
    return Cost(vector=out.numel * arithmetic(x, 18 if approximate == "tanh" else 11))


@formula("aten.rrelu_with_noise", "aten.rrelu_with_noise_functional")
def rrelu(x: TensorSpec, noise: TensorSpec, *args: Any, out: Any, **_: Any) -> Cost:
    """X > 0 ? x : a·x, with a random slope: a test, a random number scaled and shifted, a product; 4 FLOP."""
    return Cost(vector=x.numel * arithmetic(x, 4), read={1: 0})


@formula("aten.glu_jvp")
def glu_jvp(glu: TensorSpec, x: TensorSpec, dx: TensorSpec, dim: int, *, out: TensorSpec, **_: Any) -> Cost:
    """da·σ(b) + glu·(1 − σ(b))·db: σ 4, the rest 5."""
    return Cost(vector=glu.numel * arithmetic(x, 9))


@formula("aten.glu_backward_jvp")
def glu_backward_jvp(*args: Any, out: TensorSpec, **_: Any) -> Cost:
    """Derivative of glu's backward: the two halves together 20 FLOP per pair."""
    return Cost(vector=out.numel // 2 * arithmetic(out, 20))
