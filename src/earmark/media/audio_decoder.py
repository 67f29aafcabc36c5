"""Decodes one audio track, its packets reached by the index or by demuxing."""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction
from typing import cast

import numpy as np
from av.audio.frame import AudioFrame
from av.audio.stream import AudioStream
from av.packet import Packet
from numpy.typing import NDArray

from earmark.errors import UnreadableFile
from earmark.media.container import (
    MediaFile,
    decode_packet,
    discard_all_but,
    open_media,
    packets_of,
)
from earmark.media.packet_index import PacketIndex
from earmark.media.recording_part import Part
from earmark.media.source import place_of
from earmark.media.storage import ByteRange, Meter, Storage

_BATCH_BYTES = 1 << 20
"""Audio read ahead of the decoder, at most; over a network one batch is one round of requests."""

_PADDING = bytes(64)
"""Decoders may look this far past the end of a packet, so that much memory must follow it."""


def decode_track(part: Part, track: int, meter: Meter) -> Iterator[AudioFrame]:
    """The frames of an audio track in file order, none where the file has no such track.

    Raises:
        UnreadableFile: it has packets, and not one of them can be decoded.
    """
    damaged = meter.damaged_packets
    is_silent = True
    with open_media(part.uri, meter, version=part.version, index_only=True) as file:
        streams = file.container.streams.audio
        if track >= len(streams):
            return
        reach = _decode_indexed if file.has_index else _decode_demuxed
        for frame in reach(file, streams[track], meter):
            if is_sound(frame.sample_rate):
                is_silent = False
                yield frame
            else:
                meter.damaged_packets += 1
    if is_silent and meter.damaged_packets > damaged:
        raise UnreadableFile(
            f"{place_of(part.uri)}: not one packet of audio track {track} can be decoded; "
            "check that it plays"
        )


def is_sound(sample_rate: int) -> bool:
    """Whether sound may have this many samples a second; others cost gigabytes to resample."""
    return 1000 <= sample_rate <= 1_000_000


def _decode_demuxed(file: MediaFile, stream: AudioStream, meter: Meter) -> Iterator[AudioFrame]:
    discard_all_but(file.container, stream)
    for packet in packets_of(file.container, stream):
        yield from decode_packet(stream.codec_context, packet, meter)


def _decode_indexed(file: MediaFile, stream: AudioStream, meter: Meter) -> Iterator[AudioFrame]:
    index = file.index_of(stream)
    decoder, time_base = stream.codec_context, Fraction(1, index.ticks_a_second)
    for data, stamp, is_shown in _read_packets(file.storage, index):
        packet = Packet(cast(bytes, data))
        packet.pts = packet.dts = stamp
        packet.time_base = time_base
        frames = decode_packet(decoder, packet, meter)
        if is_shown:
            yield from frames
    yield from decode_packet(decoder, None, meter)


def _read_packets(storage: Storage, index: PacketIndex) -> Iterator[tuple[memoryview, int, bool]]:
    """The bytes, stamp and whether it is heard, of each packet, read a batch at a time."""
    first = 0
    while first < len(index):
        last = index.batch_end(first, _BATCH_BYTES)
        batch = slice(first, last)
        yield from zip(
            _read_pieces(storage, index.positions[batch], index.sizes[batch]),
            index.stamps[batch].tolist(),
            index.is_shown[batch].tolist(),
            strict=True,
        )
        first = last


def _read_pieces(
    storage: Storage, positions: NDArray[np.int64], sizes: NDArray[np.int32]
) -> Iterator[memoryview]:
    """The bytes of each piece, in order, in as few reads as are worth it.

    Pieces that touch, or lie closer than the storage's `spare_bytes`, come in one read; a new one
    begins where the next piece lies back in the file, or further on than that.
    """
    ends = positions + sizes
    gaps = positions[1:] - ends[:-1]
    run_of = np.concatenate([[0], np.cumsum((gaps < 0) | (gaps > storage.spare_bytes))])
    firsts = np.flatnonzero(np.diff(run_of, prepend=-1))
    starts = positions[firsts]
    stops = np.maximum.reduceat(ends, firsts)
    ranges = [ByteRange(*pair) for pair in zip(starts.tolist(), stops.tolist(), strict=True)]
    runs = [memoryview(data + _PADDING) for data in storage.read_all(ranges)]
    offsets = (positions - starts[run_of]).tolist()
    for run, offset, size in zip(run_of.tolist(), offsets, sizes.tolist(), strict=True):
        yield runs[run][offset : offset + size]
