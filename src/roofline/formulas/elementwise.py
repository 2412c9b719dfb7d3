"""Elementwise arithmetic: unary, binary, ternary; in-place and foreach forms; comparisons.

Bytes: every input once (a broadcast one at its stored size), the result once; an in-place op reads and writes
its destination.

FLOP per element of the result, where not 1 (convention in `arithmetic`):

| op | formula | FLOP |
|---|---|---|
| add, sub with alpha ≠ 1 | a + α·b | 2 |
| addcmul, addcdiv | a + v·b·c | 2, or 3 with v ≠ 1 |
| lerp | a + w·(b − a) | 3 |
| clamp | max(lo, min(hi, x)) | 1 per bound |
| div with a rounding mode, floor_divide | ⌊a / b⌋ | 2 |
| fmod, remainder | a − ⌊a / b⌋·b | 4 |
| hypot | √(a² + b²) | 4 |
| logaddexp | max + log1p(exp(−abs(a − b))) | 7 |
| logit | log(x / (1 − x)) | 3 |
| xlogy, xlog1py, entr | a·log b | 2 |
| sinc | sin(πx) / πx | 3 |
| sigmoid | 1 / (1 + exp(−x)) | 4 |
| polar | r·cos φ + i·r·sin φ | 4 |
| conjugate | a − i·b | 0, complex 1 |
| frac; ldexp; nan_to_num | x − trunc x; a·2ᵇ; three tests | 2; 2; 3 |
"""

from typing import Any

from roofline.formulas.arithmetic import (
    COMPLEX_MULTIPLY,
    arithmetic,
    aten,
    elements,
    moves,
    per_output,
    position,
    results,
)
from roofline.formulas.registry import Cost, Rule, formula
from roofline.formulas.spec import TensorSpec

COMPLEX_ADD = 2
COMPLEX_DIVIDE = 11
COMPLEX_ABS = 4

_ONE = (
    "acos acosh asin asinh atan atanh ceil cos cosh deg2rad digamma erf erfc erfinv exp exp2 expm1 floor i0 lgamma "
    "log log10 log1p log2 rad2deg round rsqrt sign sgn sin sinh sqrt tan tanh trunc reciprocal atan2 copysign "
    "fmax fmin igamma igammac maximum minimum pow nextafter heaviside gcd lcm eq ne lt le gt ge isinf "
    "isnan isneginf isposinf signbit angle polygamma mvlgamma frexp clamp_max clamp_min"
)
_SPECIAL = (
    "airy_ai bessel_j0 bessel_j1 bessel_y0 bessel_y1 chebyshev_polynomial_t chebyshev_polynomial_u "
    "chebyshev_polynomial_v chebyshev_polynomial_w erfcx hermite_polynomial_h hermite_polynomial_he i0e i1 i1e "
    "laguerre_polynomial_l legendre_polynomial_p log_ndtr modified_bessel_i0 modified_bessel_i1 modified_bessel_k0 "
    "modified_bessel_k1 ndtri scaled_modified_bessel_k0 scaled_modified_bessel_k1 shifted_chebyshev_polynomial_t "
    "shifted_chebyshev_polynomial_u shifted_chebyshev_polynomial_v shifted_chebyshev_polynomial_w "
    "spherical_bessel_j0 zeta"
)
_FOREACH_ONE = (
    "acos asin atan ceil cos cosh erf erfc exp expm1 floor lgamma log log10 log1p log2 round rsqrt sign sin sinh "
    "sqrt tan tanh trunc reciprocal maximum minimum pow clamp_max clamp_min"
)
_SELECTIONS = (
    "bitwise_and bitwise_or bitwise_xor bitwise_not bitwise_left_shift bitwise_right_shift logical_and logical_or "
    "logical_xor logical_not __lshift__ __rshift__ __ilshift__ __irshift__ "
    "where masked_fill _is_all_true _is_any_true"
)

formula(*aten(_ONE), *(f"aten.special_{name}" for name in _SPECIAL.split()))(per_output(1))
formula("aten.neg")(per_output(1, COMPLEX_ADD))
formula("aten.abs")(per_output(1, COMPLEX_ABS))
formula("aten._conj_physical", "aten.conj_physical")(per_output(0, 1))
formula(*aten("mul"))(per_output(1, COMPLEX_MULTIPLY))
formula(*aten("frac ldexp xlogy special_xlog1py special_entr floor_divide"))(per_output(2))
formula(*aten("lerp"))(per_output(3, 2 * COMPLEX_ADD + COMPLEX_MULTIPLY))
formula(*aten("logit sinc nan_to_num"))(per_output(3))
formula(*aten("fmod remainder hypot polar sigmoid"))(per_output(4, 4 * COMPLEX_MULTIPLY))
formula(*aten("logaddexp logaddexp2"))(per_output(7))
formula(*aten(_SELECTIONS))(moves)


