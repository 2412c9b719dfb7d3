"""Slices of a GPU, by NVIDIA's Multi-Instance GPU: names such as "NVIDIA A100-SXM4-40GB MIG 2g.10gb"."""

import re
from collections.abc import Mapping
from typing import TypeVar

import msgspec

from roofline.core.machine import Ceiling, Machine
from roofline.errors import MachineError

_PROFILE = re.compile(r"(?P<whole>.+?)\s+MIG\s+(?:\d+c\.)?(?P<g>\d+)g\.(?P<gb>\d+)gb\S*", re.IGNORECASE)
# A GPU's memory is cut into eighths (an A30's quarters are two eighths each).
_MEMORY_SLICES = 8
_MOST_COMPUTE_SLICES = 7
_GIB = 2**30
K = TypeVar("K")


class Piece(msgspec.Struct, frozen=True):
    """A slice by its name.

    Attributes:
        whole: Name of the GPU that it is cut from.
        compute_slices: The g of the profile.
        memory_gib: The gb of the profile, rounded by the driver.
    """

    whole: str
    compute_slices: int
    memory_gib: int


def parse(name: str) -> Piece | None:
    """Read a slice's name; None if it names no slice."""
    found = _PROFILE.fullmatch(name.strip())
    return Piece(found["whole"], int(found["g"]), int(found["gb"])) if found else None


def memory_share(piece: Piece, whole: Machine) -> float:
    """Share of the memory, its bandwidth and the L2 that a slice has: whole eighths."""
    assert whole.memory_bytes
    eighths = round(_MEMORY_SLICES * piece.memory_gib * _GIB / whole.memory_bytes)
    return max(1, min(_MEMORY_SLICES, eighths)) / _MEMORY_SLICES


def is_profile_of(piece: Piece, whole: Machine) -> bool:
    """Whether a GPU of that size has such a profile: n compute slices have at least n eighths of memory, 7 have all.

    A 1g.5gb can only be cut from 40 GB; a 1g.10gb from 80 GB, or (two eighths) from 40 GB.
    """
    if not whole.memory_bytes:
        return False
    eighths = _MEMORY_SLICES * piece.memory_gib * _GIB / whole.memory_bytes
    least = piece.compute_slices if piece.compute_slices <= 4 else _MEMORY_SLICES
    return 1 <= piece.compute_slices <= _MOST_COMPUTE_SLICES and least * 0.9 <= eighths <= 8.25


def slice_of(whole: Machine, piece: Piece, memory_bytes: int | None, multiprocessors: int | None) -> Machine:
    """Scale a GPU down to a slice: compute by multiprocessors, memory bandwidth and L2 by memory slices.

    Raises:
        MachineError: The GPU has no such slice, or the slice's multiprocessor count is unknown or impossible.
    """
    if not is_profile_of(piece, whole):
        raise MachineError(
            f'no slice {piece.compute_slices}g.{piece.memory_gib}gb can be cut from "{whole.name}"',
            'name the GPU as the driver does, or give the ceilings: --peak-flops "bf16=40 TFLOP/s"',
        )
    if not multiprocessors or not whole.multiprocessors or multiprocessors > whole.multiprocessors:
        raise MachineError(
            f'a MIG slice of "{whole.name}" with {multiprocessors or "an unknown number of"} multiprocessors',
            'give its ceilings: --peak-flops "bf16=40 TFLOP/s" --peak-bandwidth "200 GB/s"',
        )
    compute, memory = multiprocessors / whole.multiprocessors, memory_share(piece, whole)
    profile = f"{piece.compute_slices}g.{piece.memory_gib}gb"
    note = (
        f"MIG slice: {multiprocessors} of {whole.multiprocessors} multiprocessors, {memory:.3g} of the memory slices"
    )
    return msgspec.structs.replace(
        whole,
        key=f"{whole.key}-mig-{profile}",
        name=f"{whole.name} MIG {profile}",
        aliases=(),
        matrix=scale_rates(whole.matrix, compute),
        vector=scale_rates(whole.vector, compute),
        # A slice has no NVLink to other GPUs; PCIe is shared but not cut.
        bandwidth=scale_rates({"dram": whole.dram}, memory)
        | {k: v for k, v in whole.bandwidth.items() if k == "pcie"},
        cache_bytes={level: round(size * memory) for level, size in whole.cache_bytes.items()},
        memory_bytes=memory_bytes or piece.memory_gib * _GIB,
        multiprocessors=multiprocessors,
        tdp_w=None,
        notes=(*whole.notes, note),
    )


def scale_rates(rates: Mapping[K, Ceiling], share: float) -> dict[K, Ceiling]:
    """Scale ceilings, and say so in their source."""
    return {
        key: Ceiling(rate.value * share, rate.origin, f"{rate.source}; scaled by {share:.4g}")
        for key, rate in rates.items()
    }
