"""Which machine a device is, from what a driver, a framework or a trace says of it. Pure: no hardware is asked.

The name decides. Where it is shared by variants, generic or empty, memory size, multiprocessors, compute
capability and clock decide between the candidates; where they can't, the answer is an error, not a guess.
"""

import msgspec

from roofline.core import units
from roofline.core.machine import Machine
from roofline.errors import MachineError
from roofline.machines import mig
from roofline.machines.database import Table, device_keys, fold, keys_of, machine, table
from roofline.machines.find import ambiguous, unknown

# Least share of the marketed memory that drivers report: 0.979 (RTX 4090), 0.985 (A100 40GB); with error
# correction inside the memory 0.911 (T4), 0.919 (A10G). More than all of it: "GB" that were decimal after all.
_LEAST, _LEAST_ECC, _MOST = 0.96, 0.90, 1.03
_CLOCK_TOLERANCE = 0.01
_OVERRIDE = (
    'name it: --machine NAME, or give the ceilings: --peak-flops "bf16=125 TFLOP/s" --peak-bandwidth "600 GB/s"'
)


class Facts(msgspec.Struct, frozen=True, kw_only=True):
    """What is known of a device beside its name; None and "" are unknown.

    Attributes:
        memory_bytes: Total memory as reported.
        multiprocessors: SMs, CUs or cores.
        clock_hz: Highest clock as reported.
        compute: Compute capability "major.minor".
    """

    memory_bytes: int | None = None
    multiprocessors: int | None = None
    clock_hz: float | None = None
    compute: str = ""


def identify(
    name: str,
    *,
    memory_bytes: int | None = None,
    multiprocessors: int | None = None,
    clock_hz: float | None = None,
    compute: str = "",
) -> Machine:
    """Identify a device by its name and what else is known of it.

    Args:
        name: As the driver, framework or trace reports it; may be empty or generic.
        memory_bytes: Total memory, B.
        multiprocessors: SMs, CUs or cores.
        clock_hz: Highest clock, Hz.
        compute: Compute capability "major.minor".

    Raises:
        MachineError: The name is unknown, the facts fit no machine of that name, or several.
    """
    facts = Facts(memory_bytes=memory_bytes, multiprocessors=multiprocessors, clock_hz=clock_hz, compute=compute)
    piece = mig.parse(name)
    if piece:
        # The reported facts are the slice's, so only the whole GPU's name can tell which GPU it is cut from.
        whole = _whole(piece) if len(keys_of(piece.whole)) > 1 else identify(piece.whole, compute=compute)
        return mig.slice_of(whole, piece, facts.memory_bytes, facts.multiprocessors)
    keys = keys_of(name)
    if len(keys) == 1:
        return _confirmed(name, keys[0], facts)
    if keys:
        return _told_apart(name, list(keys), facts)
    if fold(name) in _generic():
        return _unnamed(name, _generic()[fold(name)], facts)
    raise unknown(name)


def _confirmed(name: str, key: str, facts: Facts) -> Machine:
    clash = clashes(table(key), facts)
    if clash:
        raise MachineError(
            f'the device calls itself "{name}" but has {", ".join(clash)}', f"a partition? {_OVERRIDE}"
        )
    return _binned(machine(key), facts)


def _told_apart(name: str, candidates: list[str], facts: Facts) -> Machine:
    fitting = [key for key in candidates if not clashes(table(key), facts)]
    if not fitting:
        known = "; ".join(f"{key}: {', '.join(clashes(table(key), facts))}" for key in candidates)
        raise MachineError(f'"{name}" fits no machine that reports this name: {known}', _OVERRIDE)
    chosen = _by_clock(fitting, facts)
    if len(chosen) > 1:
        raise ambiguous(name, [machine(key) for key in chosen], apart=_apart(chosen, facts))
    return _binned(machine(chosen[0]), facts)


def _unnamed(name: str, candidates: list[str], facts: Facts) -> Machine:
    if not facts.memory_bytes or not facts.multiprocessors:
        raise MachineError(
            f'the device calls itself "{name}", which names no machine, and its memory size and multiprocessor '
            "count are not both known",
            _OVERRIDE,
        )
    found = _told_apart(name, [key for key in candidates if not _unsure(table(key))], facts)
    note = f'the device calls itself "{name}": identified by its memory size and multiprocessor count'
    return msgspec.structs.replace(found, notes=(*found.notes, note))


