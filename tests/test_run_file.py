"""A saved Run: whole or absent, read back equal, refused with one line when damaged."""

import gzip
import json
import re
from pathlib import Path
from typing import Any

import jsonschema
import msgspec
import pytest

from report_runs import counted, resnet
from roofline import report
from roofline.core.figures import LEAST, MOST, absurd
from roofline.core.machine import Ceiling
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


def _set(saved: dict[str, Any], path: str, value: object) -> bytes:
    """The saved Run with one figure changed: "ops.3.seconds"."""
    *way, last = (int(key) if key.isdigit() else key for key in path.split("."))
    part: Any = saved
    for key in way:
        part = part[key]
    part[last] = value
    return json.dumps(saved).encode()


@pytest.mark.parametrize(
    ("path", "value", "said"),
    [
        ("ops.5.executed_flops", 1e308, "1e+308"),
        ("ops.3.seconds", -1, "-1"),
        ("ops.3.calls", 10**400, "1329 bits"),
        ("ops.3.seconds", 1e-300, "1e-300"),
        ("machine.bandwidth.dram.value", -1e12, "-1e+12"),
        ("timing.median_s", -0.5, "-0.5"),
        ("timing.samples_s", [1.0, -1.0], "-1"),
        ("flops.by_precision.bf16", -1, "-1"),
        ("time_budget.idle_s", -1, "-1"),
    ],
)
def test_a_figure_that_nothing_can_have_is_named(path: str, value: object, said: str, tmp_path: Path) -> None:
    file = tmp_path / "x.json"
    file.write_bytes(_set(json.loads(resnet().to_json()), path, value))
    with pytest.raises(RunFileError) as found:
        Run.load(file)
    where = re.sub(r"\.(\d+)", r"[\1]", path)
    assert f"damaged: $.{where}" in found.value.message
    assert f"{said}," in found.value.message


@pytest.mark.parametrize("word", ["NaN", "Infinity", "-Infinity", "1e309", "1" + "0" * 5000])
def test_a_number_that_json_or_a_float_does_not_have_is_refused(word: str, tmp_path: Path) -> None:
    file = tmp_path / "x.json"
    file.write_bytes(_set(json.loads(resnet().to_json()), "timing.median_s", "@").replace(b'"@"', word.encode()))
    with pytest.raises(RunFileError):
        Run.load(file)


@pytest.mark.parametrize("form", [".html", ".svg", ".md", ".png"])
def test_figures_at_the_limits_are_drawn(form: str, tmp_path: Path) -> None:
    run = resnet()
    assert run.machine is not None
    ops = tuple(
        msgspec.structs.replace(op, seconds=LEAST, executed_flops=MOST, bytes=type(op.bytes)(operator=LEAST))
        for op in run.ops[:3]
    )
    machine = msgspec.structs.replace(run.machine, bandwidth={"dram": Ceiling(LEAST, "given")})
    run = msgspec.structs.replace(run, ops=ops, machine=machine)
    assert absurd(run) is None
    assert report.write(run, tmp_path / f"x{form}").stat().st_size > 0


@pytest.mark.parametrize("mark", [b"\xef\xbb\xbf", b"\xff\xfe", b"\xfe\xff"], ids=["utf-8", "utf-16-le", "utf-16-be"])
def test_a_file_with_the_mark_of_windows_is_read(mark: bytes, tmp_path: Path) -> None:
    file, run = tmp_path / "x.json", resnet()
    code = {b"\xff\xfe": "utf-16-le", b"\xfe\xff": "utf-16-be"}.get(mark, "utf-8")
    file.write_bytes(mark + run.to_json().decode().encode(code))
    assert Run.load(file) == run


def test_a_compressed_run_is_told_from_a_damaged_one(tmp_path: Path) -> None:
    file = tmp_path / "x.json"
    file.write_bytes(gzip.compress(resnet().to_json()))
    with pytest.raises(RunFileError, match="compressed") as found:
        Run.load(file)
    assert "gunzip" in found.value.hint
