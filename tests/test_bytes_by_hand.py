"""`operator` bytes of one op each, through `roofline.count`, against what one reads off the op by hand.

Every expected side is a count of tensors: reads + writes, in bytes of FP32 (4) unless it says otherwise.
"""

import pytest
import torch
import torch.nn.functional as F  # noqa: N812
from torch import nn

import roofline

F32, BF16, I64, BOOL = 4, 2, 8, 1
N = 64 * 32  # elements of the usual tensor


def operator(step, *inputs) -> float:
    return roofline.count(step, *inputs).bytes.operator


def x(*shape, dtype=torch.float32):
    return torch.ones(shape or (64, 32), dtype=dtype)


def index(*values):
    return torch.tensor(values)


ELEMENTWISE = {
    "add reads two and writes one": (lambda a, b: a + b, (x(), x()), 3 * N * F32),
    "the same tensor twice is read once": (lambda a: a * a, (x(),), 2 * N * F32),
    "a broadcast row is read once": (lambda a, b: a + b, (x(), x(32)), (2 * N + 32) * F32),
    "an expanded tensor is as small as it is stored": (
        lambda a, b: a + b.expand(64, 32),
        (x(), x(1, 32)),
        (2 * N + 32) * F32,
    ),
    "an expanded tensor made contiguous is written out": (
        lambda b: b.expand(64, 32).contiguous(),
        (x(1, 32),),
        (32 + N) * F32,
    ),
    "a scalar moves nothing": (lambda a: a + 1, (x(),), 2 * N * F32),
    "relu in place reads and writes": (lambda a: a.relu_(), (x(),), 2 * N * F32),
    "add in place reads both and writes one": (lambda a, b: a.add_(b), (x(), x()), 3 * N * F32),
    "multiply-add in place": (lambda a, b, c: a.addcmul_(b, c), (x(), x(), x()), 4 * N * F32),
    "out= is written, not read": (lambda a, b, o: torch.add(a, b, out=o), (x(), x(), x()), 3 * N * F32),
    "a comparison writes a byte per element": (lambda a, b: a > b, (x(), x()), N * (2 * F32 + BOOL)),
    "where reads the mask": (
        lambda m, a, b: torch.where(m, a, b),
        (x(dtype=torch.bool), x(), x()),
        N * (BOOL + 3 * F32),
    ),
    "mixed types read their own sizes": (
        lambda a, b: a + b,
        (x(dtype=torch.bfloat16), x()),
        N * (BF16 + F32 + F32),
    ),
}

COPIES = {
    "views move nothing": (
        lambda a: [a.t(), a.view(-1), a[3:], a[:, 1], *a.split(8), *a.unbind(), a.unsqueeze(0), a.detach()],
        (x(),),
        0,
    ),
    "contiguous of a contiguous tensor is the tensor": (lambda a: a.contiguous(), (x(),), 0),
    "contiguous of a transposed one is a copy": (lambda a: a.t().contiguous(), (x(),), 2 * N * F32),
    "reshape of a transposed one is a copy": (lambda a: a.t().reshape(-1), (x(),), 2 * N * F32),
    "clone": (lambda a: a.clone(), (x(),), 2 * N * F32),
    "copy_ reads the source and writes the destination": (lambda a, b: a.copy_(b), (x(), x()), 2 * N * F32),
    "copy_ that casts": (lambda a, b: a.copy_(b), (x(), x(dtype=torch.bfloat16)), N * (BF16 + F32)),
    "a cast reads one size and writes the other": (lambda a: a.bfloat16(), (x(),), N * (F32 + BF16)),
    "a cast to what it is moves nothing": (lambda a: a.float(), (x(),), 0),
    "zero_ only writes": (lambda a: a.zero_(), (x(),), N * F32),
    "fill_ only writes": (lambda a: a.fill_(2.0), (x(),), N * F32),
    "zeros_like does not read its model": (lambda a: torch.zeros_like(a), (x(),), N * F32),
    "empty moves nothing": (lambda a: torch.empty_like(a), (x(),), 0),
    "cat reads and writes every part": (lambda a, b: torch.cat([a, b]), (x(), x(3, 32)), 2 * (N + 96) * F32),
    "stack": (lambda a, b: torch.stack([a, b]), (x(), x()), 4 * N * F32),
    "a fill of a slice writes the slice": (lambda a: a[:8].fill_(1.0), (x(),), 8 * 32 * F32),
    "padding reads the small and writes the large": (
        lambda a: F.pad(a, (1, 1)),
        (x(),),
        (N + 64 * 34) * F32,
    ),
}

