"""torch's primitives (`prims.*`), which some decompositions dispatch: they take the rules of their aten namesakes."""

from roofline.formulas import copies, elementwise, linalg, reduce, rng
from roofline.formulas.arithmetic import fills, moves, per_output, spell
from roofline.formulas.registry import find_rule, formula, free

# Importing the families above has filled the table that this file borrows from.
_FAMILIES = (copies, elementwise, linalg, reduce, rng)

_SAME_NAME = (
    "abs acos acosh add amax amin asin asinh atan atan2 atanh bitwise_and bitwise_not bitwise_or bitwise_xor cat "
    "ceil clone conj_physical cos cosh digamma div eq erf erfc exp exp2 expm1 floor fmax fmin fmod frexp gcd ge "
    "gt hypot igamma igammac le lgamma log log10 log1p log2 lt maximum minimum mul ne neg nextafter pow "
    "prod reciprocal remainder round rsqrt sign signbit sin sinh sqrt sub sum tan tanh trunc var where "
    "as_strided_scatter full full_like scalar_tensor fill"
)
_OTHER_NAME = {"svd": "_linalg_svd", "copy_to": "copy", "rev": "flip", "normal": "randn", "uniform": "rand"}

for _prim, _aten in {**{name: name for name in _SAME_NAME.split()}, **_OTHER_NAME}.items():
    _rule = find_rule(f"aten.{_aten}")
    assert _rule is not None, f"no rule for aten.{_aten}"
    formula(f"prims.{_prim}")(_rule)

formula(*spell("prims", "bessel_i0 bessel_i0e bessel_i1 bessel_i1e bessel_j0 bessel_j1 spherical_bessel_j0"))(
    per_output(1)
)
formula(*spell("prims", "cbrt isfinite erf_inv erfcx ndtri zeta"))(per_output(1))
formula(*spell("prims", "shift_left shift_right_arithmetic xor_sum convert_element_type device_put copy_strided"))(
    moves
)
formula(*spell("prims", "reshape collapse"))(moves)
formula(*spell("prims", "iota"))(fills)
free(
    *spell("prims", "as_strided broadcast_in_dim collapse_view conj real imag split_dim squeeze transpose view_of"),
    *spell("prims", "view_of_dtype resize empty empty_permuted empty_strided item maximum_value minimum_value"),
)
