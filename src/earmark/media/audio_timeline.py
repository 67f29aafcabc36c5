"""Lays decoded sound on a recording's clock, in blocks, with memory that does not grow.

    pieces of runs ──▶ resampled to mono ──▶ AudioTimeline ──▶ Sound, Sound, …

Every run is laid at its own time: what is missing between two of them is silence, what overlaps is
heard once.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np
from av.audio.frame import AudioFrame

from earmark.media.audio_runs import RunPiece, mixing
from earmark.media.mono_resampler import MonoResampler, Samples
from earmark.media.recording_part import Part

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


def lay_runs(
    pieces: Iterable[RunPiece], timeline: AudioTimeline, parts: Sequence[Part]
) -> Iterator[Sound]:
    """Lay decoded sound of the files of a recording at its time; yields the blocks that are full.

    Raises:
        UnreadableFile: the sound is of a kind that cannot be mixed to one channel.
    """
    run: _Run | None = None
    for piece in pieces:
        part = parts[piece.part]
        if piece.begins is not None:
            if run is not None:
                yield from run.lay(None)
            run = _Run(piece.begins, timeline, part)
        assert run is not None, "the first piece begins one"
        yield from run.lay(piece.frame)
    if run is not None:
        yield from run.lay(None)


class _Run:
    """Decoded sound without a break, resampled to mono as it comes."""

    def __init__(self, begins: float, timeline: AudioTimeline, part: Part) -> None:
        rate = timeline.sample_rate
        self._part = part
        self._resampler = MonoResampler(rate)
        self._place = round((begins + part.shift) * rate)
        start, limit = round(part.start * rate), round(part.end * rate)
        self._lay = partial(timeline.lay, start=start, limit=limit)

    def lay(self, frame: AudioFrame | None) -> Iterator[Sound]:
        """Lay what the resampler has ready after `frame`; after None, what it has held back."""
        with mixing(self._part):
            for values in self._resampler.resample(frame):
                place, self._place = self._place, self._place + len(values)
                yield from self._lay(place, values)