# Rows of 32 FP32 are 128 B; a sector of memory is 32 B, 8 elements.
STRIDED = {
    "every other column costs every sector": (
        lambda a: a[:, ::2] + 1,
        (x(),),
        (64 * 32 - 1) * F32 + 64 * 16 * F32,  # from the first byte to the last one used
    ),
    "one column costs a sector per row": (lambda a: a[:, 0] + 1, (x(),), 64 * 32 + 64 * F32),
    "eight aligned columns cost what they hold": (lambda a: a[:, :8] + 1, (x(),), 2 * 64 * 8 * F32),
    "every other row costs what it holds": (lambda a: a[::2] + 1, (x(),), 2 * 32 * 32 * F32),
    "a transposed tensor is read whole": (lambda a: a.t() + 1, (x(),), 2 * N * F32),
    "overlapping windows are read once": (
        lambda a: a.unfold(0, 4, 1).clone(),
        (x(100),),
        100 * F32 + 97 * 4 * F32,
    ),
}

INDEXED = {
    "an embedding reads the rows that it looks up": (
        lambda w, i: F.embedding(i, w),
        (x(1000, 32), index(*range(10))),
        10 * I64 + 2 * 10 * 32 * F32,
    ),
    "index_select": (
        lambda a, i: a.index_select(0, i),
        (x(), index(1, 5, 9)),
        3 * I64 + 2 * 3 * 32 * F32,
    ),
    "indexing by a tensor": (lambda a, i: a[i], (x(), index(1, 5, 9)), 3 * I64 + 2 * 3 * 32 * F32),
    "gather reads elements": (
        lambda a, i: a.gather(1, i),
        (x(), torch.zeros(64, 2, dtype=torch.int64)),
        128 * I64 + 2 * 128 * F32,
    ),
    "index_put_ writes the rows": (
        lambda a, i, v: a.index_put_((i,), v),
        (x(), index(1, 5), x(2, 32)),
        2 * I64 + 2 * 2 * 32 * F32,
    ),
    "index_put_ that accumulates reads them too": (
        lambda a, i, v: a.index_put_((i,), v, accumulate=True),
        (x(), index(1, 5), x(2, 32)),
        2 * I64 + 3 * 2 * 32 * F32,
    ),
    "index_put copies the rest": (
        lambda a, i, v: a.index_put((i,), v),
        (x(), index(1, 5), x(2, 32)),
        2 * I64 + (2 * 32 + 2 * N) * F32,
    ),
    "scatter_add_ reads and writes what it hits": (
        lambda a, i, v: a.scatter_add_(1, i, v),
        (x(), torch.zeros(64, 2, dtype=torch.int64), x(64, 2)),
        128 * (I64 + 3 * F32),
    ),
    "index_add_ reads and writes rows": (
        lambda a, i, v: a.index_add_(0, i, v),
        (x(), index(1, 5), x(2, 32)),
        2 * I64 + 3 * 2 * 32 * F32,
    ),
}

PRODUCTS = {
    "mm": (lambda a, b: a @ b, (x(64, 32), x(32, 16)), (64 * 32 + 32 * 16 + 64 * 16) * F32),
    "mm in BF16": (
        lambda a, b: a @ b,
        (x(64, 32, dtype=torch.bfloat16), x(32, 16, dtype=torch.bfloat16)),
        (64 * 32 + 32 * 16 + 64 * 16) * BF16,
    ),
    "addmm reads the bias once": (
        lambda c, a, b: torch.addmm(c, a, b),
        (x(16), x(64, 32), x(32, 16)),
        (16 + 64 * 32 + 32 * 16 + 64 * 16) * F32,
    ),
    "bmm": (lambda a, b: a @ b, (x(5, 6, 7), x(5, 7, 8)), 5 * (6 * 7 + 7 * 8 + 6 * 8) * F32),
    "mv": (lambda a, b: a @ b, (x(64, 32), x(32)), (64 * 32 + 32 + 64) * F32),
    "a convolution reads input and weight, no im2col": (
        lambda a, w: F.conv2d(a, w, padding=1),
        (x(2, 3, 8, 8), x(4, 3, 3, 3)),
        (2 * 3 * 64 + 4 * 3 * 9 + 2 * 4 * 64) * F32,
    ),
    "attention reads q, k, v and writes the result and a log-sum-exp per row": (
        lambda q: F.scaled_dot_product_attention(q, q.clone(), q.clone()),
        (x(2, 4, 16, 8),),
        (2 + 2 + 3 + 1) * 2 * 4 * 16 * 8 * F32 + 2 * 4 * 16 * F32,
    ),
}

