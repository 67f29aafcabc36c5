"""Whatever a server says is an answer or one clear error, within bounds."""

from __future__ import annotations

import json
from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from earmark.captioning.answer_schema import ACTIVITY_SCHEMA, YES_OR_NO_SCHEMA
from earmark.captioning.chat_protocol import (
    MOST_CHARACTERS,
    MOST_LEVELS,
    read_json,
    read_reply,
    read_text,
    response_format,
    token_usage,
)
from earmark.captioning.request import Answer
from earmark.errors import UnreadableAnswer
from earmark.search import cited_answer
from fault_server import completion
from stills import ask_about

REQUEST = ask_about(frames=False)

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=9),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=9), inner),
    max_leaves=9,
)


def read(reply, request=REQUEST):
    return read_reply(reply, request)


@given(
    st.fixed_dictionaries(
        {},
        optional={
            "choices": JSON
            | st.lists(
                st.fixed_dictionaries(
                    {}, optional={"message": JSON | st.fixed_dictionaries({"content": JSON})}
                )
            ),
            "usage": JSON | st.fixed_dictionaries({"prompt_tokens": JSON}),
            "model": JSON,
        },
    )
)
def test_any_json_is_an_answer_or_unreadable(reply):
    try:
        answer = read(reply)
    except UnreadableAnswer as error:
        counts = error.prompt_tokens, error.completion_tokens
    else:
        assert isinstance(answer, Answer) and answer.text
        counts = answer.prompt_tokens, answer.completion_tokens
    assert all(count is None or count >= 0 for count in counts)


@given(st.binary(max_size=60))
def test_any_bytes_are_json_or_a_value_error(raw):
    with suppress(ValueError):
        read_json(raw)


@given(JSON)
def test_json_is_read_as_it_was_written(value):
    plain = json.loads(json.dumps(value), parse_constant=lambda _: None)
    short = json.loads(
        json.dumps(plain), parse_int=lambda digits: int(digits) if len(digits) <= 20 else None
    )
    assert read_json(json.dumps(value).encode()) == short


@pytest.mark.parametrize("depth", [10_000, 500_000])
def test_a_reply_that_is_nested_too_deep_is_no_json(depth):
    with pytest.raises(ValueError, match="too deep"):
        read_json(f'{{"deep": {"[" * depth}{"]" * depth}}}'.encode())


def test_an_answer_too_long_to_keep_is_cut_and_says_so():
    answer = read(completion("a" * (MOST_CHARACTERS + 5)))
    assert len(answer.text) == MOST_CHARACTERS and answer.finish == "length"
    assert answer.note == "cut at 100,000 of its 100,005 characters"


def test_an_answer_too_long_to_keep_is_no_json():
    request = ask_about(frames=False, schema={"type": "object"})
    long = json.dumps({"action": "a" * MOST_CHARACTERS})
    with pytest.raises(UnreadableAnswer, match="answer_tokens"):
        read(completion(long), request)


def test_notes_are_joined():
    reply = {**completion("Stirs."), "usage": "?"}
    answer = read_reply(reply, REQUEST, note="sent as images")
    assert answer.note.startswith("sent as images; the server's usage makes no sense")


@pytest.mark.parametrize(
    ("said", "usage"),
    [
        ({}, (None, None, False)),
        ({"usage": None}, (None, None, False)),
        ({"usage": {}}, (None, None, False)),
        ({"usage": {"prompt_tokens": 7, "completion_tokens": 2}}, (7, 2, False)),
        ({"usage": {"prompt_tokens": 7, "completion_tokens": None}}, (7, None, True)),
    ],
)
def test_usage_that_is_not_said_is_nothing_odd(said, usage):
    prompt_tokens, completion_tokens, note = token_usage(said)
    assert (prompt_tokens, completion_tokens, bool(note)) == usage


def told(finish="stop", model="m", **usage):
    choice = {"message": {"content": "seen"}, "finish_reason": finish}
    return read({"choices": [choice], "model": model, "usage": usage})


@pytest.mark.parametrize(
    ("said", "kept"), [(7, "stop"), ("", "stop"), (None, "stop"), (["x"], "stop"), ("e" * 50, 40)]
)
def test_why_an_answer_ends_is_a_short_word(said, kept):
    assert told(finish=said).finish == (kept if isinstance(kept, str) else "e" * kept)


