"""The request to a model about one window, and its answer."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Literal

from earmark.evidence.evidence_entry import EvidenceEntry
from earmark.evidence.evidence_line import MAX_QUOTED, quote
from earmark.media import Frame, Recording
from earmark.timeline import Span
from earmark.version import VERSION

if TYPE_CHECKING:
    from earmark.captioning.question import Question
    from earmark.evidence.face_blur import FaceBlur
    from earmark.evidence.window_sounds import WindowSounds
    from earmark.selection.pick import Pick

Form = Literal["images", "video", "none"]
"""How the frames were sent: one by one, as one video, or not at all."""

Kind = Literal["caption", "tags"]
"""What an answer is: a model's caption of the frames, or names of sounds."""

CHARACTERS_A_TOKEN = 3
"""Characters of prompt text per token, on the low side: English has about four."""

OVERHEAD = 64
"""Tokens a chat template adds around a question, on the high side."""


TAGS_MODEL = "tags"
"""Model name of tags, which cost nothing: made again once models that look at frames exist."""


PATCH = 32
"""Pixels along one side of a visual token of Qwen3-VL: 16-pixel patches merged two by two."""

JPEG_QUALITY = 90


@dataclass(frozen=True, slots=True)
class Picture:
    """A frame as it is sent."""

    time: float
    jpeg: bytes = field(repr=False)

    @classmethod
    def of(cls, frame: Frame) -> Picture:
        """The frame as JPEG."""
        return cls(frame.time, frame.jpeg(JPEG_QUALITY))


@dataclass(frozen=True, slots=True)
class Request:
    """One call about one window.

    Made without frames, so that its identity is known before decoding; `showing` adds them.
    """

    recording: str
    """Key of the recording, independent of the file's path."""
    span: Span
    """The window asked about."""
    times: tuple[float, ...]
    """The times of the frames to show, in increasing order."""
    prompt: str
    """The question, with the window's times and tags already in it."""
    model: str
    tokens: int
    """Visual token allowance for all frames together."""
    patch: int = PATCH
    """Pixels along one side of a visual token."""
    tags: tuple[str, ...] = ()
    """Sounds heard in the window, likeliest first; empty if none is named."""
    schema: Mapping[str, Any] | None = None
    """JSON schema of the answer; None asks for plain text."""
    answer_tokens: int = 256
    """The longest answer."""
    temperature: float | None = 0.0
    """None takes the default of the server or checkpoint, the only choice of some hosted models."""
    version: str = VERSION
    blur: FaceBlur | None = None
    """Blurs faces in the frames before they are sent or stored; None blurs nothing."""
    is_looked_at: bool = field(default=False, compare=False)
    """Whether small models look at the frames first and add what they find to the prompt."""
    evidence: tuple[EvidenceEntry, ...] = field(default=(), compare=False, repr=False)
    """What they found. It is not part of the identity of a paid call: installing such a model
    does not repeat any call."""
    frames: tuple[Frame, ...] = field(default=(), compare=False, repr=False)
    """The frames at `times`, blurred and resized to the token allowance."""
    faces_blurred: int = field(default=0, compare=False)
    """In all frames together."""
    pictures: tuple[Picture, ...] = field(default=(), compare=False, repr=False)
    """The frames as JPEG, encoded here so that no worker has to do it before its call."""

    @classmethod
    def about(
        cls, recording: str, pick: Pick, question: Question, sounds: WindowSounds, model: str
    ) -> Request:
        """The request to `model` about `pick`, without frames."""
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
        """The most input tokens, by the allowance and the length of the text, and output tokens."""
        letters = len(self.prompt) + (MAX_QUOTED if self.is_looked_at else 0)
        return self.tokens + letters // CHARACTERS_A_TOKEN + OVERHEAD, self.answer_tokens

    @property
    def text(self) -> str:
        """The prompt as sent, with the evidence found in the frames."""
        found = quote((entry.kind, entry.text) for entry in self.evidence)
        return f"{self.prompt}\n{found}" if found else self.prompt

    def showing(self, frames: Sequence[Frame]) -> Request:
        """The request with its frames, resized to the token allowance.

        Only here do frames become what may leave the machine or be stored; they are blurred, if
        asked for, before they are resized.

        Raises:
            ModelMissing: faces are to be blurred, and the model that finds them is not installed.
        """
        if len(frames) != len(self.times):
            raise ValueError(f"{len(self.times)} moments need as many frames, not {len(frames)}")
        faces = 0
        if self.blur:
            shown, found = zip(*map(self.blur, frames), strict=True)
            frames, faces = shown, sum(map(len, found))
        small, room = [], {"frames": len(frames), "tokens": self.tokens, "patch": self.patch}
        for frame in frames:
            size = fit(frame.width, frame.height, **room)
            small.append(frame if size == (frame.width, frame.height) else frame.resized(*size))
        sent = () if self.model == TAGS_MODEL else map(Picture.of, small)  # tags send nothing
        return replace(self, frames=tuple(small), pictures=tuple(sent), faces_blurred=faces)


@dataclass(frozen=True, slots=True)
class Task:
    """One picked window on its way to a model."""

    recording: Recording
    request: Request

    def __str__(self) -> str:
        span = self.request.span
        return f"{self.recording.source.name} at {span.start:g}-{span.end:g} s"


@dataclass(frozen=True, slots=True)
class Answer:
    """What came back for one request."""

    text: str
    """As the model wrote it, stripped; empty only for tags without a named sound."""
    model: str
    """The model's name as the server gives it."""
    kind: Kind = "caption"
    data: Any = None
    """The answer as JSON if the request has a schema; else None."""
    prompt_tokens: int | None = None
    """None if the server does not report it."""
    completion_tokens: int | None = None
    latency: float = 0.0
    """Seconds from sending to the whole answer, without queueing and retries."""
    form: Form = "images"
    finish: str = "stop"
    """Why the model stopped; `length` means the answer was cut at the token limit."""
    attempts: int = 1
    """Attempts, the successful one included."""
    note: str = ""
    """What was done differently and why, in a line; empty if nothing was."""
    evidence: tuple[EvidenceEntry, ...] = ()
    """What small models found in the frames, beside the answer."""


def fit(
    width: int, height: int, *, frames: int = 1, tokens: int, patch: int = PATCH
) -> tuple[int, int]:
    """The largest width and height at which `frames` images take at most `tokens`.

    A model sees a picture as patches, and one token is one patch. Sides are multiples of `patch`
    with the shape of the picture kept to within one; never larger than the picture. A side shorter
    than one patch stays as it is and counts as one.

    >>> fit(1920, 1080, tokens=240)
    (640, 352)
    """
    if min(width, height, frames, patch) < 1:
        raise ValueError(f"a picture of {width} x {height}, {frames} times, cannot be fitted")
    each = tokens // frames
    if each < 1:
        raise ValueError(f"{tokens} visual tokens cannot hold {frames} frames; at least one each")
    longer, shorter = max(width, height), min(width, height)
    for along in range(max(1, longer // patch), 0, -1):  # one patch always fits
        across = min(max(1, shorter // patch), max(1, round(along * shorter / longer)))
        if along * across <= each:
            break
    long_side, short_side = min(longer, along * patch), min(shorter, across * patch)
    return (long_side, short_side) if width >= height else (short_side, long_side)
