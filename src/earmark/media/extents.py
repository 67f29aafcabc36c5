"""When each stream of a file begins and ends, from its packets and not from its header."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, cast

import av
import av.error
from av.container import InputContainer
from av.format import Flags
from av.stream import Discard, Stream
from av.video.stream import VideoStream

from earmark.media.container import Opened

OVERHANG = 0.1
"""Seconds by which sound may overhang the pictures without making the recording longer.

Codecs begin with priming and fill up their last packet; that is not time anybody filmed.
"""

_GUESSES: int = cast(Any, Flags.generic_index).value
"""Mark of the formats (MP3 and its like) whose duration is a guess from the bit rate."""

_TAIL = 10.0
"""Seconds before the claimed end from which packets are read to find the real one."""


@dataclass(frozen=True, slots=True)
class Extent:
    """When a stream is shown, in the container's time."""

    start: float
    end: float
    packets: int | None = None
    """How many it has, where an index says so."""
    missing_packets: int = 0
    """How many the index names that lie past the end of the file."""


def measure(file: Opened, streams: list[Stream]) -> dict[int, Extent]:
    """The extent of each stream by its number; a stream without a packet is left out."""
    if file.has_index:
        return _by_index(file, streams)
    if file.layout is not None and file.layout.is_fragmented:
        return _by_fragments(file.container, streams)
    return _by_tail(file.container, streams) or _by_scan(file.container, streams)


def bounds(heard: list[Extent], seen: Extent | None) -> tuple[float, float]:
    """When a file begins and ends to be shown; the pictures decide where sound overhangs."""
    extents = [*heard, *([seen] if seen else [])]
    begin = min(extent.start for extent in extents)
    end = max(extent.end for extent in extents)
    if seen and seen.start - begin < OVERHANG:
        begin = seen.start
    if seen and end - seen.end < OVERHANG:
        end = seen.end
    return begin, end


def _by_index(file: Opened, streams: list[Stream]) -> dict[int, Extent]:
    extents = {}
    for stream in streams:
        index = file.index_of(stream)
        shown = int(index.is_shown.sum())
        if shown:
            extents[stream.index] = Extent(index.start, index.end, shown, index.missing_packets)
    return extents


def _by_fragments(container: InputContainer, streams: list[Stream]) -> dict[int, Extent]:
    """Extents from the index pieces of all fragments; the media of all is skipped."""
    for stream in container.streams:
        stream.discard = Discard.all
    for _ in container.demux():
        pass
    extents = {}
    for stream in streams:
        entries = stream.index_entries
        if len(entries) and stream.time_base is not None:
            first, last = entries[0].timestamp, entries[-1].timestamp
            step = last - entries[-2].timestamp if len(entries) > 1 else 0
            # Pictures are stored by decode time; they are shown as much later as the first one.
            begin = first if stream.start_time is None else max(first, stream.start_time)
            delay = begin - first if stream.type == "video" else 0
            ends = [last + delay + step, begin + (stream.duration or 0)]
            end = ends[1] if last + delay < ends[1] < ends[0] else ends[0]
            tick = float(stream.time_base)
            extents[stream.index] = Extent(max(0, begin) * tick, end * tick, len(entries))
    return extents


def _by_tail(container: InputContainer, streams: list[Stream]) -> dict[int, Extent]:
    """Extents from the last packets; empty where the container's end cannot be sought."""
    if container.duration is None or container.format.flags & _GUESSES:
        return {}
    begin = container.start_time or 0
    target = begin + container.duration - round(_TAIL * av.time_base)
    try:
        container.seek(max(begin, target))
        extents = _by_scan(container, streams)
    except av.error.FFmpegError:
        extents = {}
    if all(stream.index in extents for stream in streams):
        return extents
    container.seek(begin)  # One of them ended earlier: only a whole pass tells when.
    return {}


def _by_scan(container: InputContainer, streams: list[Stream]) -> dict[int, Extent]:
    """Extents from the packets between here and the end of the file."""
    firsts: dict[int, float] = {}
    lasts: dict[int, tuple[float, float]] = {}
    for packet in container.demux(streams):
        if packet.pts is None or packet.time_base is None:
            continue
        place, tick = packet.stream.index, float(packet.time_base)
        time = packet.pts * tick
        step = packet.duration * tick if packet.duration else _usual_step(packet.stream)
        firsts[place] = min(time, firsts.get(place, time))
        lasts[place] = max((time, time + step), lasts.get(place, (time, time)))
    found = [stream for stream in streams if stream.index in firsts]
    return {
        stream.index: _extent_of(stream, firsts[stream.index], *lasts[stream.index])
        for stream in found
    }


def _extent_of(stream: Stream, first: float, last: float, end: float) -> Extent:
    """What the header says where the packets bear it out, else what the packets say."""
    if stream.start_time is None or stream.time_base is None:
        return Extent(first, end)
    # Later than the first packet where the demuxer knows of priming to leave out (MP3).
    start = stream.start_time * float(stream.time_base)
    claimed = start + (stream.duration or 0) * float(stream.time_base)
    return Extent(start, claimed if last < claimed < end else end)


def _usual_step(stream: Stream) -> float:
    """Seconds from one picture to the next, for packets that do not say how long they last."""
    rate = stream.average_rate if isinstance(stream, VideoStream) else None
    return float(1 / rate) if rate else 0.0
