"""Runners: the same cases give the same counts wherever they run, and a worker that dies loses nothing."""

import os
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from roofline.errors import UsageError
from roofline.runners import find_runner
from roofline.runners.local import run_cases
from roofline.sweeps.case import Case, Result, Where, encode
from roofline.sweeps.drive import drive
from roofline.sweeps.measure import measure_encoded
from roofline.sweeps.results import ResultsFile
from sweep_cases import WHERE, decode_cases, lines, op_cases

CASES = [*decode_cases(1, 8), *op_cases("add", size=32)]


def counts(results: list[Result]) -> dict[str, tuple[float, float | None]]:
    return {r.key: (r.run.flops.executed, r.run.bytes.operator) for r in results if r.run}


def measured(path: Path, runner: Any) -> list[Result]:
    with ResultsFile(path) as file:
        return drive(CASES, WHERE, runner, file, machine="a10")


@pytest.fixture(scope="module")
def locally(tmp_path_factory: pytest.TempPathFactory) -> list[Result]:
    return measured(tmp_path_factory.mktemp("local") / "x.jsonl", run_cases)


def test_the_local_runner_measures_every_case_in_order(locally: list[Result]) -> None:
    assert [r.key for r in locally] == [case.key for case in CASES]
    assert {r.outcome for r in locally} == {"ok"}


def test_an_unknown_runner_is_an_error() -> None:
    with pytest.raises(UsageError, match='unknown runner "slurm"'):
        find_runner("slurm")


@pytest.mark.parametrize("name", ["ray", "modal"])
def test_a_runner_whose_engine_is_missing_says_how_to_get_it(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    import sys

    monkeypatch.setitem(sys.modules, name, None)
    with pytest.raises(UsageError, match=f"{name} is not installed") as error:
        find_runner(name)
    assert name in error.value.hint


# Ray


class Dying:
    """Measures a case, but the first time that a worker is asked for batch 8 it dies as if killed with -9."""

    def __init__(self, mark: Path) -> None:
        self.mark = mark

    def __call__(self, case: bytes, where: bytes) -> bytes:
        if msgspec.json.decode(case, type=Case).size == 8 and not self.mark.exists():
            self.mark.write_text(str(os.getpid()))
            os.kill(os.getpid(), signal.SIGKILL)
        return measure_encoded(case, where)


@pytest.fixture(scope="module")
def cluster() -> Iterator[Any]:
    """A cluster of two nodes with one CPU each, on this machine."""
    ray = pytest.importorskip("ray", reason="ray is not installed: pip install 'roofline[ray]'")
    from ray.cluster_utils import Cluster

    folder = Path(__file__).parent
    made = Cluster(initialize_head=True, head_node_args={"num_cpus": 1, "include_dashboard": False})
    try:
        made.add_node(num_cpus=1)
        made.wait_for_nodes()
        # The workers import the cases of this file, and find the package where the driver does.
        paths = os.pathsep.join([str(folder), os.environ.get("PYTHONPATH", "")])
        ray.init(address=made.address, log_to_driver=False, runtime_env={"env_vars": {"PYTHONPATH": paths}})
        yield ray
    finally:
        ray.shutdown()
        made.shutdown()


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
def test_two_nodes_of_ray_count_what_this_process_counts(cluster: Any, locally: list[Result], tmp_path: Path) -> None:
    from roofline.runners.on_ray import _share, ray_runner

    assert _share(cluster, "cpu") == ({"num_cpus": 1.0}, 2)
    results = measured(tmp_path / "x.jsonl", ray_runner())
    assert counts(results) == counts(locally)
    assert len(lines(tmp_path / "x.jsonl")) == len(CASES)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
def test_a_worker_killed_during_the_run_costs_no_case_and_doubles_none(
    cluster: Any, locally: list[Result], tmp_path: Path
) -> None:
    from roofline.runners.on_ray import ray_runner

    mark = tmp_path / "killed"
    dying = Dying(mark)

    def task(case: bytes, where: bytes) -> bytes:
        return dying(case, where)

    results = measured(tmp_path / "x.jsonl", ray_runner(task=task))
    assert mark.exists()
    assert counts(results) == counts(locally)
    assert len(lines(tmp_path / "x.jsonl")) == len(CASES)


@pytest.mark.filterwarnings("ignore")
def test_a_request_that_is_wrong_ends_the_sweep_with_its_own_error(cluster: Any, tmp_path: Path) -> None:
    from roofline.runners.on_ray import ray_runner

    def task(case: bytes, where: bytes) -> bytes:
        raise UsageError("torchvision is not installed", "pip install 'roofline[vision]'")

    with pytest.raises(UsageError, match="torchvision is not installed"):
        measured(tmp_path / "x.jsonl", ray_runner(task=task))


# Modal


@pytest.fixture
def modal() -> Any:
    return pytest.importorskip("modal", reason="modal is not installed: pip install 'roofline[modal]'")


@pytest.mark.filterwarnings("ignore")
def test_the_function_on_modal_does_locally_what_the_local_runner_does(modal: Any, locally: list[Result]) -> None:
    from roofline.runners.on_modal import ask, modal_app

    _, function = modal_app("decode")
    left = list(CASES[:3])
    results = list(ask(function.local, lambda: left.pop(0) if left else None, WHERE))
    assert counts(results) == {r.key: counts([r])[r.key] for r in locally[:3]}


def test_the_app_on_modal_asks_for_one_gpu_of_the_kind_named(modal: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    from roofline.runners.on_modal import modal_app

    asked: dict[str, Any] = {}

    def function(self: Any, **options: Any) -> Any:
        asked.update(options)
        return lambda measured: measured

    monkeypatch.setattr(modal.App, "function", function)
    app, measured = modal_app("decode", "H100")
    assert app.name == "roofline-decode" and measured is measure_encoded
    # One container: cases never share the GPU, and a smaller one that runs out of memory skips the larger.
    assert asked["gpu"] == "H100" and asked["max_containers"] == 1 and asked["timeout"] >= 600
    modal_app("decode")
    assert asked["gpu"] == "A10G"


def test_every_dependency_of_the_package_is_in_the_image_of_modal() -> None:
    import tomllib

    from roofline.runners.on_modal import PACKAGES

    project = tomllib.loads((Path(__file__).parents[1] / "pyproject.toml").read_text())["project"]
    names = {text.partition(">")[0].partition("[")[0] for text in project["dependencies"]}
    assert names <= set(PACKAGES)


def test_cases_and_places_survive_the_way_to_a_worker() -> None:
    case = CASES[0]
    assert msgspec.json.decode(encode(case), type=Case) == case
    assert msgspec.json.decode(encode(WHERE), type=Where) == WHERE
