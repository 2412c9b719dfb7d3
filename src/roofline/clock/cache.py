"""Measured ceilings, kept in the user's cache folder so that a machine is measured once."""

import os
import re
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec
import torch

from roofline.clock.ceilings import AGREEMENT, quick, with_ceilings
from roofline.clock.environment import busy_fraction, busy_sentence
from roofline.clock.timers import Progress
from roofline.core.machine import Ceiling, Machine
from roofline.core.run import write_whole
from roofline.errors import RooflineError

# Raise when what a ceiling means changes, so that older files are measured anew.
VERSION = 3


class Kept(Machine, frozen=True, kw_only=True):
    """A machine with its measured ceilings as it is kept.

    Attributes:
        doubts: Why they may be wrong; the next quiet moment measures them anew.
    """

    doubts: tuple[str, ...] = ()


def ceilings_for(
    device: str, machine: Machine, *, refresh: bool = False, progress: Progress | None = None
) -> Machine:
    """Give the machine with its sustained ceilings: from the cache folder, else measured now and kept there.

    Ceilings that are unsteady, or were measured while other programs kept the cores busy, serve until the cores are
    quiet.

    Args:
        device: Where to measure.
        machine: Its identity, without measured ceilings.
        refresh: Measure even if there are kept ones.
        progress: Told in words what is going on, and what went wrong with the cache.

    Raises:
        ImplausibleError: Measuring gives nothing that can be believed.
    """
    say = progress or (lambda _: None)
    kept = None if refresh else kept_ceilings(machine, say)
    if kept and not kept.doubts:
        return _plain(kept)
    busy = busy_sentence(busy_fraction())
    if kept and busy:
        say(f"warning: the kept ceilings are doubtful ({'; '.join(kept.doubts)})")
        return _plain(kept)
    ceilings = quick(device, machine, progress=progress)
    measured = with_ceilings(machine, ceilings)
    doubts = (*filter(None, [busy]), *ceilings.doubts)
    if doubts:
        say(f"warning: {'; '.join(doubts)}: these ceilings are measured anew when the machine is quiet")
    try:
        keep(measured, doubts)
    except (OSError, RooflineError) as error:
        say(f"warning: the measured ceilings can't be kept for next time: {error}")
    return measured


def kept_ceilings(machine: Machine, progress: Progress | None = None) -> Kept | None:
    """The machine with the ceilings kept for it; None where there are none to use. Measures nothing.

    Args:
        machine: Its identity, without measured ceilings.
        progress: Told in words why a kept file can't be used.
    """
    return _load(cache_file(machine), machine, progress or (lambda _: None))


def apart(kept: Machine, found: Machine) -> dict[str, float]:
    """Ceilings that two calibrations put more than a tenth apart: found / kept by name, 0 for what is missing."""
    pairs = {
        **{f"{level} bandwidth": (c.value, found.bandwidth.get(level)) for level, c in kept.bandwidth.items()},
        **{f"{p} GEMM": (c.value, found.matrix.get(p)) for p, c in kept.matrix.items()},
    }
    ratios = {name: new.value / old if new else 0.0 for name, (old, new) in pairs.items() if old > 0}
    return {name: ratio for name, ratio in ratios.items() if abs(1 - ratio) > AGREEMENT * max(1.0, ratio)}


def better_of(kept: Machine, found: Machine) -> Machine:
    """A calibration with the better of its own and the kept ceilings: other programs only ever slow a rate down."""

    def better(ours: Mapping[Any, Ceiling], theirs: Mapping[Any, Ceiling]) -> dict[Any, Ceiling]:
        return {**ours, **{k: max(c, ours.get(k, c), key=lambda c: c.value) for k, c in theirs.items()}}

    return msgspec.structs.replace(
        found,
        matrix=better(found.matrix, kept.matrix),
        vector=better(found.vector, kept.vector),
        bandwidth=better(found.bandwidth, kept.bandwidth),
        held_bytes=found.held_bytes or kept.held_bytes,
    )


def keep(machine: Machine, doubts: tuple[str, ...] = ()) -> Path:
    """Save a machine with its measured ceilings, such as those of a full calibration, for `ceilings_for`.

    Args:
        machine: Measured.
        doubts: Why its ceilings may be wrong.

    Raises:
        RunFileError, OSError: The cache folder can't be written.
    """
    path = cache_file(machine)
    path.parent.mkdir(parents=True, exist_ok=True)
    kept = msgspec.json.encode({**msgspec.structs.asdict(machine), "doubts": doubts})
    return write_whole(path, msgspec.json.format(kept, indent=2) + b"\n")


def cache_file(machine: Machine) -> Path:
    """Where the ceilings of a machine are kept: one file per machine, torch version and number of threads."""
    parts = (machine.key, f"torch-{torch.__version__}", f"{torch.get_num_threads()}-threads", f"v{VERSION}")
    name = "-".join(re.sub(r"[^A-Za-z0-9.+]+", "-", part).strip("-.") for part in parts)
    return cache_folder() / f"{name}.json"


def cache_folder() -> Path:
    """The user's cache folder of roofline: $XDG_CACHE_HOME, else the platform's own."""
    given = os.environ.get("XDG_CACHE_HOME")
    if given:
        return Path(given) / "roofline"
    if sys.platform == "darwin":
        return Path.home() / "Library" / "Caches" / "roofline"
    if sys.platform == "win32":
        return Path(os.environ.get("LOCALAPPDATA") or Path.home() / "AppData" / "Local") / "roofline" / "Cache"
    return Path.home() / ".cache" / "roofline"


def _plain(kept: Kept) -> Machine:
    return Machine(**{name: getattr(kept, name) for name in Machine.__struct_fields__})


def _load(path: Path, machine: Machine, say: Progress) -> Kept | None:
    try:
        data = path.read_bytes()
    except FileNotFoundError:
        return None
    except OSError as error:
        say(f"warning: the kept ceilings can't be read ({error.strerror}); measuring anew")
        return None
    try:
        kept = msgspec.json.decode(data, type=Kept)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        say(f"warning: the kept ceilings are damaged ({error}); measuring anew")
        return None
    if _identity(kept) != _identity(machine) or not _complete(kept):
        say("warning: the kept ceilings are of another machine or incomplete; measuring anew")
        return None
    return kept


def _identity(machine: Machine) -> tuple[object, ...]:
    """Virtual machines share names: cores and caches belong to the identity."""
    return machine.name, machine.multiprocessors, dict(machine.cache_bytes)


def _complete(machine: Machine) -> bool:
    """Whether the ceilings without which nothing can be judged are there, measured and above zero."""
    dram, rates = machine.bandwidth.get("dram"), (*machine.matrix.values(), *machine.vector.values())
    measured = [c for c in (dram, *rates) if c is not None and c.origin == "measured"]
    return dram in measured and len(measured) > 1 and all(c.value > 0 for c in measured)
