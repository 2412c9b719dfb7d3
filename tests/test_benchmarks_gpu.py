"""benchmarks/gpu.sh: its steps in order, its summary as it goes, and how it reads hardware counters."""

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from roofline import machines
from roofline.sweeps.results import load

BENCHMARKS = Path(__file__).parents[1] / "benchmarks"


@pytest.fixture
def scripts(monkeypatch: pytest.MonkeyPatch) -> Any:
    """The two Python parts of gpu.sh."""
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    import gpu_run
    import gpu_ten_ops

    return gpu_run, gpu_ten_ops


# As ncu writes it with --csv --page raw --print-units base: talk first, a row of units, thousands may be grouped.
NCU = """==PROF== Connected to process 4711
==PROF== Profiling "vectorized_elementwise_kernel": 0%....100% - 1 pass
"ID","Process ID","Kernel Name","dram__bytes_read.sum","dram__bytes_write.sum"
"","","","byte","byte"
"0","4711","void add<float, 4>(int)","200","100"
"1","4711","spin_kernel(long)","64","0"
"2","4711","softmax_warp_forward","1,000","500"
"3","4711","second_half","10","20"
"4","4711","spin_kernel(long)","0","0"
"5","4711","cut short","7","7"
"""


def test_kernels_up_to_a_marker_belong_to_one_op(scripts: Any) -> None:
    _, ten_ops = scripts
    assert ten_ops.dram_bytes(NCU, ["add", "softmax", "never"]) == {"add": 300, "softmax": 1530}
    assert ten_ops.dram_bytes("==ERROR== ERR_NVGPUCTRPERM\n", ["add"]) == {}


def test_the_ten_ops_are_counted_without_a_device(scripts: Any) -> None:
    _, ten_ops = scripts
    ours = ten_ops.counted(machines.resolve("h200-sxm"))
    assert len(ours) == 10
    assert ours["add"][0] == 3 * 2 * (1 << 26)  # two reads and a write of BF16
    assert ours["gemm"][0] == 3 * 2 * 8192**2
    # Scores of 16 heads stay in 50 MB of L2 in part at most: `cached` never exceeds `operator`.
    assert all(cached is not None and cached <= operator for operator, cached in ours.values())


def test_measured_bytes_stand_beside_both_estimates(scripts: Any) -> None:
    run, _ = scripts
    table = run.comparison({"add": (330.0, 300.0), "gelu": (100.0, None)}, {"add": 300.0})
    assert "| add | 300 B | 330 B | 10.0 % | 300 B | 0 % |" in table.replace("0.00 %", "0 %")
    assert "| gelu | n/a | 100 B | n/a | n/a | n/a |" in table


def test_a_step_that_hangs_is_stopped_and_its_results_so_far_are_shown(scripts: Any, tmp_path: Path) -> None:
    import time

    run, _ = scripts
    summary = run.Summary(tmp_path / "summary.md")
    hangs = run.Step(
        "hangs", "Hangs", [sys.executable, "-c", "import time; print('so far', flush=True); time.sleep(99)"], 6
    )
    assert not run.run(hangs, tmp_path, summary, time.monotonic() + 100)
    late = run.Step("late", "Late", [sys.executable, "-c", ""], 5)
    assert not run.run(late, tmp_path, summary, time.monotonic() + 1)
    text = (tmp_path / "summary.md").read_text()
    assert "stopped after 6 s" in text and "so far" in text and "Left out: the time is up." in text


def test_all_steps_of_a_gpu_machine_fit_into_eight_minutes(scripts: Any, tmp_path: Path) -> None:
    run, _ = scripts
    names = [step.name for step in run.steps("cuda", tmp_path, quick=False)]
    assert names == [
        "calibrate",
        *(f"sweep-{name}" for name in ("decode", "train", "ops", "vision")),
        "per-op-resnet50",
        "per-op-vit_b_16",
        "gpu-tests",
    ]
    assert all("--scale" in step.command for step in run.steps("cuda", tmp_path, quick=False)[1:5])


@pytest.mark.slow
def test_the_script_runs_on_a_cpu(tmp_path: Path) -> None:
    environment = {**os.environ, "PYTHON": sys.executable, "XDG_CACHE_HOME": str(tmp_path)}
    # Three steps stand for the eight: one of each kind, each a process that loads torch.
    only = "sweep-decode,per-op-resnet50,ncu"
    script = ["bash", str(BENCHMARKS / "gpu.sh"), "--device", "cpu", "--quick", "--only", only]
    script += ["--to", str(tmp_path / "out")]
    done = subprocess.run(script, capture_output=True, text=True, check=False, env=environment)
    text = (tmp_path / "out" / "summary.md").read_text()
    assert done.returncode == 0, done.stdout + done.stderr + text
    sections = [line for line in text.splitlines() if line.startswith("## ")]
    assert sections[0] == "## Sweep decode" and sections[2] == "## Per-op times: resnet50"
    assert "DRAM bytes of ten ops" in sections[3] and "| gemm |" in text
    results, warnings = load(tmp_path / "out" / "decode.jsonl")
    assert [r.outcome for r in results] == ["ok", "ok"] and not warnings
    assert (tmp_path / "out" / "resnet50.json").exists()


def test_a_step_that_does_not_exist_is_named(scripts: Any, capsys: pytest.CaptureFixture[str]) -> None:
    run, _ = scripts
    with pytest.raises(SystemExit) as ended:
        run.main(["--only", "sweep-opps"])
    assert ended.value.code == 2 and "unknown step sweep-opps" in capsys.readouterr().err
