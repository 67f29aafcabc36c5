"""Finds speech in a whole recording: Silero VAD.

    probability   ......▂▅▇▇▇▆▇▇▂▇▇▅..........▂.....▆▇▇▇.....
    speech              |------------|               |---|      short gaps closed, blips left out

The network takes 512 samples and the 64 before them, and is recurrent; a block of sound is one
call.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from itertools import chain
from pathlib import Path

import numpy as np

from earmark.features.encoder import SAMPLE_RATE
from earmark.media import Sound
from earmark.models import ModelStore
from earmark.models.sessions import shared_session
from earmark.timeline import FloatArray, Span

CHUNK, CONTEXT, STATE_SIZE = 512, 64, 128
"""Samples per probability, samples of context before them, and size of the recurrent state."""

HOP = CHUNK / SAMPLE_RATE

WORD_GAP, WORD_PAD = 0.15, 0.05
"""Seconds of silence between words, and of padding around each."""


@dataclass(frozen=True, slots=True)
class VoiceActivity:
    """Holds no more than a block of sound, however long the recording."""

    begins: float = 0.5
    ends: float = 0.35
    gap: float = 0.4
    shortest: float = 0.25
    pad: float = 0.1
    longest: float = 25.0
    """Seconds; so that no one has to hold hours of sound."""
    weights: Path | None = field(default=None, repr=False)

    def __call__(self, sound: Iterable[Sound]) -> Iterator[Span]:
        """In order, each yielded as soon as it has ended; `sound` is at 16 kHz."""
        start = last = None
        end, reported = 0.0, 0.0
        for time, probability in self.probabilities(sound):
            end = time + HOP
            if probability >= (self.begins if start is None else self.ends):
                start, last = (time if start is None else start), end
                if end - start >= self.longest:
                    yield from self._speech_span(start, end, reported)
                    reported, start = end + self.pad, None
            elif start is not None and last is not None and time - last >= self.gap:
                yield from self._speech_span(start, last, reported)
                reported, start = last + self.pad, None
        if start is not None and last is not None:
            yield from self._speech_span(start, min(last, end), reported)

    def between_pauses(self, samples: FloatArray) -> Iterator[Span]:
        near = replace(self, gap=WORD_GAP, pad=WORD_PAD, shortest=0.0)
        return near([Sound(samples, 0.0, SAMPLE_RATE)])

    def probabilities(self, sound: Iterable[Sound]) -> Iterator[tuple[float, float]]:
        session = shared_session(self.weights or ModelStore().find("silero-vad"))
        queue = np.zeros(CONTEXT, dtype=np.float32)
        state = {name: np.zeros((1, 1, STATE_SIZE), dtype=np.float32) for name in ("h", "c")}
        done = 0
        silence = np.zeros(CHUNK - 1, dtype=np.float32)  # enough to fill the last chunk
        for block in chain((block.values for block in sound), [silence]):
            queue = np.concatenate([queue, block])
            count = (len(queue) - CONTEXT) // CHUNK
            if not count:
                continue
            rows = np.lib.stride_tricks.sliding_window_view(queue, CONTEXT + CHUNK)[::CHUNK][:count]
            values, state["h"], state["c"] = session.run(
                None, {"input": np.ascontiguousarray(rows), **state}
            )
            yield from ((chunk * HOP, float(value)) for chunk, value in enumerate(values, done))
            queue, done = queue[count * CHUNK :], done + count

    def _speech_span(self, start: float, end: float, reported: float) -> Iterator[Span]:
        if end - start >= self.shortest:
            yield Span(max(reported, start - self.pad), end + self.pad)
