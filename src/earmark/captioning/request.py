"""The question about a picked window, the request that asks it, and the answer.

The prompt is made from a template, plain text with these names in it:

    $start $end   the window, as 1:02:03.4
    $times        the moments shown, joined by commas
    $tags         the sounds heard, joined by commas

A line that mentions `$tags` is left out if there are none; `$$` is a dollar sign.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from string import Template
from typing import TYPE_CHECKING, Any, Literal

from earmark.captioning.answer_schema import with_activity
from earmark.evidence.evidence_entry import MAX_QUOTED, EvidenceEntry, quote
from earmark.media import Frame, Recording
from earmark.timeline import Span, format_clock
from earmark.version import VERSION

if TYPE_CHECKING:
    from earmark.evidence.face_blur import FaceBlur
    from earmark.evidence.sound_names import WindowSounds
    from earmark.selection.pick import Pick

Form = Literal["images", "none"]

CHARACTERS_A_TOKEN = 3
"""Characters of prompt text per token, on the low side: English has about four."""

OVERHEAD = 64
"""Tokens a chat template adds around a question, on the high side."""

TAGS_MODEL = "tags"
"""Tags cost nothing, and are made again once models that look at frames exist."""

PATCH = 32
"""Pixels along one side of a visual token of Qwen3-VL: 16-pixel patches merged two by two."""

JPEG_QUALITY = 90
PLACEHOLDERS = ("start", "end", "times", "tags")

DEFAULT_TEMPLATE = (
    "This was filmed by a body-worn camera, $times into a recording. It stands for the stretch "
    "from $start to $end.\n"
    "Sounds heard in that stretch, likeliest first: $tags.\n"
    "Say in one plain sentence what the wearer is doing: the action, the object, and the tool or "
    "place where it matters. Say only what can be seen or heard. If nothing is being done, say so."
)


@dataclass(frozen=True, slots=True)
class Question:
    template: str = DEFAULT_TEMPLATE
    schema: Mapping[str, Any] | None = None
    frames: int = 1
    """1 sends the frame at the instant of the window, as in the paper; more are spread over it."""
    tokens: int = 1024
    """Visual tokens of all frames together."""
    answer_tokens: int = 256
    temperature: float | None = 0.0
    """None takes the default of the server or checkpoint, the only choice of some hosted models."""
    blur: FaceBlur | None = None
    is_looked_at: bool = field(default=False, compare=False)
    """Whether small models add what they find in the frames to the prompt."""

    def __post_init__(self) -> None:
        template = Template(self.template)
        if not self.template.strip():
            raise ValueError("a prompt cannot be empty")
        if not template.is_valid():
            raise ValueError("a prompt has a stray $; write $$ for a dollar sign")
        unknown = sorted(set(template.get_identifiers()) - set(PLACEHOLDERS))
        if unknown:
            names = ", ".join(f"${name}" for name in PLACEHOLDERS)
            raise ValueError(f"a prompt cannot have ${unknown[0]}; it may have {names}")

    @classmethod
    def from_json(cls, plain: dict[str, Any]) -> Question:
        names = ("schema", "frames", "tokens", "answer_tokens", "temperature")
        return cls(plain["prompt"], *(plain[name] for name in names))

    def to_json(self) -> dict[str, Any]:
        return {
            "prompt": self.template,
            "schema": dict(self.schema) if self.schema else None,
            "frames": self.frames,
            "tokens": self.tokens,
            "answer_tokens": self.answer_tokens,
            "temperature": self.temperature,
            **({"blur": self.blur.name} if self.blur else {}),
        }

    def with_activity(self) -> Question:
        return replace(self, schema=with_activity(self.schema))

    def times(self, pick: Pick) -> tuple[float, ...]:
        """Even spacing shows the most actions; two frames are moved half the way to the instant.

        slices    |-------|-------|
        even          ^       ^
        instant                  *
        shown          ^       ^
        """
        if self.frames == 1:
            return (pick.instant,)
        step = (pick.end - pick.start) / self.frames
        even = [pick.start + (index + 0.5) * step for index in range(self.frames)]
        if self.frames > 2:
            return tuple(even)
        nearest = min(even, key=lambda time: abs(time - pick.instant))
        return tuple(time + (pick.instant - nearest) / 2 for time in even)

    def prompt(
        self,
        span: Span,
        *,
        times: Sequence[float],
        tags: Sequence[str] = (),
        speech: Sequence[str] = (),
    ) -> str:
        lines = [
            line
            for line in self.template.splitlines()
            if tags or "tags" not in Template(line).get_identifiers()
        ]
        text = Template("\n".join(lines)).substitute(
            start=format_clock(span.start, hours=True),
            end=format_clock(span.end, hours=True),
            times=", ".join(format_clock(time, hours=True) for time in times),
            tags=", ".join(tags),
        )
        if speech:
            text = f"{text}\n{quote(('said', sentence) for sentence in speech)}"
        if self.schema is None:
            return text
        return f"{text}\nAnswer with JSON that fits this schema: {json.dumps(self.schema)}"


@dataclass(frozen=True, slots=True)
class Request:
    """Made without frames, so that its identity is known before decoding; `showing` adds them."""

    recording: str
    span: Span
    times: tuple[float, ...]
    prompt: str
    model: str
    question: Question
    tags: tuple[str, ...] = ()
    evidence: tuple[EvidenceEntry, ...] = field(default=(), compare=False, repr=False)
    """Not part of the identity: installing such a model does not repeat any paid call."""
    frames: tuple[Frame, ...] = field(default=(), compare=False, repr=False)
    pictures: tuple[bytes, ...] = field(default=(), compare=False, repr=False)
    """JPEG files of `frames`."""
    faces_blurred: int = field(default=0, compare=False)

    @classmethod
    def about(
        cls, recording: str, pick: Pick, question: Question, sounds: WindowSounds, model: str
    ) -> Request:
        span, times = pick.span, question.times(pick)
        prompt = question.prompt(span, times=times, tags=sounds.names, speech=sounds.said)
        return cls(recording, span, times, prompt, model, question, sounds.tags)

    @property
    def identity(self) -> str:
        """32 hex digits, the same for the same question about the same times, on any machine."""
        question = self.question
        parts: dict[str, Any] = {
            "recording": self.recording,
            "window": [round(self.span.start, 6), round(self.span.end, 6)],
            "times": [round(time, 6) for time in self.times],
            "prompt": self.prompt,
            "model": self.model,
            "allowance": [question.tokens, PATCH],
            "schema": question.schema,
            "answer": [question.answer_tokens, question.temperature],
            "version": VERSION,
        }
        if question.blur:
            parts["blur"] = question.blur.name
        if question.is_looked_at and self.model == TAGS_MODEL:
            parts["looked at"] = True
        text = json.dumps(parts, sort_keys=True, separators=(",", ":"), ensure_ascii=True)
        return hashlib.sha256(text.encode()).hexdigest()[:32]

    @property
    def most_tokens(self) -> tuple[int, int]:
        """Input tokens, by the allowance and the length of the text, and output tokens."""
        question = self.question
        letters = len(self.prompt) + (MAX_QUOTED if question.is_looked_at else 0)
        return question.tokens + letters // CHARACTERS_A_TOKEN + OVERHEAD, question.answer_tokens

    @property
    def text(self) -> str:
        notes = quote((entry.kind, entry.text) for entry in self.evidence)
        return f"{self.prompt}\n{notes}" if notes else self.prompt

    def showing(self, frames: Sequence[Frame]) -> Request:
        """Only here do frames become what may leave the machine or be stored."""
        if len(frames) != len(self.times):
            raise ValueError(f"{len(self.times)} moments need as many frames, not {len(frames)}")
        faces = 0
        if self.question.blur:
            blurred, boxes = zip(*map(self.question.blur, frames), strict=True)
            frames, faces = blurred, sum(map(len, boxes))
        small = []
        for frame in frames:
            size = fit(frame.width, frame.height, frames=len(frames), tokens=self.question.tokens)
            small.append(frame if size == (frame.width, frame.height) else frame.resized(*size))
        pictures = (
            () if self.model == TAGS_MODEL else tuple(frame.jpeg(JPEG_QUALITY) for frame in small)
        )
        return replace(self, frames=tuple(small), pictures=pictures, faces_blurred=faces)


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
    kind: Literal["caption", "tags"] = "caption"
    """`tags` are names of sounds: no model looked."""
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


def fit(width: int, height: int, *, frames: int = 1, tokens: int) -> tuple[int, int]:
    """The largest width and height at which `frames` images take at most `tokens` patches.

    Sides are multiples of `PATCH`, with the shape kept to within one; never larger than the
    picture. A side shorter than one patch stays as it is and counts as one.

    >>> fit(1920, 1080, tokens=240)
    (640, 352)
    """
    tokens_each = tokens // frames
    if tokens_each < 1:
        raise ValueError(f"{tokens} visual tokens cannot hold {frames} frames; at least one each")
    longer, shorter = max(width, height), min(width, height)
    for along in range(max(1, longer // PATCH), 0, -1):  # one patch always fits
        across = min(max(1, shorter // PATCH), max(1, round(along * shorter / longer)))
        if along * across <= tokens_each:
            break
    long_side, short_side = min(longer, along * PATCH), min(shorter, across * PATCH)
    return (long_side, short_side) if width >= height else (short_side, long_side)
