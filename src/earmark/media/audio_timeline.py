"""Lays decoded sound on a recording's clock, in blocks, with memory that does not grow.

    pieces of runs ──▶ resampled to mono ──▶ without gaps ──▶ Sound, Sound, …

Every run is laid at its own time: what is missing between two of them is silence, what overlaps is
heard once.
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
"""Seconds of one block; longer ones measured no faster, and 30 s of 16 kHz sound is 2 MB."""

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
"""Where samples begin, the samples, and the places their file takes up; all counted in samples."""


def place_runs(
    pieces: Generator[RunPiece, None, None], parts: Sequence[Part], sample_rate: int, meter: Meter
) -> Generator[Sound, None, None]:
    """Decoded sound of the files of a recording, laid at its time: all of it, without a gap.

    `UnreadableFile` where the sound is of a kind that cannot be mixed to one channel.
    """
    with closing(pieces):
        placed = _resample(pieces, parts, sample_rate)
        end = round(parts[-1].end * sample_rate)
        yield from cut_blocks(fill_gaps(placed, end, sample_rate, meter), sample_rate)


def _resample(
    pieces: Iterable[RunPiece], parts: Sequence[Part], rate: int
) -> Iterator[PlacedSamples]:
    """The sound of all runs as mono; the same however a run is cut into pieces."""
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
    """What the resampler has ready after each of `frames`; after None, what it has held back."""
    for frame in frames:
        graph.push(frame)
        with suppress(av.error.BlockingIOError, av.error.EOFError):
            while True:
                yield cast(AudioFrame, graph.pull()).to_ndarray()[0]


def fill_gaps(
    placed: Iterable[PlacedSamples], end: int, sample_rate: int, meter: Meter
) -> Iterator[Samples]:
    """The samples one after the other up to `end`, with silence where there are none.

    What lies before the next free place has been heard already and is left out; it counts as
    overlap from the beginning of its file on. Silence counts as missing between sounds of a file.
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
    """The samples in blocks, all full but for the last."""
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
    """Filters of libav from sound like `frame` to mono.

    PyAV's own resampler starts a thread a core that none of these filters uses, which takes as long
    as resampling some seconds of sound.
    """
    graph = Graph()
    graph.threads = 1
    input_format = {
        "sample_rate": str(frame.sample_rate),
        "sample_fmt": frame.format.name,
        "channel_layout": frame.layout.name,
    }
    output_format = {
        "sample_rates": str(sample_rate),
        "sample_fmts": "flt",
        "channel_layouts": "mono",
    }
    steps = (
        graph.add("abuffer", **input_format),
        graph.add("aformat", **output_format),
        graph.add("abuffersink"),
    )
    graph.link_nodes(*steps).configure()
    return graph
