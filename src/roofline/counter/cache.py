"""A last-level cache for the `cached` bytes: least recently used, byte by byte, fully associative, write-back.

Accesses to whole regions are exact: the cache holds disjoint pieces of storages, cut where accesses begin and end,
and gives up its oldest bytes first. Of an access to part of a region (a gather, a strided view) nobody knows which
bytes; it takes as large a share of what is here of the region as it takes of the region, and the rest is a piece
that only the same region finds again.
"""

from bisect import bisect_left, bisect_right, insort
from collections.abc import Iterator
from math import ceil

from roofline.counter.call import Access, Region


class _Piece:
    """Bytes of a storage that are here, how many of them are dirty, and which call wrote those.

    A link in the ring of pieces by age. `part_of` is the region that a partial access stands for.
    """

    __slots__ = ("dirty", "newer", "older", "part_of", "size", "start", "stop", "storage", "writer")

    def __init__(self, storage: int, start: int, stop: int, size: float, part_of: Region | None = None) -> None:
        self.storage = storage
        self.start = start
        self.stop = stop
        self.size = size
        self.part_of = part_of
        self.dirty = 0.0
        self.writer = -1
        self.older = self
        self.newer = self

    def link(self, *, after: "_Piece") -> None:
        self.older, self.newer = after, after.newer
        after.newer.older = self
        after.newer = self

    def unlink(self) -> None:
        self.older.newer, self.newer.older = self.newer, self.older


def _dirty(piece: _Piece, n: float, call: int) -> None:
    """Note `n` bytes written; the call that wrote most of a piece answers for it."""
    if n >= piece.dirty:
        piece.dirty, piece.writer = n, call


def _start(piece: _Piece) -> int:
    return piece.start


