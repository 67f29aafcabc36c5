"""Captions as they arrive, one line of JSON each, so that none is paid for twice.

A line is whole or it is the last one: whatever stops a comparison, the same command goes on with
what has no answer yet.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from earmark.errors import EarmarkError
from earmark.evaluation.paper.caption_stimuli import Stimulus
from earmark.timeline import Span


@dataclass(frozen=True, slots=True)
class Caption:
    """What was said of one stimulus, asked in one way."""

    variant: str
    stimulus: Stimulus
    text: str
    prompt_tokens: int | None = None
    """None where the server does not say."""
    sounds: tuple[str, ...] = ()
    """What the prompt said is heard."""
    is_whole: bool = False
    """Whether the whole frame was shown where its hands should have been: none were found."""
    identity: str = ""
    """Of the request: the same question has the same one."""

    def to_json(self) -> dict[str, Any]:
        """The caption as plain values."""
        values = asdict(self)
        about = values.pop("stimulus")
        whole = values.pop("is_whole")
        return {**values, **about.pop("span"), **about, "whole_frame": whole}

    @classmethod
    def from_json(cls, row: dict[str, Any]) -> Caption:
        """The caption that `to_json` wrote."""
        span = Span(row["start"], row["end"])
        about = Stimulus(row["recording"], span, row["noun"], row["verb"])
        said = (row["text"], row["prompt_tokens"], tuple(row["sounds"]))
        return cls(row["variant"], about, *said, row["whole_frame"], row["identity"])


@dataclass(slots=True)
class CaptionLog:
    """The captions there are, by the identity of their request; in a file where there is one."""

    path: Path | None = None
    captions: dict[str, Caption] = field(default_factory=dict)

    @classmethod
    def open(cls, path: Path) -> CaptionLog:
        """Go on with the file at `path`, or begin it; `EarmarkError` for another kind of file."""
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.touch()
            data = path.read_bytes()
            whole = data[: data.rfind(b"\n") + 1]  # a line cut off half way is asked for again
            found = [Caption.from_json(json.loads(line)) for line in whole.splitlines()]
            if whole != data:
                path.write_bytes(whole)
        except OSError as error:
            raise EarmarkError(f"captions cannot be kept in {path}: {error.strerror}") from error
        except (ValueError, KeyError, TypeError) as error:
            raise EarmarkError(
                f"{path.name} holds something else than captions kept here; name another file"
            ) from error
        return cls(path, {each.identity: each for each in found})

    def add(self, caption: Caption) -> None:
        """Keep one more."""
        self.captions[caption.identity] = caption
        if self.path is not None:
            with self.path.open("a", encoding="utf-8") as file:
                file.write(json.dumps(caption.to_json()) + "\n")
