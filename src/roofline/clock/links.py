"""Sustained rates of a GPU's links: PCIe to the host, NVLink to another device. One direction."""

from collections.abc import Mapping

import torch

from roofline.clock.sustained import Sustained, sustain
from roofline.clock.timers import Clock, Timer, find_device
from roofline.core.machine import Ceiling, Level

COPY_BYTES = 256 * 2**20
# The slowest NVLink sold (V100 PCIe bridges aside) has several times the rate of the PCIe beside it.
_FASTER_THAN_PCIE = 1.5


def link_rates(
    device: str, stated: Mapping[Level, Ceiling], timer: Timer, *, seconds: float, clock: Clock
) -> dict[Level, Sustained]:
    """Rates of the links of a CUDA or ROCm device, B/s; none elsewhere.

    - "pcie": host to device and back, page-locked memory; the slower direction, which a program can count on
    - "nvlink": to a second device that it can reach directly, if the machine is known to have NVLink; where the
      copy takes another way nothing is reported

    Args:
        device: Where.
        stated: Bandwidths that the database has for it.
        timer: Of that device.
        seconds: Time to spend, about, s.
        clock: Monotonic, in s.
    """
    place = find_device(device)
    if place.type != "cuda":
        return {}
    here = torch.ones(COPY_BYTES, dtype=torch.uint8, device=place)
    host = torch.ones(COPY_BYTES, dtype=torch.uint8).pin_memory()

    def rate(what: str, to: torch.Tensor, of: torch.Tensor) -> Sustained:
        def step() -> object:
            return to.copy_(of, non_blocking=True)

        return sustain(what, float(COPY_BYTES), step, timer, seconds=seconds / 3, clock=clock)

    both = rate("host to device", here, host), rate("device to host", host, here)
    found: dict[Level, Sustained] = {"pcie": min(both, key=lambda s: s.best)}
    peer = _peer(place)
    if peer is not None and "nvlink" in stated:
        there = torch.ones(COPY_BYTES, dtype=torch.uint8, device=peer)
        link = rate(f"copy to {peer}", there, here)
        if link.best > _FASTER_THAN_PCIE * max(s.best for s in both):
            found["nvlink"] = link
    return found


def _peer(place: torch.device) -> torch.device | None:
    """Find the first other device that this one reaches directly."""
    own = torch.cuda.current_device() if place.index is None else place.index
    for other in range(torch.cuda.device_count()):
        if other != own and torch.cuda.can_device_access_peer(own, other):
            return torch.device("cuda", other)
    return None
