"""Softmax and log-softmax, forward and backward.

| op | formula | FLOP per element |
|---|---|---|
| softmax | exp(x − max x) / Σ: max, subtract, exp, sum, divide | 5 |
| log_softmax | x − max x − log Σexp: max, subtract, exp, sum, subtract | 5 |
| masked softmax | as softmax; masking selects | 5 |
| softmax backward | y·(g − Σ g·y): product, sum, subtract, product | 4 |
| log_softmax backward | g − exp(y)·Σg: sum, exp, product, subtract | 4 |

Bytes: input and result once: the row stays on chip between the passes.
Not counted: the logarithm, one per row.
"""

from roofline.formulas.arithmetic import aten, per_input
from roofline.formulas.registry import formula

formula(
    *aten("_softmax _log_softmax _safe_softmax _masked_softmax"), "aten.softmax.int_out", "aten.log_softmax.int_out"
)(per_input(5))
formula(*aten("_sparse_softmax _sparse_log_softmax _nested_tensor_softmax_with_shape"))(per_input(5))
formula(*aten("_softmax_backward_data _log_softmax_backward_data _masked_softmax_backward"))(per_input(4))
formula(*aten("_sparse_softmax_backward_data _sparse_log_softmax_backward_data"))(per_input(4))
