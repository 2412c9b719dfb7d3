"""Kept ceilings: measured once, never trusted when damaged."""

import pytest
import torch

from roofline.clock import cache
from roofline.clock.cache import cache_file, ceilings_for, keep
from roofline.clock.ceilings import Ceilings
from roofline.core.machine import Ceiling, Machine
from roofline.core.precision import Precision

CPU = Machine(key="cpu", name="Some CPU @ 2.6 GHz", kind="cpu")


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    return tmp_path / "roofline"


@pytest.fixture
def measured(monkeypatch):
    """Count the measurements; each gives one GB/s more."""
    runs = []

    def quick(device, machine, **options):
        runs.append(device)
        return Ceilings(
            matrix={},
            vector={Precision.FP32: Ceiling(1e9, "measured")},
            bandwidth={"dram": Ceiling(len(runs) * 1e9, "measured")},
            launch_s=Ceiling(1e-6, "measured"),
            streams={},
            doubts=quick.doubts,
            measured_on="2026-01-31",
        )

    quick.doubts = ()
    monkeypatch.setattr(cache, "quick", quick)
    monkeypatch.setattr(cache, "busy_fraction", lambda: 0.0)
    return quick, runs


def test_a_machine_is_measured_once(measured, folder):
    _, runs = measured
    first = ceilings_for("cpu", CPU)
    assert ceilings_for("cpu", CPU) == first
    assert len(runs) == 1
    assert first.dram.value == 1e9
    assert [p.suffix for p in folder.iterdir()] == [".json"]


def test_refresh_measures_anew_and_keeps_it(measured):
    ceilings_for("cpu", CPU)
    assert ceilings_for("cpu", CPU, refresh=True).dram.value == 2e9
    assert ceilings_for("cpu", CPU).dram.value == 2e9


@pytest.mark.parametrize("damage", [b"", b'{"key": "cpu", "na', b"\xff\xfe", b"[]", b'{"key": 1, "name": 2}'])
def test_a_damaged_file_is_measured_anew_with_a_warning(measured, damage):
    ceilings_for("cpu", CPU)
    cache_file(CPU).write_bytes(damage)
    said = []
    assert ceilings_for("cpu", CPU, progress=said.append).dram.value == 2e9
    assert "damaged" in said[0]
    assert said[0].startswith("warning: ")


def test_ceilings_of_another_machine_under_the_same_key_are_not_taken(measured):
    ceilings_for("cpu", CPU)
    other = Machine(key="cpu", name="Another CPU", kind="cpu")
    assert ceilings_for("cpu", other).name == "Another CPU"


def test_a_machine_of_the_same_name_with_more_cores_is_another(measured):
    _, runs = measured
    ceilings_for("cpu", CPU)
    ceilings_for("cpu", Machine(key=CPU.key, name=CPU.name, kind="cpu", multiprocessors=64))
    assert len(runs) == 2


def test_kept_ceilings_of_zero_are_not_taken(measured):
    keep(Machine(key=CPU.key, name=CPU.name, kind="cpu", bandwidth={"dram": Ceiling(0.0, "measured")}))
    assert ceilings_for("cpu", CPU).dram.value == 1e9


def test_unsteady_ceilings_are_used_and_measured_anew_next_time(measured):
    quick, runs = measured
    quick.doubts = ("measured read bandwidth is unsteady",)
    said = []
    found = ceilings_for("cpu", CPU, progress=said.append)
    assert found.dram.value == 1e9
    assert "unsteady" in found.notes[-1]
    assert "measured anew" in said[-1]
    quick.doubts = ()
    assert ceilings_for("cpu", CPU).dram.value == 2e9
    assert ceilings_for("cpu", CPU).dram.value == 2e9
    assert len(runs) == 2


def test_ceilings_of_a_busy_machine_serve_until_it_is_quiet(measured, monkeypatch):
    _, runs = measured
    monkeypatch.setattr(cache, "busy_fraction", lambda: 0.7)
    ceilings_for("cpu", CPU)
    said = []
    assert ceilings_for("cpu", CPU, progress=said.append).dram.value == 1e9
    assert "doubtful (other programs keep 70.0 % of the cores busy" in said[0]
    assert len(runs) == 1
    monkeypatch.setattr(cache, "busy_fraction", lambda: 0.1)
    assert ceilings_for("cpu", CPU).dram.value == 2e9
    assert ceilings_for("cpu", CPU).dram.value == 2e9


def test_a_cache_folder_that_cannot_be_made_is_a_warning_not_an_error(measured, tmp_path, monkeypatch):
    blocked = tmp_path / "file"
    blocked.write_text("no folder")
    monkeypatch.setenv("XDG_CACHE_HOME", str(blocked))
    said = []
    assert ceilings_for("cpu", CPU, progress=said.append).dram.value == 1e9
    assert any(s.startswith("warning: ") for s in said)


def test_torch_version_and_threads_are_part_of_the_key():
    name = cache_file(CPU).name
    assert f"torch-{torch.__version__}" in name
    assert f"{torch.get_num_threads()}-threads" in name


def test_a_key_with_odd_characters_makes_a_plain_file_name(folder):
    odd = Machine(key="../intel (r) xeon/é", name="x")
    assert cache_file(odd).parent == folder
    assert "/" not in cache_file(odd).name


def test_a_full_calibration_is_what_the_next_run_takes(measured):
    _, runs = measured
    rates = {Precision.FP32: Ceiling(1e12, "measured")}
    full = Machine(key=CPU.key, name=CPU.name, kind="cpu", vector=rates, bandwidth={"dram": Ceiling(9e9, "measured")})
    keep(full)
    assert ceilings_for("cpu", CPU).dram.value == 9e9
    assert runs == []
