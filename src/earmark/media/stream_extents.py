"""When each stream of a file begins and ends, from its packets and not from its header."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import Any, cast

import av
import av.error
from av.container import InputContainer
from av.format import Flags
from av.stream import Discard, Stream
from av.video.stream import VideoStream

from earmark.media.container import MediaFile, packets_of

OVERHANG = 0.1
"""Seconds by which sound may overhang the pictures without making the recording longer.

Codecs begin with priming and fill up their last packet; that is not time anybody filmed.
"""

_GUESSES: int = cast(Any, Flags.generic_index).value
"""Mark of the formats (MP3 and its like) whose duration is a guess from the bit rate."""

_TAIL = 10.0
"""Seconds before the claimed end from which packets are read to find the real one."""

_HAIR = 1e-6
"""Seconds of arithmetic by which two times that are the same may differ."""

_HEAD = 60.0
"""Seconds up to which packets are read to find when a stream begins; the header may not know."""


@dataclass(frozen=True, slots=True)
class Extent:
    """When a stream is shown, in the container's time; as it is, that of one without a packet."""

    start: float = 0.0
    end: float = 0.0
    packets: int | None = None
    """How many it has, where an index says so."""
    missing_packets: int = 0
    """How many the index names that lie past the end of the file."""


def measure(file: MediaFile, streams: list[Stream]) -> dict[int, Extent]:
    """The extent of each stream by its number; a stream without a packet is left out."""
    if file.has_index:
        extents = {}
        for stream in streams:
            index = file.index_of(stream)
            if shown := int(index.is_shown.sum()):
                extents[stream.index] = Extent(index.start, index.end, shown, index.missing_packets)
        return extents
    if file.tracks.layout is not None and file.tracks.layout.is_fragmented:
        return _by_fragments(file, streams)
    return _by_tail(file.container, streams) or _by_scan(file.container, streams)


def zero_of(file: MediaFile, begin: float) -> float:
    """The container's time that is the recording's 0, where the first packet is shown at `begin`.

    An MP4's own 0 is shown first, whatever comes later. Elsewhere the first packet is; a hair
    before 0 it is a codec's priming, further before it a clock that ran over (MPEG-TS).
    """
    if file.has_index:
        return 0.0
    return begin if begin < -OVERHANG and file.tracks.layout is None else max(0.0, begin)


def promised(file: MediaFile) -> float:
    """Seconds that the header says there are; 0 where it says nothing, or no more than a guess."""
    is_told = file.tracks.layout is None and not file.container.format.flags & _GUESSES
    return (file.container.duration or 0) / av.time_base if is_told else 0.0


def bounds(extents: Collection[Extent], seen: Extent | None) -> tuple[float, float]:
    """When a file begins and ends to be shown; the pictures decide where sound overhangs.

    `extents` are of all streams, `seen` is that of the pictures among them.
    """
    begin = min(extent.start for extent in extents)
    end = max(extent.end for extent in extents)
    if seen and seen.start - begin < OVERHANG:
        begin = seen.start
    if seen and end - seen.end < OVERHANG:
        end = seen.end
    return begin, end


def _by_fragments(file: MediaFile, streams: list[Stream]) -> dict[int, Extent]:
    """Extents from the index pieces of all fragments; the media of all is skipped."""
    for stream in file.container.streams:
        stream.discard = Discard.all
    for _ in packets_of(file.container):
        pass
    extents = {}
    for stream in streams:
        count = _entries_within(stream, file.storage.size_bytes)
        if count and stream.time_base is not None:
            extents[stream.index] = _by_entries(stream, count, float(stream.time_base))
    return extents


def _entries_within(stream: Stream, size_bytes: int) -> int:
    """How many packets of an index lie in the file; those that do not are the last."""
    entries = stream.index_entries
    count = len(entries)
    while count and entries[count - 1].pos + entries[count - 1].size > size_bytes:
        count -= 1
    return count


def _by_entries(stream: Stream, count: int, tick: float) -> Extent:
    """The extent of the first `count` packets of an index."""
    entries = stream.index_entries
    first, last = entries[0].timestamp, entries[count - 1].timestamp
    step = last - entries[count - 2].timestamp if count > 1 else 0
    # Pictures are stored by decode time; they are shown as much later as the first one.
    begin = first if stream.start_time is None else max(first, stream.start_time)
    delay = begin - first if stream.type == "video" else 0
    ends = [last + delay + step, begin + (stream.duration or 0)]
    end = ends[1] if last + delay < ends[1] < ends[0] else ends[0]
    return Extent(max(0, begin) * tick, end * tick, count, len(entries) - count)


def _by_tail(container: InputContainer, streams: list[Stream]) -> dict[int, Extent]:
    """Extents from the first and last packets; empty where the end cannot be sought."""
    if container.duration is None or container.format.flags & _GUESSES:
        return {}
    begin = container.start_time or 0
    target = begin + container.duration - round(_TAIL * av.time_base)
    try:
        firsts = _begin(container, streams)
        container.seek(max(begin, target))
        extents = _by_scan(container, streams, firsts)
    except av.error.FFmpegError:
        extents = {}
    if all(stream.index in extents for stream in streams):
        return extents
    container.seek(begin)  # One of them ended earlier: only a whole pass tells when.
    return {}


def _begin(container: InputContainer, streams: list[Stream]) -> dict[int, float]:
    """When the first packet of each stream is shown; reads until each has had one."""
    firsts: dict[int, float] = {}
    limit = (container.start_time or 0) / av.time_base + _HEAD
    for packet in packets_of(container, *streams):
        if packet.pts is not None and packet.time_base is not None:
            time = packet.pts * float(packet.time_base)
            firsts.setdefault(packet.stream.index, time)
            if len(firsts) == len(streams) or time > limit:
                break
    return firsts


def _by_scan(
    container: InputContainer, streams: list[Stream], known: dict[int, float] | None = None
) -> dict[int, Extent]:
    """Extents from the packets between here and the end of the file; some may be `known`."""
    firsts = dict(known or {})
    lasts: dict[int, tuple[float, float]] = {}
    for packet in packets_of(container, *streams):
        if packet.pts is None or packet.time_base is None:
            continue
        place, tick = packet.stream.index, float(packet.time_base)
        time = packet.pts * tick
        step = packet.duration * tick if packet.duration else _usual_step(packet.stream)
        firsts[place] = min(time, firsts.get(place, time))
        lasts[place] = max((time, time + step), lasts.get(place, (time, time)))
    found = [stream for stream in streams if stream.index in lasts]
    return {
        stream.index: _extent_of(stream, firsts[stream.index], *lasts[stream.index])
        for stream in found
    }


def _extent_of(stream: Stream, first: float, last: float, end: float) -> Extent:
    """What the header says where the packets bear it out, else what the packets say."""
    if stream.start_time is None or stream.time_base is None:
        return Extent(first, end)
    told = stream.start_time * float(stream.time_base)
    claimed = told + (stream.duration or 0) * float(stream.time_base)
    # Told later than the first packet where there is priming to leave out (MP3), and earlier where
    # the stream begins after the part of the file that the demuxer looked at.
    return Extent(max(told, first), claimed if last + _HAIR < claimed < end else end)


def _usual_step(stream: Stream) -> float:
    """Seconds from one picture to the next, for packets that do not say how long they last."""
    rate = stream.average_rate if isinstance(stream, VideoStream) else None
    return float(1 / rate) if rate else 0.0
