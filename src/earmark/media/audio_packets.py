"""Reaches the packets of one audio track, by the index or by demuxing, and decodes them."""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction
from typing import Any, cast

import av.error
from av.audio.codeccontext import AudioCodecContext
from av.audio.frame import AudioFrame
from av.audio.stream import AudioStream
from av.packet import Packet

from earmark.errors import UnreadableFile
from earmark.media.container import Opened, discard_all_but, opened, packets_of
from earmark.media.packet_index import PacketIndex
from earmark.media.read_ranges import gather
from earmark.media.source import place_of
from earmark.media.storage import Meter, Storage

_BATCH_BYTES = 1 << 20
"""Audio read ahead of the decoder, at most; over a network one batch is one round of requests."""


def decode_track(uri: str, track: int, meter: Meter) -> Iterator[AudioFrame]:
    """The frames of an audio track in file order, none where the file has no such track.

    Raises:
        UnreadableFile: it has packets, and not one of them can be decoded.
    """
    damaged = meter.damaged_packets
    is_silent = True
    with opened(uri, meter, index_only=True) as file:
        streams = file.container.streams.audio
        if track >= len(streams):
            return
        reach = _decode_indexed if file.has_index else _decode_demuxed
        for frame in reach(file, streams[track], meter):
            is_silent = False
            yield frame
    if is_silent and meter.damaged_packets > damaged:
        raise UnreadableFile(
            f"{place_of(uri)}: not one packet of audio track {track} can be decoded; "
            "check that it plays"
        )


def _decode_demuxed(file: Opened, stream: AudioStream, meter: Meter) -> Iterator[AudioFrame]:
    discard_all_but(file.container, stream)
    for packet in packets_of(file.container, stream):
        yield from _decode(stream.codec_context, packet, meter)


def _decode_indexed(file: Opened, stream: AudioStream, meter: Meter) -> Iterator[AudioFrame]:
    index = file.index_of(stream)
    decoder, time_base = stream.codec_context, Fraction(1, index.ticks_a_second)
    for data, stamp, is_shown in _read_packets(file.storage, index):
        packet = Packet(cast(bytes, data))
        packet.pts = packet.dts = stamp
        packet.time_base = time_base
        frames = _decode(decoder, packet, meter)
        if is_shown:
            yield from frames
    yield from _decode(decoder, None, meter)


def _read_packets(storage: Storage, index: PacketIndex) -> Iterator[tuple[memoryview, int, bool]]:
    """The bytes, stamp and whether it is heard, of each packet, read a batch at a time."""
    first = 0
    while first < len(index):
        last = index.batch_end(first, _BATCH_BYTES)
        batch = slice(first, last)
        yield from zip(
            gather(storage, index.positions[batch], index.sizes[batch]),
            index.stamps[batch].tolist(),
            index.is_shown[batch].tolist(),
            strict=True,
        )
        first = last


def _decode(
    decoder: AudioCodecContext, packet: Packet[Any] | None, meter: Meter
) -> list[AudioFrame]:
    """The frames of one packet; None empties the decoder. A packet it refuses is counted."""
    try:
        return decoder.decode(packet)
    except av.error.FFmpegError:  # damage is not always called invalid data
        meter.damaged_packets += 1
        return []
