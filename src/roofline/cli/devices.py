"""`roofline devices`: what the machines can do."""

import json
from textwrap import wrap
from typing import Any

import click

from roofline.cli.stdout import columns, emit
from roofline.core.machine import Ceiling, Machine
from roofline.core.precision import Precision
from roofline.core.units import show

_SHOWN = (Precision.BF16, Precision.FP16, Precision.TF32, Precision.FP8, Precision.FP4, Precision.INT8)


@click.command()
@click.argument("names", nargs=-1)
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def command(names: tuple[str, ...], as_json: bool) -> None:
    """Show the dense peaks, bandwidths and ridge points of machines.

    NAME is a short key, a full name, or a device name as a driver reports it: h100-sxm, "NVIDIA L40S". Without a
    name, all machines are listed.
    """
    from roofline import machines

    found = [machines.resolve(name) for name in names] if names else machines.all_machines()
    if as_json:
        emit(json.dumps({"devices": [as_plain(m) for m in found]}, indent=2) + "\n")
    elif len(found) == 1:
        emit(sheet(found[0]) + "\n")
    else:
        emit(_table(found) + "\n")


def as_plain(machine: Machine) -> dict[str, Any]:
    """One machine as the JSON contract has it: values in SI units, unknown left out of the maps, null elsewhere."""
    ridges = {p: machine.ridge_point(p) for p in machine.matrix} if "dram" in machine.bandwidth else {}
    return {
        "name": machine.name,
        "key": machine.key,
        "vendor": machine.vendor,
        "aliases": list(machine.aliases),
        "memory_bytes": machine.memory_bytes,
        "source": machine.source,
        "read_on": machine.read_on or None,
        "bandwidth_bytes_per_s": _values(machine.bandwidth),
        "dense_flops_per_s": {"matrix": _values(machine.matrix), "vector": _values(machine.vector)},
        "ridge_point_flops_per_byte": {str(p): ridge for p, ridge in ridges.items()},
        "notes": list(machine.notes),
    }


def _values(ceilings: Any) -> dict[str, float]:
    return {str(key): ceiling.value for key, ceiling in ceilings.items()}


def _table(found: list[Machine]) -> str:
    """Machines side by side: dense matrix peaks in TFLOP/s, bandwidth, BF16 ridge."""
    heads = ["key", "bandwidth", *(p.upper() for p in _SHOWN), "ridge"]
    rows = [heads]
    for m in found:
        main = Precision.BF16 if Precision.BF16 in m.matrix else Precision.FP16
        dram = m.bandwidth.get("dram")
        ridge = f"{m.ridge_point(main):.0f}" if dram and main in m.matrix else "-"
        peaks = [_tera(m.matrix[p].value) if p in m.matrix else "-" for p in _SHOWN]
        rows.append([m.key, show(dram.value, "B/s") if dram else "-", *peaks, ridge])
    widths = [max(len(row[i]) for row in rows) for i in range(len(heads))]
    lines = [
        " ".join(
            cell.ljust(w) if i == 0 else cell.rjust(w) for i, (cell, w) in enumerate(zip(row, widths, strict=True))
        )
        for row in rows
    ]
    note = "dense matrix peaks in TFLOP/s (INT8: TOP/s); ridge in FLOP/B at BF16 (FP16 where there is no BF16)"
    return "\n".join([*(line.rstrip() for line in lines), *wrap(note, columns())])


def _tera(rate: float) -> str:
    """At most five characters, and four digits, as datasheets give them."""
    return f"{rate / 1e12:.0f}" if rate >= 1e15 else f"{rate / 1e12:.4g}"


def sheet(m: Machine) -> str:
    """One machine in full: every ceiling with its ridge point and its origin."""
    lines = [f"{m.name}  ({m.key})"]
    if m.memory_bytes:
        lines.append(f"memory     {show(m.memory_bytes, 'B', capacity=True)}")
    lines += [f"cache      {level} {show(size, 'B', capacity=True)}" for level, size in m.cache_bytes.items()]
    lines += _rates("bandwidth", [(str(k), c) for k, c in m.bandwidth.items()], lambda k, c: show(c.value, "B/s"))
    lines += _rates("matrix", [(str(p), c) for p, c in m.matrix.items()], lambda p, c: _rate(m, Precision(p), c))
    lines += _rates("vector", [(str(p), c) for p, c in m.vector.items()], lambda p, c: show(c.value, "FLOP/s"))
    if m.launch_s:
        lines.append(f"launch     {show(m.launch_s.value, 's')} per op  {m.launch_s.origin}")
    for note in m.notes:
        lines += _wrapped("note", note)
    if m.source:
        lines += _wrapped("source", m.source + (f" (read {m.read_on})" if m.read_on else ""))
    return "\n".join(lines)


def _wrapped(title: str, sentence: str) -> list[str]:
    return wrap(sentence, columns(), initial_indent=f"{title:<10} ", subsequent_indent=" " * 11)


def _rate(m: Machine, precision: Precision, ceiling: Ceiling) -> str:
    rate = show(ceiling.value, "OP/s" if precision.is_integer else "FLOP/s")
    if "dram" not in m.bandwidth:
        return rate
    ridge = m.ridge_point(precision)
    shown = f"{ridge:.0f}" if ridge >= 10 else f"{ridge:.3g}"
    return f"{rate:<14} ridge point {shown} {'OP/B' if precision.is_integer else 'FLOP/B'}"


def _rates(title: str, ceilings: list[tuple[str, Ceiling]], text: Any) -> list[str]:
    return [
        f"{title if i == 0 else '':<10} {key:<7} {text(key, c)}"
        + ("" if c.origin == "datasheet" else f"  {c.origin}")
        for i, (key, c) in enumerate(ceilings)
    ]
