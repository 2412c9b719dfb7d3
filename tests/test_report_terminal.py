"""The screen: it fits, and it degrades well."""

import io

import msgspec
import pytest
from rich.console import Console

import report_pages
import report_runs
from roofline.core import units
from roofline.report import facts, terminal


@pytest.mark.parametrize("width", [80, 100, 200])
@pytest.mark.parametrize("name", report_runs.ALL)
def test_the_screen_fits(name: str, width: int) -> None:
    lines = report_pages.screen(name, width).splitlines()
    assert max(map(len, lines)) <= min(width, 100)
    assert len(lines) <= (43 if "unknown" in name else 40)


@pytest.mark.parametrize("bytes_moved", [1.0, 1e3, 1e12])
def test_a_wide_figure_does_not_run_into_its_note(bytes_moved: float) -> None:
    run = report_runs.counted()
    intensity = run.flops.executed / bytes_moved
    verdict = msgspec.structs.replace(run.verdict, intensity_flops_per_byte=intensity)
    out = io.StringIO()
    terminal.show(msgspec.structs.replace(run, verdict=verdict), Console(file=out, width=80))
    assert f"{units.show(intensity, 'FLOP/B')}  " in out.getvalue()
    notes = [line.find("executed matrix FLOP /") for line in out.getvalue().splitlines()]
    others = [line.find("bf16 peak /") for line in out.getvalue().splitlines()]
    assert max(notes) == max(others) > 0


def test_a_pipe_gets_no_colour_and_a_terminal_does() -> None:
    assert "\x1b" not in report_pages.screen("resnet")
    out = io.StringIO()
    terminal.show(report_runs.resnet(), Console(file=out, width=80, force_terminal=True, color_system="standard"))
    assert "\x1b[" in out.getvalue()


def test_an_ascii_only_pipe_gets_bars_that_it_can_hold() -> None:
    out = io.TextIOWrapper(io.BytesIO(), encoding="ascii", errors="replace")
    terminal.show(report_runs.resnet(), Console(file=out, width=80))
    out.flush()
    assert b"####" in out.buffer.getvalue()


def test_ten_ops_are_shown_most_to_gain_first() -> None:
    text = report_pages.screen("resnet")
    kinds = {(op.name, op.phase, op.bound) for op in report_runs.resnet().ops}
    table = text.split("may save\n")[1].split("\n\n")[0].splitlines()
    assert f"{len(kinds)} kinds of op, most to gain first" in text
    assert len(table) == len(kinds) <= 10
    gains = [float(line.split()[-2]) for line in table]
    assert gains == sorted(gains, reverse=True)


def test_bars_are_as_long_as_their_shares() -> None:
    bars = [line.count("█") for line in report_pages.screen("resnet").splitlines() if "█" in line]
    parts = [part for part in facts.budget(report_runs.resnet()) if part.seconds]
    assert bars == [round((100 - 34) * part.fraction) for part in parts]


def test_advice_says_what_it_saves_at_most_and_why() -> None:
    text = " ".join(report_pages.screen("resnet").split())
    idle = report_runs.resnet().time_budget.idle_s
    assert f"3. Capture the step in a CUDA graph: saves at most {idle * 1e3:.2f} ms" in text
    assert "the device is idle for 10.7 % of the step" in text


def test_warnings_beyond_three_are_counted() -> None:
    assert "and 2 more warnings" in report_pages.screen("above the roof")


def test_a_noisy_timing_is_called_noisy() -> None:
    assert "too noisy for a verdict" in " ".join(report_pages.screen("above the roof").split())


def test_markup_in_a_name_is_text() -> None:
    assert "[bold]" in report_pages.screen("hostile")
