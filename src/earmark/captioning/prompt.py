"""The prompt sent to a model, from a template file.

A template is plain text with these names in it:

    $start $end   the window, as 1:02:03.4
    $times        the moments shown, joined by commas
    $tags         the sounds heard, joined by commas

A line that mentions `$tags` is left out if there are none; `$$` is a dollar sign.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from string import Template
from typing import Any

from earmark.errors import EarmarkError
from earmark.evidence.evidence_line import quote
from earmark.timeline import Span, format_clock

PLACEHOLDERS = ("start", "end", "times", "tags")

DEFAULT_TEMPLATE = (
    "This was filmed by a body-worn camera, $times into a recording. It stands for the stretch "
    "from $start to $end.\n"
    "Sounds heard in that stretch, likeliest first: $tags.\n"
    "Say in one plain sentence what the wearer is doing: the action, the object, and the tool or "
    "place where it matters. Say only what can be seen or heard. If nothing is being done, say so."
)
"""The default prompt."""


@dataclass(frozen=True, slots=True)
class Prompt:
    """A template, and the schema of its answers."""

    template: str = DEFAULT_TEMPLATE
    schema: Mapping[str, Any] | None = None
    """JSON schema; None for plain text."""

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

    @classmethod
    def load(cls, path: Path | None = None, *, schema: Path | None = None) -> Prompt:
        """The prompt in the file `path`, the default if None; `schema` is a JSON file.

        Raises:
            EarmarkError: a file cannot be read, or the template or the schema is not valid.
        """
        wanted = None if schema is None else _read_schema(schema)
        if path is None:
            return cls(schema=wanted)
        try:
            return cls(_read(path).strip(), wanted)
        except ValueError as error:
            raise EarmarkError(f"{path.name}: {error}") from error

    def render(
        self,
        span: Span,
        *,
        times: Sequence[float],
        tags: Sequence[str] = (),
        speech: Sequence[str] = (),
    ) -> str:
        """The prompt for one window; its `speech` is quoted at the end."""
        every = self.template.splitlines()
        lines = [one for one in every if tags or "tags" not in Template(one).get_identifiers()]
        text = Template("\n".join(lines)).substitute(
            start=format_clock(span.start, hours=True),
            end=format_clock(span.end, hours=True),
            times=", ".join(format_clock(time, hours=True) for time in times),
            tags=", ".join(tags),
        )
        if speech:
            text = f"{text}\n{quote(('said', each) for each in speech)}"
        if self.schema is None:
            return text
        return f"{text}\nAnswer with JSON that fits this schema: {json.dumps(self.schema)}"


def _read(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        why = error.strerror if isinstance(error, OSError) else "it is not UTF-8 text"
        raise EarmarkError(f"cannot read the prompt or schema {path}: {why}") from error


def _read_schema(path: Path) -> Mapping[str, Any]:
    try:
        schema = json.loads(_read(path))
    except json.JSONDecodeError as error:
        raise EarmarkError(f"{path.name} is not JSON, so it is no schema: {error}") from error
    if not isinstance(schema, dict):
        raise EarmarkError(f"{path.name} is JSON but no schema: a schema is an object")
    return schema
