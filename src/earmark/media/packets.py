"""The packet index of one stream, as arrays."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from av.stream import Stream
from numpy.typing import NDArray

from earmark.media.container import moving_pictures, opened
from earmark.media.storage import Meter
from earmark.timeline import FloatArray

_SLICE = 65_536
"""Entries turned into Python objects at a time."""


@dataclass(frozen=True, slots=True, eq=False)
class PacketIndex:
    """Where every packet of a stream lies and when it is decoded, in file order of the stream."""

    positions: NDArray[np.int64]
    """First byte of each packet in the file."""
    sizes: NDArray[np.int32]
    """Bytes of each packet."""
    stamps: NDArray[np.int64]
    """Decode times, in units of the stream's time base."""
    is_key: NDArray[np.bool_]
    is_discard: NDArray[np.bool_]
    """Packets that are decoded for what follows and not shown (before an edit's start)."""

    def __len__(self) -> int:
        return len(self.positions)

    @property
    def size_bytes(self) -> int:
        """Bytes of all packets together."""
        return int(self.sizes.sum(dtype=np.int64))

    def within(self, size_bytes: int) -> PacketIndex:
        """The packets that lie wholly in the first `size_bytes` bytes of the file."""
        there = self.positions + self.sizes <= size_bytes
        return self if bool(there.all()) else self[there]

    def batch_end(self, first: int, limit_bytes: int) -> int:
        """One past the last packet of a batch from `first` of about `limit_bytes`, never empty."""
        sizes = np.cumsum(self.sizes[first : first + limit_bytes // 64], dtype=np.int64)
        return first + max(1, int(np.searchsorted(sizes, limit_bytes, side="right")))

    def __getitem__(self, chosen: slice | NDArray[np.bool_]) -> PacketIndex:
        return PacketIndex(
            self.positions[chosen],
            self.sizes[chosen],
            self.stamps[chosen],
            self.is_key[chosen],
            self.is_discard[chosen],
        )

    def end_stamp(self, claimed: int | None) -> int:
        """When the last packet ends.

        The index does not say how long the last packet lasts. The header's claim is taken where it
        ends within that packet, supposing it no longer than the one before it; elsewhere the
        header is not believed.
        """
        last = int(self.stamps[-1])
        step = last - int(self.stamps[-2]) if len(self) > 1 else 0
        if claimed is not None and last < claimed <= last + max(step, 1):
            return claimed
        return last + step


@dataclass(frozen=True, slots=True, eq=False)
class VideoPackets:
    """Sizes of a recording's video packets, read from the index without a byte of video.

    In decode order. `times` are decode times moved so that the first is when the first picture
    is shown: where pictures are reordered (B-frames) a time is right to within a few pictures.
    """

    times: FloatArray
    """Seconds on the recording's clock, never decreasing."""
    sizes_bytes: NDArray[np.int64]
    is_key: NDArray[np.bool_]

    def __len__(self) -> int:
        return len(self.times)


def read_index(stream: Stream) -> PacketIndex:
    """All of the stream's index; empty where the container keeps none."""
    entries = stream.index_entries
    count = len(entries)
    table = np.empty((count, 4), np.int64)
    for first in range(0, count, _SLICE):
        table[first : first + _SLICE] = [
            (entry.pos, entry.size, entry.timestamp, entry.flags)
            for entry in entries[first : first + _SLICE]
        ]
    flags = table[:, 3]
    return PacketIndex(
        positions=table[:, 0].copy(),
        sizes=table[:, 1].astype(np.int32),
        stamps=table[:, 2].copy(),
        is_key=(flags & 1).astype(bool),
        is_discard=(flags & 2).astype(bool),
    )


def show_delay(stream: Stream, index: PacketIndex) -> int:
    """Ticks from a picture's decode time in the index to when it is shown; 0 for sound."""
    if stream.type != "video" or stream.start_time is None or not len(index):
        return 0
    return max(0, stream.start_time - int(index.stamps[0]))


def read_video_packets(uri: str, shift: float, meter: Meter) -> VideoPackets:
    """The video packets of one file, `shift` seconds added to the container's times."""
    with opened(uri, meter, index_only=True) as file:
        stream = moving_pictures(file.container)
        if stream is None:
            return VideoPackets(np.zeros(0), np.zeros(0, np.int64), np.zeros(0, np.bool_))
        index = read_index(stream).within(file.storage.size_bytes)
        index = index[~index.is_discard]
        stamps = index.stamps + show_delay(stream, index)
        return VideoPackets(
            times=stamps * float(stream.time_base or 0) + shift,
            sizes_bytes=index.sizes.astype(np.int64),
            is_key=index.is_key,
        )
