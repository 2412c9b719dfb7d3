"""`roofline calibrate` as a user meets it, with rates from a fake instead of a minute of measuring."""

import json
from pathlib import Path

import msgspec
import pytest

from roofline import machines
from roofline.cli.calibrate import text
from roofline.cli.main import run
from roofline.clock import ceilings, environment
from roofline.clock.ceilings import Ceilings, with_ceilings
from roofline.core.machine import Ceiling, Machine
from roofline.core.precision import Precision
from roofline.errors import RunFileError
from roofline.machines.calibration import Calibration, SweepPoint, WorkingSet, calibration
from roofline.report.calibration import render

FOUND = Ceilings(
    matrix={
        Precision.FP32: Ceiling(300e9, "measured", "GEMM"),
        Precision.BF16: Ceiling(2e12, "measured", "GEMM"),
        Precision.FP8: Ceiling(24e6, "measured", "GEMM"),
    },
    vector={Precision.FP32: Ceiling(300e9, "measured", "GEMM")},
    bandwidth={
        "l1": Ceiling(200e9, "measured"),
        "l2": Ceiling(150e9, "measured"),
        "dram": Ceiling(15e9, "measured", "best of read, copy, triad"),
    },
    launch_s=Ceiling(900e-9, "measured"),
    streams={"read": 10e9, "copy": 12e9, "triad": 15e9, "update": 20e9},
    sweep_precision="fp32",
    sweep=(SweepPoint("triad", 1 / 6, 2.4e9), SweepPoint("mm", 8.0, 108e9), SweepPoint("mm", 128.0, 270e9)),
    held_bytes=16 * 2**20,
    working_sets=(
        WorkingSet(2**20, {"read": 90e9, "write": 50e9, "copy": 80e9, "triad": 85e9, "update": 99e9}),
        WorkingSet(2**28, {"read": 10e9, "write": 6e9, "copy": 12e9, "triad": 15e9, "update": 20e9}),
    ),
    agreement={"memory bandwidth": 0.97, "l1 bandwidth": 1.0, "l2 bandwidth": 1.01, "fp32 GEMM": 1.02},
    measured_on="2026-01-31",
)


