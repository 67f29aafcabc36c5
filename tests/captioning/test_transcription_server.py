from __future__ import annotations

import pickle

import numpy as np
import pytest

from earmark.captioning.transcription_server import ServerTranscriber
from earmark.errors import CallError
from transcription_server import transcription_server

SAMPLES = np.zeros(32_000, dtype=np.float32)
SEGMENT = {"start": 0.0, "end": 2.0, "text": " bring it", "avg_logprob": -0.1}


def said(reply: dict) -> list[tuple[str, float, float, float]]:
    with transcription_server(reply) as url:
        words = pickle.loads(pickle.dumps(ServerTranscriber(url, "whisper-1")))(SAMPLES).words
    return [(word.text, word.start, word.end, round(word.confidence, 2)) for word in words]


def test_words_have_the_times_of_the_server_and_the_confidence_of_their_segment():
    words = [{"word": "bring", "start": 0.2, "end": 0.6}, {"word": "it", "start": 0.7, "end": 1}]
    reply = {"text": "bring it", "language": "english", "segments": [SEGMENT], "words": words}
    assert said(reply) == [("bring", 0.2, 0.6, 0.9), ("it", 0.7, 1, 0.9)]


def test_words_without_times_are_spread_over_their_segment_or_over_all():
    assert said({"segments": [SEGMENT]}) == [("bring", 0.0, 1.0, 0.9), ("it", 1.0, 2.0, 0.9)]
    assert said({"text": "bring it"}) == [("bring", 0.0, 1.0, 0.5), ("it", 1.0, 2.0, 0.5)]


@pytest.mark.parametrize(
    "reply",
    [
        {},
        {"text": ""},
        {"words": [{"word": "x", "start": "now", "end": None}]},
        {"segments": [{}]},
        {"text": None},
        {"words": [{"word": None, "start": 0, "end": 1}]},
        {"words": ["bring", None]},
        {"words": 3, "segments": "none"},
    ],
)
def test_what_makes_no_sense_says_nothing(reply):
    assert said(reply) == []


def test_a_segment_that_ends_at_no_time_gives_no_confidence():
    odd = SEGMENT | {"end": "later"}
    words = [{"word": "bring", "start": 0.2, "end": 0.6}]
    assert said({"segments": [odd], "words": words}) == [("bring", 0.2, 0.6, 0.5)]


def test_a_server_that_fails_is_one_line():
    with (
        transcription_server({"error": {"message": "no such model"}}, status=400) as url,
        pytest.raises(CallError, match="no such model"),
    ):
        ServerTranscriber(url, "whisper-9")(SAMPLES)
