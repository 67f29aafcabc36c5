"""Decodes an audio track and places it on the recording's clock, with bounded memory.

packets  reached by the index of the file, or by demuxing it
frames   [0][1][2][3]      [4][5][6]
runs     [== piece ==]     [= piece =]      sound without a break in its timestamps
sound    [ resampled ]00000[to mono ]       in blocks; gaps are silence, overlaps are used once
"""

from __future__ import annotations

from collections.abc import Generator, Iterable, Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass
from fractions import Fraction
from itertools import chain, pairwise
from typing import TYPE_CHECKING, cast

import av.error
import numpy as np
from av.audio.fifo import AudioFifo
from av.audio.frame import AudioFrame
from av.audio.stream import AudioStream
from av.filter import Graph
from av.packet import Packet
from numpy.typing import NDArray

from earmark.errors import UnreadableFile, summarise
from earmark.media.container import MediaFile, decode_packet, decode_stream, open_media
from earmark.media.mp4_index import read_packets
from earmark.media.source import place_of
from earmark.media.storage import Meter, Storage
from earmark.timeline import HOP

if TYPE_CHECKING:
    from earmark.media.recording import Part

SOUND_RATES = range(1000, 1_000_001)
"""Accepted sample rates in Hz; others take gigabytes to resample."""

JITTER = HOP / 2
"""Seconds; containers round timestamps (Matroska to 1 ms), and those of cameras jitter."""

PIECE_BYTES = 1 << 18
"""One packet at a time takes 1.5 times as long, and more does not fit the CPU cache."""

_BATCH_BYTES = 1 << 20
_PADDING = bytes(64)  # decoders may read this many bytes past the end of a packet


@dataclass(frozen=True, slots=True, eq=False)
class RunPiece:
    frame: AudioFrame
    part: int
    begins: float | None
    """Container time; None if it continues a run."""


def decode_runs(parts: Sequence[Part], track: int, meter: Meter) -> Generator[RunPiece, None, None]:
    for number, part in enumerate(parts):
        with explain_mixing_errors(part):
            for frame, begins in join_frames(_decode(part, track, meter), part.zero):
                yield RunPiece(frame, number, begins)


@contextmanager
def explain_mixing_errors(part: Part) -> Iterator[None]:
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
    """Frames of up to `PIECE_BYTES`, each with the time at which it begins a run, or None.

    A frame without a timestamp follows the one before; if it is the first, it is at `zero`.
    """
    queue, kind, tick, most = AudioFifo(), None, 0.0, 0
    following, begins = zero, None
    for frame in frames:
        own = frame.format.name, frame.layout, frame.sample_rate
        has_break = own != kind or (
            frame.pts is not None and abs(frame.pts * tick - following) > JITTER
        )
        while queue.samples >= (1 if has_break else most):
            yield cast(AudioFrame, queue.read(most, partial=True)), begins
            begins = None
        if has_break:
            queue, kind = AudioFifo(), own
            most = max(1, PIECE_BYTES // (frame.format.bytes * frame.layout.nb_channels))
            tick = float(frame.time_base) if frame.time_base else 0.0
            begins = following = zero if frame.pts is None else frame.pts * tick
        following += frame.samples / frame.sample_rate
        frame.pts = None
        queue.write(frame)
    while queue.samples:
        yield cast(AudioFrame, queue.read(most, partial=True)), begins
        begins = None


def _decode(part: Part, track: int, meter: Meter) -> Iterator[AudioFrame]:
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


Samples = NDArray[np.float32]
BLOCK = 30.0  # seconds; 30 s at 16 kHz take 2 MB
_SILENCE = np.float32(0.0)


@dataclass(frozen=True, slots=True, eq=False)
class Sound:
    values: Samples
    """Shape `(samples,)`, full scale 1."""
    start: float
    sample_rate: int

    def __len__(self) -> int:
        return len(self.values)


PlacedSamples = tuple[int, Samples, range]
"""First position, the samples, and the positions of their file, all counted in samples."""


def place_runs(
    pieces: Generator[RunPiece, None, None], parts: Sequence[Part], sample_rate: int, meter: Meter
) -> Generator[Sound, None, None]:
    with closing(pieces):
        placed = _resample(pieces, parts, sample_rate)
        end = round(parts[-1].end * sample_rate)
        yield from cut_blocks(fill_gaps(placed, end, sample_rate, meter), sample_rate)


def _resample(
    pieces: Iterable[RunPiece], parts: Sequence[Part], rate: int
) -> Iterator[PlacedSamples]:
    for piece, following in pairwise(chain[RunPiece | None](pieces, [None])):
        assert piece is not None, "only the last one is followed by none"
        part = parts[piece.part]
        with explain_mixing_errors(part):
            if piece.begins is not None:
                graph = open_resampler(piece.frame, rate)
                position = round((piece.begins + part.shift) * rate)
                file = range(round(part.start * rate), round(part.end * rate))
            is_last = following is None or following.begins is not None
            for values in push_frames(graph, piece.frame, *([None] if is_last else [])):
                yield position, values, file
                position += len(values)


def push_frames(graph: Graph, *frames: AudioFrame | None) -> Iterator[Samples]:
    for frame in frames:
        graph.push(frame)
        with suppress(av.error.BlockingIOError, av.error.EOFError):
            while True:
                yield cast(AudioFrame, graph.pull()).to_ndarray()[0]


def fill_gaps(
    placed: Iterable[PlacedSamples], end: int, sample_rate: int, meter: Meter
) -> Iterator[Samples]:
    """The samples in order up to `end`, with silence in the gaps; overlaps are dropped.

    `meter.overlap` counts from the beginning of their file, `meter.missing` between its sounds.
    """
    position = overlap = missing = 0
    for first, values, file in placed:
        gap = max(0, min(first, file.stop) - position)
        missing += gap if position > file.start else 0
        yield np.broadcast_to(_SILENCE, gap)
        position += gap
        overlap += max(0, min(position, first + len(values)) - max(first, file.start))
        own = values[max(0, position - first) : max(0, file.stop - first)]
        yield own
        position += len(own)
    meter.overlap, meter.missing = overlap / sample_rate, missing / sample_rate
    yield np.broadcast_to(_SILENCE, max(0, end - position))


def cut_blocks(stream: Iterable[Samples], sample_rate: int) -> Iterator[Sound]:
    size = round(BLOCK * sample_rate)
    block, start, filled = np.zeros(size, np.float32), 0, 0
    for values in stream:
        rest = values
        while len(rest):
            head, rest = rest[: size - filled], rest[size - filled :]
            block[filled : filled + len(head)] = head
            filled += len(head)
            if filled == size:
                yield Sound(block, start / sample_rate, sample_rate)
                block, start, filled = np.zeros(size, np.float32), start + size, 0
    if filled:
        yield Sound(block[:filled], start / sample_rate, sample_rate)


def open_resampler(frame: AudioFrame, sample_rate: int) -> Graph:
    # PyAV's own resampler starts one thread per core, which these filters do not use and which
    # takes as long as resampling some seconds of sound.
    graph = Graph()
    graph.threads = 1
    kind, layout, rate = frame.format.name, frame.layout.name, str(frame.sample_rate)
    graph.link_nodes(
        graph.add("abuffer", sample_rate=rate, sample_fmt=kind, channel_layout=layout),
        graph.add("aformat", f"sample_rates={sample_rate}:sample_fmts=flt:channel_layouts=mono"),
        graph.add("abuffersink"),
    ).configure()
    return graph
