from __future__ import annotations

import json

import pytest

from earmark.captioning.prompt import Prompt
from earmark.errors import EarmarkError
from earmark.timeline import Span

WINDOW = Span(3720.0, 3724.0)
SCHEMA = {"type": "object", "properties": {"action": {"type": "string"}}, "required": ["action"]}


def test_own_prompt_has_the_times_and_the_sounds():
    text = Prompt().render(WINDOW, times=[3721.25], tags=["chopping", "tap water"])
    assert "from 1:02:00.0 to 1:02:04.0" in text
    assert "1:02:01.2 into a recording" in text
    assert "likeliest first: chopping, tap water." in text
    assert "$" not in text


def test_a_line_about_sounds_goes_where_none_has_a_name():
    prompt = Prompt("Look.\nHeard: $tags.\nSay what is done for 5$$.")
    assert prompt.render(WINDOW, times=[]) == "Look.\nSay what is done for 5$."
    assert "Sounds" not in Prompt().render(WINDOW, times=[3721.0])


def test_a_schema_is_asked_for_in_words_too():
    text = Prompt("Look.", SCHEMA).render(WINDOW, times=[])
    assert text.endswith(json.dumps(SCHEMA))


def test_times_are_told_with_their_hours():
    text = Prompt("$times").render(WINDOW, times=[0.0, 59.96, 3599.99, 36000.0])
    assert text == "0:00:00.0, 0:01:00.0, 1:00:00.0, 10:00:00.0"


def test_prompts_and_schemas_come_from_files(tmp_path):
    (tmp_path / "ask.txt").write_text("From $start on: {braces} stay.\n")
    (tmp_path / "schema.json").write_text(json.dumps(SCHEMA))
    prompt = Prompt.load(tmp_path / "ask.txt", schema=tmp_path / "schema.json")
    assert prompt == Prompt("From $start on: {braces} stay.", SCHEMA)


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("Heard: $sounds", r"ask.txt: a prompt cannot have \$sounds; it may have \$start"),
        ("It costs 5$.", "ask.txt: a prompt has a stray"),
        ("  \n", "ask.txt: a prompt cannot be empty"),
    ],
)
def test_bad_templates_are_refused_by_name(tmp_path, text, complaint):
    (tmp_path / "ask.txt").write_text(text)
    with pytest.raises(EarmarkError, match=complaint):
        Prompt.load(tmp_path / "ask.txt")


def test_bad_files_are_refused_by_name(tmp_path):
    (tmp_path / "list.json").write_text("[]")
    (tmp_path / "half.json").write_text("{")
    (tmp_path / "bytes.txt").write_bytes(b"\xff\xfe\xff")
    with pytest.raises(EarmarkError, match=r"none.txt"):
        Prompt.load(tmp_path / "none.txt")
    with pytest.raises(EarmarkError, match=r"bytes.txt"):
        Prompt.load(tmp_path / "bytes.txt")
    with pytest.raises(EarmarkError, match=r"list.json is JSON but no schema"):
        Prompt.load(schema=tmp_path / "list.json")
    with pytest.raises(EarmarkError, match=r"half.json is not JSON"):
        Prompt.load(schema=tmp_path / "half.json")
