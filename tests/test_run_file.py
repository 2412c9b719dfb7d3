"""A saved Run: whole or absent, read back equal, refused with one line when damaged."""

import json
from pathlib import Path

import jsonschema
import pytest

from report_runs import counted, resnet
from roofline.core.run import SCHEMA, Run, json_schema, write_whole
from roofline.errors import RunFileError


@pytest.mark.parametrize("make", [resnet, counted])
def test_a_run_reads_back_equal(make: object, tmp_path: Path) -> None:
    run = make()  # type: ignore[operator]
    assert Run.load(run.save(tmp_path / "run.json")) == run


@pytest.mark.parametrize("make", [resnet, counted])
def test_a_run_fits_its_own_published_schema(make: object) -> None:
    jsonschema.validate(json.loads(make().to_json()), json_schema())  # type: ignore[operator]


def test_the_keys_of_the_contract_are_there() -> None:
    saved = json.loads(resnet().to_json())
    assert saved["schema"] == SCHEMA == "roofline.run/1"
    assert {"kind", "workload", "machine", "environment", "ops", "advice", "warnings"} <= saved.keys()
    assert {"needed", "executed", "vector", "by_precision"} == saved["flops"].keys()
    assert {"compulsory", "fused", "cached", "operator", "module", "measured"} == saved["bytes"].keys()
    assert {"median_s", "samples_s", "spread_fraction", "stable"} <= saved["timing"].keys()
    assert {"counted_fraction", "unknown_ops"} == saved["coverage"].keys()
    row = {"name", "module", "phase", "calls", "shapes", "precision", "engine", "needed_flops", "executed_flops"}
    row |= {"vector_flops", "bytes", "seconds", "roof_s", "bound", "efficiency_fraction", "formula"}
    assert row <= saved["ops"][0].keys()


def test_a_truncated_run_is_one_line(tmp_path: Path) -> None:
    path = resnet().save(tmp_path / "run.json")
    path.write_bytes(path.read_bytes()[:-200])
    with pytest.raises(RunFileError, match="damaged or truncated"):
        Run.load(path)


@pytest.mark.parametrize("content", [b"", b"{}", b"[1]", b'{"schema": 3}', b"\xff\xfe", b"null"])
def test_a_file_that_is_no_run_is_refused(content: bytes, tmp_path: Path) -> None:
    path = tmp_path / "x.json"
    path.write_bytes(content)
    with pytest.raises(RunFileError):
        Run.load(path)


def test_a_run_of_another_schema_is_refused_by_name(tmp_path: Path) -> None:
    path = tmp_path / "x.json"
    path.write_bytes(resnet().to_json().replace(b"roofline.run/1", b"roofline.run/9"))
    with pytest.raises(RunFileError, match=r"roofline\.run/9"):
        Run.load(path)


def test_a_missing_file_and_a_folder_are_one_line(tmp_path: Path) -> None:
    with pytest.raises(RunFileError, match="No such file"):
        Run.load(tmp_path / "none.json")
    with pytest.raises(RunFileError, match="directory"):
        Run.load(tmp_path)


def test_an_unwritable_place_leaves_nothing_behind(tmp_path: Path) -> None:
    with pytest.raises(RunFileError, match="can't write"):
        write_whole(tmp_path / "no" / "x.json", b"1")
    folder = tmp_path / "taken.json"
    folder.mkdir()
    with pytest.raises(RunFileError):
        write_whole(folder, b"1")
    assert [p.name for p in tmp_path.iterdir()] == ["taken.json"]