@pytest.fixture
def folder(tmp_path, monkeypatch) -> Path:
    """Nothing is measured, and the user's cache folder is a temporary one."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr(ceilings, "full", lambda *a, **k: FOUND)
    monkeypatch.setattr(ceilings, "quick", lambda *a, **k: FOUND)
    monkeypatch.setattr(environment, "busy_fraction", lambda: 0.0)
    return tmp_path


def kept(folder: Path) -> list[Path]:
    return list((folder / "cache" / "roofline").glob("*.json"))


def test_a_calibration_is_a_machine_file_with_the_same_ceilings(folder, capsys):
    path = folder / "here.json"
    assert run(["calibrate", "-o", str(path)]) == 0
    found = machines.resolve(str(path))
    assert {p: c.value for p, c in found.matrix.items()} == {p: c.value for p, c in FOUND.matrix.items()}
    assert found.dram.value == 15e9
    assert found.streams == FOUND.streams
    # The sweep is in the file too, for whoever asks for it.
    whole = msgspec.json.decode(path.read_bytes(), type=Calibration)
    assert whole.sweep == FOUND.sweep
    assert whole.agreement == FOUND.agreement
    assert whole.working_sets == FOUND.working_sets
    assert found.last_level_cache_bytes == 16 * 2**20
    capsys.readouterr()
    assert run(["devices", str(path)]) == 0
    assert "15.0 GB/s  measured" in capsys.readouterr().out


def test_a_measured_program_is_judged_by_the_calibration_file(folder, capsys):
    path = folder / "here.json"
    run(["calibrate", "-o", str(path)])
    capsys.readouterr()
    assert run(["count", "torchvision:resnet18", "--machine", str(path), "--json"]) == 0
    counted = json.loads(capsys.readouterr().out)
    # 300 GFLOP/s over 15 GB/s.
    assert counted["verdict"]["ridge_point_flops_per_byte"] == pytest.approx(20)


def test_a_doubtful_calibration_is_not_kept_for_measure(folder, monkeypatch, capsys):
    assert run(["calibrate", "--quick"]) == 0
    assert len(kept(folder)) == 1
    kept(folder)[0].unlink()
    doubtful = msgspec.structs.replace(FOUND, doubts=("fp32 GEMM rate is unsteady",))
    monkeypatch.setattr(ceilings, "quick", lambda *a, **k: doubtful)
    assert run(["calibrate", "--quick"]) == 0
    talk = capsys.readouterr().err
    assert kept(folder) == []
    assert "warning: fp32 GEMM rate is unsteady" in talk
    assert "not kept" in talk


def test_a_calibration_of_busy_cores_is_not_kept_for_measure(folder, monkeypatch, capsys):
    monkeypatch.setattr(environment, "busy_fraction", lambda: 0.5)
    assert run(["calibrate"]) == 0
    assert kept(folder) == []
    assert "other programs keep 50.0 % of the cores busy" in capsys.readouterr().err


def faster(times: float) -> Ceilings:
    return msgspec.structs.replace(
        FOUND, matrix={**FOUND.matrix, Precision.BF16: Ceiling(times * 2e12, "measured", "GEMM")}
    )


def test_a_calibration_slower_than_the_kept_one_says_so_and_does_not_replace_it(folder, monkeypatch, capsys):
    run(["calibrate"])
    monkeypatch.setattr(ceilings, "full", lambda *a, **k: faster(0.85))
    capsys.readouterr()
    assert run(["calibrate", "-o", str(folder / "here.json")]) == 0
    talk = capsys.readouterr().err
    assert "unlike the calibration of 2026-01-31 (bf16 GEMM 85.0 % of it): the machine is too noisy" in talk
    assert kept_bf16(folder) == 2e12
    # The file that was asked for carries the doubt with it.
    assert "too noisy" in json.loads((folder / "here.json").read_bytes())["notes"][-1]


def test_a_calibration_that_lacks_what_the_kept_one_has_does_not_replace_it(folder, monkeypatch, capsys):
    run(["calibrate"])
    less = {p: c for p, c in FOUND.matrix.items() if p != Precision.FP8}
    monkeypatch.setattr(ceilings, "quick", lambda *a, **k: msgspec.structs.replace(FOUND, matrix=less))
    capsys.readouterr()
    run(["calibrate", "--quick"])
    assert "(no fp8 GEMM)" in capsys.readouterr().err
    assert "fp8" in json.loads(kept(folder)[0].read_bytes())["matrix"]


@pytest.mark.parametrize(("times", "stays"), [(0.95, 2e12), (1.05, 2.1e12), (1.5, 3e12)])
def test_of_two_calibrations_the_better_ceilings_are_kept(folder, monkeypatch, capsys, times, stays):
    run(["calibrate"])
    monkeypatch.setattr(ceilings, "full", lambda *a, **k: faster(times))
    capsys.readouterr()
    run(["calibrate"])
    assert "warning" not in capsys.readouterr().err
    assert kept_bf16(folder) == pytest.approx(stays)


def kept_bf16(folder: Path) -> float:
    (path,) = kept(folder)
    return json.loads(path.read_bytes())["matrix"]["bf16"]["value"]


def test_a_picture_that_cannot_be_written_takes_neither_the_others_nor_the_screen_away(folder, monkeypatch, capsys):
    def full_disk(path, data):
        if path.suffix == ".json":
            raise RunFileError(f"can't write {path}: the disk is full", "free some space")
        path.write_bytes(data)
        return path

    monkeypatch.setattr("roofline.core.run.write_whole", full_disk)
    assert run(["calibrate", "-o", str(folder / "x.json"), "-o", str(folder / "y.svg")]) == 1
    assert (folder / "y.svg").exists()
    assert "15.0 GB/s" in capsys.readouterr().out


def test_the_screen_shows_the_sweep_the_agreement_and_fits_80_columns(folder, capsys):
    run(["calibrate"])
    out = capsys.readouterr().out
    assert "two measurements agree within 10.0 % (they differ by 3.00 % at most)" in out
    # 8 FLOP/B · 15 GB/s = 120 GFLOP/s, of which 108 were reached; 270 of 300 GFLOP/s.
    assert out.count("90.0 % of the FP32 roof") == 2
    assert "1.00 MiB   90.0 GB/s   50.0 GB/s   80.0 GB/s   85.0 GB/s" in out
    assert "a program here gets 16.0 MiB" in " ".join(out.split())
    assert max(map(len, out.splitlines())) <= 80


def test_a_noisy_machine_is_called_too_noisy(toy):
    noisy = calibration(toy, agreement={"fp32 GEMM": 1.5})
    assert "the machine is too noisy: two measurements differ by up to 33.3 %" in text(toy, noisy)


def test_what_is_sustained_is_compared_with_the_datasheet():
    card = machines.find("h100-sxm")
    measured = Ceilings(
        matrix={Precision.BF16: Ceiling(0.84 * 989.5e12, "measured")},
        vector={},
        bandwidth={"dram": Ceiling(0.9 * 3.35e12, "measured"), "pcie": Ceiling(32e9, "measured")},
        launch_s=Ceiling(2e-6, "measured"),
        streams={},
        launches_s={"round trip": 9e-6, "graph": 1.2e-6},
    )
    shown = text(card, calibration(with_ceilings(card, measured), launches_s=measured.launches_s))
    assert "bf16: sustained 84.0 % of the datasheet's 990 TFLOP/s" in shown
    assert "dram: sustained 90.0 % of the datasheet's 3.35 TB/s" in shown
    assert "pcie: sustained 50.0 % of the datasheet's 64.0 GB/s" in shown
    assert "fp8: sustained" not in shown
    assert "1.20 µs per kernel of a CUDA graph" in shown


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("x.txt", "can't write a calibration to"),
        ("nowhere/x.json", "there is no folder"),
        ("folder.json", "folder.json is a folder"),
    ],
)
def test_an_output_that_cannot_be_written_is_refused_before_the_minute_begins(
    folder, monkeypatch, capsys, name, said
):
    (folder / "folder.json").mkdir()
    monkeypatch.setattr(ceilings, "full", lambda *a, **k: pytest.fail("measured first"))
    assert run(["calibrate", "-o", str(folder / name)]) == 2
    assert said in capsys.readouterr().err


def measured_machine() -> Calibration:
    cpu = Machine(key="cpu", name="Some <CPU>", kind="cpu", multiprocessors=2, cache_bytes={"l3": 2**26})
    return calibration(
        with_ceilings(cpu, FOUND), sweep=FOUND.sweep, sweep_precision="fp32", working_sets=FOUND.working_sets
    )


def test_the_picture_has_every_roof_in_sight_and_names_what_is_out_of_it():
    drawn = render(measured_machine(), "svg").decode()
    for label in (
        "memory 15.0 GB/s",
        "L2 150 GB/s",
        "BF16 2.00 TFLOP/s",
        "FP32 300 GFLOP/s",
        "ridge point 20.0 FLOP/B",
        "L3 64.0 MiB, 16.0 MiB of it held",
        "1.00 MiB",
        "256 MiB",
    ):
        assert label in drawn
    assert "FP8 24.0 MFLOP/s" not in drawn
    assert "Too slow to be seen: FP8" in drawn
    # The two products lie 10 % under their roof, the triad on its own.
    assert drawn.count("90 %") == 2


def test_the_same_calibration_gives_the_same_picture(folder):
    assert run(["calibrate", "-o", str(folder / "x.png"), "-o", str(folder / "x.svg")]) == 0
    assert (folder / "x.png").read_bytes()[:4] == b"\x89PNG"
    assert render(measured_machine(), "svg") == render(measured_machine(), "svg")


def test_a_machine_without_a_sweep_is_drawn_by_its_ceilings():
    bare = msgspec.structs.replace(measured_machine(), sweep=(), sweep_precision="", working_sets=())
    assert "no sweep was measured" in render(bare, "svg").decode()


def test_the_machines_of_the_database_fit_80_columns(capsys):
    for names in ([], ["h100-sxm"], ["rtx-4090"]):
        assert run(["devices", *names]) == 0
        assert max(map(len, capsys.readouterr().out.splitlines())) <= 80
