"""What is shown and said about a picked window."""

from __future__ import annotations

import json
from dataclasses import replace
from itertools import pairwise

import pytest

from earmark import Pick, Span
from earmark.captioning.request import Question, Request
from earmark.evidence.sound_names import WindowSounds

PICK = Pick(
    window=2, start=8.0, end=12.0, instant=9.25, score=0.9, rate=1.0, expected=0.6, reason=""
)


def test_one_frame_shows_the_instant_and_more_are_spread_over_the_window():
    assert Question(frames=1).times(PICK) == (9.25,)
    assert Question(frames=2).times(PICK) == (9.125, 11.125)
    assert Question(frames=4).times(PICK) == (8.5, 9.5, 10.5, 11.5)


@pytest.mark.parametrize("frames", [2, 3, 5])
@pytest.mark.parametrize("instant", [8.0, 9.9, 10.0, 11.99, 12.0])
def test_frames_are_evenly_spaced_within_the_window(frames: int, instant: float):
    times = Question(frames=frames).times(replace(PICK, instant=instant))
    assert PICK.start <= times[0] < times[-1] < PICK.end
    gaps = [after - before for before, after in pairwise(times)]
    assert gaps == pytest.approx([4.0 / frames] * (frames - 1))
    if frames == 2:
        assert min(abs(time - instant) for time in times) <= 0.5 + 1e-9


def test_names_are_said_and_all_words_are_kept_for_searching():
    question = Question("From $start to $end.\nHeard: $tags.", answer_tokens=99)
    sounds = WindowSounds(names=("chopping",), words=("loud",))
    request = Request.about("kitchen", PICK, question, sounds, "qwen")
    assert request.prompt == "From 0:00:08.0 to 0:00:12.0.\nHeard: chopping."
    assert request.tags == ("chopping", "loud")
    assert (request.recording, request.span, request.times) == ("kitchen", Span(8.0, 12.0), (9.25,))
    assert (request.model, request.question) == ("qwen", question)


@pytest.mark.parametrize("schema", [None, {"type": "object", "required": ["action"]}])
def test_a_question_comes_back_from_json_as_it_was(schema):
    question = Question("What?", schema, 3, 64, 17, None)
    assert Question.from_json(json.loads(json.dumps(question.to_json()))) == question