class Cache:
    """Replays accesses and charges DRAM traffic to calls.

    Args:
        capacity: Size, B.
        calls: How many calls there will be.

    Attributes:
        dram_bytes: Traffic by call; a write-back is charged to the call that wrote.
    """

    def __init__(self, capacity: int, calls: int) -> None:
        self.dram_bytes = [0.0] * calls
        self._capacity = capacity
        self._used = 0.0
        # The ring starts and ends here: newer than it is the oldest piece, older than it the most recent.
        self._ends = _Piece(-1, 0, 0, 0)
        self._whole: dict[int, list[_Piece]] = {}
        self._partial: dict[int, dict[Region, _Piece]] = {}

    def read(self, call: int, access: Access) -> None:
        """Read: what is not here comes from DRAM."""
        region, n = access
        if n < region.stop - region.start:
            self._read_part(call, region, n)
            return
        for start, stop, piece in self._walk(region):
            if piece is None:
                self.dram_bytes[call] += stop - start
                self._insert(_Piece(region.storage, start, stop, stop - start))

    def write(self, call: int, access: Access) -> None:
        """Write: nothing moves until the bytes are evicted or flushed."""
        region, n = access
        if n < region.stop - region.start:
            self._write_part(call, region, n)
            return
        for inside in [r for r in self._partial.get(region.storage, ()) if _contains(region, r)]:
            self._forget(self._partial[region.storage][inside])
        for start, stop, piece in self._walk(region):
            new = piece or _Piece(region.storage, start, stop, stop - start)
            new.dirty, new.writer = new.size, call
            if piece is None:
                self._insert(new)

    def drop(self, storage: int) -> None:
        """Forget a storage that is dead: its dirty bytes need no write-back."""
        for piece in [*self._whole.get(storage, ()), *self._partial.get(storage, {}).values()]:
            self._forget(piece)

    def flush(self) -> None:
        """Write back everything dirty."""
        piece = self._ends.newer
        while piece is not self._ends:
            self._write_back(piece, piece.dirty)
            piece = piece.newer

    def _walk(self, region: Region) -> Iterator[tuple[int, int, _Piece | None]]:
        """Pass over a region in the order of addresses: stretches that are here, made most recent, and gaps.

        A gap that the caller fills may evict a later stretch of the same region, so each is looked up in its turn.
        """
        position = region.start
        while position < region.stop:
            piece = self._at_or_after(region.storage, position)
            if piece is None or piece.start > position:
                stop = min(region.stop, piece.start) if piece else region.stop
                yield position, stop, None
            else:
                stop = min(region.stop, piece.stop)
                piece = self._cut(piece, position, stop)
                self._renew(piece)
                yield position, stop, piece
            position = stop

    def _renew(self, piece: _Piece) -> None:
        piece.unlink()
        piece.link(after=self._ends.older)

    def _read_part(self, call: int, region: Region, n: float) -> None:
        elsewhere = n * (1 - self._share_here(region))
        piece = self._part(region)
        self.dram_bytes[call] += max(0.0, elsewhere - piece.size)
        self._grow(piece, elsewhere)

    def _write_part(self, call: int, region: Region, n: float) -> None:
        density = n / (region.stop - region.start)
        here = 0
        for start, stop, whole in self._walk(region):
            if whole is not None:
                here += stop - start
                _dirty(whole, density * whole.size, call)
        piece = self._part(region)
        elsewhere = n - density * here
        _dirty(piece, elsewhere, call)
        self._grow(piece, elsewhere)

    def _share_here(self, region: Region) -> float:
        here = sum(stop - start for start, stop, piece in self._walk(region) if piece is not None)
        return here / (region.stop - region.start)

    def _part(self, region: Region) -> _Piece:
        known = self._partial.setdefault(region.storage, {})
        if region not in known:
            known[region] = _Piece(region.storage, region.start, region.stop, 0.0, region)
            known[region].link(after=self._ends.older)
        return known[region]

    def _grow(self, piece: _Piece, size: float) -> None:
        self._used += max(0.0, size - piece.size)
        piece.size = max(piece.size, size)
        self._renew(piece)
        self._make_room()

    def _at_or_after(self, storage: int, position: int) -> _Piece | None:
        """The piece that holds byte `position`, else the next one after it."""
        pieces = self._whole.get(storage, [])
        i = bisect_right(pieces, position, key=_start)
        if i and pieces[i - 1].stop > position:
            return pieces[i - 1]
        return pieces[i] if i < len(pieces) else None

    def _cut(self, piece: _Piece, start: int, stop: int) -> _Piece:
        """Give the stretch [start, stop) of a piece a piece of its own; what is left keeps its age."""
        if (piece.start, piece.stop) == (start, stop):
            return piece
        density = piece.dirty / piece.size
        ends = [(s, e) for s, e in ((piece.start, start), (start, stop), (stop, piece.stop)) if e > s]
        parts = [_Piece(piece.storage, s, e, e - s) for s, e in ends]
        for part in parts:
            part.dirty, part.writer = density * part.size, piece.writer
        self._replace(piece, parts)
        return next(p for p in parts if p.start == start)

    def _replace(self, piece: _Piece, parts: list[_Piece]) -> None:
        """Put parts in the place of a piece, as old as it; lower addresses are older."""
        pieces = self._whole[piece.storage]
        i = bisect_left(pieces, piece.start, key=_start)
        pieces[i : i + 1] = parts
        older = piece.older
        piece.unlink()
        for part in parts:
            part.link(after=older)
            older = part

    def _insert(self, piece: _Piece) -> None:
        insort(self._whole.setdefault(piece.storage, []), piece, key=_start)
        piece.link(after=self._ends.older)
        self._used += piece.size
        self._make_room()

    def _make_room(self) -> None:
        """Evict the oldest bytes until the rest fits; the oldest of a piece are the first."""
        while self._used > self._capacity:
            oldest = self._ends.newer
            over = ceil(self._used - self._capacity)
            if oldest.size <= over:
                self._write_back(oldest, oldest.dirty)
                self._forget(oldest)
                continue
            evicted = oldest.dirty * over / oldest.size
            self._write_back(oldest, evicted)
            oldest.dirty -= evicted
            oldest.size -= over
            oldest.start += over
            self._used -= over

    def _write_back(self, piece: _Piece, n: float) -> None:
        if n:
            self.dram_bytes[piece.writer] += n

    def _forget(self, piece: _Piece) -> None:
        piece.unlink()
        self._used -= piece.size
        if piece.part_of is not None:
            del self._partial[piece.storage][piece.part_of]
            return
        pieces = self._whole[piece.storage]
        del pieces[bisect_left(pieces, piece.start, key=_start)]


def _contains(outer: Region, inner: Region) -> bool:
    return outer.start <= inner.start and inner.stop <= outer.stop
