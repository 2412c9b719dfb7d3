"""The commands of the tutorial and the examples run as they stand."""

import re
import runpy
import shlex
from pathlib import Path

import pytest

from roofline.cli.main import run

ROOT = Path(__file__).parents[1]
TUTORIAL = (ROOT / "docs" / "tutorial.md").read_text()


def shell_lines() -> list[str]:
    blocks = re.findall(r"```sh\n(.*?)```", TUTORIAL, re.DOTALL)
    return [line for block in blocks for line in block.splitlines()]


def test_every_command_of_the_tutorial_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    (mine,) = re.findall(r"```python\n# mine.py\n(.*?)```", TUTORIAL, re.DOTALL)
    (tmp_path / "mine.py").write_text(mine)
    commands = shell_lines()
    assert len(commands) == 9
    for command in commands:
        program, *arguments = shlex.split(command)
        assert program == "roofline"
        assert run(arguments) == 0, command
        assert capsys.readouterr().out, command
    assert {"resnet50.json", "resnet50.html", "resnet50.png"} <= {p.name for p in tmp_path.iterdir()}


@pytest.mark.parametrize("example", sorted((ROOT / "examples").glob("*.py")), ids=lambda p: p.stem)
def test_every_example_runs(example: Path, capsys: pytest.CaptureFixture[str]) -> None:
    runpy.run_path(str(example), run_name="__main__")
    assert capsys.readouterr().out


def test_links_between_the_documents_lead_somewhere() -> None:
    for page in [*ROOT.glob("*.md"), *(ROOT / "docs").glob("*.md")]:
        for link in re.findall(r"\]\(([^)#]+)", page.read_text()):
            assert link.startswith("http") or (page.parent / link).exists(), f"{page.name}: {link}"
