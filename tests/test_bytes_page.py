"""The numbers on the page "Where bytes come from" are what the program says, and the page says what they are."""

from pathlib import Path

import pytest
import torch
import torch.nn.functional as F  # noqa: N812
from torch import nn

import roofline
from roofline.core.units import show
from test_bytes_modules import machine

PAGE = (Path(__file__).parents[1] / "docs/bytes.md").read_text(encoding="utf-8")
MIB = 2**20


def section(title: str) -> str:
    return PAGE.split(f"## {title}", 1)[1].split("\n## ", 1)[0]


def says(text: str, nbytes: float) -> None:
    assert show(nbytes, "B") in text


@pytest.fixture(scope="module")
def runs():
    model = nn.Sequential(nn.Linear(1024, 4096, bias=False), nn.ReLU(), nn.Linear(4096, 1024, bias=False))
    x = torch.empty(1024, 1024)
    on = machine(50 * MIB)
    return roofline.count(model, x, machine=on, fused=True), roofline.count(model, x, machine=on, train=True)


def test_the_running_example_has_the_numbers_of_the_table(runs):
    x, w = 1024 * 1024 * 4, 1024 * 4096 * 4
    bytes_ = runs[0].bytes
    assert bytes_.compulsory == bytes_.cached == x + 2 * w + x
    assert bytes_.operator == bytes_.module == bytes_.fused == (x + w + w) + 2 * w + (w + w + x)
    for origin in ("compulsory", "fused", "cached", "operator", "module"):
        (row,) = [line for line in PAGE.splitlines() if line.startswith(f"| `{origin}` |") and "vectors" not in line]
        says(row, getattr(bytes_, origin))
        says(section(f"`{origin}`"), getattr(bytes_, origin)) if origin != "module" else None


def test_the_training_step_has_the_numbers_of_the_page(runs):
    forward, training = runs
    assert training.bytes.module == forward.bytes.module + 2 * 2 * 1024 * 4096 * 4
    says(section("`module`"), training.bytes.module)
    says(section("`module`"), training.bytes.operator)


def test_one_column_costs_sectors():
    column = roofline.count(lambda a: a[:, 0].sum(), torch.ones(64, 32)).bytes.operator - 4
    assert column == 64 * 32
    says(section("`operator`"), column)


def test_a_working_set_larger_than_the_cache_costs_every_pass():
    text = section("`cached`")
    for n, rows in ((1_000_000, "| 4 MB |"), (100_000_000, "| 400 MB |")):
        found = roofline.count(lambda v: [v.sum() for _ in range(8)], torch.empty(n), machine=machine(50 * MIB)).bytes
        (line,) = [line for line in text.splitlines() if line.startswith(rows)]
        says(line, found.operator)
        says(line, found.cached)
        assert found.cached == pytest.approx(n * 4 * (1 if n * 4 < 50 * MIB else 8), rel=1e-4)


def test_a_fused_chain_has_the_numbers_of_the_page():
    vectors = [torch.empty(1_000_000) for _ in range(3)]
    found = roofline.count(lambda a, b, c: F.relu(a + b) * c, *vectors, fused=True).bytes
    assert (found.operator, found.fused) == (8 * 4e6, 4 * 4e6)
    says(section("`fused`"), found.operator)
    says(section("`fused`"), found.fused)


def test_module_bytes_below_compulsory_have_the_numbers_of_the_page():
    narrow = nn.Linear(8, 2)

    class Gram(nn.Module):
        def __init__(self):
            super().__init__()
            self.narrow = narrow

        def forward(self, x):
            h = self.narrow(x)
            return h @ h.T

    found = roofline.count(Gram(), torch.ones(100, 8)).bytes
    assert found.module < found.compulsory
    says(section("`module`"), found.module)
    says(section("`module`"), found.compulsory)
    says(section("`module`"), 100 * 100 * 4)
