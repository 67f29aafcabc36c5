from __future__ import annotations

import io
import math
import wave
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from earmark.captioning.openai_captioner import Endpoint
from earmark.evidence.speech_listener import Transcript, Word
from earmark.features.encoder import SAMPLE_RATE
from earmark.timeline import FloatArray

DEFAULT_CONFIDENCE = 0.5
TIMEOUT = 120.0


@dataclass(frozen=True, slots=True)
class ServerTranscriber:
    url: str
    model: str
    language: str = ""
    api_key: str | None = field(default=None, repr=False)

    @property
    def name(self) -> str:
        return self.model

    def check(self) -> None:
        self._endpoint()

    def __call__(self, samples: FloatArray, *, languages: Collection[str] = ()) -> Transcript:
        del languages
        fields = {
            "model": self.model,
            "response_format": "verbose_json",
            "timestamp_granularities[]": ["word", "segment"],
            **({"language": self.language} if self.language else {}),
        }
        files = {"file": ("speech.wav", encode_wav(samples), "audio/wav")}
        page = "/audio/transcriptions"
        reply = self._endpoint().ask("POST", page, timeout=TIMEOUT, data=fields, files=files)
        words = tuple(_read_words(reply, seconds=len(samples) / SAMPLE_RATE))
        return Transcript(words, str(reply.get("language") or self.language))

    def _endpoint(self) -> Endpoint:
        return Endpoint(self.url, api_key=self.api_key)


def encode_wav(samples: FloatArray) -> bytes:
    scratch = io.BytesIO()
    with wave.open(scratch, "wb") as file:
        file.setnchannels(1)
        file.setsampwidth(2)
        file.setframerate(SAMPLE_RATE)
        file.writeframes((np.clip(samples, -1.0, 1.0) * 32767).astype("<i2").tobytes())
    return scratch.getvalue()


def _read_words(reply: Mapping[str, Any], *, seconds: float) -> Iterator[Word]:
    """Words without times are spread evenly over their segment or the whole piece."""
    segments, words = _objects(reply.get("segments")), _objects(reply.get("words"))
    for word in words:
        text = str(word.get("word") or "").strip()
        if text and (span := _span_of(word)):
            yield Word(text, *span, _confidence(segments, span[0]))
    if words:
        return
    for segment in segments or [{"text": reply.get("text"), "start": 0.0, "end": seconds}]:
        texts = str(segment.get("text") or "").split()
        if texts and (span := _span_of(segment)):
            edges = np.linspace(*span, len(texts) + 1).tolist()
            for text, start, end in zip(texts, edges, edges[1:], strict=False):
                yield Word(text, start, end, _confidence(segments, start))


def _objects(value: object) -> list[dict[str, Any]]:
    return [item for item in value if isinstance(item, dict)] if isinstance(value, list) else []


def _span_of(item: Mapping[str, Any]) -> tuple[float, float] | None:
    values = [item.get("start"), item.get("end")]
    times = [value for value in values if isinstance(value, int | float) and 0 <= value < math.inf]
    return (times[0], max(times)) if len(times) == 2 else None


def _confidence(segments: list[dict[str, Any]], time: float) -> float:
    for segment in segments:
        mean, span = segment.get("avg_logprob"), _span_of(segment)
        if span and span[0] <= time <= span[1] and isinstance(mean, int | float):
            return float(min(1.0, math.exp(min(0.0, mean))))
    return DEFAULT_CONFIDENCE