@pytest.mark.parametrize("count", [0, 1, 10**9])
def test_counts_at_the_ends_of_what_can_be_are_counts(count):
    answer = told(prompt_tokens=count, completion_tokens=count)
    assert (answer.prompt_tokens, answer.completion_tokens, answer.note) == (count, count, "")


@pytest.mark.parametrize("count", [-1, 10**9 + 1, True])
def test_counts_beyond_are_none_and_said(count):
    answer = told(prompt_tokens=count, completion_tokens=1)
    assert (answer.prompt_tokens, answer.completion_tokens) == (None, 1)
    assert "makes no sense" in answer.note


def test_the_name_of_a_model_is_no_longer_than_one():
    assert told(model="m" * 300).model == "m" * 200
    assert told(model="").model == told(model=["m"]).model == REQUEST.model


def test_an_answer_to_a_schema_may_be_nested_so_deep_and_no_deeper():
    asked = ask_about(frames=False, schema={"type": "array"})
    for depth in (MOST_LEVELS, MOST_LEVELS + 1, 5000):
        reply = {"choices": [{"message": {"content": "[" * depth + "]" * depth}}]}
        if depth == MOST_LEVELS:
            assert read(reply, asked).data is not None
            continue
        with pytest.raises(UnreadableAnswer, match=r"nested|not JSON"):
            read(reply, asked)


def test_a_deep_answer_is_not_taken_for_plain_text():
    deep = '{"caption": "a", "activity": "b", "more": ' + "[" * 700 + "]" * 700 + "}"
    with pytest.raises(UnreadableAnswer, match="nested"):
        read_text(deep, ACTIVITY_SCHEMA)


@pytest.mark.parametrize("words", ["7", '{"action": ' + "7" * 5000 + "}", "null"])
def test_an_answer_to_a_schema_that_is_no_object_or_no_number_is_unreadable(words):
    asked = ask_about(frames=False, schema={"type": "object", "required": ["action"]})
    with pytest.raises(UnreadableAnswer):
        read({"choices": [{"message": {"content": words}}]}, asked)


def test_an_answer_in_parts_is_joined_and_one_that_is_neither_is_unreadable():
    parts = [{"type": "text", "text": "a hand "}, "turns", {"type": "image"}, 7]
    assert read({"choices": [{"message": {"content": parts}}]}).text == "a hand turns"
    with pytest.raises(UnreadableAnswer, match="holds no answer"):
        read({"choices": [{"message": {"content": {"text": "x"}}}]})


def test_an_answer_is_cut_only_past_the_longest():
    longest = read({"choices": [{"message": {"content": "a" * MOST_CHARACTERS}}]})
    assert (len(longest.text), longest.finish, longest.note) == (MOST_CHARACTERS, "stop", "")
    longer = read({"choices": [{"message": {"content": "a" * (MOST_CHARACTERS + 1)}}]})
    assert (len(longer.text), longer.finish) == (MOST_CHARACTERS, "length")
    assert "cut at" in longer.note


LOOSE = {"type": "object", "properties": {"a": {"type": "string"}}, "additionalProperties": False}
CLOSED = LOOSE | {"required": ["a"]}


@pytest.mark.parametrize(
    ("schema", "is_strict"),
    [
        (CLOSED, True),
        (LOOSE, False),
        ({"type": "object", "properties": {"a": {}}, "required": ["a"]}, False),
        (CLOSED | {"properties": {"a": {"type": "array", "items": CLOSED}}}, True),
        (CLOSED | {"properties": {"a": {"type": "array", "items": LOOSE}}}, False),
        (CLOSED | {"properties": {"a": {"anyOf": [CLOSED, LOOSE]}}}, False),
        ({"type": "string"}, True),
        (ACTIVITY_SCHEMA, True),
        (cited_answer.SCHEMA, True),
        (YES_OR_NO_SCHEMA, False),
    ],
)
def test_a_schema_is_strict_only_where_openai_takes_it_so(schema, is_strict):
    """Which asks that every object names all it holds, and holds all it names."""
    asked = response_format(schema)["json_schema"]
    assert (asked["strict"], asked["schema"]) == (is_strict, schema)
