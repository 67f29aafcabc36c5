from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Literal

from earmark.evidence.evidence_entry import MAX_QUOTED, EvidenceEntry, quote
from earmark.media import Frame, Recording
from earmark.timeline import Span
from earmark.version import VERSION

if TYPE_CHECKING:
    from earmark.captioning.question import Question
    from earmark.evidence.face_blur import FaceBlur
    from earmark.evidence.sound_names import WindowSounds
    from earmark.selection.pick import Pick

Form = Literal["images", "video", "none"]

Kind = Literal["caption", "tags"]
"""`tags` are names of sounds: no model looked."""

CHARACTERS_A_TOKEN = 3
"""Characters of prompt text per token, on the low side: English has about four."""

OVERHEAD = 64
"""Tokens a chat template adds around a question, on the high side."""


TAGS_MODEL = "tags"
"""Tags cost nothing, and are made again once models that look at frames exist."""


PATCH = 32
"""Pixels along one side of a visual token of Qwen3-VL: 16-pixel patches merged two by two."""

JPEG_QUALITY = 90


@dataclass(frozen=True, slots=True)
class Picture:
    time: float
    jpeg: bytes = field(repr=False)

    @classmethod
    def of(cls, frame: Frame) -> Picture:
        return cls(frame.time, frame.jpeg(JPEG_QUALITY))


@dataclass(frozen=True, slots=True)
class Request:
    """Made without frames, so that its identity is known before decoding; `showing` adds them."""

    recording: str
    span: Span
    times: tuple[float, ...]
    prompt: str
    model: str
    tokens: int
    """Visual tokens of all frames together."""
    patch: int = PATCH
    tags: tuple[str, ...] = ()
    schema: Mapping[str, Any] | None = None
    answer_tokens: int = 256
    temperature: float | None = 0.0
    """None takes the default of the server or checkpoint, the only choice of some hosted models."""
    version: str = VERSION
    blur: FaceBlur | None = None
    is_looked_at: bool = field(default=False, compare=False)
    evidence: tuple[EvidenceEntry, ...] = field(default=(), compare=False, repr=False)
    """Not part of the identity: installing such a model does not repeat any paid call."""
    frames: tuple[Frame, ...] = field(default=(), compare=False, repr=False)
    faces_blurred: int = field(default=0, compare=False)
    pictures: tuple[Picture, ...] = field(default=(), compare=False, repr=False)

    @classmethod
    def about(
        cls, recording: str, pick: Pick, question: Question, sounds: WindowSounds, model: str
    ) -> Request:
        span, times, prompt = pick.span, question.times(pick), question.prompt
        return cls(
            recording=recording,
            span=span,
            times=times,
            prompt=prompt.render(span, times=times, tags=sounds.names, speech=sounds.said),
            model=model,
            tokens=question.tokens,
            tags=sounds.tags,
            schema=prompt.schema,
            answer_tokens=question.answer_tokens,
            temperature=question.temperature,
            blur=question.blur,
            is_looked_at=question.is_looked_at,
        )

    @property
    def identity(self) -> str:
        """32 hex digits, the same for the same question about the same times, on any machine."""
        parts: dict[str, Any] = {
            "recording": self.recording,
            "window": [round(self.span.start, 6), round(self.span.end, 6)],
            "times": [round(time, 6) for time in self.times],
            "prompt": self.prompt,
            "model": self.model,
            "allowance": [self.tokens, self.patch],
            "schema": self.schema,
            "answer": [self.answer_tokens, self.temperature],
            "version": self.version,
        }
        if self.blur:
            parts["blur"] = self.blur.name
        if self.is_looked_at and self.model == TAGS_MODEL:
            parts["looked at"] = True
        text = json.dumps(parts, sort_keys=True, separators=(",", ":"), ensure_ascii=True)
        return hashlib.sha256(text.encode()).hexdigest()[:32]

    @property
    def most_tokens(self) -> tuple[int, int]:
        """Input tokens, by the allowance and the length of the text, and output tokens."""
        letters = len(self.prompt) + (MAX_QUOTED if self.is_looked_at else 0)
        return self.tokens + letters // CHARACTERS_A_TOKEN + OVERHEAD, self.answer_tokens

    @property
    def text(self) -> str:
        notes = quote((entry.kind, entry.text) for entry in self.evidence)
        return f"{self.prompt}\n{notes}" if notes else self.prompt

    def showing(self, frames: Sequence[Frame]) -> Request:
        """Only here do frames become what may leave the machine or be stored."""
        if len(frames) != len(self.times):
            raise ValueError(f"{len(self.times)} moments need as many frames, not {len(frames)}")
        faces = 0
        if self.blur:
            blurred, boxes = zip(*map(self.blur, frames), strict=True)
            frames, faces = blurred, sum(map(len, boxes))
        small, room = [], {"frames": len(frames), "tokens": self.tokens, "patch": self.patch}
        for frame in frames:
            size = fit(frame.width, frame.height, **room)
            small.append(frame if size == (frame.width, frame.height) else frame.resized(*size))
        sent = () if self.model == TAGS_MODEL else map(Picture.of, small)  # tags send nothing
        return replace(self, frames=tuple(small), pictures=tuple(sent), faces_blurred=faces)


@dataclass(frozen=True, slots=True)
class Task:
    recording: Recording
    request: Request

    def __str__(self) -> str:
        span = self.request.span
        return f"{self.recording.source.name} at {span.start:g}-{span.end:g} s"


@dataclass(frozen=True, slots=True)
class Answer:
    text: str
    """Stripped; empty only for tags without a named sound."""
    model: str
    kind: Kind = "caption"
    data: Any = None
    prompt_tokens: int | None = None
    completion_tokens: int | None = None
    latency: float = 0.0
    """Seconds from sending to the whole answer, without queueing and retries."""
    form: Form = "images"
    finish: str = "stop"
    """Why the model stopped; `length` means the answer was cut at the token limit."""
    attempts: int = 1
    note: str = ""
    evidence: tuple[EvidenceEntry, ...] = ()


def fit(
    width: int, height: int, *, frames: int = 1, tokens: int, patch: int = PATCH
) -> tuple[int, int]:
    """The largest width and height at which `frames` images take at most `tokens` patches.

    Sides are multiples of `patch`, with the shape kept to within one; never larger than the
    picture. A side shorter than one patch stays as it is and counts as one.

    >>> fit(1920, 1080, tokens=240)
    (640, 352)
    """
    if min(width, height, frames, patch) < 1:
        raise ValueError(f"a picture of {width} x {height}, {frames} times, cannot be fitted")
    tokens_each = tokens // frames
    if tokens_each < 1:
        raise ValueError(f"{tokens} visual tokens cannot hold {frames} frames; at least one each")
    longer, shorter = max(width, height), min(width, height)
    for along in range(max(1, longer // patch), 0, -1):  # one patch always fits
        across = min(max(1, shorter // patch), max(1, round(along * shorter / longer)))
        if along * across <= tokens_each:
            break
    long_side, short_side = min(longer, along * patch), min(shorter, across * patch)
    return (long_side, short_side) if width >= height else (short_side, long_side)
