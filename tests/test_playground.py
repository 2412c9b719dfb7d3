"""The article's two scripts: entry points on Modal and here, and every figure from saved or predicted results."""

import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from roofline.core.precision import Precision
from roofline.report.sweeps.figures import NAMES, figure
from roofline.sweeps import decode, ops, train, vision
from roofline.sweeps.case import Result, result_of
from roofline.sweeps.measure import count_case
from roofline.sweeps.settings import Settings
from sweep_cases import A10, WHERE, decode_cases, lines

PLAYGROUND = Path(__file__).parents[1] / "playground"


def script(name: str) -> Any:
    """A script as a module, as if imported by nobody: its `__main__` part does not run."""
    import importlib.util

    spec = importlib.util.spec_from_file_location(name, PLAYGROUND / f"{name}.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def ran(name: str, *arguments: str, folder: Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, str(PLAYGROUND / f"{name}.py"), *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False, cwd=folder)


@pytest.fixture(scope="module")
def predicted() -> list[Result]:
    settings = Settings(precision=Precision.BF16)
    cases = [*ops.cases(settings), *decode.cases(settings), *train.cases(settings)]
    return [result_of(case, count_case(case, A10, WHERE)) for case in cases]


def test_an_entry_point_runs_here_without_an_account(tmp_path: Path) -> None:
    done = ran(
        "roofline_modal",
        *["decode", "--local", "--machine", "a10", "--params", "20000", "--batches", "1,2", "--seconds", "0.01"],
        folder=tmp_path,
    )
    assert done.returncode == 0, done.stderr
    assert "critical batch, from the ridge point: 208" in done.stdout
    assert len(lines(tmp_path / "roofline-sweep-decode.jsonl")) == 2


@pytest.mark.parametrize(
    ("arguments", "said"),
    [(["decode"], "add --local to run here"), (["resnet", "--local"], 'no entry point "resnet"')],
)
def test_running_here_has_to_be_asked_for(arguments: list[str], said: str, tmp_path: Path) -> None:
    done = ran("roofline_modal", *arguments, folder=tmp_path)
    assert done.returncode == 2 and said in done.stderr and "Traceback" not in done.stderr


@pytest.mark.parametrize("entry", ["", "::decode", "::train", "::cv"])
def test_modal_finds_the_entry_points_that_the_article_names(entry: str, tmp_path: Path) -> None:
    pytest.importorskip("modal", reason="modal is not installed: pip install 'roofline[modal]'")
    path = f"{PLAYGROUND / 'roofline_modal.py'}{entry}"
    done = subprocess.run(
        [sys.executable, "-m", "modal", "run", path, "--help"],
        capture_output=True,
        text=True,
        check=False,
        cwd=tmp_path,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    # Modal wraps and colours its usage line; an entry point that it can't choose prints no usage at all.
    assert "Usage:" in re.sub(r"\x1b\[[0-9;]*m", "", done.stdout + done.stderr)


@pytest.mark.filterwarnings("ignore")
def test_the_article_s_entry_point_asks_its_app_for_every_case(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("modal", reason="modal is not installed: pip install 'roofline[modal]'")
    module = script("roofline_modal")
    monkeypatch.chdir(tmp_path)
    asked: list[str] = []

    class Function:
        """Answers as the function on Modal would, at once."""

        @staticmethod
        def remote(case: bytes, where: bytes) -> bytes:
            import msgspec

            from roofline.sweeps.case import Case, Where, encode

            sent = msgspec.json.decode(case, type=Case)
            assert msgspec.json.decode(where, type=Where).device == "cuda" == sent.device
            asked.append(sent.key)
            return encode(result_of(sent, count_case(sent, A10, WHERE)))

    monkeypatch.setattr("roofline.sweeps.precision.of_device", lambda device: decode_cases(1)[0].precision)
    module.measure_on(Function, "decode")
    assert [int(key.split("/")[2]) for key in asked] == list(decode.ARTICLE_BATCHES)
    assert len(lines(tmp_path / "roofline-sweep-decode.jsonl")) == len(decode.ARTICLE_BATCHES)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("form", ["png", "svg"])
def test_every_figure_is_drawn_and_labelled(name: str, form: Any, predicted: list[Result]) -> None:
    results = predicted
    if name == "vision":
        settings = Settings(
            precision=decode_cases(1)[0].precision, models=("resnet18",), modes=("inference",), sizes=(1, 2)
        )
        results = [result_of(case, count_case(case, A10, WHERE)) for case in vision.cases(settings)]
    data = figure(name, results, form)
    if form == "png":
        assert data.startswith(b"\x89PNG") and len(data) > 20_000
        return
    text = data.decode()
    expected = {
        "ops_roofline": [
            "arithmetic intensity (FLOP/B)",
            "attainable rate (FLOP/s)",
            "ridge point 208 FLOP/B",
            "gemv",
        ],
        "gemm_efficiency": ["M = N = K", "share of the matrix engine's ceiling (MFU)", "roof of NVIDIA A10"],
        "decode": ["batch (sequences)", "throughput (token/s)", "time of a step (ms)", "critical batch 208"],
        "train": ["tokens per step", "critical tokens 208", "published in the article (A10)"],
        "vision": ["batch (images)", "MFU", "MBU", "resnet18 inference"],
        "ridge": ["ridge point (FLOP/B)", "FP16, BF16", "FP8", "295", "591", "H100 SXM", "B200"],
    }[name]
    missing = [words for words in expected if words not in text]
    assert not missing


def test_the_same_points_give_the_same_picture(predicted: list[Result]) -> None:
    assert figure("decode", predicted, "svg") == figure("decode", predicted, "svg")


def test_the_figures_script_draws_what_the_results_allow(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    main = script("roofline_figures").main
    assert main(["--predict", "a10", "--to", str(tmp_path / "figures"), "--form", "svg"]) == 0
    drawn = {path.stem for path in (tmp_path / "figures").iterdir()}
    assert drawn == set(NAMES) - {"vision"}
    assert "no vision results" in capsys.readouterr().err


def test_the_figures_script_reads_files_of_results(
    tmp_path: Path, predicted: list[Result], capsys: pytest.CaptureFixture[str]
) -> None:
    from roofline.sweeps.results import ResultsFile

    with ResultsFile(tmp_path / "x.jsonl") as file:
        for result in predicted:
            if result.case.sweep == "train":
                file.append(result)
    main = script("roofline_figures").main
    assert main([str(tmp_path / "x.jsonl"), "--to", str(tmp_path)]) == 0
    assert (tmp_path / "train.png").exists() and (tmp_path / "ridge.png").exists()
    assert main([str(tmp_path / "none.jsonl"), "--to", str(tmp_path)]) == 1
    assert "can't read" in capsys.readouterr().err
