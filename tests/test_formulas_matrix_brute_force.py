"""Every multiply-add counted one by one in plain loops, whose results are those of torch."""

from itertools import product

import pytest
import torch
import torch.nn.functional as F  # noqa: N812
from torch import nn

from matrix_dispatch import count
from roofline.formulas.attention import attention_backward_flops, attention_flops, attention_pairs
from roofline.formulas.matmul import gemm_flops
from roofline.formulas.rnn import rnn_flops, rnn_weights


class Counter:
    """Multiply-adds done so far."""

    def __init__(self) -> None:
        self.macs = 0

    def matmul(self, a, b):
        """Product of lists of rows, one multiply-add at a time."""
        rows, depth, columns = len(a), len(b), len(b[0])
        out = [[0.0] * columns for _ in range(rows)]
        for i, j, k in product(range(rows), range(columns), range(depth)):
            out[i][j] += a[i][k] * b[k][j]
            self.macs += 1
        return out


def transpose(a):
    return [list(column) for column in zip(*a, strict=True)]


def close(got, want):
    torch.testing.assert_close(torch.as_tensor(got, dtype=torch.float64), want.double(), rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize(("m", "n", "k"), [(1, 1, 1), (3, 5, 7), (1, 6, 4), (8, 1, 3)])
def test_a_product_is_two_flop_per_multiply_add(m, n, k):
    a, b, counter = torch.randn(m, k), torch.randn(k, n), Counter()
    close(counter.matmul(a.tolist(), b.tolist()), a @ b)
    assert gemm_flops(m, n, k) == 2 * counter.macs == count(lambda: a @ b).executed


def test_a_complex_product_is_eight_flop_per_term():
    a, b, multiplications, additions = (
        torch.randn(3, 4, dtype=torch.cfloat),
        torch.randn(4, 5, dtype=torch.cfloat),
        0,
        0,
    )
    out = [[0j] * 5 for _ in range(3)]
    for i, j, k in product(range(3), range(5), range(4)):
        x, y, z = complex(a[i, k]), complex(b[k, j]), out[i][j]
        out[i][j] = complex(z.real + x.real * y.real - x.imag * y.imag, z.imag + x.real * y.imag + x.imag * y.real)
        multiplications += 4
        additions += 4
    torch.testing.assert_close(torch.tensor(out, dtype=torch.cfloat), a @ b)
    assert count(lambda: a @ b).executed == multiplications + additions


CONVS = [
    # spatial, channels in, out, kernel, stride, padding, dilation, groups
    ((5,), 2, 3, (3,), (1,), (0,), (1,), 1),
    ((9,), 4, 6, (2,), (2,), (1,), (3,), 2),
    ((4, 5), 2, 3, (3, 2), (1, 1), (1, 0), (1, 1), 1),
    ((5, 4), 4, 4, (3, 3), (2, 1), (1, 2), (1, 1), 4),
    ((6, 5), 4, 6, (2, 3), (1, 2), (0, 1), (2, 1), 2),
    ((3, 4, 3), 2, 2, (2, 2, 2), (1, 2, 1), (1, 0, 1), (1, 1, 1), 1),
    ((3, 4, 3), 4, 2, (2, 1, 2), (1, 1, 2), (0, 1, 0), (1, 1, 1), 2),
]


def taps(counter, scatter, batch, channels_a, channels_b, groups, positions, kernel, stride, dilation):
    """Visit every (item, channel pair, position, tap) once, taps on the padding included."""
    per_a, per_b = channels_a // groups, channels_b // groups
    spatial = list(product(*map(range, positions)))
    for item, group, a, b in product(range(batch), range(groups), range(per_a), range(per_b)):
        for at, tap in product(spatial, product(*map(range, kernel))):
            inside = tuple(p * s + t * d for p, s, t, d in zip(at, stride, tap, dilation, strict=True))
            scatter(item, group * per_a + a, group * per_b + b, a, b, at, tap, inside)
            counter.macs += 1


@pytest.mark.parametrize("config", CONVS)
def test_a_convolution_and_its_gradients_count_every_tap(config):
    spatial, c_in, c_out, kernel, stride, padding, dilation, groups = config
    batch = 2
    x = torch.randn(batch, c_in, *spatial, dtype=torch.float64, requires_grad=True)
    w = torch.randn(c_out, c_in // groups, *kernel, dtype=torch.float64, requires_grad=True)
    conv = (F.conv1d, F.conv2d, F.conv3d)[len(spatial) - 1]
    out = conv(x, w, None, stride, padding, dilation, groups)
    grad = torch.randn_like(out)
    grads = torch.autograd.grad(out, (x, w), grad)

    pad = [p for n in reversed(padding) for p in (n, n)]
    padded = F.pad(x.detach(), pad)
    y, gx, gw = torch.zeros_like(out), torch.zeros_like(padded), torch.zeros_like(w)
    counters = Counter(), Counter(), Counter()

    def to_output(item, i, o, a, b, at, tap, inside):
        y[(item, o, *at)] += padded[(item, i, *inside)] * w.detach()[(o, a, *tap)]

    def to_input(item, i, o, a, b, at, tap, inside):
        gx[(item, i, *inside)] += grad[(item, o, *at)] * w.detach()[(o, a, *tap)]

    def to_weight(item, i, o, a, b, at, tap, inside):
        gw[(o, a, *tap)] += grad[(item, o, *at)] * padded[(item, i, *inside)]

    with torch.no_grad():
        for counter, scatter in zip(counters, (to_output, to_input, to_weight), strict=True):
            taps(counter, scatter, batch, c_in, c_out, groups, out.shape[2:], kernel, stride, dilation)
    crop = (slice(None), slice(None), *(slice(p, p + n) for p, n in zip(padding, spatial, strict=True)))
    torch.testing.assert_close(y, out.detach())
    torch.testing.assert_close(gx[crop], grads[0])
    torch.testing.assert_close(gw, grads[1])

    forward = count(lambda: conv(x.detach(), w.detach(), None, stride, padding, dilation, groups))
    both = count(lambda: conv(x, w, None, stride, padding, dilation, groups).backward(grad))
    weight_only = count(lambda: conv(x.detach(), w, None, stride, padding, dilation, groups).backward(grad))
    assert forward.executed == 2 * counters[0].macs
    assert both.executed == 2 * sum(c.macs for c in counters)
    assert weight_only.executed == 2 * (counters[0].macs + counters[2].macs)


@pytest.mark.parametrize("config", CONVS)
def test_a_transposed_convolution_counts_every_input_position(config):
    spatial, c_in, c_out, kernel, stride, padding, dilation, groups = config
    batch = 2
    x = torch.randn(batch, c_in, *spatial, dtype=torch.float64)
    w = torch.randn(c_in, c_out // groups, *kernel, dtype=torch.float64)
    conv = (F.conv_transpose1d, F.conv_transpose2d, F.conv_transpose3d)[len(spatial) - 1]
    out = conv(x, w, None, stride, padding, 0, groups, dilation)
    full = [p * 2 + n for p, n in zip(padding, out.shape[2:], strict=True)]
    y, counter = torch.zeros(batch, c_out, *full, dtype=torch.float64), Counter()

    def to_output(item, i, o, a, b, at, tap, inside):
        y[(item, o, *inside)] += x[(item, i, *at)] * w[(i, b, *tap)]

    taps(counter, to_output, batch, c_in, c_out, groups, spatial, kernel, stride, dilation)
    crop = (slice(None), slice(None), *(slice(p, p + n) for p, n in zip(padding, out.shape[2:], strict=True)))
    torch.testing.assert_close(y[crop], out)

    def train():
        leaf, weight = x.clone().requires_grad_(), w.clone().requires_grad_()
        conv(leaf, weight, None, stride, padding, 0, groups, dilation).sum().backward()

    assert count(lambda: conv(x, w, None, stride, padding, 0, groups, dilation)).executed == 2 * counter.macs
    assert count(train).executed == 3 * 2 * counter.macs


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("align", ["top-left", "bottom-right"])
@pytest.mark.parametrize("window", [(None, None), (2, None), (None, 1), (3, 2), (0, 0), (-1, -1)])
def test_pairs_are_those_that_a_mask_written_out_keeps(causal, align, window):
    for queries, keys in product((1, 2, 5, 9), (1, 3, 5, 8)):
        offset = keys - queries if align == "bottom-right" else 0
        left, right = (None if w is None or w < 0 else w for w in window)
        kept = 0
        for i, j in product(range(queries), range(keys)):
            distance = j - (i + offset)
            visible = (not causal or distance <= 0) and (right is None or distance <= right)
            kept += visible and (left is None or distance >= -left)
        assert attention_pairs(queries, keys, causal, window, align) == kept


def test_causal_pairs_are_the_entries_of_tril():
    for queries, keys in ((1, 1), (7, 7), (4, 9), (9, 4)):
        square = torch.ones(queries, keys)
        assert attention_pairs(queries, keys, causal=True) == square.tril().sum()
        aligned = square.tril(keys - queries).sum()
        assert attention_pairs(queries, keys, causal=True, align="bottom-right") == aligned


@pytest.mark.parametrize(("queries", "keys", "depth", "value_depth"), [(3, 3, 4, 4), (2, 5, 3, 4), (5, 2, 4, 1)])
def test_attention_forward_is_two_products_and_backward_five(queries, keys, depth, value_depth):
    shapes = ((queries, depth), (keys, depth), (keys, value_depth))
    q, k, v = (torch.randn(*s, dtype=torch.float64, requires_grad=True) for s in shapes)
    out = torch.softmax(q @ k.T, -1) @ v
    grad = torch.randn_like(out)
    wanted = torch.autograd.grad(out, (q, k, v), grad)
    q, k, v, g = (t.detach().tolist() for t in (q, k, v, grad))

    forward, scores, rest = Counter(), Counter(), Counter()
    p = torch.softmax(torch.tensor(forward.matmul(q, transpose(k))), -1).tolist()
    close(forward.matmul(p, v), out.detach())

    p = torch.softmax(torch.tensor(scores.matmul(q, transpose(k))), -1).tolist()
    dp = rest.matmul(g, transpose(v))
    dv = rest.matmul(transpose(p), g)
    p, dp = torch.tensor(p), torch.tensor(dp)
    ds = (p * (dp - (p * dp).sum(-1, keepdim=True))).tolist()
    dq, dk = rest.matmul(ds, k), rest.matmul(transpose(ds), q)
    for got, want in zip((dq, dk, dv), wanted, strict=True):
        close(got, want)

    sizes = (1, 1, queries * keys, depth, value_depth)
    assert attention_flops(*sizes) == 2 * forward.macs
    assert attention_backward_flops(*sizes) == 2 * (scores.macs + rest.macs)
    assert attention_backward_flops(*sizes, recompute=False) == 2 * rest.macs


def lstm_by_hand(counter, x, w_ih, w_hh, b_ih, b_hh, reverse, w_hr=None):
    """Outputs of one layer and direction for x as a list of steps of rows."""
    batch, hidden = len(x[0]), len(w_ih) // 4
    h = [[0.0] * len(w_hh[0]) for _ in range(batch)]
    c, outputs = torch.zeros(batch, hidden, dtype=torch.float64), []
    for step in reversed(x) if reverse else x:
        products = [counter.matmul(step, transpose(w_ih)), counter.matmul(h, transpose(w_hh))]
        gates = sum(torch.tensor(p, dtype=torch.float64) for p in products) + b_ih + b_hh
        i, f, g, o = gates.split(hidden, 1)
        c = torch.sigmoid(f) * c + torch.sigmoid(i) * torch.tanh(g)
        h = (torch.sigmoid(o) * torch.tanh(c)).tolist()
        if w_hr is not None:
            h = counter.matmul(h, transpose(w_hr))
        outputs.append(h)
    return list(reversed(outputs)) if reverse else outputs


@pytest.mark.parametrize(("layers", "bidirectional", "projection"), [(1, False, 0), (2, True, 0), (2, True, 3)])
def test_an_lstm_counts_the_products_of_every_step(layers, bidirectional, projection):
    inputs, hidden, steps, batch = 3, 4, 5, 2
    model = nn.LSTM(inputs, hidden, layers, bidirectional=bidirectional, proj_size=projection).double()
    x, counter = torch.randn(steps, batch, inputs, dtype=torch.float64), Counter()
    state = x.tolist()
    for layer in range(layers):
        sides = []
        for suffix in ("", "_reverse")[: 1 + bidirectional]:
            weights = [getattr(model, f"weight_{n}_l{layer}{suffix}").tolist() for n in ("ih", "hh")]
            biases = [getattr(model, f"bias_{n}_l{layer}{suffix}").detach() for n in ("ih", "hh")]
            last = getattr(model, f"weight_hr_l{layer}{suffix}").tolist() if projection else None
            sides.append(lstm_by_hand(counter, state, *weights, *biases, bool(suffix), last))
        state = torch.cat([torch.tensor(s, dtype=torch.float64) for s in sides], -1).tolist()
    close(state, model(x)[0].detach())

    with torch.inference_mode():
        undivided = count(lambda: model(x)).executed
    weights = rnn_weights("lstm", inputs, hidden, layers, 1 + bidirectional, projection)
    assert rnn_flops(steps * batch, weights) == 2 * counter.macs == undivided == count(lambda: model(x)).executed
