"""Machines and ceilings that the user gives: a machine file, or two numbers on the command line."""

import math
from codecs import BOM_UTF8
from pathlib import Path

import msgspec

from roofline.core.figures import absurd
from roofline.core.machine import Ceiling, Machine
from roofline.core.precision import Precision
from roofline.errors import MachineError, UsageError
from roofline.machines.database import read_tables, to_machine
from roofline.machines.find import find

_MAKE_ONE = "a machine file is made by: roofline calibrate -o machine.json"


def override(
    machine: Machine | None,
    peak_flops: float | None = None,
    peak_bandwidth: float | None = None,
    precision: Precision = Precision.BF16,
) -> Machine:
    """Replace ceilings of a machine by given ones; None as machine starts from nothing.

    Args:
        machine: The machine to start from, or None where it is unknown.
        peak_flops: Rate of the matrix engine in `precision`, FLOP/s (OP/s for integers).
        peak_bandwidth: Memory bandwidth, B/s.
        precision: What `peak_flops` is the rate of.

    Raises:
        UsageError: A given ceiling is not a positive finite number.
    """
    base = machine or Machine(key="given", name="given machine", source="given by the user")
    matrix, bandwidth = dict(base.matrix), dict(base.bandwidth)
    if peak_flops is not None:
        matrix[precision] = Ceiling(_positive(peak_flops, "--peak-flops"), "given", "--peak-flops")
    if peak_bandwidth is not None:
        bandwidth["dram"] = Ceiling(_positive(peak_bandwidth, "--peak-bandwidth"), "given", "--peak-bandwidth")
    return msgspec.structs.replace(base, matrix=matrix, bandwidth=bandwidth)


def resolve(text: str) -> Machine:
    """Give the machine that `--machine TEXT` means: a file if it ends in .json or .toml, else a name.

    Raises:
        MachineError: The file can't be read or describes no machine; the name is unknown or ambiguous.
    """
    if Path(text).suffix.lower() in (".json", ".toml"):
        return load_machine(text)
    return find(text)


def load_machine(path: str | Path) -> Machine:
    """Read a machine file: JSON as `save_machine` writes it, or one TOML table in the form of the database.

    Raises:
        MachineError: The file is missing, damaged, or describes no machine or several.
    """
    try:
        data = Path(path).read_bytes().removeprefix(BOM_UTF8)
    except OSError as error:
        raise MachineError(f"can't read the machine file {path}: {error.strerror}", _MAKE_ONE) from None
    machine = _from_toml(data, path) if Path(path).suffix.lower() == ".toml" else _from_json(data, path)
    for ceiling in (*machine.matrix.values(), *machine.vector.values(), *machine.bandwidth.values()):
        _positive(ceiling.value, f"a ceiling in {path}")
    if wrong := absurd(machine):
        raise MachineError(f"a figure in {path} is none: {wrong.lstrip('.')}", _MAKE_ONE)
    return machine


def save_machine(machine: Machine, path: str | Path) -> Path:
    """Write a machine file that `--machine` takes; it is complete or absent.

    Raises:
        RunFileError: The file can't be written.
    """
    from roofline.core.run import write_whole

    return write_whole(path, msgspec.json.format(msgspec.json.encode(machine), indent=2) + b"\n")


def _from_json(data: bytes, path: str | Path) -> Machine:
    try:
        return msgspec.json.decode(data, type=Machine)
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise MachineError(f"{path} describes no machine: {error}", _MAKE_ONE) from None


def _from_toml(data: bytes, path: str | Path) -> Machine:
    import tomllib

    try:
        parsed = tomllib.loads(data.decode("utf-8"))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise MachineError(f"{path} is no TOML: {error}", _MAKE_ONE) from None
    tables = read_tables(parsed, str(path))
    if len(tables) != 1:
        raise MachineError(f"{path} describes {len(tables)} machines, expected one", "keep one table in the file")
    ((key, written),) = tables.items()
    return to_machine(key, written)


def _positive(value: float, what: str) -> float:
    if not (math.isfinite(value) and value > 0):
        raise UsageError(
            f"{what} is {value:g}, expected a positive number", 'write it like "989 TFLOP/s", "3.35 TB/s"'
        )
    return value
