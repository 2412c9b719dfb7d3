"""Recurrent layers: LSTM, GRU, RNN, fused or cell by cell.

FLOP forward = 2 · rows · Σ numel(W) over the weight matrices of all layers and directions, where rows are the
(time step, sequence) pairs that run: T · B, or the rows of the packed data. A layer has W_ih (gates · H, inputs),
W_hh (gates · H, H or P) and, with a projection, W_hr (P, H). Backward pairs the same numbers twice, for the gradients
of what comes in and of the weights.

Vector FLOP per row and hidden unit, a sigmoid as 4 and a tanh as 1: LSTM 30 (biases 8, sums of the two halves 4,
three sigmoids and a tanh 13, cell 3, output 2), GRU 22 (6, 2, two sigmoids and a tanh 9, reset 2, output 3), RNN 4.
Backward: LSTM 23, GRU 15, RNN 3, and one per gate for the bias.

Not counted: dropout between layers.
"""

from collections.abc import Sequence
from math import prod
from typing import Any

import msgspec

from roofline.core.precision import Precision
from roofline.formulas.matmul import gemm_flops, matrix_precision
from roofline.formulas.registry import Cost, formula
from roofline.formulas.spec import TensorSpec

Shape = Sequence[int]

GATES = {"lstm": 4, "gru": 3, "rnn": 1}
_FORWARD = {"lstm": 30, "gru": 22, "rnn": 4}
_BACKWARD = {"lstm": 27, "gru": 18, "rnn": 4}
# The modes of cuDNN, MIOpen and oneDNN: RNN with relu or tanh, LSTM, GRU.
_KINDS = ("rnn", "rnn", "lstm", "gru")


def rnn_flops(rows: int, weights: Sequence[Shape], dtype: str = "float32") -> int:
    """FLOP forward: 2 · rows · Σ numel(W).

    Args:
        rows: Pairs of a time step and a sequence.
        weights: Shapes of the weight matrices.
        dtype: torch's name.
    """
    return sum(gemm_flops(rows, 1, prod(w), dtype=dtype) for w in weights)


def rnn_weights(
    kind: str, inputs: int, hidden: int, layers: int = 1, directions: int = 1, projection: int = 0
) -> list[tuple[int, int]]:
    """Shapes of the weight matrices of a whole LSTM, GRU or RNN.

    Args:
        kind: "lstm", "gru" or "rnn".
        inputs: Features of the input.
        hidden: Features of the hidden state.
        layers: Stacked layers.
        directions: 2 if bidirectional.
        projection: Features that an LSTM's output is projected to; 0 is without.
    """
    gates, recurrent = GATES[kind] * hidden, projection or hidden
    shapes = []
    for layer in range(layers):
        width = inputs if layer == 0 else directions * recurrent
        one = [(gates, width), (gates, recurrent)] + ([(projection, hidden)] if projection else [])
        shapes += one * directions
    return shapes


def matrices(weights: Sequence[TensorSpec]) -> list[Shape]:
    """Shapes of the matrices among a layer's parameters: what is left are biases."""
    return [w.shape for w in weights if w.ndim > 1]


def forward(kind: str, x: TensorSpec, weights: Sequence[Shape], precision: Precision | None = None) -> Cost:
    """Cost of all layers over all rows of x.

    Args:
        kind: "lstm", "gru" or "rnn".
        x: Input; its last dimension is the features, all others are rows.
        weights: Shapes of the weight matrices.
        precision: Of the matrix work, where it is not that of x.
    """
    rows = prod(x.shape[:-1])
    return Cost(
        matrix=rnn_flops(rows, weights, x.dtype),
        vector=_FORWARD[kind] * rows * _units(kind, weights),
        precision=precision or matrix_precision(x),
    )


def backward(
    kind: str,
    x: TensorSpec,
    weights: Sequence[Shape],
    *,
    directions: int = 1,
    input_grad: bool = True,
    weight_grad: bool = True,
) -> Cost:
    """Cost of the gradients of all layers.

    Without `input_grad` the fused kernels still compute the gradient of the input; it is executed, not needed.
    Without `weight_grad` they leave out the second half. Other arguments as for `forward`.
    """
    rows = prod(x.shape[:-1])
    one = rnn_flops(rows, weights, x.dtype)
    unneeded = 0 if input_grad else rnn_flops(rows, _groups(kind, weights)[0][:1], x.dtype) * directions
    return Cost(
        matrix=one * (1 + weight_grad),
        needed=one * (1 + weight_grad) - unneeded,
        vector=_BACKWARD[kind] * rows * _units(kind, weights),
        precision=matrix_precision(x),
    )


def _groups(kind: str, weights: Sequence[Shape]) -> list[Sequence[Shape]]:
    """The weights of one layer and direction each: W_ih, W_hh, and W_hr with a projection."""
    rows, recurrent = weights[1]
    size = 2 if recurrent * GATES[kind] == rows else 3
    return [weights[i : i + size] for i in range(0, len(weights), size)]


def _units(kind: str, weights: Sequence[Shape]) -> int:
    """Hidden units over all layers and directions: W_ih has a row per gate and unit."""
    return sum(group[0][0] for group in _groups(kind, weights)) // GATES[kind]


