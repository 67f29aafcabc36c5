"""Speech transcribed by an OpenAI-compatible server: `/v1/audio/transcriptions`."""

from __future__ import annotations

import io
import math
import wave
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeGuard

import numpy as np

from earmark.captioning.openai_endpoint import Endpoint
from earmark.evidence.speech_text import Transcript, Word
from earmark.features.encoder import SAMPLE_RATE
from earmark.timeline import FloatArray

DEFAULT_CONFIDENCE = 0.5
"""Confidence of a word if the server gives none."""

TIMEOUT = 120.0
"""Seconds that a call with half a minute of speech may take."""


@dataclass(frozen=True, slots=True)
class ServerTranscriber:
    """Sends pieces of speech to a server; returns words with times."""

    url: str
    model: str
    language: str = ""
    """Language code; empty lets the server detect it."""
    api_key: str | None = field(default=None, repr=False)

    @property
    def name(self) -> str:
        """The model's name on the server."""
        return self.model

    def check(self) -> None:
        """Raises if the address is not valid."""
        self._endpoint()

    def __call__(self, samples: FloatArray, *, languages: Collection[str] = ()) -> Transcript:
        """The words in `samples`; `languages` is ignored, since servers detect the language."""
        del languages
        fields = {"model": self.model, "response_format": "verbose_json"}
        fields |= {"language": self.language} if self.language else {}
        granularity = {"timestamp_granularities[]": ["word", "segment"]}
        reply = self._endpoint().transcribe(
            encode_wav(samples), fields | granularity, timeout=TIMEOUT
        )
        words = tuple(_read_words(reply, seconds=len(samples) / SAMPLE_RATE))
        return Transcript(words, str(reply.get("language") or self.language))

    def _endpoint(self) -> Endpoint:
        return Endpoint(self.url, api_key=self.api_key)


def encode_wav(samples: FloatArray) -> bytes:
    """The samples as a 16-bit mono WAV file."""
    scratch = io.BytesIO()
    with wave.open(scratch, "wb") as file:
        file.setnchannels(1)
        file.setsampwidth(2)
        file.setframerate(SAMPLE_RATE)
        file.writeframes((np.clip(samples, -1.0, 1.0) * 32767).astype("<i2").tobytes())
    return scratch.getvalue()


def _read_words(reply: Mapping[str, Any], *, seconds: float) -> Iterator[Word]:
    """The words of a reply; without times, spread evenly over their segment or the whole piece."""
    segments, words = _objects(reply.get("segments")), _objects(reply.get("words"))
    for each in words:
        text, start, end = str(each.get("word") or "").strip(), each.get("start"), each.get("end")
        if text and _is_time(start) and _is_time(end):
            yield Word(text, start, max(start, end), _confidence(segments, start))
    if words:
        return
    whole = {"text": reply.get("text"), "start": 0.0, "end": seconds}
    for each in segments or [whole]:
        texts = str(each.get("text") or "").split()
        if not texts or not _is_time(each.get("start")) or not _is_time(each.get("end")):
            continue
        edges = np.linspace(each["start"], max(each["start"], each["end"]), len(texts) + 1)
        for text, first, last in zip(texts, edges, edges[1:], strict=False):
            yield Word(text, float(first), float(last), _confidence(segments, float(first)))


def _objects(value: object) -> list[dict[str, Any]]:
    return [each for each in value if isinstance(each, dict)] if isinstance(value, list) else []


def _is_time(value: object) -> TypeGuard[float]:
    return isinstance(value, int | float) and math.isfinite(value) and value >= 0


def _confidence(segments: list[dict[str, Any]], time: float) -> float:
    """The server's mean probability for the segment at `time`."""
    for each in segments:
        mean = each.get("avg_logprob")
        start, end = each.get("start"), each.get("end")
        is_here = _is_time(start) and _is_time(end) and start <= time <= end
        if is_here and isinstance(mean, int | float):
            return float(min(1.0, math.exp(min(0.0, mean))))
    return DEFAULT_CONFIDENCE
