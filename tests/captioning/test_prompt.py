from __future__ import annotations

import json

import pytest

from earmark import Span
from earmark.captioning.request import Question

WINDOW = Span(3720.0, 3724.0)
SCHEMA = {"type": "object", "properties": {"action": {"type": "string"}}, "required": ["action"]}


def test_own_prompt_has_the_times_and_the_sounds():
    text = Question().prompt(WINDOW, times=[3721.25], tags=["chopping", "tap water"])
    assert "from 1:02:00.0 to 1:02:04.0" in text
    assert "1:02:01.2 into a recording" in text
    assert "likeliest first: chopping, tap water." in text
    assert "$" not in text


def test_a_line_about_sounds_goes_where_none_has_a_name():
    prompt = Question("Look.\nHeard: $tags.\nSay what is done for 5$$.")
    assert prompt.prompt(WINDOW, times=[]) == "Look.\nSay what is done for 5$."
    assert "Sounds" not in Question().prompt(WINDOW, times=[3721.0])


def test_a_schema_is_asked_for_in_words_too():
    text = Question("Look.", SCHEMA).prompt(WINDOW, times=[])
    assert text.endswith(json.dumps(SCHEMA))


def test_times_are_told_with_their_hours():
    text = Question("$times").prompt(WINDOW, times=[0.0, 59.96, 3599.99, 36000.0])
    assert text == "0:00:00.0, 0:01:00.0, 1:00:00.0, 10:00:00.0"


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("Heard: $sounds", r"a prompt cannot have \$sounds; it may have \$start"),
        ("It costs 5$.", "a prompt has a stray"),
        ("  \n", "a prompt cannot be empty"),
    ],
)
def test_bad_templates_are_refused(text, complaint):
    with pytest.raises(ValueError, match=complaint):
        Question(text)
