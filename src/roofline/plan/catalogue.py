"""Well-known models: their configs' sizes as TOML, one file per maker."""

import re
import tomllib
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

import msgspec

_HEADER = re.compile(r"^\[([A-Za-z0-9._-]+|\"[^\"]+\")\][ \t]*$", re.MULTILINE)
_NAMES = re.compile(r"^(hub|aliases)\s*=\s*(\[[^\]]*\]|\"[^\"]*\")", re.MULTILINE)
_QUOTED = re.compile(r'"([^"]*)"')


class Entry(msgspec.Struct, frozen=True, kw_only=True):
    """One model.

    Attributes:
        key: Name on the command line.
        hub: Where its config is published.
        aliases: Other names.
        params: Parameters as published, for a check of the sizes.
        source: Where the sizes were read.
        read_on: When.
        config: Fields of config.json that decide sizes.
    """

    key: str
    hub: str
    aliases: tuple[str, ...] = ()
    params: str
    source: str
    read_on: str
    config: dict[str, Any]


def find(name: str) -> Entry | None:
    """Find a model by key, alias or hub id, exactly but for case; None if there is none."""
    key = _keys().get(_fold(name))
    return entry(key) if key else None


def names() -> list[str]:
    """List the keys of all models."""
    return list(_blocks())


@cache
def entry(key: str) -> Entry:
    """Parse the table of one model; the others' stay text."""
    shared, body = _blocks()[key]
    common = tomllib.loads(shared)
    table = tomllib.loads(body)
    config: Mapping[str, Any] = {k: v for k, v in table.items() if k not in Entry.__struct_fields__}
    about = {k: v for k, v in {**common, **table}.items() if k in Entry.__struct_fields__}
    return msgspec.convert({**about, "key": key, "config": dict(config)}, Entry)


@cache
def _blocks() -> dict[str, tuple[str, str]]:
    found: dict[str, tuple[str, str]] = {}
    for path in sorted((Path(__file__).parent / "models").glob("*.toml")):
        shared, *parts = _HEADER.split(path.read_text("utf-8"))
        for quoted, body in zip(parts[::2], parts[1::2], strict=True):
            key = quoted.strip('"')
            assert key not in found, f"two models are called {key}"
            found[key] = (shared, body)
    return found


@cache
def _keys() -> dict[str, str]:
    known: dict[str, str] = {}
    for key, (_, body) in _blocks().items():
        known[_fold(key)] = key
        for _, text in _NAMES.findall(body):
            for name in _QUOTED.findall(text):
                known.setdefault(_fold(name), key)
    return known


def _fold(name: str) -> str:
    return name.casefold()
