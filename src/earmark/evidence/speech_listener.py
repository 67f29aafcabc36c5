"""Transcribes a recording: voice activity over everything, words where there is speech.

sound    ─────▂▇▇▅▇▂──▇▇▅─────────────────────▇▇▇▇▇▇▂────
speech        |-----| |--|                     |----|
pieces        |----------|                     |----|       transcribed, half a minute at most
"""

from __future__ import annotations

from collections import deque
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Protocol

import numpy as np

from earmark.evidence.evidence_entry import EvidenceEntry
from earmark.evidence.voice_activity import VoiceActivity
from earmark.features.encoder import SAMPLE_RATE
from earmark.media import Recording, Sound
from earmark.timeline import FloatArray, Span

MAX_PIECE = 28.0
"""Seconds; Whisper takes 30."""

MAX_GAP = 3.0

MIN_LANGUAGE_PROBABILITY = 0.6

SENTENCE_ENDS = (".", "?", "!", "…", "。", "？", "！")

PAUSE = 0.8
"""Seconds between words that end a sentence."""

MAX_SENTENCE = 8.0


@dataclass(frozen=True, slots=True)
class Word:
    text: str
    start: float
    end: float
    confidence: float


@dataclass(frozen=True, slots=True)
class Transcript:
    words: tuple[Word, ...]
    language: str = ""
    certainty: float = 0.0

    def shifted(self, seconds: float) -> Transcript:
        words = (
            replace(word, start=word.start + seconds, end=word.end + seconds) for word in self.words
        )
        return replace(self, words=tuple(words))

    def aligned_to(self, spoken: Sequence[Span]) -> Transcript:
        """Each word is moved into the stretch of speech that contains most of it.

        spoken      |-------|          |-----|
        word              [....========]            begins with the second
        word           [===......]                  ends with the first
        """
        if not spoken:
            return self
        return replace(self, words=tuple(_align_to(word, spoken) for word in self.words))

    def sentences(self) -> Iterator[tuple[Word, ...]]:
        """A sentence ends at a full stop, a pause, or the maximum length."""
        group: list[Word] = []
        for word in self.words:
            is_new = group and (
                group[-1].text.endswith(SENTENCE_ENDS)
                or word.start - group[-1].end > PAUSE
                or word.end - group[0].start > MAX_SENTENCE
            )
            if is_new:
                yield tuple(group)
                group = []
            group.append(word)
        if group:
            yield tuple(group)


def _align_to(word: Word, spoken: Sequence[Span]) -> Word:
    def shared(span: Span) -> float:
        return min(word.end, span.end) - max(word.start, span.start)

    most = max(spoken, key=shared)
    start = min(max(word.start, most.start), most.end)
    ends = [span.end for span in spoken if span.start < word.end and span.end > start]
    return replace(word, start=start, end=max(start, min([word.end, *ends[-1:]])))


class Transcriber(Protocol):
    """Can be pickled, and is used by one thread at a time."""

    @property
    def name(self) -> str: ...

    def check(self) -> None: ...

    def __call__(self, samples: FloatArray, *, languages: Collection[str] = ()) -> Transcript:
        """`samples` at 16 kHz, up to half a minute; `languages` heard before are preferred."""
        ...


@dataclass(frozen=True, slots=True)
class RecordingSpeech:
    entries: list[EvidenceEntry]
    uncertain: int = 0
    """Sentences left out because they are more likely made up than said."""


@dataclass(frozen=True, slots=True)
class SpeechListener:
    transcriber: Transcriber
    activity: VoiceActivity = field(default_factory=VoiceActivity)
    least: float = 0.35
    """Of a sentence; below it, it is more likely made up than said."""

    def __call__(self, recording: Recording) -> RecordingSpeech:
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
        """Start in seconds, and samples; speech with short gaps is one piece, up to `MAX_PIECE`."""
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
        first = self._blocks[0].start
        samples = np.concatenate([block.values for block in self._blocks])
        start, end = (
            max(0, round((time - first) * SAMPLE_RATE)) for time in (span.start, span.end)
        )
        return samples[start : min(end, start + round(MAX_PIECE * SAMPLE_RATE))]
