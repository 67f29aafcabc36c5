"""Decodes an audio track into runs: sound without a break in its timestamps.

packets  reached by the index of the file, or by demuxing it
frames   [0][1][2][3]      [4][5][6]
runs     [== piece ==]     [= piece =]      a long run comes in several pieces
"""

from __future__ import annotations

from collections.abc import Generator, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from fractions import Fraction
from typing import cast

import av.error
import numpy as np
from av.audio.fifo import AudioFifo
from av.audio.frame import AudioFrame
from av.audio.stream import AudioStream
from av.packet import Packet
from numpy.typing import NDArray

from earmark.errors import UnreadableFile, summarise
from earmark.media.container import MediaFile, decode_packet, decode_stream, open_media
from earmark.media.packet_index import read_packets
from earmark.media.recording_part import Part
from earmark.media.source import place_of
from earmark.media.storage import Meter, Storage
from earmark.timeline import HOP

SOUND_RATES = range(1000, 1_000_001)
"""Accepted sample rates in Hz; others take gigabytes to resample."""

JITTER = HOP / 2
"""Seconds that a timestamp may differ from the end of the sound so far without being a break.

Containers round timestamps (Matroska to 1 ms) and those of cameras jitter; cutting the sound at
each would be heard as a click. Half a step of the feature clock is the largest error allowed.
"""

_PIECE_SAMPLES = 1 << 15
"""Decoded samples joined before they are resampled.

One packet at a time takes 1.5 times as long, and more than this does not fit the CPU cache.
"""

_BATCH_BYTES = 1 << 20
"""Most audio read ahead of the decoder; over a network one batch is one round of requests."""

_PADDING = bytes(64)
"""Decoders may read this many bytes past the end of a packet, so it is padded."""


@dataclass(frozen=True, slots=True, eq=False)
class RunPiece:
    """A piece of decoded sound: it continues the piece before it, or begins a run."""

    frame: AudioFrame
    """Without a timestamp."""
    part: int
    """Index of its file."""
    begins: float | None
    """Container time at which it begins a run; None if it continues one."""


def decode_runs(parts: Sequence[Part], track: int, meter: Meter) -> Generator[RunPiece, None, None]:
    """The decoded sound of an audio track over all files of a recording, in order.

    Raises `UnreadableFile` if a file cannot be read, or its sound not decoded or joined.
    """
    for number, part in enumerate(parts):
        with explain_mixing_errors(part):
            for frame, begins in join_frames(_decode(part, track, meter), part.zero):
                yield RunPiece(frame, number, begins)


@contextmanager
def explain_mixing_errors(part: Part) -> Iterator[None]:
    """Turn libav errors in the block into `UnreadableFile`: the sound cannot be mixed."""
    try:
        yield
    except av.error.FFmpegError as error:
        raise UnreadableFile(
            f"{place_of(part.uri)}: its sound cannot be mixed and resampled ({summarise(error)}); "
            "convert it first"
        ) from error


def join_frames(
    frames: Iterable[AudioFrame], zero: float
) -> Iterator[tuple[AudioFrame, float | None]]:
    """The frames joined into longer ones, each with the time at which it begins a run, or None.

    A frame without a timestamp follows the one before; if it is the first, it is at `zero`.
    """
    queue, kind, tick = AudioFifo(), None, 0.0
    following, begins = zero, None
    for frame in frames:
        own = frame.format.name, frame.layout, frame.sample_rate
        has_break = own != kind or (
            frame.pts is not None and abs(frame.pts * tick - following) > JITTER
        )
        if queue.samples >= (1 if has_break else _PIECE_SAMPLES):
            yield cast(AudioFrame, queue.read()), begins
            begins = None
        if has_break:
            queue, kind = AudioFifo(), own
            tick = float(frame.time_base) if frame.time_base else 0.0
            begins = following = zero if frame.pts is None else frame.pts * tick
        following += frame.samples / frame.sample_rate
        frame.pts = None
        queue.write(frame)
    if queue.samples:
        yield cast(AudioFrame, queue.read()), begins


def _decode(part: Part, track: int, meter: Meter) -> Iterator[AudioFrame]:
    """The frames of an audio track in file order; none if the file has no such track."""
    damaged = meter.damaged_packets
    is_silent = True
    with open_media(part.uri, meter, version=part.version, index_only=True) as file:
        streams = file.container.streams.audio
        if track >= len(streams):
            return
        if file.tracks.traks:
            frames = _decode_indexed(file, streams[track], meter)
        else:
            frames = decode_stream(file.container, streams[track], meter)
        for frame in frames:
            if frame.sample_rate in SOUND_RATES:
                is_silent = False
                yield frame
            else:
                meter.damaged_packets += 1
    if is_silent and meter.damaged_packets > damaged:
        raise UnreadableFile(
            f"{place_of(part.uri)}: not one packet of audio track {track} can be decoded; "
            "check that it plays"
        )


def _decode_indexed(file: MediaFile, stream: AudioStream, meter: Meter) -> Iterator[AudioFrame]:
    index = read_packets(file.storage, file.tracks.traks[stream.id])
    decode, time_base = stream.codec_context.decode, Fraction(1, index.ticks_a_second)
    for batch in index.batches(_BATCH_BYTES):
        pieces = _read_pieces(file.storage, index.positions[batch], index.sizes[batch])
        stamps, are_shown = index.stamps[batch].tolist(), index.is_shown[batch].tolist()
        for data, stamp, is_shown in zip(pieces, stamps, are_shown, strict=True):
            packet = Packet(cast(bytes, data))
            packet.pts = packet.dts = stamp
            packet.time_base = time_base
            frames = decode_packet(decode, packet, meter)
            if is_shown:
                yield from frames
    yield from decode_packet(decode, None, meter)


def _read_pieces(
    storage: Storage, positions: NDArray[np.int64], sizes: NDArray[np.int32]
) -> Iterator[memoryview]:
    """The bytes of each piece, in order, with few reads.

    Pieces no further apart than the storage's `spare_bytes` share one read; a new read begins if
    the next piece lies earlier in the file, or further on than that.
    """
    ends = positions + sizes
    gaps = positions[1:] - ends[:-1]
    run_of = np.concatenate([[0], np.cumsum((gaps < 0) | (gaps > storage.spare_bytes))])
    firsts = np.flatnonzero(np.diff(run_of, prepend=-1))
    starts = positions[firsts]
    stops = np.maximum.reduceat(ends, firsts)
    ranges = [range(*pair) for pair in zip(starts.tolist(), stops.tolist(), strict=True)]
    runs = [memoryview(data + _PADDING) for data in storage.read_all(ranges)]
    offsets = (positions - starts[run_of]).tolist()
    for run, offset, size in zip(run_of.tolist(), offsets, sizes.tolist(), strict=True):
        yield runs[run][offset : offset + size]
