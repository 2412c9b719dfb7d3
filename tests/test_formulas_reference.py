"""The reference page of formulas."""

from pathlib import Path

from roofline.formulas.reference import page
from roofline.formulas.registry import declared_free, registered

PAGE = (Path(__file__).parents[1] / "docs/formulas.md").read_text(encoding="utf-8")


def test_the_page_is_up_to_date():
    assert page() == PAGE, "make it again: python -m roofline.formulas.reference docs/formulas.md"


def test_every_op_is_on_the_page_and_making_it_changes_no_rule():
    before = dict(registered())
    page()
    assert dict(registered()) == before
    ours = [n for n in (*registered(), *declared_free()) if n.startswith(("aten.", "c10d.", "_c10d", "quantized."))]
    assert not [name for name in ours if f"`{name}`" not in PAGE]


def test_every_op_says_what_it_counts():
    rows = [line for line in PAGE.splitlines() if line.startswith("| `")]
    assert len(rows) > 200
    assert not [row for row in rows if row.endswith("|  |")]
