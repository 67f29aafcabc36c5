"""Lays decoded sound on a recording's clock, in blocks, with memory that does not grow.

    decoded frames ──▶ run (joined, resampled) ──▶ AudioTimeline ──▶ Sound, Sound, …

A run is a stretch of decoded sound without a break in its timestamps. Every run is laid at its own
time: what is missing between two runs is silence, what overlaps is heard once.
"""

from __future__ import annotations

from collections.abc import Generator, Iterable, Iterator
from contextlib import closing
from dataclasses import dataclass
from functools import partial

import av.error
import numpy as np
from av.audio.fifo import AudioFifo
from av.audio.frame import AudioFrame
from av.audio.resampler import AudioResampler
from numpy.typing import NDArray

from earmark.errors import UnreadableFile, summarise
from earmark.media.recording_part import Part
from earmark.media.source import place_of
from earmark.timeline import HOP

BLOCK = 30.0
"""Seconds of one block; longer ones measured no faster, and 30 s of 16 kHz sound is 2 MB."""

JITTER = HOP / 2
"""Seconds a timestamp may stray from the sound so far before it is believed to be a break.

Containers round timestamps (Matroska to 1 ms) and cameras let them waver; cutting the sound at
each would be heard as a click. Half a step of the feature clock is the most a sound may be out.
"""

_FEED_SAMPLES = 1 << 15
"""Decoded samples joined before they are resampled.

One packet at a time costs half as much again, and more than this falls out of the cache.
"""

Samples = NDArray[np.float32]


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
        self._block = np.zeros(round(BLOCK * sample_rate), np.float32)
        self._start = 0
        self._filled = 0
        self.overlap = 0.0
        """Seconds of what was laid whose time had been heard already."""
        self.missing = 0.0
        """Seconds of silence between sounds of one file."""

    @property
    def position(self) -> int:
        """Samples from the start of the recording to the next free place."""
        return self._start + self._filled

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
            self._filled += len(taken)
            values = values[len(taken) :]
            yield from self._emit(len(self._block))

    def pad_to(self, place: int) -> Iterator[Sound]:
        """Silence up to sample `place`."""
        while self.position < place:
            self._filled = min(len(self._block), place - self._start)
            yield from self._emit(len(self._block))

    def finish(self) -> Iterator[Sound]:
        """The last block, shorter than the others; nothing where they came out even."""
        yield from self._emit(1)

    def _emit(self, least: int) -> Iterator[Sound]:
        """What is filled, once that is `least` samples."""
        if self._filled >= least:
            values = self._block[: self._filled]
            self._block = np.zeros(len(self._block), np.float32)  # `zeros_like` touches all of it
            start, self._start, self._filled = self._start, self.position, 0
            yield Sound(values, start / self.sample_rate, self.sample_rate)


def lay_frames(
    frames: Iterable[AudioFrame], timeline: AudioTimeline, part: Part
) -> Iterator[Sound]:
    """Lay the decoded frames of one file by their timestamps; yields the blocks that are full.

    Raises:
        UnreadableFile: the sound is of a kind that cannot be mixed to one channel.
    """
    try:
        yield from _lay_runs(frames, timeline, part)
    except av.error.FFmpegError as error:
        raise UnreadableFile(
            f"{place_of(part.uri)}: its sound cannot be mixed and resampled ({summarise(error)}); "
            "convert it first"
        ) from error


def _lay_runs(frames: Iterable[AudioFrame], timeline: AudioTimeline, part: Part) -> Iterator[Sound]:
    rate = timeline.sample_rate
    lay = partial(timeline.lay, start=round(part.start * rate), limit=round(part.end * rate))
    pieces = _resample_runs(frames, rate, part)
    with closing(pieces):
        for place, values in pieces:
            yield from lay(place, values)


def _resample_runs(
    frames: Iterable[AudioFrame], sample_rate: int, part: Part
) -> Generator[tuple[int, Samples], None, None]:
    """Mono sound in pieces of some length, each with its place."""
    run: _Run | None = None
    for frame in frames:
        if run is not None and not run.continues_with(frame):
            yield run.resample()
            yield run.finish()
            run = None
        if run is None:
            run = _Run(frame, sample_rate, part)
        elif run.waiting_samples >= _FEED_SAMPLES:
            yield run.resample()
        run.add(frame)
    if run is not None:
        yield run.resample()
        yield run.finish()


class _Run:
    """Decoded sound without a break, resampled to mono as it comes."""

    def __init__(self, first: AudioFrame, sample_rate: int, part: Part) -> None:
        self._format = _format_of(first)
        self._queue = AudioFifo()
        self._resampler = AudioResampler("flt", "mono", sample_rate)
        self._tick = float(first.time_base) if first.time_base else 0.0
        self._next = first.pts * self._tick if first.pts is not None else part.zero
        self._place = round((self._next + part.shift) * sample_rate)

    @property
    def waiting_samples(self) -> int:
        """Decoded samples not yet resampled."""
        return self._queue.samples

    def continues_with(self, frame: AudioFrame) -> bool:
        """Whether `frame` follows without a break; one without a timestamp does."""
        if _format_of(frame) != self._format:
            return False
        return frame.pts is None or abs(frame.pts * self._tick - self._next) <= JITTER

    def add(self, frame: AudioFrame) -> None:
        """Queue one more frame."""
        self._next += frame.samples / frame.sample_rate
        frame.pts = None
        self._queue.write(frame)

    def resample(self) -> tuple[int, Samples]:
        """What the resampler has ready after all that is waiting, and where it belongs."""
        return self._resampled(self._queue.read())

    def finish(self) -> tuple[int, Samples]:
        """What the resampler holds back until the end."""
        return self._resampled(None)

    def _resampled(self, waiting: AudioFrame | None) -> tuple[int, Samples]:
        frames = self._resampler.resample(waiting)
        values = [frame.to_ndarray()[0] for frame in frames if frame is not None]
        joined: Samples = np.concatenate(values) if values else np.zeros(0, np.float32)
        place = self._place
        self._place += len(joined)
        return place, joined


def _format_of(frame: AudioFrame) -> tuple[object, ...]:
    return frame.format.name, frame.layout, frame.sample_rate
