"""Highlights marked while recording: HiLight tags of GoPro cameras.

They are in the index of a file, in milliseconds from its beginning:

    moov ── udta ─┬─ HMMT    how many, then a number each (HERO5 and before; later ones too)
                  └─ GPMF    DEVC ── STRM ── HLMT: records of 36 bytes (HERO6 and later)

A record begins with its time; its kind is at the 25th byte, `MANL` if a person pressed the button.
Highlights that the camera found itself are left out. The layout is as GoPro describes it
(github.com/gopro/gpmf-parser, issue 21).
"""

from __future__ import annotations

import struct
from collections.abc import Iterator

from earmark.media.mp4_boxes import Mp4Box, walk_boxes
from earmark.media.storage import Storage

MOST_BYTES = 1 << 18
"""Most bytes read of a box; a camera's has some kilobytes."""

_MANUAL = b"MANL"
_RECORD_BYTES, _KIND_AT = 36, 24
_CONTAINERS = (b"DEVC", b"STRM")


def read_marks(storage: Storage, index: Mp4Box, *, duration: float) -> tuple[float, ...]:
    """Times of the marks within `duration`, in seconds from the beginning of a file, in order."""
    found: set[int] = set()
    for box in index.children:
        if box.kind != b"udta" or box.whole.stop > index.whole.stop:
            continue
        for child in walk_boxes(storage, box.body):
            if child.kind not in (b"HMMT", b"GPMF"):
                continue
            start = child.body.start
            end = min(child.body.stop, box.body.stop, start + MOST_BYTES)
            data = storage.read(start, max(start, end))
            if child.kind == b"HMMT":  # as many numbers as the first of them says, or as there are
                numbers = [number for (number,) in struct.iter_unpack(">I", data[: len(data) & ~3])]
                found.update(numbers[1:][: numbers[0]] if numbers else ())
            else:
                found.update(_manual_marks(data))
    return tuple(time / 1000 for time in sorted(found) if time <= duration * 1000)


def _manual_marks(data: bytes) -> Iterator[int]:
    """Milliseconds of the records that a person made."""
    place = 0
    while place + 8 <= len(data):
        key, kind, size, count = struct.unpack(">4sBBH", data[place : place + 8])
        body = data[place + 8 : place + 8 + size * count]
        if kind == 0 and key in _CONTAINERS:
            yield from _manual_marks(body)
        elif key == b"HLMT" and size == _RECORD_BYTES:
            for start in range(0, len(body) - size + 1, size):
                record = body[start : start + size]
                if record[_KIND_AT : _KIND_AT + 4] == _MANUAL:
                    yield struct.unpack(">I", record[:4])[0]
        place += 8 + -(-size * count // 4) * 4  # bodies fill whole words
