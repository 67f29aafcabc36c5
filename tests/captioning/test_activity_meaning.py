"""Activities in other words are the same where the sentence model is at hand."""

from __future__ import annotations

import pytest

from earmark.captioning.answer_schema import compare_activities, same_activity
from earmark.models import ModelStore
from earmark.models.sentence_encoder import SentenceEncoder


def test_without_the_model_words_decide(tmp_path):
    assert compare_activities(ModelStore(tmp_path), ["chop onions"]) is same_activity


@pytest.mark.skipif(SentenceEncoder.if_available() is None, reason="earmark models get evidence")
@pytest.mark.parametrize(
    ("first", "last", "same"),
    [
        ("drilling a hole", "making a hole with a drill", True),
        ("cutting onions", "chopping onions", True),
        ("chopping onions", "washing a pan", False),
        ("chopping onions", "driving a forklift", False),
        ("", "chopping onions", False),
    ],
)
def test_other_words_for_the_same_are_the_same(first, last, same):
    agree = compare_activities(ModelStore(), [first, None])
    assert agree(first, last) is agree(last, first) is same
