"""The file of results: whole lines, one per case, whatever kills the sweep, and a sweep that goes on from there."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest

from roofline import machines
from roofline.cli.main import run as command_line
from roofline.clock.cache import keep
from roofline.core.machine import Ceiling, Machine
from roofline.core.precision import Precision
from roofline.errors import UsageError
from roofline.sweeps import measure
from roofline.sweeps.case import Case, Result, Where
from roofline.sweeps.drive import NextCase, drive
from roofline.sweeps.results import ResultsFile, forget, load, parse
from sweep_cases import WHERE, decode_cases, lines, op_cases

COMMAND = ["--ops", "add,gelu,sum,softmax", "--sizes", "64,128", "--machine", "a10", "--seconds", "0.01"]


def outcome(case: Case, kind: str = "ok") -> Result:
    return Result(key=case.key, case=case, outcome=kind, machine="a10")  # type: ignore[arg-type]


def pretend(kinds: dict[int, str] | None = None, ran: list[int] | None = None):  # type: ignore[no-untyped-def]
    """A runner that runs nothing: each case ends as `kinds` says of its size."""

    def runner(next_case: NextCase, where: Where) -> Iterator[Result]:
        while (case := next_case()) is not None:
            if ran is not None:
                ran.append(case.size)
            yield outcome(case, (kinds or {}).get(case.size, "ok"))

    return runner


def test_results_come_back_as_they_were_written(tmp_path: Path) -> None:
    cases = decode_cases(1, 2)
    with ResultsFile(tmp_path / "x.jsonl") as file:
        written = [outcome(case) for case in cases]
        for result in written:
            file.append(result)
    assert load(tmp_path / "x.jsonl") == (written, [])


def test_a_line_cut_short_is_dropped_and_its_case_runs_again(tmp_path: Path) -> None:
    path, cases = tmp_path / "x.jsonl", decode_cases(1, 2, 4)
    with ResultsFile(path) as file:
        drive(cases, WHERE, pretend(), file, machine="a10")
    whole = path.read_bytes()
    path.write_bytes(whole[:-20])
    ran: list[int] = []
    with ResultsFile(path) as file:
        drive(cases, WHERE, pretend(ran=ran), file, machine="a10")
    assert ran == [4]
    assert path.read_bytes() == whole


def test_a_damaged_line_in_the_middle_is_named_and_the_rest_kept(tmp_path: Path) -> None:
    path, cases = tmp_path / "x.jsonl", decode_cases(1, 2, 4)
    with ResultsFile(path) as file:
        drive(cases, WHERE, pretend(), file, machine="a10")
    first, _, last = lines(path)
    results, warnings = parse(f"{first}\n{{broken\n{last}\n".encode(), "x.jsonl")
    assert [r.case.size for r in results] == [1, 4]
    assert len(warnings) == 1 and "x.jsonl, line 2" in warnings[0]


def test_a_second_sweep_into_the_same_file_is_refused(tmp_path: Path) -> None:
    with ResultsFile(tmp_path / "x.jsonl"), pytest.raises(UsageError, match="another sweep is writing"):
        ResultsFile(tmp_path / "x.jsonl")


def test_out_of_memory_is_recorded_and_skips_larger_sizes_of_the_series_only(tmp_path: Path) -> None:
    cases = [*decode_cases(1, 2, 4, 8), *op_cases("add", size=8)]
    ran: list[int] = []
    with ResultsFile(tmp_path / "x.jsonl") as file:
        results = drive(cases, WHERE, pretend({2: "out_of_memory"}, ran), file, machine="a10")
    assert [(r.case.size, r.outcome) for r in results] == [
        (1, "ok"),
        (2, "out_of_memory"),
        (4, "skipped"),
        (8, "skipped"),
        (8, "ok"),
    ]
    assert ran == [1, 2, 8]
    assert "decode 2 ran out of memory" in results[2].why


def test_the_same_sweep_again_runs_nothing(tmp_path: Path) -> None:
    path, cases = tmp_path / "x.jsonl", decode_cases(1, 2, 4)
    for _ in range(2):
        ran: list[int] = []
        with ResultsFile(path) as file:
            drive(cases, WHERE, pretend({2: "out_of_memory"}, ran), file, machine="a10")
    assert ran == [] and len(lines(path)) == 3


def test_results_of_another_machine_don_t_count_as_done(tmp_path: Path) -> None:
    path, cases = tmp_path / "x.jsonl", decode_cases(1)
    ran: list[int] = []
    with ResultsFile(path) as file:
        drive(cases, WHERE, pretend(), file, machine="a10")
        drive(cases, WHERE, pretend(ran=ran), file, machine="h100-sxm")
    assert ran == [1]


def test_retry_drops_what_did_not_end_well(tmp_path: Path) -> None:
    path, cases = tmp_path / "x.jsonl", decode_cases(1, 2, 4)
    with ResultsFile(path) as file:
        drive(cases, WHERE, pretend({2: "out_of_memory"}), file, machine="a10")
    assert forget(path, ("out_of_memory", "skipped")) == 2
    assert [r.case.size for r in load(path)[0]] == [1]
    assert forget(tmp_path / "none.jsonl", ("failed",)) == 0


def test_a_case_that_can_t_fit_is_out_of_memory_before_it_is_tried(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("roofline.clock.memory.available_bytes", lambda device: 10_000)
    result = measure.measure_case(decode_cases(1)[0], WHERE)
    assert result.outcome == "out_of_memory" and result.run is None
    assert "it needs about" in result.why and result.environment["device"] == "cpu"


def test_torch_s_own_out_of_memory_is_an_outcome(monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*args: object, **named: object) -> None:
        raise RuntimeError("DefaultCPUAllocator: can't allocate memory: you tried to allocate 1 byte")

    monkeypatch.setattr("roofline.clock.stopwatch.time_step", full)
    result = measure.measure_case(op_cases("add", size=8)[0], WHERE)
    assert result.outcome == "out_of_memory" and "can't allocate memory" in result.why


def test_a_case_that_fails_is_recorded_and_the_next_one_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from roofline.runners.local import run_cases
    from roofline.sweeps import mlp

    def broken(sizes: mlp.Mlp, precision: object, device: str) -> object:
        raise ValueError("the weights are gone")

    monkeypatch.setattr(mlp, "build", broken)
    cases = [*decode_cases(1), *op_cases("add", size=8)]
    with ResultsFile(tmp_path / "x.jsonl") as file:
        results = drive(cases, WHERE, run_cases, file, machine="a10")
    assert [r.outcome for r in results] == ["failed", "ok"]
    assert "ValueError: the weights are gone" in results[0].why


def test_each_point_is_a_judged_run_of_its_case(tmp_path: Path) -> None:
    result = measure.measure_case(op_cases("gemm", size=64)[0], WHERE)
    run = result.run
    assert run is not None and run.kind == "measured" and run.verdict is not None
    assert run.flops.executed == 2 * 64**3
    assert run.workload["sweep"] == "ops" and run.workload["case"] == result.key
    assert result.machine == "a10" and result.environment["packages"]["torch"]
    assert len(run.timing.samples_s) >= 2


def test_kill_9_in_the_middle_then_the_same_command_gives_every_case_once(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "x.jsonl"
    command = [sys.executable, "-m", "roofline.cli.main", "sweep", "ops", *COMMAND, "--results", str(path)]
    victim = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        while victim.poll() is None and (not path.exists() or len(lines(path)) < 2):
            time.sleep(0.01)
    finally:
        os.kill(victim.pid, signal.SIGKILL)
        victim.wait()
    before = lines(path)
    assert 2 <= len(before) <= 8
    assert command_line(["sweep", "ops", *COMMAND, "--results", str(path), "--json"]) == 0
    printed = capsys.readouterr()
    after = lines(path)
    assert after[: len(before) - 1] == before[:-1]
    keys = [json.loads(line)["key"] for line in after]
    assert len(keys) == 8 == len(set(keys))
    assert len(json.loads(printed.out)["points"]) == 8
    assert "of them done already" in printed.err


def calibrated(dram: float) -> Machine:
    """This machine, with ceilings as a calibration at some moment may find them."""
    found = machines.detect("cpu")
    rates = {Precision.FP32: Ceiling(1e12, "measured"), Precision.BF16: Ceiling(1e12, "measured")}
    return msgspec.structs.replace(found, bandwidth={"dram": Ceiling(dram, "measured")}, matrix=rates, vector=rates)


def test_a_sweep_that_goes_on_keeps_its_roof_unless_another_is_asked_for(
    nothing_kept: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def ridges(*more: str) -> list[float]:
        command = ["sweep", "ops", "--ops", "gemm", "--precision", "fp32", "--seconds", "0.01", "--json", *more]
        assert command_line(command) == 0
        found = json.loads(capsys.readouterr().out)
        return [p["ridge_point_flops_per_byte"] for p in found["points"]]

    keep(calibrated(100e9))
    assert ridges("--sizes", "32") == [10.0]
    # Ceilings measured later, on a busier machine, say.
    keep(calibrated(50e9))
    assert ridges("--sizes", "32,64") == [10.0, 10.0]
    Path("other.json").write_bytes(msgspec.json.encode(calibrated(50e9)))
    assert ridges("--sizes", "32,64", "--machine", "other.json") == [20.0, 20.0]


def test_a_dry_run_predicts_and_runs_nothing(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert command_line(["sweep", "decode", "--machine", "a10", "--dry-run", "--scale", "article"]) == 0
    printed = capsys.readouterr().out
    assert "decode/decode/128" in printed and "10 cases" in printed and "4.96 ms" in printed
    assert list(tmp_path.iterdir()) == []


@pytest.fixture
def nothing_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A cache folder without ceilings, and a calibration that must not begin."""

    def measured(*args: object, **named: object) -> None:
        raise AssertionError("a dry run measures nothing")

    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr("roofline.clock.cache.quick", measured)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_a_dry_run_without_kept_ceilings_predicts_no_times_and_says_how_to_get_them(
    nothing_kept: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert command_line(["sweep", "decode", "--dry-run", "--params", "20000"]) == 0
    printed = capsys.readouterr().out
    assert "decode/decode/512" in printed and "7 cases; nothing was run" in printed
    assert "no ceilings of this machine are kept" in printed and "roofline calibrate" in printed
    assert "min here" not in printed and "n/a" not in printed


def test_a_dry_run_takes_the_ceilings_that_are_kept(nothing_kept: Path, capsys: pytest.CaptureFixture[str]) -> None:
    bandwidth, peak = Ceiling(100e9, "measured"), Ceiling(1e12, "measured")
    rates = {Precision.FP32: peak, Precision.BF16: peak}
    own = machines.detect("cpu")
    keep(msgspec.structs.replace(own, bandwidth={"dram": bandwidth}, matrix=rates, vector={Precision.FP32: peak}))
    command = ["sweep", "ops", "--ops", "add", "--sizes", "1000000", "--precision", "fp32", "--dry-run", "--json"]
    assert command_line(command) == 0
    document = json.loads(capsys.readouterr().out)
    (point,) = document["points"]
    # Two tensors are read and one is written: 3 · 4 MB at 100 GB/s.
    assert point["step_s"] == pytest.approx(12e6 / 100e9) and point["bound"] == "memory"
    assert not point["timed"] and point["outcome"] is None
    assert document["cost_s"] == point["cost_s"] > 1


def test_a_dry_run_as_json_is_one_document_with_the_keys_of_a_sweep(
    nothing_kept: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert command_line(["sweep", "decode", "--dry-run", "--json", "--batches", "1,2"]) == 0
    plan = json.loads(capsys.readouterr().out)
    assert command_line(["sweep", "decode", "--predict", "a10", "--json", "--batches", "1,2"]) == 0
    sweep = json.loads(capsys.readouterr().out)
    assert set(sweep) <= set(plan) and set(sweep["points"][0]) <= set(plan["points"][0])
    assert plan["dry_run"] and plan["machine"] is None and plan["cost_s"] is None
    assert [(p["size"], p["step_s"]) for p in plan["points"]] == [(1, None), (2, None)]
    assert "roofline calibrate" in plan["warnings"][0]


def test_ctrl_c_says_how_to_go_on(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(case: Case, where: Where) -> Result:
        if case.series == "gelu":
            raise KeyboardInterrupt
        return outcome(case)

    monkeypatch.setattr("roofline.runners.local.measure_case", interrupted)
    path = tmp_path / "x.jsonl"
    assert command_line(["sweep", "ops", *COMMAND, "--results", str(path)]) == 130
    said = capsys.readouterr().err
    assert "interrupted; 2 of 8 cases are in" in said and "the same command goes on" in said
    assert len(lines(path)) == 2


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["decode", "--predict", "a100"], "ambiguous|several|more than one"),
        (["decode", "--predict", "a10", "--machine", "a10"], "two machines"),
        (["decode", "--predict", "a10", "--batches", "0"], "no list of whole numbers"),
        (["ops", "--predict", "a10", "--ops", "gem"], 'no op "gem"'),
        (["decode", "--predict", "a10", "-o", "x.gif"], "a sweep is written as"),
        (["vision", "--predict", "a10", "--modes", "sleep"], 'unknown mode "sleep"'),
        (["decode", "--predict", "a10", "--params", "2000", "--precision", "fp8"], "fp8"),
        (["decod"], 'no sweep "decod"\nhint: did you mean: decode'),
        (["nope"], 'no sweep "nope"\nhint: sweeps: ops, decode, train, vision'),
    ],
)
def test_bad_input_is_one_clear_line(arguments: list[str], said: str, capsys: pytest.CaptureFixture[str]) -> None:
    import re

    assert command_line(["sweep", *arguments]) == 2
    printed = capsys.readouterr().err
    assert re.search(said, printed), printed
    assert "Traceback" not in printed


def test_a_sweep_without_a_name_prints_help_and_no_error(capsys: pytest.CaptureFixture[str]) -> None:
    assert command_line(["sweep"]) == 2
    printed = capsys.readouterr().err
    assert "decode" in printed and "error" not in printed
