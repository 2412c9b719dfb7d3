"""How the byte origins of whole modules relate, whatever the cache, and what the article's estimate gives."""

from contextlib import nullcontext

import msgspec
import pytest
import torch
import torch.nn.functional as F  # noqa: N812
from torch import nn

import roofline
from roofline.core.machine import Ceiling, Machine
from roofline.core.precision import Precision
from roofline.counter import Program, counted_run, record
from roofline.counter.program import inference, loss_of, training

SIZES = (0, 10_000, 100_000, 1_000_000, 10**12)


def machine(cache_bytes: int) -> Machine:
    return Machine(
        key="toy",
        name="Toy",
        matrix={p: Ceiling(1e12, "given") for p in (Precision.FP32, Precision.BF16)},
        vector={Precision.FP32: Ceiling(1e11, "given")},
        bandwidth={"dram": Ceiling(1e11, "given")},
        cache_bytes={"l2": cache_bytes} if cache_bytes else {},
    )


class Tied(nn.Module):
    """A table that is looked up and multiplied by."""

    def __init__(self):
        super().__init__()
        self.table = nn.Embedding(50, 16)

    def forward(self, tokens):
        return F.linear(self.table(tokens), self.table.weight)


class Packed(nn.Module):
    """Attention whose query, key and value are views of one product."""

    def __init__(self):
        super().__init__()
        self.qkv, self.out = nn.Linear(32, 96), nn.Linear(32, 32)

    def forward(self, x):
        q, k, v = (p.unflatten(-1, (4, 8)).transpose(1, 2) for p in self.qkv(x).chunk(3, -1))
        return self.out(F.scaled_dot_product_attention(q, k, v, is_causal=True).transpose(1, 2).flatten(-2))


class Unrolled(nn.Module):
    """Works in place, on slices and by functions alone."""

    def forward(self, x):
        x = x.clone()
        x[:, ::2] *= 2
        x[3:5].zero_()
        return torch.cat([x, x.t().contiguous().t()]).softmax(-1)


def convolutions():
    return nn.Sequential(
        nn.Conv2d(3, 8, 3), nn.BatchNorm2d(8), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(), nn.Linear(8 * 49, 10)
    )


IMAGE = torch.ones(2, 3, 16, 16)
ROWS = torch.ones(2, 16, 32)
TOKENS = torch.zeros(2, 8, dtype=torch.int64)
MODULES = {
    "linear": (lambda: nn.Linear(32, 64), ROWS),
    "mlp": (lambda: nn.Sequential(nn.Linear(32, 64), nn.GELU(), nn.Linear(64, 32)), ROWS),
    "in place": (lambda: nn.Sequential(nn.Linear(32, 64), nn.ReLU(inplace=True), nn.Linear(64, 32)), ROWS),
    "convolutions": (convolutions, IMAGE),
    "channels last": (lambda: convolutions().to(memory_format=torch.channels_last), IMAGE),
    "depthwise": (lambda: nn.Conv2d(3, 6, 3, groups=3), IMAGE),
    "transposed convolution": (lambda: nn.ConvTranspose2d(3, 4, 2, stride=2), IMAGE),
    "lstm": (lambda: nn.LSTM(32, 16, batch_first=True), ROWS),
    "gru": (lambda: nn.GRU(32, 16, 2, batch_first=True), ROWS),
    "encoder": (lambda: nn.TransformerEncoderLayer(32, 4, 64, batch_first=True), ROWS),
    "packed attention": (Packed, ROWS),
    "norms": (lambda: nn.Sequential(nn.LayerNorm(32), nn.RMSNorm(32), nn.Dropout(0.1), nn.Softmax(-1)), ROWS),
    "embedding": (lambda: nn.Embedding(50, 16), TOKENS),
    "bag": (lambda: nn.EmbeddingBag(50, 16), TOKENS),
    "tied table": (Tied, TOKENS),
    "functions alone": (Unrolled, torch.ones(16, 16)),
}


def recorded(name: str, step: str):
    make, x = MODULES[name]
    module = make()
    if step == "inference":
        return record(lambda: inference(module.eval(), (x,), {}, cast=nullcontext))
    if step == "training":
        return record(lambda: training(module, (x,), {}, cast=nullcontext, optimizer=None))
    optimizer = torch.optim.AdamW(module.parameters(), **{step.split()[0]: True})

    def train():
        optimizer.zero_grad()
        loss_of(module(x)).backward()
        optimizer.step()

    return record(lambda: Program(train, module))


