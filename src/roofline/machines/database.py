"""The tables of this folder, one TOML file per vendor, as machines.

A file starts with what all its tables share (vendor, kind, read_on). A device's table is parsed only when the
device is asked for: names are read off the text, so that one lookup does not pay for a hundred devices.
"""

import re
import tomllib
from collections.abc import Iterable, Mapping
from functools import cache
from pathlib import Path
from typing import Any, Literal

import msgspec

from roofline.core import units
from roofline.core.machine import Ceiling, Level, Machine
from roofline.core.precision import Precision
from roofline.errors import MachineError, UsageError

_HEADER = re.compile(r"^\[([A-Za-z0-9_-]+)\][ \t]*$", re.MULTILINE)
_NAMES = re.compile(r"^(name|aliases|shared_names)\s*=\s*(\[[^\]]*\]|\"[^\"]*\")", re.MULTILINE)
_QUOTED = re.compile(r'"([^"]*)"')
_VENDOR_WORD = re.compile(r"^(nvidia|amd|google|intel|apple|aws)-")


class Table(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A device as written in TOML: figures are strings with units, read by `roofline.core.units`.

    Attributes:
        name: Full name.
        vendor: Who makes it.
        kind: What it is.
        aliases: Names that drivers and frameworks report for this device and no other.
        shared_names: Names that don't tell this device from another: ambiguous unless facts decide.
        compute: Compute capability "major.minor", as CUDA and ROCm report it.
        memory: Capacity as marketed; drivers report a little less.
        inline_ecc: Error correction, where it is on, takes a sixteenth of the memory.
        multiprocessors: SMs, CUs or cores.
        binned: Lower counts that the same chip is sold with.
        boost_clock: Highest clock by default.
        matrix_clock: Clock that the matrix rates are quoted at, where it is another.
        tdp: Power limit by default.
        launch: Time that one empty op costs the host.
        matrix: Dense rates of the matrix engine.
        vector: Rates of the vector engine.
        bandwidth: By memory level or link, one direction.
        cache: Capacity by cache level.
        source: Where the figures are from.
        sources: Sources of single figures: section, then figure.
        read_on: When they were read.
        notes: What a user of the figures should know.
        generic_names: Names that drivers report for GPUs that they can't name (shared by a file's tables).
    """

    name: str
    vendor: str = ""
    kind: Literal["gpu", "cpu", "accelerator"] = "gpu"
    aliases: tuple[str, ...] = ()
    shared_names: tuple[str, ...] = ()
    compute: str = ""
    memory: str | None = None
    inline_ecc: bool = False
    multiprocessors: int | None = None
    binned: tuple[int, ...] = ()
    boost_clock: str | None = None
    matrix_clock: str | None = None
    tdp: str | None = None
    launch: str | None = None
    matrix: dict[Precision, str] = {}
    vector: dict[Precision, str] = {}
    bandwidth: dict[Level, str] = {}
    cache: dict[Level, str] = {}
    source: str = ""
    sources: dict[str, dict[str, str]] = {}
    read_on: str = ""
    notes: tuple[str, ...] = ()
    generic_names: tuple[str, ...] = ()


class Names(msgspec.Struct, frozen=True):
    """Who answers to which folded name.

    Attributes:
        exact: The one device of a name.
        shared: The devices that share a name.
        spelled: A folded name as it is written in the database.
    """

    exact: Mapping[str, str]
    shared: Mapping[str, tuple[str, ...]]
    spelled: Mapping[str, str]


def fold(name: str) -> str:
    """Reduce a name to what it says: no case, no (R) or (TM), no vendor in front, "-" for blanks and underscores.

    Drivers before 2020 reported "A100-SXM4-40GB" for today's "NVIDIA A100-SXM4-40GB".
    """
    return _VENDOR_WORD.sub("", _dashed(name))


def _dashed(name: str) -> str:
    plain = re.sub(r"\((?:r|tm)\)|[®™]", "", name.casefold())
    return re.sub(r"[\s_-]+", "-", plain).strip("-")


@cache
def _blocks() -> dict[str, tuple[str, str]]:
    """Text by key: what its file's tables share, and the table itself."""
    found: dict[str, tuple[str, str]] = {}
    for path in sorted(Path(__file__).parent.glob("*.toml")):
        shared, *parts = _HEADER.split(path.read_text("utf-8"))
        for key, body in zip(parts[::2], parts[1::2], strict=True):
            assert key not in found, f"two tables are called {key}"
            found[key] = (shared, body)
    return found


