"""Transcribes a recording: voice activity over everything, words where there is speech.

sound    ─────▂▇▇▅▇▂──▇▇▅──────────▂──────────▇▇▇▇▇▇▂────
speech        |-----| |--|                     |----|       short gaps closed, blips left out
pieces        |----------|                     |----|       transcribed, half a minute at most

Speech is found by Silero VAD. The network takes 512 samples and the 64 before them, and is
recurrent; a block of sound is one call.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from earmark.evidence.evidence_entry import EvidenceEntry
from earmark.features.encoder import SAMPLE_RATE
from earmark.media import Recording, Sound
from earmark.models import ModelStore
from earmark.models.sessions import shared_session
from earmark.timeline import FloatArray, Span

if TYPE_CHECKING:
    from earmark.evidence.whisper_model import WhisperModel

CHUNK, CONTEXT, STATE_SIZE = 512, 64, 128
"""Samples per probability, samples of context before them, and size of the recurrent state."""

HOP = CHUNK / SAMPLE_RATE
WORD_GAP, WORD_PAD = 0.15, 0.05
"""Seconds of silence between words, and of padding around each."""

MAX_PIECE = 28.0
"""Seconds; Whisper takes 30."""

MAX_GAP = 3.0
MIN_LANGUAGE_PROBABILITY = 0.6
SENTENCE_ENDS = (".", "?", "!", "…", "。", "？", "！")
PAUSE = 0.8
"""Seconds between words that end a sentence."""

MAX_SENTENCE = 8.0


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
        reported = 0.0
        for start, end in self._stretches(sound):
            if end - start >= self.shortest:
                yield Span(max(reported, start - self.pad), end + self.pad)
            reported = end + self.pad

    def _stretches(self, sound: Iterable[Sound]) -> Iterator[tuple[float, float]]:
        start, end = None, 0.0
        for time, probability in self.probabilities(sound):
            if probability >= (self.begins if start is None else self.ends):
                start, end = (time if start is None else start), time + HOP
            if start is not None and (time - end >= self.gap or end - start >= self.longest):
                yield start, end
                start = None
        if start is not None:
            yield start, end

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


def align_words(words: Sequence[Word], spoken: Sequence[Span]) -> Sequence[Word]:
    """Each word is moved into the stretch of speech that contains most of it.

    spoken      |-------|          |-----|
    word              [....========]            begins with the second
    word           [===......]                  ends with the first
    """
    return [_align_word(word, spoken) for word in words] if spoken else words


def _align_word(word: Word, spoken: Sequence[Span]) -> Word:
    def shared(span: Span) -> float:
        return min(word.end, span.end) - max(word.start, span.start)

    most = max(spoken, key=shared)
    start = min(max(word.start, most.start), most.end)
    ends = [span.end for span in spoken if span.start < word.end and span.end > start]
    return replace(word, start=start, end=max(start, min([word.end, *ends[-1:]])))


def split_sentences(words: Iterable[Word]) -> Iterator[list[Word]]:
    """A sentence ends at a full stop, a pause, or the maximum length."""
    sentence: list[Word] = []
    for word in words:
        is_new = sentence and (
            sentence[-1].text.endswith(SENTENCE_ENDS)
            or word.start - sentence[-1].end > PAUSE
            or word.end - sentence[0].start > MAX_SENTENCE
        )
        if is_new:
            yield sentence
            sentence = []
        sentence.append(word)
    if sentence:
        yield sentence


@dataclass(frozen=True, slots=True)
class RecordingSpeech:
    entries: list[EvidenceEntry]
    uncertain: int = 0
    """Sentences left out because they are more likely made up than said."""


@dataclass(frozen=True, slots=True)
class SpeechListener:
    transcriber: WhisperModel
    activity: VoiceActivity = field(default_factory=VoiceActivity)
    least: float = 0.35
    """Of a sentence; below it, it is more likely made up than said."""

    def __call__(self, recording: Recording) -> RecordingSpeech:
        if not recording.has_audio:
            return RecordingSpeech([])
        entries: list[EvidenceEntry] = []
        languages: list[str] = []
        for start, samples in self.pieces(recording.sound(sample_rate=SAMPLE_RATE)):
            transcript = self.transcriber(samples, languages=languages)
            language = transcript.language
            if transcript.certainty >= MIN_LANGUAGE_PROBABILITY and language not in languages:
                languages.append(language)
            words = align_words(transcript.words, list(self.activity.between_pauses(samples)))
            timed = [
                replace(word, start=start + word.start, end=start + word.end) for word in words
            ]
            entries += (self._entry(sentence, language) for sentence in split_sentences(timed))
        certain = [entry for entry in entries if entry.confidence >= self.least]
        return RecordingSpeech(certain, len(entries) - len(certain))

    def pieces(self, sound: Iterable[Sound]) -> Iterator[tuple[float, FloatArray]]:
        """Start in seconds, and samples; speech with short gaps is one piece, up to `MAX_PIECE`."""
        recent = _RecentSound(sound)
        piece, samples = None, np.zeros(0, dtype=np.float32)
        for span in self.activity(recent):
            is_near = piece is not None and span.start - piece.end <= MAX_GAP
            if piece is not None and is_near and span.end - piece.start <= MAX_PIECE:
                piece = Span(piece.start, span.end)
            else:
                if piece is not None:  # if talk goes on, its end was only read now
                    yield piece.start, recent.between(piece) if is_near else samples
                piece = span
            samples = recent.between(piece)
        if piece is not None:
            yield piece.start, samples

    def _entry(self, sentence: Sequence[Word], language: str) -> EvidenceEntry:
        span = Span(sentence[0].start, max(sentence[0].start, sentence[-1].end))
        text = " ".join(word.text for word in sentence)
        confidence = float(np.mean([word.confidence for word in sentence]))
        times = [
            [word.text, round(word.start, 2), round(word.end, 2), round(word.confidence, 3)]
            for word in sentence
        ]
        data = {"language": language, "words": times}
        return EvidenceEntry(span, "said", text, confidence, self.transcriber.name, data)


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
