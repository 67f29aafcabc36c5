"""Places decoded sound on a recording's clock, in blocks, with bounded memory.

    pieces of runs ──▶ resampled to mono ──▶ without gaps ──▶ Sound, Sound, …

Every run is placed at its own time: gaps between runs become silence, and overlapping sound is
used once.
"""

from __future__ import annotations

from collections.abc import Generator, Iterable, Iterator, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass
from itertools import chain, pairwise
from typing import cast

import av.error
import numpy as np
from av.audio.frame import AudioFrame
from av.filter import Graph
from numpy.typing import NDArray

from earmark.media.audio_decoder import RunPiece, explain_mixing_errors
from earmark.media.recording_part import Part
from earmark.media.storage import Meter

Samples = NDArray[np.float32]

BLOCK = 30.0
"""Seconds of one block; longer ones were no faster, and 30 s at 16 kHz take 2 MB."""

_SILENCE = np.float32(0.0)


@dataclass(frozen=True, slots=True, eq=False)
class Sound:
    """A block of mono sound on the recording's clock."""

    values: Samples
    """Shape `(samples,)`, full scale 1."""
    start: float
    """Seconds from the start of the recording to the first sample."""
    sample_rate: int

    def __len__(self) -> int:
        return len(self.values)


PlacedSamples = tuple[int, Samples, range]
"""First position, the samples, and the positions of their file; positions count samples."""


def place_runs(
    pieces: Generator[RunPiece, None, None], parts: Sequence[Part], sample_rate: int, meter: Meter
) -> Generator[Sound, None, None]:
    """The whole sound of a recording in blocks, each run at its time, without gaps.

    Raises `UnreadableFile` if the sound cannot be mixed to one channel.
    """
    with closing(pieces):
        placed = _resample(pieces, parts, sample_rate)
        end = round(parts[-1].end * sample_rate)
        yield from cut_blocks(fill_gaps(placed, end, sample_rate, meter), sample_rate)


def _resample(
    pieces: Iterable[RunPiece], parts: Sequence[Part], rate: int
) -> Iterator[PlacedSamples]:
    """The sound of all runs as mono, independent of how a run is cut into pieces."""
    for piece, following in pairwise(chain[RunPiece | None](pieces, [None])):
        assert piece is not None, "only the last one is followed by none"
        part = parts[piece.part]
        with explain_mixing_errors(part):
            if piece.begins is not None:
                graph = _open_resampler(piece.frame, rate)
                place = round((piece.begins + part.shift) * rate)
                file = range(round(part.start * rate), round(part.end * rate))
            is_last = following is None or following.begins is not None
            for values in _push(graph, piece.frame, *([None] if is_last else [])):
                yield place, values, file
                place += len(values)


def _push(graph: Graph, *frames: AudioFrame | None) -> Iterator[Samples]:
    """The resampler's output after each of `frames`; None flushes it."""
    for frame in frames:
        graph.push(frame)
        with suppress(av.error.BlockingIOError, av.error.EOFError):
            while True:
                yield cast(AudioFrame, graph.pull()).to_ndarray()[0]


def fill_gaps(
    placed: Iterable[PlacedSamples], end: int, sample_rate: int, meter: Meter
) -> Iterator[Samples]:
    """The samples in order up to `end`, with silence in the gaps.

    Samples before the current position overlap earlier ones and are dropped; `meter.overlap` counts
    them from the beginning of their file. `meter.missing` counts silence between sounds of a file.
    """
    position = overlap = missing = 0
    for place, values, file in placed:
        gap = max(0, min(place, file.stop) - position)
        missing += gap if position > file.start else 0
        yield np.broadcast_to(_SILENCE, gap)
        position += gap
        overlap += max(0, min(position, place + len(values)) - max(place, file.start))
        own = values[max(0, position - place) : max(0, file.stop - place)]
        yield own
        position += len(own)
    meter.overlap, meter.missing = overlap / sample_rate, missing / sample_rate
    yield np.broadcast_to(_SILENCE, max(0, end - position))


def cut_blocks(stream: Iterable[Samples], sample_rate: int) -> Iterator[Sound]:
    """The samples in blocks of `BLOCK` seconds; the last may be shorter."""
    size = round(BLOCK * sample_rate)
    block, start, filled = np.zeros(size, np.float32), 0, 0
    for values in stream:
        rest = values
        while len(rest):
            taken, rest = rest[: size - filled], rest[size - filled :]
            block[filled : filled + len(taken)] = taken
            filled += len(taken)
            if filled == size:
                yield Sound(block, start / sample_rate, sample_rate)
                block, start, filled = np.zeros(size, np.float32), start + size, 0
    if filled:
        yield Sound(block[:filled], start / sample_rate, sample_rate)


def _open_resampler(frame: AudioFrame, sample_rate: int) -> Graph:
    """A libav filter graph that converts sound like `frame` to mono.

    PyAV's own resampler starts one thread per core, which these filters do not use and which takes
    as long as resampling some seconds of sound.
    """
    graph = Graph()
    graph.threads = 1
    kind, layout, rate = frame.format.name, frame.layout.name, str(frame.sample_rate)
    graph.link_nodes(
        graph.add("abuffer", sample_rate=rate, sample_fmt=kind, channel_layout=layout),
        graph.add("aformat", f"sample_rates={sample_rate}:sample_fmts=flt:channel_layouts=mono"),
        graph.add("abuffersink"),
    ).configure()
    return graph
