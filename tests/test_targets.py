"""Targets from a user's file: where a fault is, modules without data, torch's defaults left as they were."""

import json
from pathlib import Path

import pytest
import torch

import roofline
from report_runs import CPU
from roofline.cli.main import run
from roofline.errors import UsageError

META = """
import torch
from torch import nn

class Two(nn.Module):
    def __init__(self):
        super().__init__()
        self.first = nn.Linear(16, 32)
        self.second = nn.Linear(16, 32)
        self.second.weight = self.first.weight

    def forward(self, x):
        return self.first(x) + self.second(x)

def tied():
    with torch.device("meta"):
        module = Two()
    return module, torch.randn(8, 16)

def explicit():
    return nn.Linear(16, 32, device="meta"), torch.randn(8, 16, device="meta")

def default():
    torch.set_default_device("meta")
    torch.set_default_dtype(torch.float64)
    return nn.Linear(16, 32), torch.randn(8, 16)

def step():
    w = torch.randn(8, 16, device="meta")
    return lambda: w @ w.T

def fails():
    torch.set_default_device("meta")
    torch.set_default_dtype(torch.float64)
    raise ValueError("gone")
"""


@pytest.fixture
def meta(tmp_path: Path) -> str:
    (tmp_path / "factories.py").write_text(META)
    return str(tmp_path / "factories.py")


def counted(capsys: pytest.CaptureFixture[str], *arguments: str) -> dict:
    assert run(["count", *arguments, "--machine", "a10", "--json"]) == 0
    return json.loads(capsys.readouterr().out)


@pytest.mark.parametrize(("name", "item"), [("explicit", 4), ("default", 8)])
def test_a_module_on_the_meta_device_is_counted_as_if_it_were_on_the_cpu(
    meta: str, name: str, item: int, capsys: pytest.CaptureFixture[str]
) -> None:
    found = counted(capsys, f"{meta}:{name}")
    assert found["flops"]["executed"] == 2 * 8 * 16 * 32
    # Weight, bias, input, output.
    assert found["bytes"]["compulsory"] == item * (16 * 32 + 32 + 8 * 16 + 8 * 32)
    trained = counted(capsys, f"{meta}:{name}", "--train", "--optimizer", "sgd")
    # Forward and the weights' gradient; the input wants none.
    assert trained["flops"]["executed"] == 2 * 2 * 8 * 16 * 32


def test_tied_weights_on_the_meta_device_stay_tied(meta: str, capsys: pytest.CaptureFixture[str]) -> None:
    found = counted(capsys, f"{meta}:tied")
    # One weight, two biases, input, output.
    assert found["bytes"]["compulsory"] == 4 * (16 * 32 + 2 * 32 + 8 * 16 + 8 * 32)


@pytest.mark.parametrize("name", ["explicit", "default", "tied", "step"])
def test_a_program_without_data_is_not_measured(
    meta: str, name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    machine = tmp_path / "cpu.json"
    machine.write_text(json.dumps({"key": "cpu", "name": "CPU", "kind": "cpu", **CEILINGS}))
    assert run(["measure", f"{meta}:{name}", "--seconds", "0.1", "--machine", str(machine)]) == 2
    said = [line for line in capsys.readouterr().err.splitlines() if line.startswith(("error: ", "hint: "))]
    assert said[0].endswith("is on the meta device, which has no data to run")
    assert "roofline count" in said[1]


def test_a_meta_module_in_hand_is_counted_and_not_measured() -> None:
    module, x = torch.nn.Linear(16, 32, device="meta"), torch.randn(8, 16, device="meta")
    assert roofline.count(module, x).flops.executed == 2 * 8 * 16 * 32
    with pytest.raises(UsageError, match="no data"):
        roofline.measure(module, x, machine=CPU, seconds=0.1)


@pytest.mark.parametrize("name", ["default", "fails"])
def test_defaults_that_a_factory_sets_are_put_back(meta: str, name: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["count", f"{meta}:{name}", "--machine", "a10"]) == (1 if name == "fails" else 0)
    assert torch.get_default_dtype() == torch.float32
    assert torch.get_default_device() == torch.device("cpu")
    assert torch.empty(1).device.type == "cpu"


@pytest.mark.parametrize(
    ("files", "said"),
    [
        ({"mine.py": "import torch\n\ndef make(:\n"}, "(mine.py, line 3)"),
        ({"mine.py": "\nimport other\n", "other.py": "x = (\n"}, "(other.py, line 1)"),
        ({"mine.py": "\nimport failing\n", "failing.py": "\n\n1 / 0\n"}, "(failing.py, line 3)"),
    ],
)
def test_the_place_of_a_fault_in_a_file_is_named_once(
    files: dict[str, str], said: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for name, text in files.items():
        (tmp_path / name).write_text(text)
    assert run(["count", f"{tmp_path}/mine.py:make", "--machine", "a10"]) == 1
    error = capsys.readouterr().err.splitlines()[0]
    assert error.endswith(said) and error.count("line") == 1


@pytest.mark.slow
def test_fused_bytes_of_a_measured_training_step_are_those_that_are_counted(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "mine.py").write_text(
        "import torch\n\ndef make():\n    return torch.nn.Linear(16, 32), torch.randn(8, 16)\n"
    )
    machine = tmp_path / "cpu.json"
    machine.write_text(json.dumps({"key": "cpu", "name": "CPU", "kind": "cpu", **CEILINGS}))
    asked = [f"{tmp_path}/mine.py:make", "--compile", "--train", "--machine", str(machine), "--json"]
    found = []
    for command in (["count", *asked], ["measure", *asked, "--seconds", "0.1"]):
        assert run(command) == 0
        found.append(json.loads(capsys.readouterr().out)["bytes"]["fused"])
    # The loss, eager beside the graph: it reads the output and writes its mean; backward writes the gradient of both.
    graph = 4 * ((16 * 32 + 32 + 8 * 16 + 8 * 32) + (8 * 32 + 8 * 16 + 16 * 32 + 32))
    assert found[0] == found[1] >= graph + 4 * 2 * 8 * 32


CEILINGS = {
    "matrix": {"fp32": {"value": 1e11, "origin": "given"}, "fp64": {"value": 1e11, "origin": "given"}},
    "vector": {"fp32": {"value": 1e11, "origin": "given"}},
    "bandwidth": {"dram": {"value": 1e10, "origin": "given"}},
}
