"""Media files put together byte by byte: what no camera writes, and what few can.

>>> write_movie(folder / "a.mov", pcm(4.0, clicks=[1.0]), timescale=1)       # doctest: +SKIP
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from making import click_track

RATE = 8000
NUMBER = 5
"""Of the track."""


def box(kind: bytes, *bodies: bytes, is_long: bool = False, size: int | None = None) -> bytes:
    """A box; with a header of 64 bits, or with a size that is a lie, where asked."""
    body = b"".join(bodies)
    size = len(body) + (16 if is_long else 8) if size is None else size
    head = struct.pack(">I4sQ", 1, kind, size) if is_long else struct.pack(">I4s", size, kind)
    return head + body


def table(kind: bytes, *rows: Sequence[int], form: str = "I") -> bytes:
    """A box of a version, a count and rows of whole numbers."""
    numbers = b"".join(struct.pack(f">{len(row)}{form}", *row) for row in rows)
    return box(kind, bytes(4), struct.pack(">I", len(rows)), numbers)


@dataclass(frozen=True)
class PcmMovie:
    """A MOV file of raw mono sound, 16 bits a sample; every field may be made to lie."""

    samples: int
    chunks: Sequence[int] = (0,)
    """Where the sound lies in the file."""
    timescale: int = RATE
    edits: Sequence[tuple[int, int]] = ()
    """Durations in thousandths and starts, as an edit list has them."""
    chunk_table: bytes = b"stco"
    stts: Sequence[tuple[int, int]] = ()
    stsz: tuple[int, ...] = ()
    """Constant size and count."""
    stsc: int = 0
    """Samples of each chunk."""
    frame_bytes: int = 0
    """Of all channels, as QuickTime's description of version 1 has it; 0 for version 0."""
    more: bytes = b""
    """Boxes at the end of the moov."""
    version: int = 0
    """Of the headers: 1 has times of 64 bits."""
    rotation: int = 0
    """Degrees clockwise, a multiple of 90."""
    is_long: bool = False
    """Whether boxes that hold boxes say their size in 64 bits."""

    def moov(self) -> bytes:
        """The index, as a box."""
        header = box(b"mvhd", self._times(1000, 1000), bytes(80))
        return self._holder(b"moov", header, self._trak(), self.more)

    def _holder(self, kind: bytes, *boxes: bytes) -> bytes:
        return box(kind, *boxes, is_long=self.is_long)

    def _times(self, *numbers: int) -> bytes:
        """Version and flags, when it was made and changed, and numbers, the last a long one."""
        form = f"{len(numbers) - 1}I{'Q' if self.version else 'I'}"
        times = "QQ" if self.version else "II"
        return struct.pack(f">I{times}{form}", self.version << 24, 7, 7, *numbers)

    def _trak(self) -> bytes:
        cosine, sine = [(1, 0), (0, 1), (-1, 0), (0, -1)][self.rotation // 90]
        turn = [number << 16 for number in (cosine, sine, 0, -sine, cosine, 0, 0, 0)]
        matrix = struct.pack(">9i", *turn, 1 << 30)
        header = box(b"tkhd", self._times(NUMBER, 0, 1000), bytes(16), matrix, bytes(8))
        clock = box(b"mdhd", self._times(self.timescale, self.samples), bytes(4))
        handler = box(b"hdlr", bytes(8), b"soun", bytes(13))
        minf = self._holder(b"minf", box(b"smhd", bytes(8)), self._stbl())
        mdia = self._holder(b"mdia", clock, handler, minf)
        edts = self._holder(b"edts", self._elst()) if self.edits else b""
        return self._holder(b"trak", header, edts, mdia)

    def _elst(self) -> bytes:
        form = ">QqI" if self.version else ">IiI"
        rows = [struct.pack(form, duration, start, 1 << 16) for duration, start in self.edits]
        return box(b"elst", struct.pack(">II", self.version << 24, len(rows)), *rows)

    def _stbl(self) -> bytes:
        entry = struct.pack(">HHIHHHHI", bool(self.frame_bytes), 0, 0, 1, 16, 0, 0, RATE << 16)
        if self.frame_bytes:
            entry += struct.pack(">IIII", 1, 2, self.frame_bytes, 2)
        form = "Q" if self.chunk_table == b"co64" else "I"
        return self._holder(
            b"stbl",
            box(b"stsd", bytes(4), struct.pack(">I", 1), box(b"sowt", bytes(7), b"\1", entry)),
            table(b"stts", *(self.stts or [(self.samples, 1)])),
            table(b"stsc", (1, self.stsc or self.samples // len(self.chunks), 1)),
            box(b"stsz", bytes(4), struct.pack(">II", *(self.stsz or (2, self.samples)))),
            table(self.chunk_table, *[(place,) for place in self.chunks], form=form),
        )


def pcm(duration: float, clicks: Sequence[float]) -> bytes:
    """Sound with clicks for a `PcmMovie`."""
    values = click_track(clicks, duration=duration, sample_rate=RATE)
    return (values * 32767).astype("<i2").tobytes()


FTYP = box(b"ftyp", b"qt  ", bytes(4), b"qt  ")


def write_movie(path: Path, sound: bytes, **lies: Any) -> Path:
    """A file of the brand, the index and the sound, with what `lies` of a `PcmMovie`."""
    movie = PcmMovie(len(sound) // 2, **lies)
    if "chunks" not in lies:
        movie = replace(movie, chunks=(len(FTYP + movie.moov()) + 8,))
    path.write_bytes(FTYP + movie.moov() + box(b"mdat", sound))
    return path


def wav(channels: int = 1, sample_rate: int = RATE, samples: int = RATE) -> bytes:
    """A WAV file of quiet noise."""
    noise = np.random.default_rng(0).integers(-99, 99, samples * channels).astype("<i2").tobytes()
    frame = 2 * channels
    facts = struct.pack("<HHIIHH", 1, channels, sample_rate, sample_rate * frame % 2**32, frame, 16)
    chunks = b"fmt " + struct.pack("<I", len(facts)) + facts
    chunks += b"data" + struct.pack("<I", len(noise)) + noise
    return b"RIFF" + struct.pack("<I", len(chunks) + 4) + b"WAVE" + chunks