def _summed(rule: Rule) -> Rule:
    """Make the rule of a foreach op from that of one of its elements: the same, over all tensors of the list."""

    def foreach(*args: Any, out: Any, **kwargs: Any) -> Cost:
        return rule(*args, out=list(results(args, out)), **kwargs)

    foreach.__doc__ = f"{rule.__doc__} Over all tensors of the lists."
    return foreach


@formula(*aten("add sub rsub"))
def add(a: Any, b: Any, third: Any = 1, *, out: Any, alpha: Any = 1, **_: Any) -> Cost:
    """Sum or difference: 1 FLOP per element, 2 with alpha ≠ 1."""
    scaled = third != 1 or alpha != 1
    per_element = arithmetic((a, b, out), 1 + scaled, COMPLEX_ADD + COMPLEX_MULTIPLY * scaled)
    return Cost(vector=elements(results((a,), out)) * per_element)


@formula(*aten("_add_relu"))
def add_relu(a: TensorSpec, b: TensorSpec, *, out: TensorSpec, alpha: Any = 1, **_: Any) -> Cost:
    """max(0, a + α·b): 2 FLOP per element, 3 with alpha ≠ 1."""
    return Cost(vector=out.numel * arithmetic(out, 2 + (alpha != 1)))


@formula(*aten("div"))
def div(a: Any, b: Any, *, out: Any, rounding_mode: str | None = None, **_: Any) -> Cost:
    """Quotient: 1 FLOP per element, 2 where it is rounded."""
    per_element = arithmetic((a, b, out), 1 + (rounding_mode is not None), COMPLEX_DIVIDE)
    return Cost(vector=elements(results((a,), out)) * per_element)


@formula(*aten("addcmul addcdiv"))
def addcmul(a: Any, b: Any, c: Any, factor: Any = 1, *, out: Any, value: Any = 1, **_: Any) -> Cost:
    """A + v·b·c or a + v·b/c: 2 FLOP per element, 3 with v ≠ 1."""
    scaled = factor != 1 or value != 1
    complex_flops = COMPLEX_ADD + COMPLEX_MULTIPLY * (1 + scaled)
    return Cost(vector=elements(results((a,), out)) * arithmetic((a, b, c), 2 + scaled, complex_flops))


@formula(*aten("clamp"))
def clamp(x: TensorSpec, low: Any = None, high: Any = None, *, out: TensorSpec, **named: Any) -> Cost:
    """max(lo, min(hi, x)): one comparison per bound given."""
    bounds = [b for b in (low, high, named.get("min"), named.get("max")) if b is not None]
    return Cost(vector=out.numel * arithmetic((x, bounds), len(bounds)))


@formula(*aten("equal allclose"))
def equal(a: TensorSpec, b: TensorSpec, *args: Any, out: Any, **_: Any) -> Cost:
    """Comparison of two whole tensors: 1 FLOP per element."""
    return Cost(vector=a.numel * arithmetic((a, b), 1))


@formula("aten._compute_linear_combination")
def linear_combination(x: TensorSpec, coefficients: TensorSpec, *, out: TensorSpec, **_: Any) -> Cost:
    """Σₖ cₖ·xₖ for every row of coefficients: a multiplication and an addition per coefficient and element."""
    terms = x.shape[0]
    return Cost(vector=out.numel * terms * arithmetic(x, 2, COMPLEX_ADD + COMPLEX_MULTIPLY))


@formula("inductor.accumulate_grad_")
def accumulate_grad(variable: TensorSpec, grad: Any, new_grad: Any, *, out: Any, **_: Any) -> Cost:
    """Grad + new_grad: 1 FLOP per element; a first gradient is stored as it is."""
    adds = elements(new_grad) * arithmetic(new_grad, 1, COMPLEX_ADD) if grad is not None else 0
    return Cost(vector=adds, read={0: 0})


for _names, _rule in (
    (_FOREACH_ONE, per_output(1)),
    ("neg", per_output(1, COMPLEX_ADD)),
    ("abs", per_output(1, COMPLEX_ABS)),
    ("mul", per_output(1, COMPLEX_MULTIPLY)),
    ("frac", per_output(2)),
    ("lerp", per_output(3, 2 * COMPLEX_ADD + COMPLEX_MULTIPLY)),
    ("sigmoid", per_output(4, 4 * COMPLEX_MULTIPLY)),
    ("add sub", add),
    ("div", div),
    ("addcmul addcdiv", addcmul),
):
    formula(*(f"aten._foreach_{name}" for name in _names.split()))(_summed(_rule))


@formula("aten._amp_foreach_non_finite_check_and_unscale")
def unscale(grads: list[TensorSpec], found: TensorSpec, scale: TensorSpec, *, out: Any, **_: Any) -> Cost:
    """Gradients times 1 / scale, with a test for infinities: 2 FLOP per element."""
    return Cost(vector=elements(grads) * arithmetic(grads, 2), read={position(grads): 0})


@formula("aten._amp_update_scale")
def update_scale(*args: Any, out: Any, **_: Any) -> Cost:
    """New loss scale: 2 FLOP on one number."""
    return Cost(vector=2)
