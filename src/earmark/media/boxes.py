"""The top-level boxes of an MP4 or MOV file: where its index lies and where its media.

    ftyp ── moov ── mdat            index first ("fast start")
    ftyp ── mdat ── moov            index last, as cameras write it
    ftyp ── moov ── moof ── mdat …  fragmented: an index piece before every piece of media

Only box headers are read here. To have libav read the index and nothing else, whatever it would
like to know about the pictures, it is shown a file that has the index far behind where any packet
may lie, and nothing where the packets are:

    ftyp ── (a gap, said to be mdat) ─────────────────────── moov
"""

from __future__ import annotations

import math
import struct
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from earmark.errors import UnreadableFile
from earmark.media.source import name_of
from earmark.media.storage import ByteFile, Storage, Stretch

_FIRST = frozenset(
    [b"ftyp", b"moov", b"mdat", b"free", b"skip", b"wide", b"pnot", b"moof", b"styp"]
)
"""Boxes an MP4 or MOV file may begin with."""

_FAR = 1 << 50
"""Where libav is shown the index: further than any file is long, so no packet can lie there."""


@dataclass(frozen=True, slots=True)
class Box:
    """One box: its four-letter kind, and its bytes with and without the header."""

    kind: bytes
    whole: Stretch
    body: Stretch


@dataclass(frozen=True, slots=True)
class Layout:
    """Where things lie in an MP4 or MOV file."""

    brand: Stretch | None
    """The ftyp box; old MOV files have none."""
    index: Stretch
    """The moov box."""
    is_fragmented: bool
    """Whether the index is in pieces through the file."""


def read_layout(storage: Storage) -> Layout | None:
    """How the file is laid out; None where it is not MP4 or MOV.

    Raises:
        UnreadableFile: it is one, but its index is missing or cut off.
    """
    if storage.read(0, 16)[4:8] not in _FIRST:
        return None
    found: dict[bytes, Stretch] = {}
    for box in _walk(storage, Stretch(0, storage.size_bytes)):
        found.setdefault(box.kind, box.whole)
        if box.kind == b"moof":
            break
    index = found.get(b"moov")
    if index is None:
        raise UnreadableFile(_no_index(storage, has_fragments=b"moof" in found))
    if index.end > storage.size_bytes:
        raise UnreadableFile(
            f"{name_of(storage.uri)} is cut off inside its index (moov); copy the whole file again"
        )
    has_pieces = any(True for _ in _inside(storage, _inside(storage, [index], b"moov"), b"mvex"))
    return Layout(found.get(b"ftyp"), index, has_pieces or b"moof" in found)


def show_index(storage: Storage, layout: Layout) -> ByteFile:
    """A file for libav that holds the index and no media."""
    brand = storage.read(layout.brand.start, layout.brand.end) if layout.brand else b""
    head = brand + struct.pack(">I4sQ", 1, b"mdat", _FAR - len(brand))
    return ByteFile(storage, head=head, body=layout.index, place=_FAR)


def read_rotation(storage: Storage, layout: Layout) -> int:
    """Degrees clockwise by which the first video track asks to be turned: 0, 90, 180 or 270."""
    for moov in _inside(storage, [layout.index], b"moov"):
        for trak in _inside(storage, [moov], b"trak"):
            if _handler(storage, trak) == b"vide":
                return _turn(storage, trak)
    return 0


def _inside(storage: Storage, stretches: Iterable[Stretch], kind: bytes) -> Iterator[Stretch]:
    """The bodies of the boxes of one kind in some stretches."""
    for stretch in stretches:
        yield from (box.body for box in _walk(storage, stretch) if box.kind == kind)


def _handler(storage: Storage, trak: Stretch) -> bytes:
    """Which kind of track it is, `vide` or `soun` or another."""
    for body in _inside(storage, _inside(storage, [trak], b"mdia"), b"hdlr"):
        return storage.read(body.start + 8, body.start + 12)
    return b""


def _turn(storage: Storage, trak: Stretch) -> int:
    """The turn in a track header's matrix, whose first row is (cosine, sine, 0) in 16.16."""
    for body in _inside(storage, [trak], b"tkhd"):
        header = storage.read(body.start, min(body.end, body.start + 96))
        # Flags, times and duration take 24 bytes in version 0 and 36 in 1; 16 more come between.
        place = (24 if header[:1] == b"\0" else 36) + 16
        if len(header) >= place + 8:
            cosine, sine = struct.unpack_from(">2i", header, place)
            return round(math.degrees(math.atan2(sine, cosine)) / 90) * 90 % 360
    return 0


def _walk(storage: Storage, within: Stretch) -> Iterator[Box]:
    """The boxes side by side in a stretch; one that reaches past the end is given and ends it."""
    position = within.start
    while position + 8 <= within.end:
        header = storage.read(position, min(position + 16, within.end))
        size, kind = struct.unpack(">I4s", header[:8])
        header_size = 8
        if size == 1 and len(header) == 16:
            (size,) = struct.unpack(">Q", header[8:])
            header_size = 16
        elif size == 0:
            size = within.end - position
        if size < header_size:
            return
        end = position + size
        yield Box(kind, Stretch(position, end), Stretch(position + header_size, end))
        position = end


def _no_index(storage: Storage, *, has_fragments: bool) -> str:
    name = name_of(storage.uri)
    if has_fragments:
        return (
            f"{name} is a fragment without its header (no moov box); "
            "join it to the stream's initialisation segment first"
        )
    return (
        f"{name} has no index (no moov box): it was cut off or never closed; "
        "copy the whole file again, or repair it from a good file of the same camera"
    )