def clashes(written: Table, facts: Facts) -> list[str]:
    """Say which facts a machine contradicts; unknown ones contradict nothing."""
    found = []
    if facts.memory_bytes and written.memory:
        marketed = units.parse(written.memory, "B")
        least = _LEAST_ECC if written.inline_ecc else _LEAST
        if not least <= facts.memory_bytes / marketed <= _MOST:
            seen = units.show(facts.memory_bytes, "B", capacity=True)
            found.append(f"{seen} of memory, not {written.memory}")
    counts = (written.multiprocessors, *written.binned)
    if facts.multiprocessors and written.multiprocessors and facts.multiprocessors not in counts:
        found.append(f"{facts.multiprocessors} multiprocessors, not {written.multiprocessors}")
    if facts.compute and written.compute and facts.compute != written.compute:
        found.append(f"compute capability {facts.compute}, not {written.compute}")
    return found


def _by_clock(fitting: list[str], facts: Facts) -> list[str]:
    """Keep those of the reported clock, if any: cards overclock, so a clock decides but never contradicts."""
    if len(fitting) == 1 or not facts.clock_hz:
        return fitting
    clocks = {key: machine(key).boost_hz for key in fitting}
    same = [k for k, hz in clocks.items() if hz and abs(facts.clock_hz / hz - 1) <= _CLOCK_TOLERANCE]
    return same or fitting


def _apart(candidates: list[str], facts: Facts) -> str:
    """Say what would tell the candidates apart."""
    tables = [table(key) for key in candidates]
    differing = [
        label
        for label, given, values in (
            ("memory size", facts.memory_bytes, {t.memory for t in tables}),
            ("multiprocessor count", facts.multiprocessors, {t.multiprocessors for t in tables}),
            ("highest clock", facts.clock_hz, {t.boost_clock for t in tables}),
            ("compute capability", facts.compute, {t.compute for t in tables}),
        )
        if not given and len(values) > 1
    ]
    if differing:
        return f"what would tell them apart: {', '.join(differing)}"
    same = len({_ceilings(machine(key)) for key in candidates}) == 1
    return "only the product's name tells them apart" + ("; their rates and bandwidth are the same" if same else "")


def _ceilings(m: Machine) -> tuple[tuple[str, float], ...]:
    rates = [*m.matrix.items(), *m.vector.items(), ("dram", m.bandwidth["dram"])]
    return tuple((str(what), ceiling.value) for what, ceiling in rates)


def _binned(m: Machine, facts: Facts) -> Machine:
    """Scale the compute rates of a chip that is sold with fewer cores."""
    count = facts.multiprocessors
    if not count or not m.multiprocessors or count == m.multiprocessors:
        return m
    share = count / m.multiprocessors
    return msgspec.structs.replace(
        m,
        multiprocessors=count,
        matrix=mig.scale_rates(m.matrix, share),
        vector=mig.scale_rates(m.vector, share),
        notes=(*m.notes, f"{count} of {m.multiprocessors} cores: compute rates scaled"),
    )


def _whole(piece: mig.Piece) -> Machine:
    """Find the GPU that a slice of a shared name is cut from, by the memory that the slice's profile implies."""
    candidates = keys_of(piece.whole)
    fitting = [k for k in candidates if mig.is_profile_of(piece, machine(k))]
    if len(fitting) != 1:
        raise ambiguous(piece.whole, [machine(k) for k in fitting or candidates])
    return machine(fitting[0])


def _generic() -> dict[str, list[str]]:
    """Candidates by generic name; an empty name may be any GPU."""
    found: dict[str, list[str]] = {"": [key for key in device_keys() if table(key).kind == "gpu"]}
    for key in device_keys():
        for name in table(key).generic_names:
            found.setdefault(fold(name), []).append(key)
    return found


def _unsure(written: Table) -> bool:
    """Whether a table lacks what an unnamed device is identified by."""
    return written.memory is None or written.multiprocessors is None
