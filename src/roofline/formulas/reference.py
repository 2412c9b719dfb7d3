"""The reference page of all formulas, made of their docstrings: `python -m roofline.formulas.reference FILE`."""

import sys
from importlib.util import find_spec, module_from_spec
from inspect import cleandoc
from pathlib import Path
from pkgutil import iter_modules
from unittest.mock import patch

import roofline.formulas
from roofline.formulas import arithmetic, registry
from roofline.formulas.registry import Rule

_HEAD = """\
# Formulas

What each op counts, from the docstrings of `roofline/formulas`. This page is generated:
`python -m roofline.formulas.reference docs/formulas.md`.

Every op reads its inputs and writes its outputs once, unless its formula says otherwise; how bytes are counted is
told in [Where bytes come from](bytes.md). Matrix work (products, convolutions, attention) counts 2 FLOP per
multiply-add. An op that stands in no table here is taken apart into the ops that it consists of; one that can't be
is listed by name as unknown, never counted as zero.
"""


def page() -> str:
    """Write the whole page as Markdown."""
    parts = [_HEAD, "## Vector work\n\n" + _prose(arithmetic.__doc__)]
    free: set[str] = set()
    for family in sorted(m.name for m in iter_modules(roofline.formulas.__path__)):
        if family == "reference":
            continue
        doc, rules, declared_free = _registered_by(f"roofline.formulas.{family}")
        free |= declared_free
        if rules:
            parts.append(_section(doc, rules))
    parts.append("## Free\n\nViews, metadata and allocation: no FLOP, no bytes.\n\n" + _names(sorted(free)) + "\n")
    return "\n".join(parts)


def _registered_by(module_name: str) -> tuple[str, dict[str, Rule], set[str]]:
    """Docstring, rules and free ops of one family: its module run once more, its claims to names overheard."""
    spec = find_spec(module_name)
    assert spec is not None and spec.loader is not None
    module = module_from_spec(spec)
    claimed: list[str] = []
    with patch.dict(registry._RULES), patch.object(registry, "_claim", claimed.append):
        spec.loader.exec_module(module)
        rules = {name: registry._RULES[name] for name in claimed if name in registry._RULES}
    return module.__doc__ or "", rules, set(claimed) - set(rules)


def _section(doc: str, rules: dict[str, Rule]) -> str:
    title, _, rest = cleandoc(doc).partition("\n")
    ops: dict[str, list[str]] = {}
    for name, rule in rules.items():
        ops.setdefault(" ".join(cleandoc(rule.__doc__ or "").split()), []).append(name)
    rows = [f"| {_names(names)} | {_cell(text)} |" for text, names in ops.items()]
    return "\n".join([f"## {title.rstrip('.')}\n", _prose(rest), "| ops | count |\n|---|---|", *rows, ""])


def _prose(doc: str | None) -> str:
    return cleandoc(doc or "").strip() + "\n"


def _names(names: list[str]) -> str:
    return ", ".join(f"`{name}`" for name in names)


def _cell(text: str) -> str:
    return text.replace("|", r"\|")


if __name__ == "__main__":
    Path(sys.argv[1]).write_text(page(), encoding="utf-8")
