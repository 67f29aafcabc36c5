"""Joins the decoded frames of a recording into runs: stretches without a break in their timestamps.

frames   [0][1][2][3]      [4][5][6]
runs     [== piece ==]     [= piece =]      a long run comes in several pieces
"""

from __future__ import annotations

from collections.abc import Generator, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

import av.error
from av.audio.fifo import AudioFifo
from av.audio.frame import AudioFrame

from earmark.errors import UnreadableFile, summarise
from earmark.media.audio_decoder import decode_track
from earmark.media.recording_part import Part
from earmark.media.source import place_of
from earmark.media.storage import Meter
from earmark.timeline import HOP

JITTER = HOP / 2
"""Seconds a timestamp may stray from the sound so far before it is believed to be a break.

Containers round timestamps (Matroska to 1 ms) and cameras let them waver; cutting the sound at
each would be heard as a click. Half a step of the feature clock is the most a sound may be out.
"""

_PIECE_SAMPLES = 1 << 15
"""Decoded samples joined before they are resampled.

One packet at a time costs half as much again, and more than this falls out of the cache.
"""


@dataclass(frozen=True, slots=True, eq=False)
class RunPiece:
    """Decoded sound that follows the piece before it, or begins a run."""

    frame: AudioFrame
    """Without a timestamp."""
    part: int
    """Number of the file it comes from."""
    begins: float | None
    """The container's time at which a run begins with it; None where it goes on."""


def decode_runs(parts: Sequence[Part], track: int, meter: Meter) -> Generator[RunPiece, None, None]:
    """The decoded sound of an audio track of all files of a recording, in order.

    Raises:
        UnreadableFile: a file cannot be read, or its sound is of a kind that cannot be joined.
    """
    for number, part in enumerate(parts):
        with mixing(part):
            for frame, begins in _join(decode_track(part, track, meter), part.zero):
                yield RunPiece(frame, number, begins)


@contextmanager
def mixing(part: Part) -> Iterator[None]:
    """What libav raises in the block says that the sound of `part` is of a kind it cannot mix."""
    try:
        yield
    except av.error.FFmpegError as error:
        raise UnreadableFile(
            f"{place_of(part.uri)}: its sound cannot be mixed and resampled ({summarise(error)}); "
            "convert it first"
        ) from error


def _join(frames: Iterable[AudioFrame], zero: float) -> Iterator[tuple[AudioFrame, float | None]]:
    """The frames joined, each with the time at which a run begins with it.

    A first frame without a timestamp is at `zero`.
    """
    run: _Run | None = None
    for frame in frames:
        if run is not None and not run.continues_with(frame):
            yield from run.take()
            run = None
        if run is None:
            run = _Run(frame, zero)
        elif run.waiting_samples >= _PIECE_SAMPLES:
            yield from run.take()
        run.add(frame)
    if run is not None:
        yield from run.take()


class _Run:
    """Decoded sound without a break, joined as it comes."""

    def __init__(self, first: AudioFrame, zero: float) -> None:
        self._format = _format_of(first)
        self._queue = AudioFifo()
        self._tick = float(first.time_base) if first.time_base else 0.0
        self._next = first.pts * self._tick if first.pts is not None else zero
        self._begins: float | None = self._next

    @property
    def waiting_samples(self) -> int:
        """Samples that were not taken yet."""
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

    def take(self) -> Iterator[tuple[AudioFrame, float | None]]:
        """What waits, joined, if anything does, and when the run begins if it does so here."""
        joined = self._queue.read()
        if joined is not None:
            yield joined, self._begins
            self._begins = None


def _format_of(frame: AudioFrame) -> tuple[object, ...]:
    return frame.format.name, frame.layout, frame.sample_rate
