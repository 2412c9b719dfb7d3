"""Elementwise work by hand: each expected side is the sum written out (convention: `formulas.arithmetic`)."""

from typing import Any

import pytest

from formula_calls import S, cost, vector
from roofline.formulas.registry import Cost, is_free

X = S((3, 5))
ROW = S((5,))
MASK = S((3, 5), "bool")
INDEX = S((3, 5), "int64")
COMPLEX = S((3, 5), "complex64")


# elementwise


def test_an_addition_is_one_flop_and_two_with_a_factor() -> None:
    assert vector("aten.add.Tensor", X, ROW, out=X) == 3 * 5
    assert vector("aten.add.Tensor", X, ROW, out=X, alpha=2) == 2 * 3 * 5
    assert vector("aten.sub.Scalar", X, 1.0, 3, out=X) == 2 * 3 * 5


def test_the_in_place_form_takes_the_rule_of_the_functional_one() -> None:
    assert vector("aten.mul_.Tensor", X, 2.0, out=X) == 3 * 5


def test_complex_numbers_cost_the_real_operations_they_are_made_of() -> None:
    # (a+ib)(c+id): 4 products and 2 sums; a sum is two; a quotient is 6 products, 3 sums, 2 quotients; √(a²+b²) is 4.
    assert vector("aten.mul.Tensor", COMPLEX, COMPLEX, out=COMPLEX) == (4 + 2) * 15
    assert vector("aten.add.Tensor", COMPLEX, COMPLEX, out=COMPLEX) == 2 * 15
    assert vector("aten.div.Tensor", COMPLEX, COMPLEX, out=COMPLEX) == (6 + 3 + 2) * 15
    assert vector("aten.abs", COMPLEX, out=X) == (2 + 1 + 1) * 15


def test_integer_and_boolean_arithmetic_is_bytes_only() -> None:
    assert cost("aten.add.Tensor", INDEX, INDEX, out=INDEX) == Cost()
    assert cost("aten.bitwise_and.Tensor", MASK, MASK, out=MASK) == Cost()
    assert cost("aten.where.self", MASK, X, X, out=X) == Cost()


def test_a_comparison_of_floats_counts_though_its_result_is_boolean() -> None:
    assert vector("aten.lt.Tensor", X, X, out=MASK) == 15
    assert vector("aten.lt.Tensor", INDEX, INDEX, out=MASK) == 0


@pytest.mark.parametrize(
    ("name", "args", "flops"),
    [
        ("aten.exp", (X,), 1),
        ("aten.pow.Tensor_Scalar", (X, 3), 1),
        ("aten.clamp", (X, 0.0, 1.0), 2),
        ("aten.clamp", (X, None, 1.0), 1),
        ("aten.lerp.Scalar", (X, X, 0.5), 3),  # a + w·(b − a)
        ("aten.addcmul", (X, X, X), 1 + 1),
        ("aten.fmod.Tensor", (X, X), 4),  # quotient, truncation, product, difference
        ("aten.sigmoid", (X,), 4),  # negate, exp, add, divide
        ("aten.silu", (X,), 4 + 1),
        ("aten.gelu", (X,), 5),  # x/√2, erf, 1 +, ·x, ·½
        ("aten.relu", (X,), 1),
        ("aten.threshold_backward", (X, X, 0), 1),
        ("aten.sigmoid_backward", (X, X), 3),  # g·y·(1 − y)
        ("aten.silu_backward", (X, X), 4 + 1 + 1 + 1 + 2),  # σ, 1 − σ, ·x, 1 +, ·σ·g
    ],
)
def test_elementwise_ops_cost_their_textbook_formula(name: str, args: tuple[Any, ...], flops: int) -> None:
    assert vector(name, *args, out=X) == flops * 3 * 5


def test_addcdiv_with_a_factor_costs_one_more() -> None:
    assert vector("aten.addcdiv", X, X, X, out=X, value=-0.1) == (1 + 1 + 1) * 15


def test_the_tanh_form_of_gelu_costs_nine() -> None:
    # x·x·x 2, ·c 1, + x 1, ·√(2/π) 1, tanh 1, 1 + 1, ·x 1, ·½ 1
    assert vector("aten.gelu", X, out=X, approximate="tanh") == (2 + 1 + 1 + 1 + 1 + 1 + 1 + 1) * 15


