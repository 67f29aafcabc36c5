"""Talk laid over sounds: which steps are talk alone, which are work, and which are neither."""

from __future__ import annotations

import numpy as np
import pytest

from earmark.features.encoder import SAMPLE_RATE
from earmark.features.sound_levels import FloorMel
from earmark.timeline import CLOCK_RATE
from earmark_lab.annotations.actions import Action
from earmark_lab.sites.talk import talk
from earmark_lab.training.synthetic_recordings import ROOM, make_recording, make_room
from earmark_lab.training.synthetic_sound import (
    ALONE,
    OTHER,
    UNKNOWN,
    WORK,
    Voices,
    label,
    mix_talk,
)


@pytest.fixture(scope="module")
def voices() -> Voices:
    rng = np.random.default_rng(3)
    return Voices([[talk(2 * SAMPLE_RATE, rng).astype(np.float32) for _ in range(4)]])


def labels(*, talks: float, knock: Action | None = None) -> np.ndarray:
    """A minute of a quiet room with a knock at 30 s and talk of a level from 10 to 50 s."""
    sounds, said = np.full(60 * CLOCK_RATE, -60.0), np.full(60 * CLOCK_RATE, -120.0)
    sounds[750:753] = -25.0
    said[250:1250] = talks
    return label(sounds, said, said > -120, [knock] if knock else [])


def test_steps_without_talk_and_with_talk_alone() -> None:
    found = labels(talks=-30.0, knock=Action(30, 31))
    assert (found[:230] == OTHER).all() and (found[1270:] == OTHER).all()
    assert (found[260:730] == ALONE).all() and (found[790:1240] == ALONE).all()


@pytest.mark.parametrize(
    ("talks", "knock", "is_what"),
    [
        (-30.0, Action(30, 31), WORK),
        (-24.0, Action(30, 31), WORK),
        (-18.0, Action(30, 31), UNKNOWN),
        (-30.0, None, UNKNOWN),
        (0.0, None, ALONE),
    ],
)
def test_a_knock_in_talk(talks: float, knock: Action | None, is_what: int) -> None:
    assert (labels(talks=talks, knock=knock)[745:758] == is_what).all()


def test_talk_that_cannot_be_heard_teaches_nothing() -> None:
    assert (labels(talks=-75.0)[260:730] == UNKNOWN).all()


def test_talk_is_louder_than_the_room(voices: Voices) -> None:
    room = 0.001 * np.random.default_rng(9).standard_normal(200 * SAMPLE_RATE)
    heard = mix_talk(room, [], FloorMel(), voices, np.random.default_rng(4))
    level = heard.features[:, :8].astype(float).mean(1)
    assert len(heard.labels) == len(heard.features)
    assert set(np.unique(heard.labels)) <= {OTHER, ALONE, UNKNOWN}
    assert level[heard.labels == ALONE].mean() > 0.8 + level[heard.labels == OTHER].mean()


def test_people_pause_and_take_their_turns(voices: Voices) -> None:
    said = voices.talk(60 * SAMPLE_RATE, np.random.default_rng(1))
    loud = np.abs(said).reshape(60, -1).max(1)
    assert 0.2 < (loud > 0.1 * loud.max()).mean() <= 1.0
    other = Voices([[clip + 1e-3 for clip in voices.clips[0]]])
    assert other.digest != voices.digest


def test_rooms_hold_blows_that_are_heard_through_talk(voices: Voices) -> None:
    found = [make_room(FloorMel(), seed, voices) for seed in range(3)]
    assert all(len(each.labels) == ROOM * CLOCK_RATE for each in found)
    assert (found[0].labels != WORK).all()
    assert sum((each.labels == WORK).sum() for each in found) > CLOCK_RATE
    assert all((each.labels == ALONE).mean() > 0.1 for each in found)


def test_with_voices_the_context_is_told_nothing_of_talk(voices: Voices) -> None:
    with_voices, without = make_recording(FloorMel(), 0, voices), make_recording(FloorMel(), 0)
    assert len(with_voices.takes) == 1 < len(without.takes)
    assert (with_voices.takes[0] == without.takes[0]).all()
    assert with_voices.with_talk is not None and without.with_talk is None