def _register(kind: str, op: str) -> None:
    """Register the composite forms of a layer, which reach dispatch undivided in inference mode."""

    @formula(f"aten.{op}.input")
    def padded(x: TensorSpec, _hx: Any, params: Sequence[TensorSpec], *_: Any, **__: Any) -> Cost:
        """All layers over all time steps of a padded batch: 2 · T · B · Σ numel(W)."""
        return forward(kind, x, matrices(params))

    @formula(f"aten.{op}.data")
    def packed(x: TensorSpec, _sizes: Any, _hx: Any, params: Sequence[TensorSpec], *_: Any, **__: Any) -> Cost:
        """All layers over the rows of a packed batch: 2 · rows · Σ numel(W)."""
        return forward(kind, x, matrices(params))

    @formula(f"aten.{op}_cell")
    def cell(x: TensorSpec, _hx: Any, w_ih: TensorSpec, w_hh: TensorSpec, *_: Any, **__: Any) -> Cost:
        """One step of one layer: 2 · B · (numel(W_ih) + numel(W_hh))."""
        return forward(kind, x, [w_ih.shape, w_hh.shape])


for _kind, _op in (("lstm", "lstm"), ("gru", "gru"), ("rnn", "rnn_tanh"), ("rnn", "rnn_relu")):
    _register(_kind, _op)


@formula("aten._lstm_mps")
def mps_lstm(x: TensorSpec, _hx: Any, params: Sequence[TensorSpec], *_: Any, **__: Any) -> Cost:
    """LSTM on MPS."""
    return forward("lstm", x, matrices(params))


@formula("aten.lstm_mps_backward")
def mps_lstm_backward(*args: Any, **_: Any) -> Cost:
    """Gradients of an LSTM on MPS."""
    x, params = args[5], args[8]
    return backward("lstm", x, matrices(params))


@formula("aten._cudnn_rnn")
def cudnn_rnn(x: TensorSpec, weight: Sequence[TensorSpec], *rest: Any, **_: Any) -> Cost:
    """All layers in cuDNN: 2 · rows · Σ numel(W)."""
    return forward(_KINDS[rest[4]], x, matrices(weight))


@formula("aten.miopen_rnn")
def miopen_rnn(x: TensorSpec, weight: Sequence[TensorSpec], *rest: Any, **_: Any) -> Cost:
    """All layers in MIOpen: 2 · rows · Σ numel(W)."""
    return forward(_KINDS[rest[3]], x, matrices(weight))


@formula("aten._cudnn_rnn_backward")
def cudnn_rnn_backward(x: TensorSpec, weight: Sequence[TensorSpec], *rest: Any, **_: Any) -> Cost:
    """Gradients of `cudnn_rnn`: its FLOP once for inputs and once for weights, as far as asked for."""
    return _fused_backward(x, weight, rest[8], rest[15], rest[-1])


@formula("aten.miopen_rnn_backward")
def miopen_rnn_backward(x: TensorSpec, weight: Sequence[TensorSpec], *rest: Any, **_: Any) -> Cost:
    """Gradients of `miopen_rnn`."""
    return _fused_backward(x, weight, rest[8], rest[14], rest[-1])


def _fused_backward(
    x: TensorSpec, weight: Sequence[TensorSpec], mode: int, bidirectional: bool, mask: Sequence[bool]
) -> Cost:
    return backward(
        _KINDS[mode],
        x,
        matrices(weight),
        directions=2 if bidirectional else 1,
        input_grad=mask[0],
        weight_grad=mask[3],
    )


@formula("aten.mkldnn_rnn_layer")
def mkldnn_layer(x: TensorSpec, w_ih: TensorSpec, w_hh: TensorSpec, *rest: Any, **_: Any) -> Cost:
    """One layer and direction in oneDNN: 2 · T · B · (numel(W_ih) + numel(W_hh))."""
    return forward(_KINDS[rest[6]], x, [w_ih.shape, w_hh.shape])


@formula("aten.mkldnn_rnn_layer_backward")
def mkldnn_layer_backward(x: TensorSpec, w_ih: TensorSpec, w_hh: TensorSpec, *rest: Any, **_: Any) -> Cost:
    """Gradients of `mkldnn_layer`, for inputs and weights: twice its FLOP.

    Both bias gradients are one tensor, written once.
    """
    return msgspec.structs.replace(backward(_KINDS[rest[11]], x, [w_ih.shape, w_hh.shape]), written={4: 0})


@formula("aten._thnn_fused_lstm_cell")
def fused_lstm_cell(_ih: Any, _hh: Any, cx: TensorSpec, bias: Any = None, *_: Any, **__: Any) -> Cost:
    """What follows the products of an LSTM step: 30 vector FLOP per hidden unit, 22 without biases."""
    return Cost(vector=(30 if bias is not None else 22) * cx.numel)


@formula("aten._thnn_fused_gru_cell")
def fused_gru_cell(_ih: Any, _hh: Any, hx: TensorSpec, bias: Any = None, *_: Any, **__: Any) -> Cost:
    """What follows the products of a GRU step: 22 vector FLOP per hidden unit, 16 without biases."""
    return Cost(vector=(22 if bias is not None else 16) * hx.numel)


@formula("aten._thnn_fused_lstm_cell_backward", "aten._thnn_fused_lstm_cell_backward_impl")
def fused_lstm_cell_backward(_hy: Any, _cy: Any, cx: TensorSpec, *rest: Any, **_: Any) -> Cost:
    """Gradients of `fused_lstm_cell`: 23 vector FLOP per hidden unit, and 4 for the bias."""
    return Cost(vector=(_BACKWARD["lstm"] if rest[-1] else 23) * cx.numel)


@formula("aten._thnn_fused_gru_cell_backward")
def fused_gru_cell_backward(grad: TensorSpec, _workspace: Any, has_bias: bool, **_: Any) -> Cost:
    """Gradients of `fused_gru_cell`: 15 vector FLOP per hidden unit, and 3 for the bias."""
    return Cost(vector=(_BACKWARD["gru"] if has_bias else 15) * grad.numel)
