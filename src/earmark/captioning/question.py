"""The question about a picked window: the frames shown, and the prompt."""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from earmark.captioning.activity import with_activity
from earmark.captioning.prompt import Prompt

if TYPE_CHECKING:
    from earmark.evidence.face_blur import FaceBlur
    from earmark.selection.pick import Pick


@dataclass(frozen=True, slots=True)
class Question:
    """Which frames of a picked window are sent, and with which prompt."""

    prompt: Prompt = field(default_factory=Prompt)
    frames: int = 1
    """1 sends the frame at the instant of the window, as in the paper; more are spread over it."""
    tokens: int = 1024
    """Visual tokens of one call, as the model counts them."""
    answer_tokens: int = 256
    temperature: float | None = 0.0
    """A number, or its text; None, or the text `server`, takes the server's default."""
    blur: FaceBlur | None = None
    """Blurs faces in the frames: an object or its name; None blurs nothing."""
    is_looked_at: bool = field(default=False, compare=False)
    """Whether small models look at the frames first; the plan knows those installed."""

    def __post_init__(self) -> None:
        blur: str | FaceBlur | None = self.blur
        if blur in ("", "none"):
            object.__setattr__(self, "blur", None)
        elif blur is not None and not callable(blur):  # its name
            from earmark.evidence.face_blur import FaceBlur

            if blur != FaceBlur.name:
                raise ValueError(f"what is blurred is faces, or none; not {blur!r}")
            object.__setattr__(self, "blur", FaceBlur())
        written: str | float | None = self.temperature
        try:
            temperature = None if written in (None, "server") else float(written)
        except (TypeError, ValueError):
            raise ValueError(f"--temperature {written} is neither a number nor `server`") from None
        if temperature is not None and not 0 <= temperature < math.inf:
            raise ValueError(f"--temperature {written}: a number is 0 or more, and finite")
        if isinstance(written, str):
            object.__setattr__(self, "temperature", temperature)
        if self.frames < 1 or self.tokens < 1 or self.answer_tokens < 1:
            raise ValueError("frames, tokens and answer_tokens are 1 or more")
        if self.tokens < self.frames:
            raise ValueError(
                f"{self.tokens} visual tokens cannot hold {self.frames} frames; at least one each"
            )

    def with_activity(self) -> Question:
        """The question with a schema that also asks for the activity, in a field of its own."""
        return replace(self, prompt=with_activity(self.prompt))

    def times(self, pick: Pick) -> tuple[float, ...]:
        """The times of the frames of `pick` to show, in order.

        Even spacing shows the most distinct actions. With two frames, moving both half the way to
        the instant of the pick shows a few more; with three or four it does not.

            slices    |-------|-------|
            even          ^       ^
            instant                  *
            shown          ^       ^
        """
        if self.frames == 1:
            return (pick.instant,)
        step = (pick.end - pick.start) / self.frames
        even = [pick.start + (place + 0.5) * step for place in range(self.frames)]
        if self.frames > 2:
            return tuple(even)
        nearest = min(even, key=lambda time: abs(time - pick.instant))
        return tuple(time + (pick.instant - nearest) / 2 for time in even)

    @classmethod
    def from_json(cls, plain: dict[str, Any]) -> Question:
        """The question that `to_json` wrote."""
        prompt = Prompt(plain["prompt"], plain["schema"])
        numbers = (plain["frames"], plain["tokens"], plain["answer_tokens"], plain["temperature"])
        return cls(prompt, *numbers, plain.get("blur"))

    def to_json(self) -> dict[str, Any]:
        """The fields as plain values."""
        return {
            "prompt": self.prompt.template,
            "schema": dict(self.prompt.schema) if self.prompt.schema else None,
            "frames": self.frames,
            "tokens": self.tokens,
            "answer_tokens": self.answer_tokens,
            "temperature": self.temperature,
            **({"blur": self.blur.name} if self.blur else {}),
        }
