"""Rows of the tables: ops with what they could gain, modules as a tree, ceilings with their sources."""

from collections.abc import Iterable
from math import isfinite

import msgspec

from roofline.core.machine import Ceiling, Machine
from roofline.core.run import BytesOrigin, ModuleTotal, OpBytes, OpRecord, Run
from roofline.core.units import Unit, show


class Row(msgspec.Struct, frozen=True):
    """One row of ops, ready to show. Unknown is None.

    Attributes:
        op: The record itself.
        name: Its name without the namespace of torch's own ops.
        module: Path of its module, printable; "(program)" outside any module.
        shapes: Its input shapes, printable.
        flops: FLOP of the engine that does most of its arithmetic; None where no formula counts it.
        moved_bytes: Bytes by the origin that the Run is judged by, else the best at hand; None if unknown.
        intensity: `flops` / `moved_bytes`, FLOP/B.
        rate: `flops` / seconds, else `flops` / roof time where nothing was timed, FLOP/s.
        share: Of the time of all ops; of their roof time where nothing was timed.
        gain_s: Seconds − roof time, at least 0; what it could save at most.
    """

    op: OpRecord
    name: str
    module: str
    shapes: str
    flops: float | None
    moved_bytes: float | None
    intensity: float | None
    rate: float | None
    share: float | None
    gain_s: float | None

    @property
    def bound(self) -> str:
        """The ceiling that binds it; "" if unknown."""
        return self.op.bound.value if self.op.bound else ""

    @property
    def above_roof(self) -> bool:
        """Whether it ran faster than its roof."""
        return (self.op.efficiency_fraction or 0) > 1


def printable(text: object) -> str:
    """Make a name from a program or a file safe to print: no control, direction or other invisible characters."""
    return "".join(c if c.isprintable() else "\N{REPLACEMENT CHARACTER}" for c in str(text))


def short_name(name: str) -> str:
    """Name an op without the namespace of torch's own ops."""
    return printable(name).removeprefix("aten.").removeprefix("aten::").removesuffix(".default")


def is_timed(run: Run) -> bool:
    """Whether any op has a time of its own."""
    return any(op.seconds is not None for op in run.ops)


def op_time(run: Run) -> float | None:
    """Time of all ops together, s: measured, else at the roof; None if neither is known."""
    return _total(op.seconds if is_timed(run) else op.roof_s for op in run.ops)


def op_rows(run: Run) -> list[Row]:
    """All ops, those with the most to gain first; by roof time where nothing was timed.

    Ops that have a time but no roof follow by their time: what they could gain is unknown.
    """
    return _sorted_rows(run, run.ops)


def op_kinds(run: Run) -> list[Row]:
    """Ops of one kind (name, phase and bound) in one row each, in the same order as `op_rows`.

    The module is the one where the kind gains most, with how many others it runs in: "layer1.0.conv3 +52".
    """
    kinds: dict[tuple[str, str, str], list[Row]] = {}
    for row in op_rows(run):
        kinds.setdefault((row.op.name, row.op.phase, row.bound), []).append(row)
    return _sorted_rows(run, [_merged([row.op for row in rows]) for rows in kinds.values()])


def _merged(ops: list[OpRecord]) -> OpRecord:
    first, others = ops[0], len({op.module for op in ops}) - 1
    seconds, roof = _total(op.seconds for op in ops), _total(op.roof_s for op in ops)
    precisions = {op.precision for op in ops}
    return msgspec.structs.replace(
        first,
        module=f"{first.module} +{others}" if others else first.module,
        calls=sum(op.calls for op in ops),
        shapes=first.shapes if len(ops) == 1 else "",
        precision=first.precision if len(precisions) == 1 else None,
        needed_flops=sum(op.needed_flops for op in ops),
        executed_flops=sum(op.executed_flops for op in ops),
        vector_flops=sum(op.vector_flops for op in ops),
        bytes=OpBytes(
            operator=_total(op.bytes.operator for op in ops),
            cached=_total(op.bytes.cached for op in ops),
            measured=_total(op.bytes.measured for op in ops),
        ),
        network_bytes=sum(op.network_bytes for op in ops),
        seconds=seconds,
        roof_s=roof,
        efficiency_fraction=roof / seconds if roof is not None and seconds else None,
    )


