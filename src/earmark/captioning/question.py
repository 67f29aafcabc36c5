"""The question about a picked window: the frames shown, and the prompt from a template.

A template is plain text with these names in it:

    $start $end   the window, as 1:02:03.4
    $times        the moments shown, joined by commas
    $tags         the sounds heard, joined by commas

A line that mentions `$tags` is left out if there are none; `$$` is a dollar sign.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from string import Template
from typing import TYPE_CHECKING, Any

from earmark.captioning.answer_schema import with_activity
from earmark.evidence.evidence_entry import quote
from earmark.timeline import Span, format_clock

if TYPE_CHECKING:
    from earmark.evidence.face_blur import FaceBlur
    from earmark.selection.pick import Pick


PLACEHOLDERS = ("start", "end", "times", "tags")

DEFAULT_TEMPLATE = (
    "This was filmed by a body-worn camera, $times into a recording. It stands for the stretch "
    "from $start to $end.\n"
    "Sounds heard in that stretch, likeliest first: $tags.\n"
    "Say in one plain sentence what the wearer is doing: the action, the object, and the tool or "
    "place where it matters. Say only what can be seen or heard. If nothing is being done, say so."
)


@dataclass(frozen=True, slots=True)
class Prompt:
    template: str = DEFAULT_TEMPLATE
    schema: Mapping[str, Any] | None = None

    def __post_init__(self) -> None:
        template = Template(self.template)
        if not self.template.strip():
            raise ValueError("a prompt cannot be empty")
        if not template.is_valid():
            raise ValueError("a prompt has a stray $; write $$ for a dollar sign")
        unknown = sorted(set(template.get_identifiers()) - set(PLACEHOLDERS))
        if unknown:
            known = ", ".join(f"${name}" for name in PLACEHOLDERS)
            raise ValueError(f"a prompt cannot have ${unknown[0]}; it may have {known}")

    def render(
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
class Question:
    prompt: Prompt = field(default_factory=Prompt)
    frames: int = 1
    """1 sends the frame at the instant of the window, as in the paper; more are spread over it."""
    tokens: int = 1024
    answer_tokens: int = 256
    temperature: float | None = 0.0
    """None takes the server's default."""
    blur: FaceBlur | None = None
    is_looked_at: bool = field(default=False, compare=False)

    def with_activity(self) -> Question:
        schema = with_activity(self.prompt.schema)
        return replace(self, prompt=replace(self.prompt, schema=schema))

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

    @classmethod
    def from_json(cls, plain: dict[str, Any]) -> Question:
        numbers = (plain["frames"], plain["tokens"], plain["answer_tokens"], plain["temperature"])
        return cls(Prompt(plain["prompt"], plain["schema"]), *numbers)

    def to_json(self) -> dict[str, Any]:
        return {
            "prompt": self.prompt.template,
            "schema": dict(self.prompt.schema) if self.prompt.schema else None,
            "frames": self.frames,
            "tokens": self.tokens,
            "answer_tokens": self.answer_tokens,
            "temperature": self.temperature,
            **({"blur": self.blur.name} if self.blur else {}),
        }
