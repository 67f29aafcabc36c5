"""Parses the boxes of an MP4 or MOV file: its index, and the tracks in it.

ftyp ── moov ── mdat            index first ("fast start")
ftyp ── mdat ── moov            index last, as cameras write it
ftyp ── moov ── moof ── mdat …  fragmented: an index piece before every piece of media

moov ─┬─ mvhd                                           the movie's clock
      └─ trak ─┬─ tkhd                                  number, rotation
               ├─ edts ── elst                          edits
               └─ mdia ─┬─ mdhd, hdlr                   clock and kind of the track
                        └─ minf ── stbl ── stts, stsz … tables with a row for every packet
"""

from __future__ import annotations

import itertools
import math
import struct
from collections import deque
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from earmark.errors import UnreadableFile
from earmark.media.source import place_of
from earmark.media.storage import Storage

_FIRST_BOXES = frozenset(b"ftyp moov mdat free skip wide pnot moof styp".split())

_READ_INSIDE = {
    b"": (b"moov",),
    b"moov": (b"trak",),
    b"trak": (b"mdia", b"edts"),
    b"mdia": (b"minf",),
    b"minf": (b"stbl",),
}

_PARENTS = frozenset(kind for kinds in _READ_INSIDE.values() for kind in kinds)
_DEEPEST = 10  # levels; libav goes no deeper

_MOST_BOXES, _LEAST_BOX_BYTES = 1 << 12, 128
"""With more siblings, boxes must have this mean size, since each takes some microseconds."""

MOST_INDEX_BYTES = 1 << 28  # the index of 24 h at 60 pictures a second has a third of that
_MOST_COPIED_BYTES = 1 << 20
_TABLES = {b"stsz": bytes(12), b"stco": bytes(8), b"stts": bytes(8), b"stsc": bytes(8)}
_PACKET_TABLES = frozenset(b"co64 ctts stco stsc stss stsz stts stz2".split())

_CONTAINER_BOXES = frozenset(b"dinf edts mdia minf moof moov mvex stbl traf trak udta wave".split())
"""Boxes whose children libav parses, wherever they occur."""

_LEFT_OUT = frozenset(
    b"co64 stz2 ctts stss sdtp sbgp sgpd cslg edts tref udta meta moof traf trun".split()
)


@dataclass(frozen=True, slots=True)
class Mp4Box:
    """These ranges may reach past the end of a damaged file, further than `len` counts."""

    kind: bytes
    whole: range
    body: range
    children: tuple[Mp4Box, ...] = ()


Edit = tuple[float, int]
"""Seconds, and the tick of the track at which it begins; -1 for an empty edit."""


@dataclass(frozen=True, slots=True)
class Trak:
    number: int
    kind: bytes
    ticks_a_second: int
    rotation: int
    """Degrees clockwise: 0, 90, 180 or 270."""
    edits: tuple[Edit, ...]
    tables: dict[bytes, range]


def read_boxes(storage: Storage) -> dict[bytes, Mp4Box]:
    """Empty if the file is not MP4 or MOV; the search ends at the first fragment, moof."""
    if storage.read(0, 16)[4:8] not in _FIRST_BOXES:
        return {}
    boxes: dict[bytes, Mp4Box] = {}
    for box in walk_boxes(storage, range(storage.size_bytes)):
        boxes.setdefault(box.kind, box)
        if box.kind == b"moof":
            break
    moov = boxes.get(b"moov")
    if moov is None or moov.whole.stop > storage.size_bytes or len(moov.whole) > MOST_INDEX_BYTES:
        raise _unusable(storage, moov, has_fragments=b"moof" in boxes)
    storage.hold(moov.whole)
    (boxes[b"moov"],) = _parse(storage, moov.whole, within=b"")
    if any(box.kind == b"cmov" for box in boxes[b"moov"].children):
        name = place_of(storage.uri)
        raise UnreadableFile(
            f"{name} has a compressed index (cmov), which may unpack to any size; remux it"
        )
    return boxes


def read_traks(storage: Storage, index: Mp4Box) -> list[Trak]:
    headers = [box for box in index.children if box.kind == b"mvhd"]
    if not headers:
        return []
    movie_ticks = _clock(storage, headers[0].body)
    return [_read_trak(storage, box, movie_ticks) for box in index.children if box.kind == b"trak"]


