"""Read what the reports wrote: the text that a reader sees, the tables, the resources that a browser would load."""

import io
import json
from functools import cache
from html.parser import HTMLParser

from rich.console import Console

import report_runs
from roofline.report import facts, figure, html, markdown, notebook, terminal

VOID = {"meta", "link", "br", "input", "img", "hr"}


class Page(HTMLParser):
    """Everything that a test asks of a page; an unbalanced tag is an error."""

    def __init__(self, source: str) -> None:
        super().__init__(convert_charrefs=True)
        self.open: list[str] = []
        self.tags: list[str] = []
        self.attributes: list[tuple[str, str, str]] = []
        self.text: list[str] = []
        self.scripts: list[tuple[dict, str]] = []
        self.styles: list[str] = []
        self.rows: list[list[tuple[str, str | None]]] = []
        self.feed(source)
        self.close()
        assert not self.open, f"never closed: {self.open}"

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.attributes += [(tag, name, value or "") for name, value in attrs]
        values = dict(attrs)
        if tag not in VOID:
            self.open.append(tag)
        if tag == "script":
            self.scripts.append((values, ""))
        if tag == "tr":
            self.rows.append([])
        if tag in ("td", "th"):
            self.rows[-1].append(("", values.get("data-value")))

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.attributes += [(tag, name, value or "") for name, value in attrs]

    def handle_data(self, data: str) -> None:
        inside = self.open[-1] if self.open else ""
        if inside == "script":
            self.scripts[-1] = (self.scripts[-1][0], self.scripts[-1][1] + data)
        elif inside == "style":
            self.styles.append(data)
        else:
            self.text.append(data)
        if {"td", "th"} & set(self.open) and self.rows and self.rows[-1]:
            shown, value = self.rows[-1][-1]
            self.rows[-1][-1] = (shown + data, value)


@cache
def html_source(name: str) -> str:
    return html.render(report_runs.ALL[name]())


@cache
def page(name: str) -> Page:
    return Page(html_source(name))


@cache
def plot_data(name: str) -> dict:
    """The data of the interactive plot; JSON has no NaN and no infinity."""
    (data,) = (text for values, text in page(name).scripts if values.get("id") == "figure")

    def refuse(constant: str) -> None:
        raise AssertionError(f"{constant} in the plot's data")

    return json.loads(data, parse_constant=refuse)


@cache
def svg(name: str) -> str:
    return figure.render(report_runs.ALL[name](), "svg").decode()


@cache
def screen(name: str, width: int = 100) -> str:
    """What a pipe gets: no colour."""
    out = io.StringIO()
    terminal.show(report_runs.ALL[name](), Console(file=out, width=width))
    return out.getvalue()


@cache
def visible(name: str, form: str) -> str:
    """The text that a reader of this format sees."""
    if form == "terminal":
        return screen(name)
    if form == "html":
        shown = [trace.get("hovertext", "") for trace in plot_data(name)["traces"]]
        return " ".join([*page(name).text, *(str(text) for text in shown)])
    if form == "md":
        return markdown.render(report_runs.ALL[name]())
    if form == "notebook":
        return " ".join(Page(notebook.render(report_runs.ALL[name]())).text)
    from xml.etree import ElementTree

    return " ".join(ElementTree.fromstring(svg(name)).itertext())


def head(name: str) -> str:
    return " · ".join(facts.head(report_runs.ALL[name]()))
