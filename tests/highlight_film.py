"""A recording with HiLight tags in its index, where and as GoPro cameras write them."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from hostile_media import box
from making import make_video

SPARE = 80
"""Places for tags that a camera reserves before it records."""


def hmmt(times: Sequence[int]) -> bytes:
    """How many, the milliseconds of each, and zeros in the places that are left."""
    rest = max(0, SPARE - len(times))
    return box(b"HMMT", struct.pack(f">I{len(times)}I", len(times), *times), bytes(4 * rest))


def gpmf(records: Sequence[tuple[int, bytes]]) -> bytes:
    """The global settings of a clip, and its highlights: time in milliseconds, and kind."""
    rows = [
        struct.pack(">IIIiif4sff", time, time, time, 0, 0, 0.0, kind, 100.0, 100.0)
        for time, kind in records
    ]
    settings = klv(b"DEVC", klv(b"DVID", struct.pack(">I", 1), b"L"), klv(b"MINF", b"HERO11", b"c"))
    stream = klv(
        b"STRM",
        klv(b"TSMP", struct.pack(">I", len(rows)), b"L"),
        klv(b"TYPE", b"LLLllfFff", b"c"),
        klv(b"HLMT", b"".join(rows), b"?", size=36),
    )
    marks = klv(b"DEVC", klv(b"DVID", b"HLMT", b"F"), klv(b"DVNM", b"Highlights", b"c"), stream)
    return box(b"GPMF", settings, marks)


def klv(key: bytes, *bodies: bytes | bytes, size: int = 0) -> bytes:
    """Key, kind, size of an entry, how many; then the entries, filled up to whole words."""
    is_nested = all(len(body) > 1 for body in bodies)
    kind, data = (b"\0", b"".join(bodies)) if is_nested else (bodies[1], bodies[0])
    each = size or {b"L": 4, b"F": 4}.get(kind, 1)
    head = struct.pack(">4scBH", key, kind, each, len(data) // each)
    return head + data + bytes(-len(data) % 4)


def film_highlights(path: Path, *boxes: bytes, **plan: Any) -> Path:
    """A recording of 12 s, its index last, with `boxes` in the user data of its index."""
    data = make_video(path, **{"duration": 12.0, "fps": 5, "clicks": [3.0], **plan}).read_bytes()
    place = data.rindex(b"moov") - 4
    index = data[place + 8 :]
    assert len(index) + 8 == struct.unpack(">I", data[place : place + 4])[0], "the index is last"
    path.write_bytes(data[:place] + box(b"moov", index, box(b"udta", *boxes)))
    return path