def test_glu_costs_five_per_element_of_its_half() -> None:
    assert vector("aten.glu", S((4, 6)), -1, out=S((4, 3))) == (4 + 1) * 4 * 3


def test_a_foreach_op_costs_the_sum_over_its_tensors_though_it_returns_nothing() -> None:
    params = [S((4,)), S((2, 3))]
    assert vector("aten._foreach_add_.List", params, params, out=None, alpha=2) == 2 * (4 + 6)
    assert vector("aten._foreach_sqrt", params, out=params) == 4 + 6
    assert vector("aten._foreach_addcdiv_.Scalar", params, params, params, -0.1, out=None) == 3 * (4 + 6)


# copies and fills


def test_views_and_allocations_are_free() -> None:
    for name in ("view", "t", "transpose.int", "expand", "slice.Tensor", "detach", "empty.memory_format", "unfold"):
        assert is_free(f"aten.{name}"), name
    for name in ("clone", "cat", "_to_copy", "repeat", "roll", "view_copy", "constant_pad_nd", "zeros", "copy_"):
        assert not is_free(f"aten.{name}"), name


def test_a_copy_reads_its_source_and_only_writes_its_destination() -> None:
    assert cost("aten.copy_", X, X, out=X) == Cost(read={0: 0})
    assert cost("aten.zero_", X, out=X) == Cost(read={0: 0})
    assert cost("aten.zeros_like", X, out=X) == Cost(read={0: 0})
    assert cost("aten._to_copy", X, out=S((3, 5), "bfloat16")) == Cost()
    assert cost("aten._foreach_copy_", [X, X], [X, X], out=None) == Cost(read={0: 0, 1: 0})


def test_a_scatter_into_a_slice_reads_only_what_it_keeps() -> None:
    assert cost("aten.slice_scatter", X, S((1, 5)), 0, 0, 1, out=X).read == {0: (15 - 5) * 4}


# norms


def test_batch_norm_in_training_costs_eight_and_in_evaluation_four() -> None:
    x, c, empty = S((2, 3, 4, 4)), S((3,)), S((0,))
    n = 2 * 3 * 4 * 4
    mean, variance, normalise, affine = 1, 3, 2, 2
    out = (x, c, c)
    assert vector("aten.native_batch_norm", x, c, c, c, c, True, 0.1, 1e-5, out=out) == n * (
        mean + variance + normalise + affine
    )
    evaluated = vector("aten.native_batch_norm", x, c, c, c, c, False, 0.1, 1e-5, out=(x, empty, empty))
    assert evaluated == n * (normalise + affine)
    bare = vector("aten._native_batch_norm_legit.no_stats", x, None, None, True, 0.1, 1e-5, out=out)
    assert bare == n * (mean + variance + normalise)


def test_batch_norm_backward_in_training_costs_nine() -> None:
    x, c = S((2, 3, 4, 4)), S((3,))
    xhat, db, dw, dx = 2, 1, 2, 4
    found = vector(
        "aten.native_batch_norm_backward", x, x, c, c, c, c, c, True, 1e-5, [True, True, True], out=(x, c, c)
    )
    assert found == 96 * (xhat + db + dw + dx)


def test_layer_norm_costs_eight_and_its_backward_thirteen() -> None:
    x, w, row = S((4, 6)), S((6,)), S((4, 1))
    assert vector("aten.native_layer_norm", x, [6], w, w, 1e-5, out=(x, row, row)) == 24 * (1 + 3 + 2 + 2)
    found = vector("aten.native_layer_norm_backward", x, x, [6], row, row, w, w, [True] * 3, out=(x, w, w))
    xhat, scaled, sums, dx, dw, db = 2, 1, 1 + 2, 4, 2, 1
    assert found == 24 * (xhat + scaled + sums + dx + dw + db)


def test_rms_norm_costs_four_and_its_backward_nine() -> None:
    x, w, row = S((4, 6)), S((6,)), S((4, 1))
    assert vector("aten._fused_rms_norm", x, [6], w, None, out=(x, row)) == 24 * (2 + 1 + 1)
    found = vector("aten._fused_rms_norm_backward", x, x, [6], row, w, [True, True], out=(x, w))
    assert found == 24 * (1 + 1 + 2 + 3 + 2)


# softmax and losses


def test_softmax_costs_five_and_its_backward_four() -> None:
    assert vector("aten._softmax", X, -1, False, out=X) == 15 * 5
    assert vector("aten._softmax_backward_data", X, X, -1, "float32", out=X) == 15 * 4


