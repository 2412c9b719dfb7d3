"""From single calls to the rows, module totals and coverage of a Run."""

from collections.abc import Sequence

from roofline.core.run import Coverage, ModuleTotal, OpBytes, OpRecord, UnknownOp
from roofline.counter.call import OpCall


def op_rows(
    calls: Sequence[OpCall], cached: Sequence[float] | None, seconds: Sequence[float | None] | None = None
) -> tuple[OpRecord, ...]:
    """Merge calls of one op with the same module, phase, shapes and precision.

    Args:
        calls: The calls in order.
        cached: DRAM bytes of each call, if a cache was modelled.
        seconds: Measured time of each call, if timed.
    """
    groups: dict[tuple[object, ...], list[int]] = {}
    for i, c in enumerate(calls):
        groups.setdefault((c.name, c.module, c.phase, c.tensor_shapes, c.precision, c.formula), []).append(i)
    return tuple(_row(calls, members, cached, seconds) for members in groups.values())


def _row(
    calls: Sequence[OpCall],
    members: list[int],
    cached: Sequence[float] | None,
    seconds: Sequence[float | None] | None,
) -> OpRecord:
    group = [calls[i] for i in members]
    first = group[0]
    executed = sum(c.cost.matrix for c in group)
    vector = sum(c.cost.vector for c in group)
    timed = [s for i in members if seconds is not None and (s := seconds[i]) is not None]
    return OpRecord(
        name=first.name,
        module=first.module,
        phase=first.phase,
        calls=len(group),
        shapes=first.shapes,
        precision=first.precision,
        engine="matrix" if executed else "vector" if vector else None,
        needed_flops=sum(_needed(c) for c in group),
        executed_flops=executed,
        vector_flops=vector,
        bytes=OpBytes(
            operator=sum(c.operator_bytes for c in group),
            cached=sum(cached[i] for i in members) if cached is not None else None,
        ),
        network_bytes=sum(c.cost.network_bytes for c in group),
        # A row of which only some calls were timed is scaled up from those.
        seconds=sum(timed) * len(group) / len(timed) if timed else None,
        formula=first.formula,
    )


def _needed(c: OpCall) -> float:
    if c.recomputed:
        return 0
    return c.cost.matrix if c.cost.needed is None else c.cost.needed


def module_rows(
    ops: Sequence[OpRecord], kinds: dict[str, str], module_calls: dict[str, int]
) -> tuple[ModuleTotal, ...]:
    """Totals by module: own ops and those of the modules below, so that children never exceed their parent."""
    totals: dict[str, list[OpRecord]] = {path: [] for path in ("", *kinds)}
    for op in ops:
        for path in _with_parents(op.module):
            if path in totals:
                totals[path].append(op)
    return tuple(
        ModuleTotal(
            path=path,
            kind=kinds.get(path, ""),
            calls=module_calls.get(path, 0),
            needed_flops=sum(o.needed_flops for o in own),
            executed_flops=sum(o.executed_flops for o in own),
            vector_flops=sum(o.vector_flops for o in own),
            operator_bytes=sum(o.bytes.operator or 0 for o in own),
            seconds=sum(o.seconds or 0 for o in own) if any(o.seconds is not None for o in own) else None,
        )
        for path, own in totals.items()
    )


def _with_parents(path: str) -> list[str]:
    """The path and all above it: "a.b" → "a.b", "a", ""."""
    paths = [path]
    while path:
        path = path.rpartition(".")[0]
        paths.append(path)
    return paths


def coverage_of(ops: Sequence[OpRecord], free_calls: int) -> Coverage:
    """Share of op calls that have a formula or are free, and the others by name."""
    total_calls = free_calls + sum(o.calls for o in ops)
    total_bytes = sum(o.bytes.operator or 0 for o in ops)
    total_s = sum(o.seconds or 0 for o in ops)
    unknown: dict[str, list[OpRecord]] = {}
    for o in ops:
        if o.formula == "none":
            unknown.setdefault(o.name, []).append(o)
    missed = sum(o.calls for rows in unknown.values() for o in rows)
    return Coverage(
        counted_fraction=1 - missed / total_calls if total_calls else 1.0,
        unknown_ops=tuple(
            UnknownOp(
                name=name,
                calls=sum(o.calls for o in rows),
                bytes_fraction=sum(o.bytes.operator or 0 for o in rows) / total_bytes if total_bytes else 0.0,
                time_fraction=sum(o.seconds or 0 for o in rows) / total_s if total_s else None,
            )
            for name, rows in unknown.items()
        ),
    )
