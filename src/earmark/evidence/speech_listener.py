"""Transcribes a recording: voice activity over everything, words where there is speech.

sound    ─────▂▇▇▅▇▂──▇▇▅─────────────────────▇▇▇▇▇▇▂────
speech        |-----| |--|                     |----|
pieces        |----------|                     |----|       transcribed, half a minute at most
"""

from __future__ import annotations

from collections import deque
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np

from earmark.evidence.evidence_entry import EvidenceEntry
from earmark.evidence.speech_text import Transcript
from earmark.evidence.voice_activity import VoiceActivity
from earmark.features.encoder import SAMPLE_RATE
from earmark.media import Recording, Sound
from earmark.timeline import FloatArray, Span

MAX_PIECE = 28.0
"""Seconds transcribed at once; Whisper takes 30."""

MAX_GAP = 3.0
"""Longest silence, in seconds, between two stretches of speech in one piece."""

MIN_LANGUAGE_PROBABILITY = 0.6
"""Least probability of a language to be remembered for the next pieces."""


class Transcriber(Protocol):
    """Transcribes speech; can be pickled, and is used by one thread at a time."""

    @property
    def name(self) -> str:
        """Name of the model: the origin of its evidence."""
        ...

    def check(self) -> None:
        """Raises, in one line, if nothing can be transcribed."""
        ...

    def __call__(self, samples: FloatArray, *, languages: Collection[str] = ()) -> Transcript:
        """The words in `samples`, 16,000 a second, no more than half a minute.

        `languages` were heard before in the recording; they are preferred in case of doubt.
        """
        ...


@dataclass(frozen=True, slots=True)
class RecordingSpeech:
    """What is said in a recording."""

    entries: list[EvidenceEntry]
    """Every sentence that is certain enough, in order of time."""
    uncertain: int = 0
    """Sentences left out because they are more likely made up than said."""


@dataclass(frozen=True, slots=True)
class SpeechListener:
    """Transcribes a recording in one pass."""

    transcriber: Transcriber
    activity: VoiceActivity = field(default_factory=VoiceActivity)
    least: float = 0.35
    """Least confidence of a sentence: below it, it is more likely made up than said."""

    def __call__(self, recording: Recording) -> RecordingSpeech:
        """Every sentence with the times of its words; none for a recording without sound."""
        if not recording.has_audio:
            return RecordingSpeech([])
        found: list[EvidenceEntry] = []
        languages: list[str] = []
        for start, samples in self.pieces(recording.sound(sample_rate=SAMPLE_RATE)):
            transcript = self.transcriber(samples, languages=languages)
            spoken = list(self.activity.between_pauses(samples))
            transcript = transcript.aligned_to(spoken).shifted(start)
            if (
                transcript.certainty >= MIN_LANGUAGE_PROBABILITY
                and transcript.language not in languages
            ):
                languages.append(transcript.language)
            found += self._entries(transcript)
        certain = [entry for entry in found if entry.confidence >= self.least]
        return RecordingSpeech(certain, len(found) - len(certain))

    def pieces(self, sound: Iterable[Sound]) -> Iterator[tuple[float, FloatArray]]:
        """The pieces of `sound` to transcribe: start in seconds, and samples.

        Stretches of speech that lie close together are one piece, up to `MAX_PIECE`. Its samples
        are taken when a stretch has ended: long before the next one begins they are dropped.
        """
        recent = _RecentSound(sound)
        piece, samples = None, np.zeros(0, dtype=np.float32)
        for span in self.activity(recent):
            is_near = piece is not None and span.start - piece.end <= MAX_GAP
            if piece is not None and is_near and span.end - piece.start <= MAX_PIECE:
                piece = Span(piece.start, span.end)
            else:
                if piece is not None:  # where talk goes on, its end has been heard only now
                    yield piece.start, recent.between(piece) if is_near else samples
                piece = span
            samples = recent.between(piece)
        if piece is not None:
            yield piece.start, samples

    def _entries(self, transcript: Transcript) -> Iterator[EvidenceEntry]:
        for words in transcript.sentences():
            confidence = float(np.mean([word.confidence for word in words]))
            span = Span(words[0].start, max(words[0].start, words[-1].end))
            text = " ".join(word.text for word in words)
            times = [
                [word.text, round(word.start, 2), round(word.end, 2), round(word.confidence, 3)]
                for word in words
            ]
            data = {"language": transcript.language, "words": times}
            yield EvidenceEntry(span, "said", text, confidence, self.transcriber.name, data)


class _RecentSound:
    """Passes sound on, and keeps the last block and about a minute before it."""

    def __init__(self, sound: Iterable[Sound]) -> None:
        self._sound = iter(sound)
        self._blocks: deque[Sound] = deque()

    def __iter__(self) -> Iterator[Sound]:
        for block in self._sound:
            self._blocks.append(block)
            while len(self._blocks) > 1 and self._blocks[1].start < block.start - 2 * MAX_PIECE:
                self._blocks.popleft()
            yield block

    def between(self, span: Span) -> FloatArray:
        """The samples in `span`, as far as they are kept."""
        first = self._blocks[0].start
        samples = np.concatenate([block.values for block in self._blocks])
        start, end = (
            max(0, round((time - first) * SAMPLE_RATE)) for time in (span.start, span.end)
        )
        return samples[start : min(end, start + round(MAX_PIECE * SAMPLE_RATE))]
