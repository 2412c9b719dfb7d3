"""Every format, for every kind of Run."""

import re
import struct
import subprocess
import sys

import pytest

import report_pages
import report_runs
from roofline import report
from roofline.core.run import Run
from roofline.errors import RunFileError, UsageError

FORMS = ("terminal", "html", "md", "svg", "notebook")
LAZY = ("torch", "numpy", "matplotlib", "plotly", "jinja2", "rich")


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("name", report_runs.ALL)
def test_no_reader_ever_sees_a_python_word_for_unknown(name: str, form: str) -> None:
    text = report_pages.visible(name, form)
    assert text.strip()
    assert not re.findall(r"\b(None|nan|NaN|inf|Infinity|null|undefined)\b", text)


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("name", ["resnet", "above the roof", "network", "counted"])
def test_every_format_shows_verdict_and_ratios_with_units(name: str, form: str) -> None:
    run, text = report_runs.ALL[name](), " ".join(report_pages.visible(name, form).split())
    assert run.machine.name in text
    assert "295 FLOP/B" in text  # 989.5 TFLOP/s over 3.35 TB/s
    assert re.search(r"\d (n|µ|m)?s\b", text)
    assert run.verdict.bound.value.capitalize() + "-bound" in text


@pytest.mark.parametrize("form", FORMS)
def test_unknown_ops_are_named_in_every_format(form: str) -> None:
    text = " ".join(report_pages.visible("unknown ops", form).replace("\\_", "_").split())
    assert "mylib.my_op ×3 (2.00 % of bytes, 4.10 % of time)" in text
    assert "lower bounds" in text
    assert "over 99.9 %" in text or form == "svg"


@pytest.mark.parametrize("form", FORMS)
def test_a_counted_run_says_that_nothing_was_timed(form: str) -> None:
    text = report_pages.visible("counted", form)
    assert "nothing was timed" in text
    assert "may save" not in text


@pytest.mark.parametrize("form", FORMS)
def test_no_control_character_of_a_name_reaches_the_reader(form: str) -> None:
    text = report_pages.visible("hostile", form)
    assert not re.findall("[\x00-\x08\x0b-\x1f\x7f\u202a-\u202e\u2066-\u2069]", text)


@pytest.mark.parametrize("suffix", [".json", ".html", ".png", ".svg", ".md", ".PNG"])
def test_the_suffix_picks_the_format(tmp_path, suffix: str) -> None:
    path = report.write(report_runs.network_bound(), tmp_path / f"x{suffix}")
    starts = {".json": b"{", ".html": b"<!DOCTYPE html>", ".png": b"\x89PNG", ".svg": b"<?xml", ".md": b"### "}
    assert path.read_bytes().startswith(starts[suffix.lower()])
    assert [p.name for p in tmp_path.iterdir()] == [f"x{suffix}"]


@pytest.mark.parametrize("name", report_runs.ALL)
def test_the_json_report_loads_as_the_same_run(tmp_path, name: str) -> None:
    run = report_runs.ALL[name]()
    assert Run.load(report.write(run, tmp_path / "run.json")) == run


@pytest.mark.parametrize("bad", ["x.pdf", "x", "x.html.gz", ".html"])
def test_an_unknown_suffix_is_refused_with_the_known_ones(bad: str) -> None:
    with pytest.raises(UsageError, match=r"\.json, \.html, \.png, \.svg, \.md"):
        report.check_suffix(bad)


def test_a_missing_folder_is_one_clear_error(tmp_path) -> None:
    with pytest.raises(RunFileError, match="can't write"):
        report.write(report_runs.empty(), tmp_path / "missing" / "x.md")


def test_a_report_that_fails_leaves_the_old_file_whole(tmp_path, monkeypatch) -> None:
    def broken(run: Run) -> bytes:
        raise ValueError("broken")

    old = tmp_path / "x.md"
    old.write_text("old")
    monkeypatch.setitem(report._FORMATS, ".md", broken)
    with pytest.raises(ValueError, match="broken"):
        report.write(report_runs.empty(), old)
    assert [(p.name, p.read_text()) for p in tmp_path.iterdir()] == [("x.md", "old")]


def test_importing_every_report_loads_nothing_heavy() -> None:
    rooms = "figure facts html interactive markdown notebook palette points rows terminal"
    code = f"import sys, roofline.report, {', '.join('roofline.report.' + room for room in rooms.split())}\n"
    code += f"print([name for name in {LAZY} if name in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_the_same_run_gives_the_same_bytes() -> None:
    from roofline.report import figure, html

    for render in (html.render, lambda run: figure.render(run, "svg"), lambda run: figure.render(run, "png")):
        assert render(report_runs.network_bound()) == render(report_runs.network_bound())


def test_a_png_has_the_size_that_was_asked_for() -> None:
    from roofline.report import figure

    png = figure.render(report_runs.empty(), "png", size=(8, 5))
    assert struct.unpack(">II", png[16:24]) == (8 * 150, 5 * 150)


def test_the_run_reports_itself(tmp_path) -> None:
    run = report_runs.network_bound()
    assert run.report(tmp_path / "x.md").read_text().startswith("### train.py:step")
    assert run._repr_html_().startswith("<div>")