@pytest.mark.parametrize(
    ("name", "step"),
    [
        *((name, step) for name in MODULES for step in ("inference", "training") if name != "functions alone"),
        ("functions alone", "inference"),
        *(
            (name, step)
            for name in ("mlp", "convolutions", "tied table")
            for step in ("foreach adamw", "fused adamw")
        ),
    ],
)
def test_compulsory_is_at_most_cached_is_at_most_operator_and_a_larger_cache_never_hurts(name, step):
    recording = recorded(name, step)
    runs = [counted_run(recording, machine(size), {}) for size in SIZES]
    first, *larger = [run.bytes for run in runs]
    assert first.cached is None  # no cache is known: nothing is modelled
    traffic = [b.cached for b in larger]
    assert traffic == sorted(traffic, reverse=True)
    for b in larger:
        assert (b.operator, b.compulsory) == (first.operator, first.compulsory)
        assert 0 < b.compulsory <= b.cached + 1e-6 <= b.operator + 2e-6
    for run in runs[1:]:
        assert sum(o.bytes.cached for o in run.ops) == pytest.approx(run.bytes.cached)
        assert all(o.bytes.cached <= o.bytes.operator + 1e-6 for o in run.ops)


def test_module_bytes_of_one_leaf_are_its_operator_bytes_in_inference():
    """x, weight, bias and y once: the one case in which all origins agree."""
    run = roofline.count(nn.Linear(32, 64), ROWS, machine=machine(10**9))
    by_hand = (2 * 16 * 32 + 64 * 32 + 64 + 2 * 16 * 64) * 4
    assert msgspec.structs.astuple(run.bytes) == (by_hand, None, by_hand, by_hand, by_hand, None)


def test_module_bytes_know_nothing_of_work_outside_leaves_and_can_fall_below_compulsory():
    """The product `h @ h.T` and the large result that it leaves belong to no leaf module."""

    class Gram(nn.Module):
        def __init__(self):
            super().__init__()
            self.narrow = nn.Linear(8, 2)

        def forward(self, x):
            h = self.narrow(x)
            return h @ h.T

    run = roofline.count(Gram(), torch.ones(100, 8))
    assert run.bytes.module == (100 * 8 + 2 * 8 + 2 + 100 * 2) * 4
    assert run.bytes.compulsory == (100 * 8 + 2 * 8 + 2 + 100 * 100) * 4 > run.bytes.module


def test_module_bytes_of_a_chain_lie_above_compulsory_and_below_operator():
    """Leaves hand results on through memory (above); the residual addition is no module (below)."""

    class Residual(nn.Module):
        def __init__(self):
            super().__init__()
            self.a = nn.Linear(32, 32)

        def forward(self, x):
            return x + self.a(x)

    run = roofline.count(Residual(), ROWS)
    n, weights = 2 * 16 * 32, 32 * 32 + 32
    assert run.bytes.compulsory == (2 * n + weights) * 4
    assert run.bytes.module == (2 * n + weights) * 4
    assert run.bytes.operator == (2 * n + weights + 3 * n) * 4


def test_two_working_sets_one_served_from_cache():
    """Eight passes over a vector: one that fits the cache is read once, one that does not, eight times."""
    small, large = torch.ones(50_000), torch.ones(2_000_000)

    def passes(x):
        return [x.sum() for _ in range(8)]

    cache = machine(1_000_000)
    inside, outside = roofline.count(passes, small, machine=cache), roofline.count(passes, large, machine=cache)
    results = 8 * 4
    assert inside.bytes.cached == small.nbytes + results
    assert outside.bytes.cached == 8 * large.nbytes + results == outside.bytes.operator


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "train", "low", "high"), [("resnet50", False, 62, 64), ("vit_b_16", True, 630, 700)]
)
def test_module_intensity_is_that_of_the_article(name, train, low, high):
    """ResNet-50 inference ≈ 63 FLOP/B, ViT-B/16 training ≈ 664 FLOP/B, batch 64, BF16 autocast."""
    pytest.importorskip("torchvision")
    from roofline.pipeline import count_target
    from roofline.targets import find
    from roofline.targets.options import Options

    options = Options(batch=64, train=train, precision=Precision.BF16)
    run = count_target(find(f"torchvision:{name}"), options, None)
    assert low <= run.flops.executed / run.bytes.module <= high
