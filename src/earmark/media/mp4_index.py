"""The packet index of a track, 16 bytes per packet.

libav's own index takes about 70 bytes per packet of every track, 100 MB for five hours, and is
built in full before the first packet is read.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from earmark.errors import UnreadableFile
from earmark.media.mp4_boxes import Trak, walk_boxes
from earmark.media.source import place_of
from earmark.media.storage import Storage

Ints = NDArray[np.int64]


@dataclass(frozen=True, slots=True, eq=False)
class PacketIndex:
    """Packets that lie in the file, in decode order."""

    positions: Ints
    sizes: NDArray[np.int32]
    stamps: Ints
    """When each is shown, in ticks of container time, edits applied."""
    is_shown: NDArray[np.bool_]
    """False for packets that are decoded for later ones but cut away by an edit."""
    is_key: NDArray[np.bool_]
    ticks_a_second: int
    start: float
    """Container time of the first packet shown; 0 if none is shown."""
    end: float
    missing_packets: int

    def __len__(self) -> int:
        return len(self.positions)

    @property
    def size_bytes(self) -> int:
        return int(self.sizes.sum(dtype=np.int64))

    def batches(self, limit_bytes: int) -> Iterator[slice]:
        first = 0
        while first < len(self.sizes):
            sizes = np.cumsum(self.sizes[first : first + limit_bytes // 64], dtype=np.int64)
            end = first + max(1, int(np.searchsorted(sizes, limit_bytes, side="right")))
            yield slice(first, end)
            first = end


def check_fragments(storage: Storage) -> int:
    """Where the last whole box ends, or the packets after it that the file holds of a fragment.

    libav refuses a file that ends within the index of a fragment.
    """
    count = end = 0
    for moof in walk_boxes(storage, range(storage.size_bytes)):
        if moof.whole.stop <= storage.size_bytes or moof.kind == b"mdat":
            end = min(moof.whole.stop, storage.size_bytes)
        trafs = walk_boxes(storage, moof.body) if moof.kind == b"moof" else ()
        runs = (
            run for traf in trafs for run in walk_boxes(storage, traf.body) if run.kind == b"trun"
        )
        for run in runs:
            start = run.body.start + 4
            count += int.from_bytes(storage.read(start, start + 4), "big")
        if count > MOST_PACKETS:
            raise UnreadableFile(
                f"{place_of(storage.uri)} has a damaged index: its fragments name {count:,} "
                "packets or more; copy the file again, or repair it"
            )
    return end


def why_unsupported(storage: Storage, trak: Trak) -> str:
    """Empty if `read_packets` can read the track; raises `UnreadableFile` if its tables lie."""
    tables = _Tables(storage, trak.tables)
    count, largest = tables.measure()
    if count > MOST_PACKETS or largest > MOST_PACKET_BYTES:
        raise UnreadableFile(
            f"{place_of(storage.uri)} has a damaged index: a track of {count:,} packets of up "
            f"to {largest:,} bytes; copy the file again, or repair it"
        )
    if sum(start >= 0 for _, start in trak.edits) > 1:
        return "its edit list joins several pieces of a track"
    if (
        not {b"stts", b"stsc", b"stsz"} <= trak.tables.keys()
        or trak.ticks_a_second > _LARGEST_INT32
    ):
        return "its packet tables are of an unsupported kind"
    if tables.is_raw and not tables.has_whole_chunks:
        return "its packet tables do not say how large a sample is"
    return ""


def read_packets(storage: Storage, trak: Trak) -> PacketIndex:
    tables = _Tables(storage, trak.tables)
    rows = tables.raw_chunks() if tables.is_raw else tables.packets()
    positions, sizes, stamps, durations, is_key = rows
    offset, begin, end = _edit_offsets(trak)
    stamps += offset
    ends = stamps + durations
    is_shown = ends > begin
    is_shown &= stamps < end
    is_present: slice | NDArray[np.bool_] = slice(None)
    missing = 0
    size = storage.size_bytes
    if len(sizes) and int(positions.max()) + int(sizes.max()) > size:
        is_present = positions + sizes <= size
        missing = int(np.sum(~is_present))
        is_shown &= is_present
    last = min(int(ends.max(where=is_shown, initial=0)), end)
    del ends
    first = int(stamps.min(where=is_shown, initial=_LARGEST_INT64)) if is_shown.any() else 0
    return PacketIndex(
        positions=positions[is_present],
        sizes=sizes[is_present],
        stamps=stamps[is_present],
        is_shown=is_shown[is_present],
        is_key=is_key[is_present],
        ticks_a_second=trak.ticks_a_second,
        start=max(0.0, first / trak.ticks_a_second),
        end=last / trak.ticks_a_second,
        missing_packets=missing,
    )


def _edit_offsets(trak: Trak) -> tuple[int, int, int]:
    """Ticks to add to the track's own time, and the first and last tick shown after that.

    own time        0 ──────── start ──────────────────────▶
    container time        (nothing) │ shown for `duration` │
    """
    nothing = sum(seconds for seconds, start in trak.edits if start < 0)
    begin = min(round(nothing * trak.ticks_a_second), _FOREVER)
    for seconds, start in trak.edits:
        if start >= 0:
            duration = min(round(seconds * trak.ticks_a_second) or _FOREVER, _FOREVER)
            return begin - min(start, _FOREVER), begin, begin + duration
    return begin, begin, _FOREVER


def _cap_total(counts: Ints, total: int) -> Ints:
    reached = np.minimum(np.cumsum(np.minimum(counts, total)), total)
    cut: Ints = np.diff(reached, prepend=0)
    return cut


MOST_PACKETS = 1 << 24  # 19 h at 240 pictures a second, 97 h of AAC; reading takes 750 MB
MOST_PACKET_BYTES = 1 << 27  # an uncompressed picture of 8K has 100 MB
_PIECE_BYTES = 1 << 20
_FOREVER = 1 << 60
_LARGEST_INT64 = (1 << 63) - 1
_LARGEST_INT32 = (1 << 31) - 1
_FRAME_BYTES = {1: 52, 2: 72}


_Rows = tuple[Ints, NDArray[np.int32], Ints, NDArray[np.int32], NDArray[np.bool_]]
"""Positions, sizes and stamps, edits not yet applied; ticks from the decoding of each to that of
the next; which are key."""


class _Tables:
    def __init__(self, storage: Storage, tables: dict[bytes, range]) -> None:
        self._storage = storage
        self._tables = tables
        self._constant_size = min(self._number(b"stsz", 4), _LARGEST_INT32)
        self._times = self._rows(b"stts", width=2)
        ticks = self._times[:, 1]
        self.is_raw = bool(self._constant_size > 0 and len(ticks) > 0 and np.all(ticks == 1))
        """A sample is one instant of uncompressed sound, so that a chunk is a packet."""

    def measure(self) -> tuple[int, int]:
        if self.is_raw:
            chunks, counts = self._chunks()
            samples = int(np.minimum(counts, MOST_PACKETS << 10).sum())
            pieces = max(samples >> 10, samples * self._constant_size // _PIECE_BYTES)
            return len(chunks) + pieces, self._constant_size  # libav's pieces have 1024 samples
        if self._constant_size:
            return self._number(b"stsz", 8), self._constant_size
        sizes = self._rows(b"stsz", after=12)
        return max(len(sizes), self._number(b"stz2", 8)), int(sizes.max(initial=0))

    @property
    def has_whole_chunks(self) -> bool:
        # In stsd: 8 bytes of the box, 8 of the entry, 8 more, then the version of what follows.
        version = self._number(b"stsd", 24, 2)
        if version in _FRAME_BYTES:
            return self._number(b"stsd", _FRAME_BYTES[version]) == self._constant_size
        channels, bits = self._number(b"stsd", 32, 2), self._number(b"stsd", 34, 2)
        return channels * bits == 8 * self._constant_size

    def packets(self) -> _Rows:
        if self._constant_size:
            most = self._storage.size_bytes // self._constant_size
            count = min(self._number(b"stsz", 8), most)
            sizes = np.full(count, self._constant_size, np.int32)
        else:
            sizes = self._rows(b"stsz", after=12).reshape(-1).astype(np.int32)
        positions = self._positions(sizes)
        sizes = sizes[: len(positions)]
        durations = _expand_runs(self._times, len(sizes))
        stamps = np.cumsum(durations, dtype=np.int64)
        stamps -= durations
        if b"ctts" in self._tables:
            stamps += _expand_runs(self._rows(b"ctts", width=2), len(sizes))
        keys = np.ones(len(sizes), np.bool_)
        if b"stss" in self._tables:  # without it all are
            numbers = self._rows(b"stss").reshape(-1).astype(np.int64) - 1
            keys[:] = False
            keys[numbers[(numbers >= 0) & (numbers < len(sizes))]] = True
        return positions, sizes, stamps, durations, keys

    def raw_chunks(self) -> _Rows:
        chunks, counts = self._chunks()
        longest = max(1, _PIECE_BYTES // self._constant_size)
        pieces = -(-counts // longest)
        nth = np.arange(pieces.sum()) - np.repeat(np.cumsum(pieces) - pieces, pieces)
        before = nth * longest
        counts = np.minimum(np.repeat(counts, pieces) - before, longest)
        positions = np.repeat(chunks, pieces) + before * self._constant_size
        sizes = (counts * self._constant_size).astype(np.int32)
        stamps = np.cumsum(counts, dtype=np.int64) - counts
        return positions, sizes, stamps, counts.astype(np.int32), np.ones(len(counts), np.bool_)

    def _positions(self, sizes: NDArray[np.int32]) -> Ints:
        chunks, counts = self._chunks()
        before = np.cumsum(sizes, dtype=np.int64)
        before -= sizes
        firsts = np.cumsum(counts, dtype=np.int64) - counts
        begun = int(np.searchsorted(firsts, len(sizes)))
        chunks = chunks[:begun] - before[firsts[:begun]]
        del firsts
        positions = np.repeat(chunks, _cap_total(counts[:begun], len(sizes)))
        positions += before[: len(positions)]
        return positions

    def _chunks(self) -> tuple[Ints, Ints]:
        if b"co64" in self._tables:
            places = self._rows(b"co64", form=">u8").reshape(-1)
            starts = np.minimum(places, _FOREVER).astype(np.int64)
        else:
            starts = self._rows(b"stco").reshape(-1).astype(np.int64)
        runs = self._rows(b"stsc", width=3)
        firsts = np.clip(runs[:, 0].astype(np.int64) - 1, 0, len(starts))
        lengths = np.maximum(0, np.diff(firsts, append=len(starts)))
        counts = np.repeat(runs[:, 1].astype(np.int64), _cap_total(lengths, len(starts)))
        return starts[: len(counts)], counts

    def _rows(
        self, kind: bytes, *, width: int = 1, after: int = 8, form: str = ">u4"
    ) -> NDArray[Any]:
        """Shape `(rows, width)`: as many as the table claims, `after` bytes in, and has."""
        body = self._tables.get(kind, range(0))
        size = width * np.dtype(form).itemsize
        count = min(self._number(kind, after - 4), (body.stop - body.start - after) // size)
        start = body.start + after
        data = self._storage.read(start, start + count * size) if count > 0 else b""
        return np.frombuffer(data, form, count=len(data) // size * width).reshape(-1, width)

    def _number(self, kind: bytes, offset: int, size: int = 4) -> int:
        """0 if there is no such table."""
        body = self._tables.get(kind, range(0))
        if body.stop - body.start < offset + size:
            return 0
        start = body.start + offset
        return int.from_bytes(self._storage.read(start, start + size), "big")


def _expand_runs(runs: NDArray[Any], count: int) -> NDArray[np.int32]:
    """0 after the end of the table. Values are signed, also in many files of version 0."""
    values = runs[:, 1].astype(np.uint32).view(np.int32)
    values = np.repeat(values, _cap_total(runs[:, 0].astype(np.int64), count))
    return np.pad(values, (0, count - len(values))) if len(values) < count else values
