"""Targets for fuzzing how media are read, for `run.py` and for a short run in the suite.

A target takes any bytes, and raises nothing: whatever is wrong with a file is a MediaError.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator, Sequence
from itertools import islice
from pathlib import Path

import numpy as np

from earmark import open_recording
from earmark.errors import MediaError
from earmark.media.mp4_boxes import describe, read_boxes, read_traks
from earmark.media.mp4_index import read_packets, why_unsupported

CORPUS = Path(__file__).parent / "corpus"


class MemoryStorage:
    """Bytes as a file to read."""

    uri, version = "memory", ""
    read_ahead_bytes = spare_bytes = 0

    def __init__(self, data: bytes) -> None:
        self.data = data
        self.size_bytes = len(data)

    def read(self, start: int, end: int) -> bytes:
        assert start >= 0
        return self.data[start : max(start, end)]

    def read_all(self, ranges: Sequence[range]) -> list[bytes]:
        return [self.read(each.start, each.stop) for each in ranges]

    def key(self) -> str:
        return ""

    def hold(self, stretch: range) -> None: ...

    def close(self) -> None: ...


def boxes(data: bytes) -> None:
    """The box parser: what is described is small and has the tracks that were found."""
    storage = MemoryStorage(data)
    try:
        found = read_boxes(storage)
        if not found:
            return
        traks = read_traks(storage, found[b"moov"])
        described = describe(storage, found[b"moov"])
    except MediaError:
        return
    assert len(described) <= 2 * len(data) + 1000
    assert len(traks) == sum(box.kind == b"trak" for box in found[b"moov"].children) or not traks


def packets(data: bytes) -> None:
    """The packet index: packets lie in the file, and all columns are of one length."""
    storage = MemoryStorage(data)
    try:
        found = read_boxes(storage)
        traks = read_traks(storage, found[b"moov"]) if found else []
        obstacles = [why_unsupported(storage, trak) for trak in traks]
        for trak, obstacle in zip(traks, obstacles, strict=True):
            if not obstacle:
                _check_index(read_packets(storage, trak), len(data))
    except MediaError:
        return


def _check_index(index, size_bytes: int) -> None:
    columns = (index.sizes, index.stamps, index.is_shown, index.is_key)
    assert all(len(column) == len(index) for column in columns)
    assert np.all(index.positions >= 0) and np.all(index.sizes >= 0)
    assert np.all(index.positions + index.sizes <= size_bytes)
    assert index.missing_packets >= 0
    batches = list(index.batches(1 << 20))
    assert [batch.start for batch in batches] == [0, *(batch.stop for batch in batches)][:-1]
    assert all(batch.stop > batch.start for batch in batches)


def recording(data: bytes) -> None:
    """All of it, decoders included: a minute of sound and a picture."""
    with tempfile.NamedTemporaryFile(suffix=".mp4") as file:
        file.write(data)
        file.flush()
        try:
            found = open_recording(file.name)
            if found.has_audio:
                assert sum(len(block) for block in islice(found.sound(), 2)) >= 0
            if found.has_video:
                found.frames([0.0, found.duration / 2])
        except MediaError as error:
            assert Path(file.name).name in str(error)
            assert "\n" not in str(error)


TARGETS: dict[str, Callable[[bytes], None]] = {
    "boxes": boxes,
    "packets": packets,
    "recording": recording,
}


def mutations(seed: bytes, *, count: int) -> Iterator[bytes]:
    """`count` spoiled copies of `seed`, the same every time."""
    rng = np.random.default_rng(len(seed))
    heads = [0, 1, 8, 0x7F, 0xFF]
    for _ in range(count):
        data = bytearray(seed)
        for _ in range(rng.integers(1, 4)):
            place, length = int(rng.integers(len(data))), int(rng.choice([1, 2, 4, 8]))
            match rng.integers(4):
                case 0:
                    data[place : place + length] = rng.bytes(length)
                case 1:
                    data[place : place + length] = bytes([int(rng.choice(heads))]) * length
                case 2:
                    other = int(rng.integers(len(data)))
                    data[place : place + length] = data[other : other + length]
                case _:
                    del data[place : place + int(rng.choice([length, len(data) // 8]))]
            data = data or bytearray(1)
        yield bytes(data)