def test_the_mean_of_squared_errors_costs_three() -> None:
    assert vector("aten.mse_loss", X, X, out=S(())) == 15 * (1 + 1 + 1)
    assert vector("aten.mse_loss", X, X, 0, out=X) == 15 * (1 + 1)


def test_nll_reads_one_value_per_target_and_its_backward_none() -> None:
    log_p, target = S((4, 1000)), S((4,), "int64")
    forward = cost("aten.nll_loss_forward", log_p, target, None, 1, -100, out=(S(()), S(())))
    assert (forward.vector, forward.read) == (4 * (1 + 1), {0: 4 * 4})
    assert cost("aten.nll_loss_backward", S(()), log_p, target, None, 1, -100, S(()), out=log_p).read == {1: 0}


def test_ctc_counts_time_steps_times_states() -> None:
    log_p, targets = S((50, 2, 20)), S((2, 10), "int64")
    found = cost("aten._ctc_loss", log_p, targets, [50, 50], [10, 7], out=(S((2,)), S((2, 50, 21))))
    assert (found.vector, found.formula) == (10 * 50 * (21 + 15), "estimate")


# random numbers and optimizers


def test_random_fills_write_only() -> None:
    assert cost("aten.uniform_", X, out=X) == Cost(vector=2 * 15, read={0: 0})
    assert cost("aten.normal_", X, out=X) == Cost(vector=8 * 15, read={0: 0})
    assert cost("aten.bernoulli_.float", X, 0.5, out=X) == Cost(vector=15, read={0: 0})
    assert cost("aten.randint", 10, [3, 5], out=INDEX) == Cost()


def test_dropout_compares_masks_and_scales() -> None:
    assert vector("aten.native_dropout", X, 0.1, True, out=(X, MASK)) == 15 * 3
    assert vector("aten.native_dropout", X, 0.1, False, out=(X, MASK)) == 0


def test_fused_adamw_costs_thirteen_and_one_for_decay_and_leaves_gradients_alone() -> None:
    params = [S((10,)), S((6,))]
    options = {"lr": 1e-3, "beta1": 0.9, "beta2": 0.99, "eps": 1e-8, "amsgrad": False, "maximize": False}
    states = (params, params, params, [], [S(()), S(())])
    first, second, root, update, decay = 3, 4, 3, 3, 1
    found = cost("aten._fused_adamw_", params, *states, out=None, weight_decay=0.1, **options)
    assert found.vector == 16 * (first + second + root + update + decay)
    assert found.written == {2: 0, 3: 0}
    assert vector("aten._fused_adam_", params, *states, out=None, weight_decay=0.1, **options) == 16 * (13 + 2)


def test_fused_sgd_counts_momentum_and_nesterov() -> None:
    params = [S((10,))]
    options = {"lr": 0.1, "dampening": 0.0, "nesterov": True, "maximize": False, "is_first_step": False}
    found = vector("aten._fused_sgd_", params, params, params, out=None, momentum=0.9, weight_decay=0.1, **options)
    update, decay, momentum, nesterov = 2, 2, 2, 2
    assert found == 10 * (update + decay + momentum + nesterov)


def test_unscaling_gradients_costs_two() -> None:
    grads = [S((10,)), S((6,))]
    assert vector("aten._amp_foreach_non_finite_check_and_unscale_", grads, S(()), S(()), out=None) == 2 * 16


# quantised tensors


def test_an_op_between_quantised_tensors_dequantises_computes_and_quantises() -> None:
    q = S((3, 5), "quint8")
    dequantise, add, quantise = 2, 1, 5
    assert vector("quantized.add", q, q, 0.1, 0, out=q) == 15 * (2 * dequantise + add + quantise)
    assert vector("quantized.add_relu", q, q, 0.1, 0, out=q) == 15 * (2 * dequantise + add + 1 + quantise)
    assert vector("aten.quantize_per_tensor", X, 0.1, 0, "quint8", out=q) == 15 * quantise
    assert vector("aten.dequantize.self", q, out=X) == 15 * dequantise
    assert cost("quantized.relu6", q, out=q) == Cost()


def test_a_packed_embedding_counts_the_rows_that_it_reads_as_workspace() -> None:
    found = cost("quantized.embedding_byte", "packed", S((6,), "int64"), out=S((6, 16)))
    assert (found.vector, found.workspace_bytes) == (6 * 16 * 2, 6 * 16)
