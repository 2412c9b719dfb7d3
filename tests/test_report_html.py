"""The page: self-contained, escaped everywhere, and its numbers are the Run's."""

import re
from base64 import b64encode
from hashlib import sha256

import pytest

import report_pages
import report_runs

BAD = "</script><script>alert(1)</script>"
LOADING = {"src", "href", "srcset", "data", "action", "poster", "background", "formaction", "xlink:href"}


@pytest.mark.parametrize("name", report_runs.ALL)
def test_the_page_loads_nothing_from_anywhere(name: str) -> None:
    page = report_pages.page(name)
    loads = [(tag, attribute, value) for tag, attribute, value in page.attributes if attribute in LOADING]
    assert loads == [("link", "href", "data:,")]
    assert not re.findall(r"url\(|@import", "".join(page.styles))


def test_only_the_scripts_of_the_page_itself_may_run() -> None:
    page = report_pages.page("hostile")
    (policy,) = (value for tag, name, value in page.attributes if tag == "meta" and "default-src" in value)
    running = [text for values, text in page.scripts if "type" not in values]
    hashes = [f"'sha256-{b64encode(sha256(text.encode()).digest()).decode()}'" for text in running]
    assert len(hashes) == 2  # plotly's and ours
    assert f"script-src {' '.join(hashes)};" in policy
    assert policy.startswith("default-src 'none';")


def test_names_from_the_program_never_leave_their_place() -> None:
    page = report_pages.page("hostile")
    assert len(page.scripts) == 3  # the plot's data, plotly, ours: none was added by a name
    assert page.tags.count("b") == report_pages.page("resnet").tags.count("b") - 2  # one piece of advice, not three
    assert "i" not in [name for tag, name, _ in page.attributes if tag.startswith("script")]
    assert not [name for _, name, _ in page.attributes if name.startswith("on")]
    assert BAD in "".join(page.text)


def test_names_are_escaped_twice_in_the_plot_whose_labels_read_tags() -> None:
    source = report_pages.html_source("hostile")
    data = source[source.index('id="figure">') :]
    assert "<" not in data[len('id="figure">') : data.index("</script>")]
    hover = [text for trace in report_pages.plot_data("hostile")["traces"] for text in trace.get("hovertext", [])]
    assert any("&lt;/script&gt;&lt;script&gt;" in text for text in hover)
    assert not [text for text in hover if set(re.findall(r"<(\w+)", text)) - {"b", "br"}]


def test_the_op_table_has_every_row_and_its_times_add_up() -> None:
    run = report_runs.resnet()
    table = [row for row in report_pages.page("resnet").rows if len(row) == 16]
    heads, cells = table[0], table[1:]
    column = [shown for shown, _ in heads].index("time")
    assert len(cells) == len(run.ops)
    assert sum(float(row[column][1]) for row in cells) == pytest.approx(sum(op.seconds for op in run.ops))


def test_unknown_flop_is_called_unknown_in_the_op_table() -> None:
    (row,) = (row for row in report_pages.page("unknown ops").rows if row[0][0] == "mylib.my_op")
    assert [shown for shown, _ in row].count("unknown") == 2
    assert ("0 FLOP", "0") not in row


def test_unknown_values_sort_as_unknown_and_not_as_zero() -> None:
    (row,) = (row for row in report_pages.page("above the roof").rows if row[0][0] == "cumsum")
    assert ("n/a", "") in row


def test_the_modules_form_a_tree_under_the_whole_program() -> None:
    run, rows = report_runs.resnet(), report_pages.page("resnet").rows
    (whole,) = (row for row in rows if row[0][0] == "(program)" and row[1][0] == "ResNet")
    assert whole[3][0] == "523 GFLOP"
    assert whole[-1][0] == "100 %"
    assert sum(1 for row in rows if len(row) == 9 and row[1][0] in ("ResNet", "Block")) == len(run.modules)


def test_machine_environment_and_sources_are_in_the_page() -> None:
    text = " ".join(report_pages.page("resnet").text)
    for fact in (
        "read of 20 MB, median of 50",
        "the vendor's datasheet",
        "2.14.1",
        "80.0 GiB",
        "torchvision:resnet50",
    ):
        assert fact in text


def test_a_huge_run_says_what_the_page_leaves_out(monkeypatch) -> None:
    from roofline.report import html

    monkeypatch.setattr(html, "_MOST_ROWS", 10)
    page = report_pages.Page(html.render(report_runs.resnet()))
    assert "165 more rows of ops" in " ".join(page.text)  # 175 − 10


def test_a_notebook_gets_no_script_and_no_resource() -> None:
    from roofline.report import notebook

    page = report_pages.Page(notebook.render(report_runs.hostile()))
    assert not page.scripts
    loads = [value for _, name, value in page.attributes if name in LOADING and not value.startswith("#")]
    assert not loads
    assert "svg" in page.tags
