"""Joins the decoded sound of a stream into mono pieces of about a second, on the wall clock.

frames   [0][1][2][3]  [5][6][7]          [9][10]
pieces   [ == piece == :filled: == piece ][ new ]     a short hole is filled, a long one is a break
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass

import av.error
import numpy as np
from av.audio.fifo import AudioFifo
from av.audio.frame import AudioFrame
from av.filter import Graph

from earmark.media.audio_decoder import Samples, Sound, open_resampler, push_frames

PIECE = 1.0
"""Seconds."""

LEAST_HOLE = 0.1
"""Seconds; smaller differences between time stamps and samples are jitter."""

LONGEST_HOLE = 1.0
"""Seconds up to which a hole is filled with the sound before it. Silence would lower the noise
floor for minutes."""


@dataclass(frozen=True, slots=True, eq=False)
class SoundPiece:
    sound: Sound
    """Its start is wall-clock time."""
    begins: bool
    """The first piece of a stretch without a break."""
    is_silence: bool = False
    """The stream has no sound here."""


class SoundPieces:
    """Takes frames with their wall-clock times and yields pieces; `end` is how far it has come."""

    def __init__(self, sample_rate: int) -> None:
        self._rate = sample_rate
        self._graph: Graph | None = None
        self._fifo, self._kind = AudioFifo(), None
        self._waiting = self._position = 0.0
        self._tail: Samples = np.zeros(0, np.float32)
        self._begins = True
        self._was_silence = False

    @property
    def end(self) -> float:
        """Wall-clock time up to which sound was taken, or 0."""
        return self._position + self._waiting

    def add(self, frame: AudioFrame, time: float) -> Iterator[SoundPiece]:
        kind = frame.format.name, frame.layout.name, frame.sample_rate
        hole = time - self.end
        if (
            self._graph is None
            or kind != self._kind
            or not -LEAST_HOLE <= hole <= LEAST_HOLE
            or self._was_silence
        ):
            yield from self.flush()
            self._kind, self._fifo = kind, AudioFifo()  # type: ignore[assignment]
            self._graph = open_resampler(frame, self._rate)
            if self._begins or hole > LONGEST_HOLE or self._was_silence:
                self._begins, self._was_silence = True, False
                self._position = max(time, self._position)
            elif hole > 0:
                yield self._piece(self._fill(hole))
        if time + frame.samples / frame.sample_rate <= self._position - LEAST_HOLE:
            return  # it repeats what was heard
        frame.pts = None
        self._fifo.write(frame)
        self._waiting += frame.samples / frame.sample_rate
        if self._waiting >= PIECE:
            yield from self._read(frame_count=0)

    def flush(self) -> Iterator[SoundPiece]:
        """The rest; the next frame goes through a new resampler."""
        if self._graph is not None:
            yield from self._read(frame_count=0, is_last=True)
        self._graph = None

    def be_silent(self, until: float) -> Iterator[SoundPiece]:
        """Silence up to `until`: pictures come, and no sound."""
        if not self._was_silence:
            yield from self.flush()
            self._begins, self._was_silence = True, True
        if not self._position:
            self._position = until - PIECE
        count = int((until - self._position) * self._rate)
        if count >= PIECE * self._rate:
            yield self._piece(np.zeros(count, np.float32))

    def skip_to(self, time: float) -> None:
        """Whatever follows begins a new stretch, at `time` or later."""
        self._position, self._waiting = max(self._position, time), 0.0
        self._begins, self._graph, self._kind = True, None, None

    def _read(self, *, frame_count: int, is_last: bool = False) -> Iterator[SoundPiece]:
        assert self._graph is not None
        frame = self._fifo.read(frame_count, partial=True)
        self._waiting = 0.0
        frames = [*([frame] if frame is not None else []), *([None] if is_last else [])]
        with suppress(av.error.FFmpegError):  # sound that cannot be mixed is a hole
            samples = [np.asarray(part) for part in push_frames(self._graph, *frames)]
            if samples and sum(map(len, samples)):
                yield self._piece(np.concatenate(samples))

    def _fill(self, hole: float) -> Samples:
        count = round(hole * self._rate)
        if not len(self._tail):
            return np.zeros(count, np.float32)
        mirrored: Samples = np.resize(self._tail[::-1], count)
        return mirrored

    def _piece(self, samples: Samples) -> SoundPiece:
        sound = Sound(samples, self._position, self._rate)
        piece = SoundPiece(sound, self._begins, self._was_silence)
        self._position += len(samples) / self._rate
        self._tail, self._begins = samples, False
        return piece
