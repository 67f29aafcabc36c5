"""The question put to a model, from a template file.

A template is plain text with these names in it:

    $start $end   the window, as 1:02:03.4
    $times        the moments shown, joined by commas
    $tags         the sounds heard, joined by commas

A line that mentions `$tags` is left out where there are none; `$$` is a dollar sign.
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
from earmark.timeline import Span

NAMES = ("start", "end", "times", "tags")
TEMPLATE = Path(__file__).with_name("caption.txt")


@dataclass(frozen=True, slots=True)
class Prompt:
    """A template, and the schema of the answers it wants."""

    template: str
    schema: Mapping[str, Any] | None = None
    """JSON schema; None for plain text."""

    def __post_init__(self) -> None:
        template = Template(self.template)
        if not self.template.strip():
            raise ValueError("a prompt cannot be empty")
        if not template.is_valid():
            raise ValueError("a prompt has a stray $; write $$ for a dollar sign")
        unknown = sorted(set(template.get_identifiers()) - set(NAMES))
        if unknown:
            known = ", ".join(f"${name}" for name in NAMES)
            raise ValueError(f"a prompt cannot have ${unknown[0]}; it may have {known}")

    @classmethod
    def load(cls, path: Path = TEMPLATE, *, schema: Path | None = None) -> Prompt:
        """The prompt in the file `path`, by default earmark's own; `schema` is a JSON file.

        Raises:
            EarmarkError: if a file cannot be read, or the template or the schema makes no sense.
        """
        wanted = None if schema is None else _read_schema(schema)
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
        said: Sequence[str] = (),
    ) -> str:
        """The question about one window; what is `said` in it is quoted at the end."""
        every = self.template.splitlines()
        lines = [one for one in every if tags or "tags" not in Template(one).get_identifiers()]
        text = Template("\n".join(lines)).substitute(
            start=clock(span.start),
            end=clock(span.end),
            times=", ".join(clock(time) for time in times),
            tags=", ".join(tags),
        )
        if said:
            text = f"{text}\n{quote(('said', each) for each in said)}"
        if self.schema is None:
            return text
        return f"{text}\nAnswer with JSON that fits this schema: {json.dumps(self.schema)}"


def clock(seconds: float) -> str:
    """Seconds as a clock shows them.

    >>> clock(3723.44)
    '1:02:03.4'
    """
    tenths = round(seconds * 10)
    hours, minutes = tenths // 36000, tenths // 600 % 60
    return f"{hours}:{minutes:02d}:{tenths % 600 / 10:04.1f}"


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
