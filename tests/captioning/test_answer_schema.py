"""What answers say is being done, and whether two say the same."""

from __future__ import annotations

import json
import time

import pytest

from earmark import Span
from earmark.captioning.answer_schema import (
    ACTIVITY_SCHEMA,
    activity_of,
    read_activity,
    same_activity,
    with_activity,
)
from earmark.captioning.chat_protocol import read_text
from earmark.captioning.request import Answer, Question
from earmark.errors import UnreadableAnswer


def answer(words: str, schema=None) -> Answer:
    text, data = read_text(words, with_activity(schema))
    return Answer(text, "m", data=data)


def test_an_answer_that_follows_the_schema_is_its_caption_and_its_activity():
    said = {"caption": "Someone chops an onion.", "activity": "chop onion", "active": True}
    read = answer(json.dumps(said))
    assert (read.text, activity_of(read.data)) == ("Someone chops an onion.", "chop onion")
    idle = {"caption": "A desk.", "activity": "sitting", "active": False}
    assert activity_of(answer(json.dumps(idle)).data) == ""


@pytest.mark.parametrize(
    ("words", "activity"),
    [
        ("Someone chops an onion.", "Someone chops an onion."),
        ("Someone chops an onion.\nActivity: chop onion", "chop onion"),
        ("**Activity:** chop onion.", "chop onion"),
        ("An onion.\n\n- activity =\n  chop, then wash!  \n", "chop, then wash"),
        ("Nothing is being done.", ""),
        ("The wearer is idle at a bench.", ""),
        ("Activity: none", ""),
        ("Activity: nothing", ""),
        (
            "The worker tightens a bolt; nothing falls.",
            "The worker tightens a bolt; nothing falls.",
        ),
    ],
)
def test_the_words_of_a_server_without_schemas_are_read(words, activity):
    assert activity_of(answer(words).data) == activity
    assert answer(words).text


def test_a_schema_of_the_users_own_keeps_its_fields_and_stays_strict():
    own = {"type": "object", "properties": {"tool": {"type": "string"}}, "required": ["tool"]}
    said = {"tool": "knife", "activity": "chop", "active": True}
    assert activity_of(answer(json.dumps(said), own).data) == "chop"
    with pytest.raises(UnreadableAnswer, match="not JSON"):
        answer("Chopping.", own)
    with pytest.raises(UnreadableAnswer, match="lacks activity"):
        answer(json.dumps({"tool": "knife"}), own)


def test_an_answer_without_the_field_does_not_say():
    assert activity_of(None) is None
    assert activity_of({"activity": 7}) is None


def test_the_question_is_the_same_when_it_is_read_back():
    """A run keeps its plan with names in order; asking twice must not ask anew."""
    once = Question("What is done?").with_activity()
    assert once.with_activity() == once
    stored = json.loads(json.dumps(once.to_json(), sort_keys=True))
    first, again = (
        question.prompt(Span(0, 4), times=(2,)) for question in (once, Question.from_json(stored))
    )
    assert again == first


@pytest.mark.parametrize(
    ("first", "last", "same"),
    [
        ("chop onions", "chopping the onion", True),
        ("the person is washing dishes", "wash dish", True),
        ("stir soup", "stirring the soup with a spoon", True),
        ("chop onions", "wash dishes", False),
        ("open the drawer", "close the drawer", False),
        ("take plate", "put down plate", False),
        ("schneidet Zwiebeln", "Schneidet Zwiebeln.", True),
        ("切洋葱", "切洋葱", True),
        ("1 2", "1 2", True),
    ],
)
def test_the_same_is_what_shares_most_words(first, last, same):
    assert same_activity(first, last) is same_activity(last, first) is same


def test_what_is_read_fits_the_schema():
    assert set(read_activity("Chopping.")) == set(ACTIVITY_SCHEMA["required"])


@pytest.mark.parametrize(
    "unit", ["\n", "activity: ", "activity:,,a", "activity\n", " ", "nothing "]
)
def test_an_answer_in_plain_text_is_read_in_linear_time(unit):
    def seconds(size: int) -> float:
        times = []
        for _ in range(3):
            start = time.thread_time()
            read_activity(f"activity: {unit * size}a")
            read_activity(unit * size)
            times.append(time.thread_time() - start)
        return min(times)

    assert seconds(8000) < 24 * seconds(1000), "8 if the time is linear, 64 if it is quadratic"
