"""Talk made up for the context: it sounds like a voice, and work goes on beneath it."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from earmark.evidence.speech_listener import VoiceActivity
from earmark.features.encoder import SAMPLE_RATE
from earmark.features.sound_levels import FloorMel
from earmark.media import Sound
from earmark_lab.sites.physics import level, reverberate
from earmark_lab.sites.talk import talk
from earmark_lab.training.head import in_seconds
from earmark_lab.training.synthetic_recordings import TALKS, make_recording
from earmark_lab.training.synthetic_sound import talk_over
from made_speech import blocks, needs_models

BANDS = FloorMel().bands


def apart(samples: np.ndarray) -> np.ndarray:
    """How far the bands of every second move apart, as the context has it."""
    sound = Sound(samples.astype(np.float32), 0.0, SAMPLE_RATE)
    rows = np.concatenate([track.values for track in FloorMel().encode([sound])])
    return in_seconds(torch.from_numpy(rows)[None], BANDS)[0, :, -BANDS:].mean(1).numpy()


def quiet(seconds: int) -> np.ndarray:
    return 0.001 * np.random.default_rng(9).standard_normal(seconds * SAMPLE_RATE)


@pytest.mark.parametrize("seed", range(3))
def test_talk_moves_the_bands_apart_where_blows_move_them_together(seed: int) -> None:
    rng = np.random.default_rng(seed)
    blows = quiet(30)
    for at in np.sort(rng.uniform(1, 28, 60)):
        first, size = round(at * SAMPLE_RATE), SAMPLE_RATE // 5
        fading = np.exp(-np.arange(size) / (0.025 * SAMPLE_RATE))
        blows[first : first + size] += 0.3 * rng.standard_normal(size) * fading
    voices = quiet(30) + 0.1 * level(talk(30 * SAMPLE_RATE, rng))
    assert np.median(apart(voices)) > 1.5 * np.median(apart(blows))


@needs_models("silero-vad")
@pytest.mark.parametrize("seed", range(3))
def test_a_network_that_knows_voices_takes_it_for_one(seed: int) -> None:
    voices = quiet(30) + 0.1 * level(talk(30 * SAMPLE_RATE, np.random.default_rng(seed)))
    heard = sum(span.duration for span in VoiceActivity()(blocks(voices.astype(np.float32))))
    assert heard > 10


def test_people_talk_now_and_then_and_louder_than_the_room() -> None:
    room = quiet(300)
    heard = talk_over(room, np.random.default_rng(4))
    changed = np.abs(heard - room).reshape(300, -1).max(1) > 0
    assert 0.1 < changed.mean() < 0.95
    assert np.std(heard[np.repeat(changed, SAMPLE_RATE)]) > 2 * np.std(room)


def test_a_recording_is_heard_with_and_without_talk() -> None:
    made = make_recording(FloorMel(), 0)
    assert len(made.takes) == 1 + TALKS
    plain, *talked = (take[:, :BANDS].mean(1) for take in made.takes)
    for take in talked:
        assert take.shape == plain.shape
        assert take.mean() > plain.mean()


def test_an_echo_follows_its_sound_and_dies_away() -> None:
    click = np.zeros(2 * SAMPLE_RATE, dtype=np.float32)
    click[8_000] = 1.0
    echo = np.abs(reverberate(click, np.random.default_rng(3)))
    decay = np.random.default_rng(3).uniform(0.1, 0.6)
    assert echo[:7_990].max() < 1e-4
    assert echo[7_990:8_400].max() > 0.05
    last = np.flatnonzero(echo > 1e-5)[-1] - 8_000
    assert last / SAMPLE_RATE == pytest.approx(decay, rel=0.05)
