"""Lays decoded sound on a recording's clock, in blocks, with memory that does not grow.

    pieces of runs ──▶ resampled to mono ──▶ AudioTimeline ──▶ Sound, Sound, …

Every run is laid at its own time: what is missing between two of them is silence, what overlaps is
heard once.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass
from typing import cast

import av.error
import numpy as np
from av.audio.frame import AudioFrame
from av.filter import Graph
from numpy.typing import NDArray

from earmark.media.audio_decoder import RunPiece, mixing
from earmark.media.recording_part import Part
from earmark.media.storage import Meter

Samples = NDArray[np.float32]

BLOCK = 30.0
"""Seconds of one block; longer ones measured no faster, and 30 s of 16 kHz sound is 2 MB."""


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


class AudioTimeline:
    """Lays samples at their places and gives them back as blocks without a gap."""

    def __init__(self, sample_rate: int) -> None:
        self.sample_rate = sample_rate
        self.position = 0
        """Samples from the start of the recording to the next free place."""
        self.overlap = 0.0
        """Seconds of what was laid whose time had been heard already."""
        self.missing = 0.0
        """Seconds of silence between sounds of one file."""
        self._block = np.zeros(round(BLOCK * sample_rate), np.float32)
        self._filled = 0

    def lay(self, place: int, values: Samples, *, limit: int, start: int = 0) -> Iterator[Sound]:
        """Put `values` at sample `place`: silence up to there, nothing past `limit`.

        What lies before the next free place has been heard already and is left out; it counts as
        overlap from `start` on, where the file begins that it comes from.
        """
        if self.position > start:
            self.missing += max(0, min(place, limit) - self.position) / self.sample_rate
        yield from self.pad_to(min(place, limit))
        heard = min(self.position, place + len(values)) - max(place, start)
        self.overlap += max(0, heard) / self.sample_rate
        values = values[max(0, self.position - place) : max(0, limit - place)]
        while len(values):
            taken = values[: len(self._block) - self._filled]
            self._block[self._filled : self._filled + len(taken)] = taken
            values = values[len(taken) :]
            yield from self._advance(len(taken))

    def pad_to(self, place: int) -> Iterator[Sound]:
        """Silence up to sample `place`."""
        while self.position < place:
            room = len(self._block) - self._filled
            yield from self._advance(min(room, place - self.position))

    def finish(self) -> Iterator[Sound]:
        """What is filled of the last block; nothing where it came out even."""
        if self._filled:
            start = (self.position - self._filled) / self.sample_rate
            values, self._filled = self._block[: self._filled], 0
            self._block = np.zeros(len(self._block), np.float32)  # `zeros_like` touches all of it
            yield Sound(values, start, self.sample_rate)

    def _advance(self, count: int) -> Iterator[Sound]:
        self.position += count
        self._filled += count
        if self._filled == len(self._block):
            yield from self.finish()


def lay_runs(
    pieces: Generator[RunPiece, None, None], parts: Sequence[Part], sample_rate: int, meter: Meter
) -> Generator[Sound, None, None]:
    """Decoded sound of the files of a recording, laid at its time: all of it, without a gap.

    `UnreadableFile` where the sound is of a kind that cannot be mixed to one channel.
    """
    timeline, run = AudioTimeline(sample_rate), None
    with closing(pieces):
        for piece in pieces:
            if piece.begins is not None:
                if run is not None:
                    yield from run.lay(None)
                run = _MonoRun(piece.frame, piece.begins, timeline, parts[piece.part])
            assert run is not None, "the first piece begins one"
            yield from run.lay(piece.frame)
        if run is not None:
            yield from run.lay(None)
    meter.overlap, meter.missing = timeline.overlap, timeline.missing
    yield from timeline.pad_to(round(parts[-1].end * sample_rate))
    yield from timeline.finish()


class _MonoRun:
    """Decoded sound without a break, resampled to mono as it comes; the same however it is cut."""

    def __init__(
        self, first: AudioFrame, begins: float, timeline: AudioTimeline, part: Part
    ) -> None:
        rate = timeline.sample_rate
        self._timeline, self._part = timeline, part
        self._place = round((begins + part.shift) * rate)
        self._start, self._limit = round(part.start * rate), round(part.end * rate)
        with mixing(part):
            self._graph = _open_resampler(first, rate)

    def lay(self, frame: AudioFrame | None) -> Iterator[Sound]:
        """Lay what the resampler has ready after `frame`; after None, what it has held back."""
        with mixing(self._part):
            self._graph.push(frame)
            while True:
                try:
                    ready = self._graph.pull()
                except (av.error.BlockingIOError, av.error.EOFError):
                    return
                values = cast(AudioFrame, ready).to_ndarray()[0]
                place, self._place = self._place, self._place + len(values)
                yield from self._timeline.lay(place, values, start=self._start, limit=self._limit)


def _open_resampler(frame: AudioFrame, sample_rate: int) -> Graph:
    """Filters of libav from sound like `frame` to mono.

    PyAV's own resampler starts a thread a core that none of these filters uses, which takes as long
    as resampling some seconds of sound.
    """
    graph = Graph()
    graph.threads = 1
    given = {
        "sample_rate": str(frame.sample_rate),
        "sample_fmt": frame.format.name,
        "channel_layout": frame.layout.name,
    }
    made = {"sample_rates": str(sample_rate), "sample_fmts": "flt", "channel_layouts": "mono"}
    steps = graph.add("abuffer", **given), graph.add("aformat", **made), graph.add("abuffersink")
    graph.link_nodes(*steps).configure()
    return graph
