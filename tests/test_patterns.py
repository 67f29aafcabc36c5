"""No pattern takes more than linear time, and no text from outside is worked on without a bound."""

from __future__ import annotations

import ast
import json
import re
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import earmark
import earmark_lab
from earmark import EarmarkError, Settings, Span
from earmark.captioning.answer_schema import read_yes_or_no
from earmark.captioning.chat_protocol import read_reply
from earmark.captioning.openai_captioner import _error_message, retry_after
from earmark.captioning.request import Question, Request
from earmark.evidence.sound_query import stems
from earmark.media.source import folder_name, is_below, name_of, place_of, stored_path, suffix_of
from earmark.redaction import SecretFilter, redact, redact_line, redact_url
from earmark.report.day import first_sentence
from earmark.run.corrections import Correction, _checked
from earmark.run.shareable_copy import hide_places
from pattern_steps import MOST, attacks, steps

SOURCES = [Path(package.__path__[0]) for package in (earmark, earmark_lab)]
SHORT, LONG = 80, 320


def patterns() -> Iterator[tuple[str, str, int, bool]]:
    """Where each pattern is, the pattern, its flags, and whether it is tried only at the start."""
    for file in sorted(path for folder in SOURCES for path in folder.rglob("*.py")):
        code = file.read_text("utf-8")
        tree = ast.parse(code)
        names = {
            id(node.value): node.targets[0].id
            for node in ast.walk(tree)
            if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name)
        }
        for node in ast.walk(tree):
            match node:
                case ast.Call(
                    func=ast.Attribute(value=ast.Name(id="re"), attr=verb), args=[first, *_]
                ) if verb not in ("escape", "purge"):
                    text = _constant(first)
                    if isinstance(text, str):
                        words = ast.unparse(node)
                        flags = sum(
                            flag for flag in (re.IGNORECASE, re.DOTALL, re.ASCII)
                            if f"re.{flag.name}" in words
                        )  # fmt: skip
                        name = names.get(id(node), "") if verb == "compile" else ""
                        verbs = re.findall(rf"\b{name}\.(\w+)\(", code) if name else [verb]
                        is_anchored = bool(verbs) and {*verbs} <= {"match", "fullmatch"}
                        yield f"{file.stem}:{node.lineno}", text, int(flags), is_anchored


def _constant(node: ast.expr) -> Any:
    try:
        return ast.literal_eval(node)
    except ValueError:
        return None


PATTERNS = list(patterns())


def growth(pattern: str, flags: int = 0, *, is_anchored: bool = False) -> tuple[float, str]:
    """By how much more the work grows than the text does, and the text."""
    worst = (0.0, "")
    for head, pump, tail in attacks(pattern, flags):
        short, long = (head + pump * count + tail for count in (SHORT, LONG))
        before, after = (
            steps(pattern, text, flags, is_anchored=is_anchored) for text in (short, long)
        )
        ratio = after / before / (len(long) / len(short))
        if after > MOST:
            ratio = max(ratio, 9.0)
        worst = max(worst, (ratio, f"{head!r} + {pump!r} * n + {tail!r}"))
    return worst


@pytest.mark.parametrize(
    ("pattern", "is_linear"),
    [
        (r"\w+@", False),
        (r"(a+)+b", False),
        (r"[a-z][a-z0-9+.-]+://", False),
        (r"\bsk[-_]?[\w-]*\d[\w-]{5,}", False),
        (r"[a-z][a-z0-9+.-]{1,31}://\S*", True),
        (r"^[a-z][a-z0-9+.-]+://", True),
        (r"(?<!\w)\w{1,40}@", True),
    ],
)
def test_the_checker_tells_linear_from_super_linear(pattern: str, is_linear: bool):
    assert (growth(pattern)[0] < 1.8) == is_linear


@pytest.mark.parametrize(
    ("place", "pattern", "flags", "is_anchored"), PATTERNS, ids=[row[0] for row in PATTERNS]
)
def test_every_pattern_takes_linear_time(place: str, pattern: str, flags: int, is_anchored: bool):
    ratio, text = growth(pattern, flags, is_anchored=is_anchored)
    assert ratio < 1.8, f"{place}: {pattern!r} on {text}"


def measure(work: Callable[[str], object], text: str) -> float:
    """Processor time; an error that it gives in one line is an answer too."""
    began = time.process_time()
    try:
        work(text)
    except (ValueError, EarmarkError) as error:
        assert len(str(error)) < 3000
    return time.process_time() - began


def _reply(text: str) -> object:
    request = Request("r", Span(0, 4), (1.0,), "", "m", Question())
    return read_reply({"choices": [{"message": {"content": text}}]}, request)


BOUNDARIES: dict[str, Callable[[str], object]] = {
    "redact": redact,
    "redact_line": redact_line,
    "redact_url": lambda text: redact_url(f"http://{text}"),
    "filter of a server's secrets": SecretFilter("http://me:key@host/", "sk-12345"),
    "text to share": hide_places,
    "error of a server": lambda text: _error_message(text.encode(), str),
    "JSON error of a server": lambda text: _error_message(
        json.dumps({"error": {"message": text}}).encode(), str
    ),
    "answer of a model": _reply,
    "answer of yes or no": read_yes_or_no,
    "name of a recording": lambda text: (name_of(text), suffix_of(text), folder_name(text)),
    "address of a recording": lambda text: (place_of(f"s3://{text}"), is_below(text, text)),
    "path in a run": stored_path,
    "author of a correction": lambda text: _checked(Correction("r", Span(0, 1), "right", text)),
    "setting": lambda text: Settings.read({"budget": text}),
    "sentence of a caption": lambda text: first_sentence(text, 80),
    "words to search for": stems,
    "header of a wait": lambda text: retry_after(text, now=0.0),
}


@pytest.mark.parametrize("letters", ["a", ".", "/", "a@"])
@pytest.mark.parametrize("name", BOUNDARIES)
def test_ten_times_the_text_takes_about_ten_times_as_long(name: str, letters: str):
    """A quadratic step would take a hundred times as long."""
    work = BOUNDARIES[name]
    short, long = (letters * (size // len(letters)) for size in (10**6, 10**7))
    before = measure(work, short)
    assert measure(work, long) < 40 * before + 0.05
