"""The command line: what a user types, what comes back, and one clear line when it can't be done."""

import json
import shlex
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from report_runs import resnet
from roofline import report
from roofline.cli.main import run
from roofline.errors import RunFileError


def outcome(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str, str]:
    code = run(list(arguments))
    printed = capsys.readouterr()
    return code, printed.out, printed.err


def modules_after(*arguments: str) -> set[str]:
    """Modules that are loaded after a command has run in a fresh process."""
    script = "import sys, contextlib, io\nfrom roofline.cli.main import run\n"
    script += f"with contextlib.redirect_stdout(io.StringIO()):\n    code = run({list(arguments)!r})\n"
    script += "print(code, *sys.modules)"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    code, *names = done.stdout.split()
    assert code == "0", done.stderr
    return set(names)


@pytest.mark.parametrize("arguments", [["--help"], ["devices", "h100-sxm"], ["devices"], ["schema"]], ids=" ".join)
def test_help_and_devices_load_nothing_heavy(arguments: list[str]) -> None:
    loaded = modules_after(*arguments)
    assert not {"torch", "numpy", "matplotlib", "plotly", "jinja2", "torchvision", "transformers"} & loaded


def test_importing_roofline_loads_no_torch() -> None:
    done = subprocess.run(
        [sys.executable, "-c", "import roofline, sys; print('torch' in sys.modules, 'numpy' in sys.modules)"],
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.split() == ["False", "False"]


def test_reporting_a_saved_run_needs_no_torch(tmp_path: Path) -> None:
    saved = resnet().save(tmp_path / "run.json")
    assert "torch" not in modules_after("report", str(saved), "-o", str(tmp_path / "x.html"))
    assert (tmp_path / "x.html").stat().st_size > 1_000_000


@pytest.mark.parametrize("suffix", [".html", ".png", ".svg", ".md", ".json"])
def test_a_saved_run_is_written_in_every_format(
    suffix: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    saved = resnet().save(tmp_path / "run.json")
    output = tmp_path / f"x{suffix}"
    code, _, talk = outcome(capsys, "report", str(saved), "-o", str(output))
    assert code == 0 and output.stat().st_size > 500
    assert f"wrote {output}" in talk


@pytest.mark.parametrize("command", [["report", "{run}"], ["plan", "llama-3.1-8b", "--machine", "h100-sxm"]])
def test_several_outputs_are_all_written(
    command: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    saved = resnet().save(tmp_path / "run.json")
    wanted = [tmp_path / "x.md", tmp_path / "y.svg"]
    code, _, talk = outcome(
        capsys, *(a.replace("{run}", str(saved)) for a in command), "-o", str(wanted[0]), "-o", str(wanted[1])
    )
    assert code == 0 and all(f"wrote {path}" in talk and path.stat().st_size > 500 for path in wanted)


def test_an_output_that_fails_keeps_no_other_from_being_written(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(run: object) -> bytes:
        raise RunFileError("the disk is full", "free some space")

    saved = resnet().save(tmp_path / "run.json")
    monkeypatch.setitem(report._FORMATS, ".svg", fail)
    code, out, talk = outcome(
        capsys, "report", str(saved), "-o", str(tmp_path / "x.svg"), "-o", str(tmp_path / "y.md")
    )
    assert code == 1 and "error: the disk is full" in talk
    assert "Memory-bound" in out and (tmp_path / "y.md").exists() and not (tmp_path / "x.svg").exists()


def test_the_json_of_devices_keeps_the_contract(capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = outcome(capsys, "devices", "h100-sxm", "--json")
    (device,) = json.loads(out)["devices"]
    assert code == 0
    assert device["bandwidth_bytes_per_s"]["dram"] == 3.35e12
    # NVIDIA's H100 datasheet: 1979 TFLOP/s BF16 with sparsity, half of it dense.
    assert device["dense_flops_per_s"]["matrix"]["bf16"] == pytest.approx(1979e12 / 2, rel=0.001)
    assert device["ridge_point_flops_per_byte"]["bf16"] == pytest.approx(295, abs=1)
    assert {"name", "vendor", "aliases", "memory_bytes", "source", "read_on"} <= device.keys()


@pytest.mark.parametrize(
    ("name", "precision", "ridge"),
    [
        ("a100-sxm-80gb", "bf16", 153),
        ("h100-sxm", "bf16", 295),
        ("h100-sxm", "fp8", 591),
        ("v100-sxm2-16gb", "fp16", 139),
        ("a10", "bf16", 208),
        ("a10g", "bf16", 117),
    ],
)
def test_ridge_points_are_those_of_the_datasheets(
    name: str, precision: str, ridge: int, capsys: pytest.CaptureFixture[str]
) -> None:
    _, out, _ = outcome(capsys, "devices", name, "--json")
    assert json.loads(out)["devices"][0]["ridge_point_flops_per_byte"][precision] == pytest.approx(ridge, abs=1)


FACTORY = """
import torch

def module(batch=2):
    return torch.nn.Linear(16, 32), torch.randn(batch, 16)

def step():
    a = torch.randn(8, 8)
    return lambda: a @ a

def raises():
    raise ValueError("the weights are gone")

def infinite():
    return torch.nn.Linear(16, 32), torch.randn(2, 15)

def huge():
    return torch.nn.Linear(8, 8), torch.empty(1 << 46, 8)

def nothing():
    return None

def alone():
    return torch.nn.Linear(8, 8)

def interrupted():
    raise KeyboardInterrupt

def exits():
    raise SystemExit(3)

def idle():
    return lambda: None

def prints(batch=2):
    import os
    os.system("echo from a child")
    print("from Python")
    return module(batch)
"""


@pytest.fixture
def factory(tmp_path: Path) -> str:
    (tmp_path / "mine.py").write_text(FACTORY)
    return str(tmp_path / "mine.py")


def test_counting_a_factory_for_a_machine_of_the_database(factory: str, capsys: pytest.CaptureFixture[str]) -> None:
    code, out, talk = outcome(capsys, "count", f"{factory}:module", "--machine", "toaster-9000")
    assert code == 2 and out == ""
    code, out, talk = outcome(capsys, "count", f"{factory}:module", "--machine", "a100-sxm-80gb", "--json")
    counted = json.loads(out)
    assert code == 0 and "counting" in talk
    assert counted["kind"] == "counted" and counted["timing"] is None and counted["time_budget"] is None
    assert counted["flops"]["executed"] == 2 * 2 * 16 * 32
    # FP32 weights, bias, input and output once each.
    assert counted["bytes"]["compulsory"] == counted["bytes"]["operator"] == 4 * (16 * 32 + 32 + 2 * 16 + 2 * 32)


def test_a_step_is_counted_too(factory: str, capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = outcome(capsys, "count", f"{factory}:step", "--machine", "h100-sxm", "--json")
    assert code == 0 and json.loads(out)["flops"]["executed"] == 2 * 8**3


def test_the_head_says_what_ran_but_of_a_step_which_decides_itself(
    factory: str, capsys: pytest.CaptureFixture[str]
) -> None:
    heads = {}
    for name, *more in (("module",), ("module", "--train"), ("step",)):
        code, out, _ = outcome(capsys, "count", f"{factory}:{name}", "--machine", "a10", *more)
        heads[name, *more] = " ".join(out.split()).split(" bound")[0]
        assert code == 0
    assert "· inference ·" in heads["module",]
    assert "· training ·" in heads["module", "--train"]
    assert "inference" not in heads["step",] and "training" not in heads["step",]


def test_peaks_given_by_hand_override_the_database(factory: str, capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ["count", f"{factory}:module", "--machine", "a100-sxm-80gb", "--precision", "bf16"]
    _, out, _ = outcome(capsys, *arguments, "--peak-flops", "100 TFLOP/s", "--peak-bandwidth", "1 TB/s", "--json")
    counted = json.loads(out)
    assert counted["verdict"]["ridge_point_flops_per_byte"] == 100
    assert counted["machine"]["bandwidth"]["dram"]["origin"] == "given"
    _, out, _ = outcome(capsys, *arguments[:4], "--peak-flops", "fp32=10 TFLOP/s", "--json")
    assert json.loads(out)["machine"]["matrix"]["fp32"] == {
        "value": 10e12,
        "origin": "given",
        "source": "--peak-flops",
    }


@pytest.mark.parametrize(
    ("arguments", "code", "message", "hint"),
    [
        (["measure", "resnet50"], 2, 'unknown target "resnet50"', "torchvision:resnet50"),
        (["measure", "torchvision:resnet5"], 2, 'torchvision has no model "resnet5"', "resnet50"),
        (["count", "none.py:make", "--machine", "a10"], 2, "there is no file none.py", "path/to/file.py:factory"),
        (["count", "{factory}:modul", "--machine", "a10"], 2, 'has no function "modul"', "module"),
        (["count", "{factory}:raises", "--machine", "a10"], 1, "the weights are gone", "--debug"),
        (["count", "{factory}:nothing", "--machine", "a10"], 2, "returned NoneType", "a factory returns"),
        (["count", "{factory}:alone", "--machine", "a10"], 2, "a module without inputs", "a factory returns"),
        (["count", "{factory}:infinite", "--machine", "a10"], 1, "15", "--debug"),
        (["measure", "{factory}:huge", "--machine", "a10"], 1, "ran out of memory", "smaller --batch"),
        (["count", "{factory}:module", "--machine", "H100"], 2, "ambiguous", "h100-sxm"),
        (["count", "{factory}:module", "--machine", "NVIDIA H1000"], 2, "NVIDIA H1000", "--peak-flops"),
        (["count", "{factory}:module", "--machine", "a10", "--peak-flops", "fast"], 2, "not a quantity", "--help"),
        (["count", "{factory}:module", "--machine", "a10", "--peak-flops", "0"], 2, "above 0", "--help"),
        (
            ["count", "{factory}:module", "--machine", "a10", "--peak-flops", "1e12"],
            2,
            "needs the precision",
            "bf16=",
        ),
        (["count", "{factory}:module", "--machine", "a10", "--peak-flops", "half=1e12"], 2, "no precision", "--help"),
        (["count", "{factory}:module", "--machine", "a10", "--batch", "0"], 2, "0 is not in the range", "--help"),
        (["count", "{factory}:module", "--machine", "a10", "--optimizer", "adamw"], 2, "needs --train", "--train"),
        (["count", "{factory}:step", "--machine", "a10", "--train"], 2, "need a module", "the factory's step"),
        (["count", "{factory}:module", "--machine", "a10", "-o", "x.pdf"], 2, "x.pdf", ".html"),
        (["count", "{factory}:module", "--machine", "a10", "-o", "no/where/x.html"], 2, "no folder", "-o"),
        (["count", "{factory}:module", "--machine", "a10", "--bytes", "fused"], 2, 'no "fused" bytes', "--compile"),
        (["measure", "{factory}:module", "--bytes", "fused"], 2, 'no "fused" bytes', "--compile"),
        (["measure", "{factory}:module", "--bytes", "measured"], 2, 'no "measured" bytes', "another --bytes"),
        (["count", "{factory}:module", "--machine", "x.json", "-o", "x.json"], 2, "would be written over", "-o"),
        (["plan", ".", "--machine", "a10", "-o", "config.json"], 2, "would be written over", "-o"),
        (["plan", "config.json", "--machine", "a10", "-o", "./config.json"], 2, "would be written over", "-o"),
        (["measure", "{factory}:module", "--device", "toaster"], 2, "toaster", "cpu"),
        (["count", "{factory}:exits", "--machine", "a10"], 1, "SystemExit", "--debug"),
        (["count", "{factory}:idle", "--machine", "a10"], 1, "ran no op of torch", "out of sight"),
        (["count", "{factory}:module", "--machine", ""], 2, 'unknown machine ""', "roofline devices"),
        (["count", "{factory}:module", "--machine", "a10", "--tokens", "9"], 2, "takes no tokens", "--tokens"),
        (["count", "torchvision:resnet18", "--machine", "a10", "--tokens", "9"], 2, "models of text", "leave it out"),
        (["count", "{factory}:module", "--machine", "a10", "-o", "{folder}/x.html"], 2, "is a folder", "-o"),
        (["measure", "{factory}:module", "--machine", "a10", "--seconds", "nan"], 2, "no time", "--seconds 10"),
        (
            ["count", "{factory}:module", "--machine", "a\x1b[31m"],
            2,
            "a\N{REPLACEMENT CHARACTER}[31m",
            "roofline devices",
        ),
        (["report", "none.json"], 1, "can't read none.json", "saved Run"),
        (["report", "{factory}"], 1, "damaged or truncated", "roofline measure"),
        (["mesure"], 2, 'no command "mesure"', "measure"),
        (["measure"], 2, "Missing argument", "--help"),
        (["count", "transformers:none.json"], 2, "can't read none.json", "config.json"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else None,
)
def test_bad_input_gets_one_line_and_a_hint(
    arguments: list[str], code: int, message: str, hint: str, factory: str, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = Path(factory).parent
    (folder / "x.html").mkdir()
    done, out, talk = outcome(
        capsys, *(a.replace("{factory}", factory).replace("{folder}", str(folder)) for a in arguments)
    )
    errors = [line for line in talk.splitlines() if line.startswith("error: ")]
    assert (done, out) == (code, "")
    assert len(errors) == 1 and message in errors[0]
    assert hint in talk.split("hint: ")[1]
    assert "Traceback" not in talk


LONG = "9" * 5000


@pytest.mark.parametrize(
    "arguments",
    [
        ["plan", LONG, "--machine", "h100-sxm"],
        ["plan", "llama-3-8b", "--machine", LONG],
        ["plan", "llama-3-8b", "--machine", "h100-sxm", "--batch", LONG],
        ["plan", "llama-3-8b", "--machine", "h100-sxm", "--weights", f"int4-g{LONG}"],
        ["plan", "llama-3-8b", "--machine", "h100-sxm", "--peak-bandwidth", "1e308"],
        ["audit", "llama-3-8b", "--machine", "h100-sxm", "--sequence", "2048", "--tokens-per-s", "1e308"],
        [
            "audit",
            "llama-3-8b",
            "--machine",
            "h100-sxm",
            "--mfu",
            "40%",
            "--tokens-per-s",
            "9",
            "--devices",
            "9" * 400,
        ],
        ["audit", "llama-3-8b", "--machine", "h100-sxm", "--mfu", "40%", "--lora-params", "1e308"],
        ["devices", LONG],
        ["report", LONG],
        ["report", "{run}", "-o", f"{LONG}.html"],
        ["count", f"{LONG}.py:f", "--machine", "a10"],
        ["count", f"transformers:{LONG}", "--machine", "a10"],
        [LONG],
    ],
    ids=lambda arguments: " ".join(a[:20] for a in arguments),
)
def test_figures_and_names_without_end_are_one_line_that_has_one(
    arguments: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    saved = resnet().save(tmp_path / "run.json")
    code, out, talk = outcome(capsys, *(a.replace("{run}", str(saved)) for a in arguments))
    error, *rest = talk.splitlines()
    assert code in (1, 2) and out == ""
    assert error.startswith("error: ") and "OverflowError" not in error and "OSError" not in error
    assert len(rest) == 1 and rest[0].startswith("hint: ")
    assert len(error) < 700


def test_debug_shows_the_traceback(factory: str, capsys: pytest.CaptureFixture[str]) -> None:
    code, _, talk = outcome(capsys, "count", f"{factory}:raises", "--machine", "a10", "--debug")
    assert code == 1 and "Traceback" in talk and "the weights are gone" in talk


def test_ctrl_c_is_one_line(factory: str, capsys: pytest.CaptureFixture[str]) -> None:
    code, out, talk = outcome(capsys, "count", f"{factory}:interrupted", "--machine", "a10")
    assert (code, out) == (1, "") and "error: interrupted" in talk and "Traceback" not in talk


def test_a_real_interrupt_while_timing_leaves_no_file(factory: str, tmp_path: Path) -> None:
    machine, output = tmp_path / "cpu.json", tmp_path / "run.json"
    machine.write_text(json.dumps(CPU))
    command = [sys.executable, "-m", "roofline.cli.main", "measure", f"{factory}:module", "--seconds", "60"]
    command += ["--machine", str(machine), "-o", str(output)]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True, start_new_session=True) as measuring:
        assert measuring.stderr is not None
        talk = next(line for line in measuring.stderr if line.startswith("3/5"))
        measuring.send_signal(signal.SIGINT)
        talk += measuring.stderr.read()
    assert measuring.returncode == 1
    assert "error: interrupted" in talk and "Traceback" not in talk
    assert not output.exists()


def test_what_the_program_prints_does_not_reach_stdout(factory: str) -> None:
    command = [sys.executable, "-m", "roofline.cli.main", "count", f"{factory}:prints", "--machine", "a10", "--json"]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert json.loads(done.stdout)["flops"]["executed"] == 2 * 2 * 16 * 32
    assert "from a child" in done.stderr and "from Python" in done.stderr


def test_a_terminal_without_unicode_gets_question_marks_and_no_error(tmp_path: Path) -> None:
    saved = resnet().save(tmp_path / "run.json")
    command = [sys.executable, "-m", "roofline.cli.main", "report", str(saved)]
    done = subprocess.run(command, capture_output=True, check=True, env={"PYTHONIOENCODING": "ascii"})
    assert b"Memory-bound" in done.stdout


PLAN = ["plan", "llama-3.1-8b", "--machine", "h100-sxm"]
CLAIM = ["audit", "--machine", "h200-sxm", "--flops-per-s", "420 TFLOP/s", "--mfu", "84.9%"]


@pytest.mark.parametrize(
    ("arguments", "code", "way"),
    [
        (["report", "{run}", "-o", "{folder}/x.md"], 0, "| true"),
        (["report", "{run}", "-o", "{folder}/x.md", "--json"], 0, ">&-"),
        ([*PLAN, "-o", "{folder}/x.md"], 0, "| true"),
        ([*PLAN, "-o", "{folder}/x.md", "--json", "--itl", "1 ns"], 3, "| true"),
        ([*PLAN, "--json"], 0, ">&-"),
        (["devices", "--json"], 0, "| true"),
        (["schema"], 0, ">&-"),
        (CLAIM, 0, "| true"),
        (["plan", "--help"], 0, "| true"),
    ],
)
def test_a_reader_who_does_not_read_on_is_no_error(arguments: list[str], code: int, way: str, tmp_path: Path) -> None:
    saved = resnet().save(tmp_path / "run.json")
    filled = [a.replace("{run}", str(saved)).replace("{folder}", str(tmp_path)) for a in arguments]
    command = shlex.join([sys.executable, "-m", "roofline.cli.main", *filled])
    # The pipe's reader is gone before anything is written.
    script = f"(sleep 0.1; {command}; echo $? >&2) {way}"
    done = subprocess.run(["bash", "-c", script], capture_output=True, text=True, check=False)
    *talk, last = done.stderr.splitlines()
    assert int(last) == code
    assert [line for line in talk if not line.startswith("wrote ")] == []
    assert (tmp_path / "x.md").exists() == ("-o" in arguments)


@pytest.mark.parametrize("width", [60, 80, 100])
@pytest.mark.parametrize("arguments", [["report", "{run}"], ["devices", "mi300x"], CLAIM, ["audit", "{claim}"]])
def test_every_screen_is_as_wide_as_columns_says(
    arguments: list[str], width: int, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: Any
) -> None:
    saved = resnet().save(tmp_path / "run.json")
    monkeypatch.setenv("COLUMNS", str(width))
    claim = ["llama-3.1-8b", "--machine", "h100-sxm", "--sequence", "8192", "--tokens-per-s", "10k", "--mfu", "45%"]
    filled = [str(saved) if a == "{run}" else a for a in arguments if a != "{claim}"]
    code, out, _ = outcome(capsys, *filled, *(claim if "{claim}" in arguments else []))
    widest = max(map(len, out.splitlines()))
    assert code == 0
    # Rows of numbers are not cut; prose uses the room that there is.
    assert widest <= max(width, 65)
    assert widest > 60 or widest > width - 20


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs the disk that is always full")
@pytest.mark.parametrize("arguments", [["report", "{run}"], PLAN, ["schema"]])
def test_a_full_disk_is_one_line(arguments: list[str], tmp_path: Path) -> None:
    saved = resnet().save(tmp_path / "run.json")
    command = [sys.executable, "-m", "roofline.cli.main", *(a.replace("{run}", str(saved)) for a in arguments)]
    with Path("/dev/full").open("w") as full:
        done = subprocess.run(command, stdout=full, stderr=subprocess.PIPE, text=True, check=False)
    assert done.returncode == 1
    assert done.stderr.startswith("error: can't write the result: ") and done.stderr.count("\n") == 2


def test_a_closed_stderr_leaves_stdout_alone() -> None:
    command = shlex.join([sys.executable, "-m", "roofline.cli.main", "devices", "no-such-machine"])
    done = subprocess.run(["bash", "-c", f"{command} 2>&-"], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (2, "", "")


@pytest.mark.parametrize("arguments", [[], ["sweep"]])
def test_a_group_alone_shows_its_help_and_no_error(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    code, out, talk = outcome(capsys, *arguments)
    assert (code, out) == (2, "")
    assert talk.startswith("Usage: roofline") and "Commands:" in talk and "error:" not in talk
    assert len(talk.splitlines()) > 10


def test_two_given_ceilings_stand_for_a_machine(factory: str, capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ["--peak-flops", "fp32=1 TFLOP/s", "--peak-bandwidth", "100 GB/s", "--json"]
    code, out, _ = outcome(capsys, "count", f"{factory}:module", *arguments)
    assert code == 0 and json.loads(out)["verdict"]["ridge_point_flops_per_byte"] == 10


@pytest.mark.skipif(not Path("/proc/self").exists(), reason="needs /proc, where even root can't make a file")
def test_an_unwritable_output_is_refused_and_nothing_is_left(
    factory: str, capsys: pytest.CaptureFixture[str]
) -> None:
    code, _, talk = outcome(capsys, "count", f"{factory}:module", "--machine", "a10", "-o", "/proc/x.json")
    assert code == 1 and "can't write /proc/x.json" in talk


def test_measuring_a_module_end_to_end_on_this_cpu(
    factory: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    # Ceilings are given, so that nothing is calibrated in a test.
    machine = tmp_path / "cpu.json"
    machine.write_text(json.dumps(CPU))
    output = tmp_path / "run.json"
    code, out, talk = outcome(
        capsys, "measure", f"{factory}:module", "--seconds", "0.2", "--machine", str(machine), "-o", str(output)
    )
    assert code == 0, talk
    assert [f"{i}/5" in talk for i in range(1, 6)] == [True] * 5
    saved = json.loads(output.read_text())
    budget = saved["time_budget"]
    parts = ("compute_s", "memory_s", "inefficiency_s", "network_s", "idle_s")
    assert saved["kind"] == "measured"
    assert sum(budget[p] for p in parts) == budget["wall_s"] == saved["timing"]["median_s"]
    assert min(budget[p] for p in parts) >= 0
    assert saved["flops"]["executed"] == 2 * 2 * 16 * 32
    assert "GFLOP/s" in out or "TFLOP/s" in out


CPU = {
    "key": "test-cpu",
    "name": "Test CPU",
    "kind": "cpu",
    "matrix": {"fp32": {"value": 1e11, "origin": "given"}},
    "vector": {"fp32": {"value": 1e11, "origin": "given"}},
    "bandwidth": {"dram": {"value": 1e10, "origin": "given"}},
}