@cache
def names() -> Names:
    """Read every name off the tables' text, without parsing the tables."""
    exact: dict[str, str] = {}
    shared: dict[str, tuple[str, ...]] = {}
    spelled: dict[str, str] = {}
    for key, (_, body) in _blocks().items():
        spelled[fold(key)] = key
        exact[fold(key)] = key
        for field, text in _NAMES.findall(body):
            for name in _QUOTED.findall(text):
                spelled.setdefault(fold(name), name)
                if field == "shared_names":
                    shared[fold(name)] = (*shared.get(fold(name), ()), key)
                else:
                    exact[fold(name)] = key
    return Names(exact, shared, spelled)


def keys_of(name: str) -> tuple[str, ...]:
    """List the machines that a name means: one, or those that share it; none of another vendor than it says."""
    known, wanted = names(), fold(name)
    found = (known.exact[wanted],) if wanted in known.exact else known.shared.get(wanted, ())
    vendor = _VENDOR_WORD.match(_dashed(name))
    return tuple(key for key in found if not vendor or table(key).vendor.casefold() == vendor[1])


def device_keys() -> list[str]:
    """List the keys of all devices, in the order of the files."""
    return list(_blocks())


@cache
def table(key: str) -> Table:
    """Parse the table of one device."""
    shared, body = _blocks()[key]
    return msgspec.convert({**tomllib.loads(shared), **tomllib.loads(body)}, Table, strict=False)


@cache
def machine(key: str) -> Machine:
    """Give the machine of one key of the database."""
    return to_machine(key, table(key))


def all_machines() -> list[Machine]:
    """List every machine of the database."""
    return [machine(key) for key in device_keys()]


def read_tables(data: Mapping[str, Any], origin: str) -> dict[str, Table]:
    """Read tables in the database's form from parsed TOML that is not ours; `origin` names it in errors.

    Raises:
        MachineError: A field is unknown, missing or malformed.
    """
    common = {k: v for k, v in data.items() if not isinstance(v, dict)}
    tables = {k: v for k, v in data.items() if isinstance(v, dict)}
    try:
        return {key: msgspec.convert({**common, **body}, Table) for key, body in tables.items()}
    except msgspec.ValidationError as error:
        raise MachineError(f"{origin} describes no machine: {error}", _FORM) from None


def to_machine(key: str, written: Table) -> Machine:
    """Turn a table into a machine.

    Raises:
        UsageError: A figure is no quantity in its unit.
    """
    return Machine(
        key=key,
        name=written.name,
        vendor=written.vendor,
        kind=written.kind,
        aliases=written.aliases,
        matrix={p: _ceiling(written, "matrix", p, text, _rate(p)) for p, text in written.matrix.items()},
        vector={p: _ceiling(written, "vector", p, text, _rate(p)) for p, text in written.vector.items()},
        bandwidth={at: _ceiling(written, "bandwidth", at, text, "B/s") for at, text in written.bandwidth.items()},
        launch_s=_ceiling(written, "launch", "launch", written.launch, "s") if written.launch else None,
        memory_bytes=round(units.parse(written.memory, "B")) if written.memory else None,
        cache_bytes={level: round(units.parse(text, "B")) for level, text in written.cache.items()},
        multiprocessors=written.multiprocessors,
        boost_hz=units.parse(written.boost_clock, "Hz") if written.boost_clock else None,
        tdp_w=units.parse(written.tdp, "W") if written.tdp else None,
        source=written.source,
        read_on=written.read_on,
        notes=written.notes,
    )


def _rate(precision: Precision) -> units.Unit:
    return "OP/s" if precision.is_integer else "FLOP/s"


def _ceiling(written: Table, section: str, figure: str, text: str, unit: units.Unit) -> Ceiling:
    value = units.parse(text, unit)
    if value == 0:
        raise UsageError(f'{section}.{figure} of "{written.name}" is 0', "leave out a figure that is not known")
    source = written.sources.get(section, {}).get(figure, written.source)
    return Ceiling(value, "datasheet", source)


def describe(machines: Iterable[Machine]) -> str:
    """List machines by key with the facts that tell variants apart."""
    return "; ".join(f"{m.key} ({', '.join(_facts(m))})" for m in machines)


def _facts(m: Machine) -> list[str]:
    facts = [m.name]
    if m.memory_bytes:
        facts.append(units.show(m.memory_bytes, "B", capacity=True))
    if m.multiprocessors:
        facts.append(f"{m.multiprocessors} multiprocessors")
    if m.boost_hz:
        facts.append(units.show(m.boost_hz, "Hz"))
    return facts


_FORM = (
    'one table per machine, for example: [my-gpu] name = "My GPU" matrix = { bf16 = "125 TFLOP/s" } '
    'bandwidth = { dram = "600 GB/s" }'
)