def _sorted_rows(run: Run, ops: Iterable[OpRecord]) -> list[Row]:
    timed, total = is_timed(run), op_time(run)
    origin = run.verdict.bytes_origin if run.verdict else None
    rows = [_row(op, total, origin, timed=timed) for op in ops]

    def key(row: Row) -> tuple[float, float]:
        if not timed:
            return (_or(row.op.roof_s, -1), row.flops or 0)
        return (_or(row.gain_s, -1), _or(row.op.seconds, -1))

    return sorted(rows, key=key, reverse=True)


def module_rows(run: Run) -> list[tuple[int, ModuleTotal]]:
    """Modules as a tree: every module after its parent, in the order of their first appearance, with its depth."""
    first: dict[str, int] = {}
    for number, total in enumerate(run.modules):
        for prefix in _prefixes(total.path):
            first.setdefault(prefix, number)

    def key(total: ModuleTotal) -> list[tuple[int, str]]:
        return [(first[prefix], prefix) for prefix in _prefixes(total.path)]

    return [(len(_prefixes(total.path)), total) for total in sorted(run.modules, key=key)]


def ceiling_rows(machine: Machine) -> list[tuple[str, str, str, str]]:
    """The limits of a machine: what, value, origin, source."""
    rows = [
        *(
            _ceiling(f"{p} matrix", c, "OP/s" if p.is_integer else "FLOP/s", machine)
            for p, c in machine.matrix.items()
        ),
        *(
            _ceiling(f"{p} vector", c, "OP/s" if p.is_integer else "FLOP/s", machine)
            for p, c in machine.vector.items()
        ),
        *(_ceiling(f"{level} bandwidth", c, "B/s", machine) for level, c in machine.bandwidth.items()),
    ]
    if machine.launch_s:
        rows.append(_ceiling("launch of one op", machine.launch_s, "s", machine))
    return rows


def _row(op: OpRecord, total: float | None, origin: BytesOrigin | None, *, timed: bool) -> Row:
    flops = _engine_flops(op)
    seconds = op.seconds if timed else op.roof_s
    gain = max(0.0, op.seconds - op.roof_s) if op.seconds is not None and op.roof_s is not None else None
    known = any(b is not None for b in (op.bytes.measured, op.bytes.cached, op.bytes.operator))
    moved = op.bytes.by(origin) if known else None
    return Row(
        op=op,
        name=short_name(op.name),
        module=printable(op.module) or "(program)",
        shapes=printable(op.shapes),
        flops=flops,
        moved_bytes=moved,
        intensity=flops / moved if flops is not None and moved else None,
        rate=flops / seconds if flops is not None and seconds else None,
        share=seconds / total if seconds is not None and total else None,
        gain_s=gain,
    )


def _engine_flops(op: OpRecord) -> float | None:
    """FLOP of one engine only: FLOP of the two engines have different roofs and don't add up to a rate."""
    if op.formula == "none":
        return None
    if op.engine == "vector":
        return op.vector_flops
    return op.executed_flops or op.vector_flops


def _ceiling(what: str, ceiling: Ceiling, unit: Unit, machine: Machine) -> tuple[str, str, str, str]:
    source = ceiling.source or machine.source or "n/a"
    return (what, show(ceiling.value, unit), ceiling.origin, printable(source))


def _prefixes(path: str) -> list[str]:
    """Every path on the way to `path`: "a.b" gives "a", "a.b"."""
    parts = path.split(".") if path else []
    return [".".join(parts[:n]) for n in range(1, len(parts) + 1)]


def _total(values: Iterable[float | None]) -> float | None:
    known = [v for v in values if v is not None and isfinite(v)]
    return sum(known) if known else None


def _or(value: float | None, default: float) -> float:
    return default if value is None else value
