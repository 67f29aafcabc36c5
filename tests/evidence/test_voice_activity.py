from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest

from earmark.errors import ModelMissing
from earmark.evidence.speech_listener import VoiceActivity
from earmark.models import ModelStore
from made_speech import RATE, blocks, needs_espeak, needs_models, say, silence

pytestmark = [needs_espeak, needs_models("silero-vad")]


@pytest.fixture(scope="module")
def talk() -> np.ndarray:
    """Speech from 3 s on, a pause of 2 s, speech."""
    said = say("Please turn off the water and bring the hammer from the bench.")
    return np.concatenate([silence(3), said, silence(2), said, silence(1)])


def test_speech_is_found_where_it_is(talk):
    length = len(say("Please turn off the water and bring the hammer from the bench.")) / RATE
    first, last = list(VoiceActivity(gap=1.0)(blocks(talk)))
    assert abs(first.start - 3) < 0.3 and abs(first.end - (3 + length)) < 0.5
    assert abs(last.start - (5 + length)) < 0.3


def test_it_is_the_same_however_the_sound_is_cut(talk):
    whole = list(VoiceActivity()(blocks(talk)))
    for seconds in (0.013, 1.7):
        assert list(VoiceActivity()(blocks(talk, seconds=seconds))) == whole


def test_noise_a_tone_and_silence_are_no_speech():
    time = np.arange(5 * RATE) / RATE
    tone = (0.3 * np.sin(2 * np.pi * 440 * time)).astype(np.float32)
    noise = np.random.default_rng(1).standard_normal(5 * RATE).astype(np.float32) * 0.1
    assert not list(VoiceActivity()(blocks(np.concatenate([silence(5), tone, noise]))))


def test_endless_speech_is_told_in_parts(talk):
    spans = list(VoiceActivity(longest=1.0)(blocks(talk)))
    assert len(spans) > 4 and max(span.duration for span in spans) < 1.3
    assert all(one.end <= other.start + 1e-9 for one, other in pairwise(spans))


def test_without_the_file_it_says_how_to_get_it(tmp_path):
    with pytest.raises(ModelMissing, match="earmark models get silero-vad"):
        ModelStore(tmp_path).find("silero-vad")