def describe(storage: Storage, *boxes: Mp4Box) -> bytes:
    """A file with the same tracks but no packets."""
    data = b""
    for box in boxes:
        is_misplaced = box.kind in _PARENTS and not box.children
        if box.kind in _LEFT_OUT or is_misplaced:
            continue
        if box.children:
            body = describe(storage, *box.children)
        elif box.kind in _TABLES:
            body = _TABLES[box.kind]
        elif box.body.stop - box.body.start <= _MOST_COPIED_BYTES:
            body = storage.read(box.body.start, box.body.stop)
        else:
            continue
        data += struct.pack(">I4s", 8 + len(body), box.kind) + body
    return data


def check_table_places(storage: Storage, box: Mp4Box, depth: int = 0) -> None:
    """Refuse packet tables but one of each kind in an `stbl`: libav reads them anywhere."""
    children: Iterable[Mp4Box] = box.children
    is_stray = box.kind in _PACKET_TABLES
    if box.kind == b"stsd":  # its entries have headers of various lengths before their boxes
        data = _read(storage, box.body, _MOST_COPIED_BYTES)
        is_stray = any(kind in data for kind in _PACKET_TABLES)
    elif box.kind == b"stbl" and box.children:
        tables = [child.kind for child in box.children if child.kind in _PACKET_TABLES]
        is_stray = len(tables) != len(set(tables))
        children = [child for child in box.children if child.kind not in _PACKET_TABLES]
    elif not box.children and box.kind in _CONTAINER_BOXES and depth < _DEEPEST:
        children = walk_boxes(storage, box.body)
    if is_stray:
        raise UnreadableFile(
            f"{place_of(storage.uri)} has packet tables in the wrong place; it is damaged, so "
            "remux it, or convert the part that plays"
        )
    for child in children:
        check_table_places(storage, child, depth + 1)


def walk_boxes(storage: Storage, within: range) -> Iterator[Mp4Box]:
    """The last box may reach past the end of the range."""
    position = within.start
    for number in itertools.count():
        header = storage.read(position, min(position + 16, within.stop))
        if len(header) < 8:
            return
        size, kind = struct.unpack(">I4s", header[:8])
        header_size = 8
        if size == 1 and len(header) == 16:
            (size,) = struct.unpack(">Q", header[8:])
            header_size = 16
        elif size == 0:
            size = within.stop - position
        if size < header_size:
            return
        end = position + size
        yield Mp4Box(kind, range(position, end), range(position + header_size, end))
        position = end
        if number > _MOST_BOXES and position - within.start < number * _LEAST_BOX_BYTES:
            raise UnreadableFile(
                f"{place_of(storage.uri)} has {number:,} almost empty "
                "boxes; it is damaged, or not a recording"
            )


def _parse(storage: Storage, stretch: range, *, within: bytes) -> Iterator[Mp4Box]:
    for box in walk_boxes(storage, stretch):
        is_read = box.kind in _READ_INSIDE.get(within, ()) and box.whole.stop <= stretch.stop
        children = tuple(_parse(storage, box.body, within=box.kind)) if is_read else ()
        yield Mp4Box(box.kind, box.whole, box.body, children) if children else box


