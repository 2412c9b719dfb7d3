"""Totals from calls: the byte origins `operator`, `compulsory` and `cached`.

All three see the same accesses. `operator` adds them up. `compulsory` counts what the region of code must read
from outside and leave behind, once. `cached` replays the accesses through a last-level cache that holds whole
tensor regions and evicts the least recently used: what misses, and what is written back, is DRAM traffic.
"""

from collections import OrderedDict
from collections.abc import Iterable, Sequence

from roofline.counter.call import Access, OpCall, Region


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
    return sum(min(sum(regions.values()), _span(regions)) for kept in (outside, left) for regions in kept.values())


def cached_bytes(calls: Sequence[OpCall], capacity: int, alive: set[int]) -> list[float]:
    """DRAM bytes of each call behind a cache of `capacity` bytes that starts cold and is flushed at the end.

    A write costs nothing until its region is evicted or flushed; that traffic is charged to the call that wrote
    it. A storage that nothing reads again and nothing holds gives its lines up without a write-back.
    """
    last_use = {a.region.storage: i for i, c in enumerate(calls) for a in (*c.reads, *c.writes)}
    cache = _Cache(capacity, [c.cost.workspace_bytes for c in calls])
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
    return cache.dram_bytes


class _Line:
    """A resident region: how many of its bytes are here, how many are dirty, and which call wrote them."""

    __slots__ = ("dirty", "resident", "writer")

    def __init__(self) -> None:
        self.resident = 0.0
        self.dirty = 0.0
        self.writer = 0


class _Cache:
    """LRU over tensor regions; a region that contains another serves it."""

    def __init__(self, capacity: int, workspace_bytes: list[float]) -> None:
        self.dram_bytes = [float(n) for n in workspace_bytes]
        self._capacity = capacity
        self._used = 0.0
        self._lines: OrderedDict[Region, _Line] = OrderedDict()
        self._regions: dict[int, set[Region]] = {}

    def read(self, call: int, access: Access) -> None:
        region, n = access
        hit = self._resident(region)
        self.dram_bytes[call] += max(0.0, n - hit)
        self._touch(region, max(n, hit))

    def write(self, call: int, access: Access) -> None:
        region, n = access
        if n > self._capacity:
            self._forget(region)
            self.dram_bytes[call] += n
            return
        self._touch(region, n)
        line = self._lines[region]
        line.dirty, line.writer = max(n, line.dirty), call

    def drop(self, storage: int) -> None:
        for region in list(self._regions.get(storage, ())):
            self._forget(region)

    def flush(self) -> None:
        for line in self._lines.values():
            self.dram_bytes[line.writer] += line.dirty

    def _resident(self, region: Region) -> float:
        """Bytes of `region` that are here: its own line, a line that contains it, or the lines inside it."""
        if region in self._lines:
            return self._lines[region].resident
        inside = 0.0
        for other in self._regions.get(region.storage, ()):
            line = self._lines[other]
            whole = line.resident >= other.stop - other.start
            if whole and other.start <= region.start and region.stop <= other.stop:
                self._lines.move_to_end(other)
                return float(region.stop - region.start)
            if region.start <= other.start and other.stop <= region.stop:
                inside += line.resident
        return min(inside, float(region.stop - region.start))

    def _touch(self, region: Region, n: float) -> None:
        """Make `n` bytes of `region` the most recently used, evicting what no longer fits."""
        if n > self._capacity:
            self._evict(region)
            return
        line = self._lines.get(region)
        if line is None:
            line = self._lines[region] = _Line()
            self._regions.setdefault(region.storage, set()).add(region)
        self._used += max(n, line.resident) - line.resident
        line.resident = max(n, line.resident)
        self._lines.move_to_end(region)
        while self._used > self._capacity:
            self._evict(next(iter(self._lines)))

    def _evict(self, region: Region) -> None:
        """Write back what is dirty of a region, and forget it."""
        if region in self._lines:
            self.dram_bytes[self._lines[region].writer] += self._lines[region].dirty
            self._forget(region)

    def _forget(self, region: Region) -> None:
        line = self._lines.pop(region, None)
        if line is not None:
            self._used -= line.resident
            self._regions[region.storage].discard(region)


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