NORMS = {
    "sum": (lambda a: a.sum(), (x(),), (N + 1) * F32),
    "mean of rows": (lambda a: a.mean(1), (x(),), (N + 64) * F32),
    "max of rows writes values and indices": (lambda a: a.max(1), (x(),), N * F32 + 64 * (F32 + I64)),
    "softmax": (lambda a: a.softmax(-1), (x(),), 2 * N * F32),
    "layer norm writes mean and inverse deviation per row": (
        lambda a, w, b: torch.native_layer_norm(a, (32,), w, b, 1e-5),
        (x(), x(32), x(32)),
        (2 * N + 2 * 32 + 2 * 64) * F32,
    ),
    "batch norm in evaluation reads four vectors": (
        lambda a, v: F.batch_norm(a, v, v.clone(), v.clone(), v.clone()),
        (x(2, 8, 4, 4), x(8)),
        3 * 2 * 8 * F32 + (2 * 2 * 8 * 16 + 4 * 8) * F32,
    ),
    "max pooling writes indices": (
        lambda a: F.max_pool2d(a, 2, return_indices=True),
        (x(2, 3, 8, 8),),
        (2 * 3 * 64 + 2 * 3 * 16) * F32 + 2 * 3 * 16 * I64,
    ),
    "dropout in training writes a mask": (
        lambda a: torch.native_dropout(a, 0.5, True),
        (x(),),
        N * (2 * F32 + BOOL),
    ),
}

CASES = {**ELEMENTWISE, **COPIES, **STRIDED, **INDEXED, **PRODUCTS, **NORMS}


@pytest.mark.parametrize("name", CASES)
def test_operator_bytes_are_what_a_hand_counts(name):
    step, inputs, expected = CASES[name]
    assert operator(step, *inputs) == expected


def test_batch_norm_in_training_updates_its_running_statistics():
    """x, weight, bias, both running statistics in; y, mean, inverse deviation, both statistics out; a count up."""
    run = roofline.count(nn.BatchNorm2d(8).train(), x(2, 8, 4, 4))
    norm = sum(o.bytes.operator for o in run.ops if "batch_norm" in o.name)
    assert norm == (2 * 2 * 8 * 16 + 4 * 8 + 4 * 8) * F32
    assert run.bytes.operator == norm + 2 * I64  # num_batches_tracked += 1


def test_the_backward_of_an_embedding_reads_the_gradients_and_writes_the_whole_table():
    table = nn.Embedding(1000, 32)
    run = roofline.count(table, index(*range(10)), train=True)
    (backward,) = [o for o in run.ops if o.name == "aten.embedding_dense_backward"]
    assert backward.bytes.operator == 10 * 32 * F32 + 10 * I64 + 1000 * 32 * F32


def test_the_backward_of_a_product_reads_each_factor_again():
    a, b = x(64, 32).requires_grad_(), x(32, 16).requires_grad_()
    seed = x(64, 16)
    run = roofline.count(lambda: (a @ b).backward(seed))
    products = [o.bytes.operator for o in run.ops if o.name == "aten.mm"]
    assert products == [(64 * 32 + 32 * 16 + 64 * 16) * F32] * 3


@pytest.mark.parametrize(
    ("make", "reads", "writes"),
    [
        (lambda p: torch.optim.SGD(p, foreach=True), 2, 1),  # p, g → p
        (lambda p: torch.optim.SGD(p, fused=True), 2, 1),
        (lambda p: torch.optim.SGD(p, momentum=0.9, fused=True), 3, 2),  # p, g, v → p, v
        (lambda p: torch.optim.AdamW(p, fused=True), 4, 3),  # p, g, m, v → p, m, v
        (lambda p: torch.optim.Adam(p, fused=True), 4, 3),
    ],
)
def test_an_optimizer_reads_and_writes_parameters_and_state(make, reads, writes):
    params = [x(64, 32).requires_grad_(), x(32).requires_grad_()]
    for p in params:
        p.grad = torch.ones_like(p)
    optimizer = make(params)
    run = roofline.count(optimizer.step)
    counters = [o for o in run.ops if "step" in o.name or (o.shapes and set(o.shapes) <= set("scalar, "))]
    moved = sum(o.bytes.operator for o in run.ops if o not in counters)
    steps = 2 * F32 if "fused_adam" in "".join(o.name for o in run.ops) else 0  # each tensor's step count is read
    assert moved == (reads + writes) * (N + 32) * F32 + steps


def test_a_foreach_optimizer_moves_more_than_a_fused_one():
    """AdamW one op at a time: decay, two moments in 2 + 2 ops, and a root, a division, an addition, a step."""
    totals = {}
    for kind in ("foreach", "fused"):
        p = x(64, 32).requires_grad_()
        p.grad = torch.ones_like(p)
        totals[kind] = operator(torch.optim.AdamW([p], **{kind: True}).step)
    assert totals["foreach"] > 2 * totals["fused"]