def _read_trak(storage: Storage, trak: Mp4Box, movie_ticks: int) -> Trak:
    bodies: dict[bytes, range] = {}
    boxes = deque(trak.children)
    while boxes:  # the first of a kind: QuickTime has a second hdlr for the data
        box = boxes.popleft()
        boxes.extendleft(reversed(box.children))
        if not box.children:
            bodies.setdefault(box.kind, box.body)
    # Version, times, number, duration and 20 bytes more, then the matrix, whose first row is
    # (cosine, sine, 0) in 16.16; times and durations take 8 bytes in version 1, 4 in version 0.
    header = _read(storage, bodies.get(b"tkhd"), 96).ljust(96, b"\0")
    form = ">20xI28x2i" if header[:1] == b"\1" else ">12xI24x2i"
    number, cosine, sine = struct.unpack_from(form, header)
    edits = _read(storage, bodies.get(b"elst"), _MOST_COPIED_BYTES)
    line = struct.Struct(">QqI" if edits[:1] == b"\1" else ">IiI")
    lines = line.iter_unpack(edits[8 : 8 + max(0, len(edits) - 8) // line.size * line.size])
    return Trak(
        number=number,
        kind=_read(storage, bodies.get(b"hdlr"), 12)[8:12],
        ticks_a_second=_clock(storage, bodies.get(b"mdhd")),
        rotation=round(math.degrees(math.atan2(sine, cosine)) / 90) * 90 % 360,
        edits=tuple((duration / movie_ticks, start) for duration, start, _ in lines),
        tables=bodies,
    )


def _clock(storage: Storage, body: range | None) -> int:
    header = _read(storage, body, 32).ljust(32, b"\0")
    offset = 20 if header[:1] == b"\1" else 12
    return max(1, int.from_bytes(header[offset : offset + 4], "big"))


def _read(storage: Storage, body: range | None, most: int) -> bytes:
    return storage.read(body.start, min(body.stop, body.start + most)) if body else b""


def _unusable(storage: Storage, moov: Mp4Box | None, *, has_fragments: bool) -> UnreadableFile:
    name = place_of(storage.uri)
    if moov and moov.whole.stop > storage.size_bytes:
        message = f"{name} is cut off inside its index (moov); copy the whole file again"
    elif moov:
        size = f"{len(moov.whole) / 1e6:,.0f} MB"
        message = (
            f"{name} has an index (moov) of {size}, larger than any recording needs; it is damaged"
        )
    elif has_fragments:
        message = (
            f"{name} is a fragment without its header (no moov box); "
            "join it to the stream's initialisation segment first"
        )
    else:
        message = (
            f"{name} has no index (no moov box): it was cut off or never closed; "
            "copy the whole file again, or repair it from a good file of the same camera"
        )
    return UnreadableFile(message)


_MOST_MARK_BYTES = 1 << 18
_RECORD_BYTES, _KIND_AT = 36, 24


def read_marks(storage: Storage, index: Mp4Box, *, duration: float) -> tuple[float, ...]:
    """Highlights marked on a GoPro while recording, in seconds from the beginning of a file.

    They are in the index, in milliseconds (github.com/gopro/gpmf-parser, issue 21):

        moov ── udta ─┬─ HMMT    how many, then a number each (HERO5 and before; later ones too)
                      └─ GPMF    DEVC ── STRM ── HLMT: records of 36 bytes (HERO6 and later)

    A record begins with its time; its kind is at the 25th byte, `MANL` if a person pressed the
    button.
    """
    times: set[int] = set()
    for box in index.children:
        if box.kind != b"udta" or box.whole.stop > index.whole.stop:
            continue
        for child in walk_boxes(storage, box.body):
            if child.kind not in (b"HMMT", b"GPMF"):
                continue
            start = child.body.start
            end = min(child.body.stop, box.body.stop, start + _MOST_MARK_BYTES)
            data = storage.read(start, max(start, end))
            if child.kind == b"HMMT":  # as many numbers as the first of them says, or as there are
                numbers = [number for (number,) in struct.iter_unpack(">I", data[: len(data) & ~3])]
                times.update(numbers[1:][: numbers[0]] if numbers else ())
            else:
                times.update(_manual_marks(data))
    return tuple(time / 1000 for time in sorted(times) if time <= duration * 1000)


def _manual_marks(data: bytes) -> Iterator[int]:
    offset = 0
    while offset + 8 <= len(data):
        key, kind, size, count = struct.unpack(">4sBBH", data[offset : offset + 8])
        body = data[offset + 8 : offset + 8 + size * count]
        if kind == 0 and key in (b"DEVC", b"STRM"):
            yield from _manual_marks(body)
        elif key == b"HLMT" and size == _RECORD_BYTES:
            for start in range(0, len(body) - size + 1, size):
                record = body[start : start + size]
                if record[_KIND_AT : _KIND_AT + 4] == b"MANL":
                    yield struct.unpack(">I", record[:4])[0]
        offset += 8 + -(-size * count // 4) * 4  # bodies fill whole words
