"""Totals from calls: the byte origins `operator`, `compulsory` and `cached`.

All three see the same accesses. `operator` adds them up. `compulsory` counts what the region of code must read
from outside and leave behind, once. `cached` replays the accesses through a last-level cache that evicts the least
recently used bytes: what misses, and what is written back, is DRAM traffic. So compulsory ≤ cached ≤ operator.
"""

from collections.abc import Iterable, Sequence

from roofline.counter.cache import Cache
from roofline.counter.call import OpCall, Region


def operator_bytes(calls: Sequence[OpCall]) -> float:
    """Bytes that the ops ask for, one by one."""
    return sum(c.operator_bytes for c in calls)


def compulsory_bytes(calls: Sequence[OpCall], alive: set[int]) -> float:
    """Bytes that any execution must move: inputs and parameters in, results out, each once.

    Args:
        calls: The calls in order.
        alive: Storages that outlive the calls; what was written to the others is an intermediate result.
    """
    outside: dict[int, dict[Region, float]] = {}
    left: dict[int, dict[Region, float]] = {}
    made: set[int] = set()
    for call in calls:
        for region, n in call.reads:
            if region.storage not in made:
                _keep_max(outside, region, n)
        for region, n in call.writes:
            made.add(region.storage)
            if region.storage in alive:
                _keep_max(left, region, n)
    return sum(_least(regions) for kept in (outside, left) for regions in kept.values())


def cached_bytes(calls: Sequence[OpCall], capacity: int, alive: set[int]) -> list[float]:
    """DRAM bytes of each call behind a cache of `capacity` bytes that starts cold and is flushed at the end.

    A write costs nothing until its region is evicted or flushed; that traffic is charged to the call that wrote
    it. A storage that nothing reads again and nothing holds gives its bytes up without a write-back. Workspace is
    charged whole: it is as large as what it serves. With no capacity all that the ops ask for is traffic.
    """
    last_use = {a.region.storage: i for i, c in enumerate(calls) for a in (*c.reads, *c.writes)}
    cache = Cache(capacity, len(calls))
    for i, call in enumerate(calls):
        for access in call.reads:
            cache.read(i, access)
        for access in call.writes:
            cache.write(i, access)
        for access in (*call.reads, *call.writes):
            storage = access.region.storage
            if storage not in alive and last_use[storage] == i:
                cache.drop(storage)
    cache.flush()
    return [n + c.cost.workspace_bytes for n, c in zip(cache.dram_bytes, calls, strict=True)]


def _least(regions: dict[Region, float]) -> float:
    """Fewest distinct bytes of a storage that accesses to these regions can touch.

    Whole regions cover stretches. An access to part of a region is spread evenly over it, so that the share of it
    that falls into those stretches costs nothing more.
    """
    whole = [r for r, n in regions.items() if n >= r.stop - r.start]
    if len(whole) == len(regions):
        return _span(whole)
    covered = float(_span(whole))
    for part, n in regions.items():
        extent = part.stop - part.start
        if n < extent:
            covered += n * (1 - _span(_clipped(whole, part)) / extent)
    return min(covered, _span(regions))


def _clipped(regions: Iterable[Region], to: Region) -> list[Region]:
    clips = [Region(r.storage, max(r.start, to.start), min(r.stop, to.stop)) for r in regions]
    return [r for r in clips if r.start < r.stop]


def _span(regions: Iterable[Region]) -> int:
    """Bytes of a storage that the regions cover together."""
    covered, reached = 0, 0
    for region in sorted(regions, key=lambda r: r.start):
        covered += max(0, region.stop - max(reached, region.start))
        reached = max(reached, region.stop)
    return covered


def _keep_max(kept: dict[int, dict[Region, float]], region: Region, n: float) -> None:
    regions = kept.setdefault(region.storage, {})
    regions[region] = max(regions.get(region, 0.0), n)
