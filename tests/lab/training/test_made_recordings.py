"""Recordings made up for the context: what lasts for seconds is work, what goes on is not."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from earmark.features.sound_levels import FloorMel
from earmark.timeline import CLOCK_RATE
from earmark_lab.sites.physics import TOOLS
from earmark_lab.training.gate_training import make_recordings
from earmark_lab.training.settings import Settings
from earmark_lab.training.synthetic_recordings import (
    LASTS,
    LENGTH,
    TrainingRecording,
    make_recording,
)


@pytest.fixture(scope="module")
def made() -> TrainingRecording:
    return make_recording(FloorMel(), 0)


def test_work_lasts_for_seconds_and_lies_apart(made: TrainingRecording) -> None:
    assert made.features.shape == (LENGTH * CLOCK_RATE, FloorMel().channels)
    assert len(made.actions) > 2
    ends = 0.0
    for action in made.actions:
        assert ends < action.start < action.end <= LENGTH
        assert action.duration <= LASTS[1] + 1e-9
        ends = action.end


def test_work_stands_out_from_the_room(made: TrainingRecording) -> None:
    level = made.features[:, : FloorMel().bands].max(1)
    for action in made.actions:
        inside = level[round((action.start + 0.5) * CLOCK_RATE) : round(action.end * CLOCK_RATE)]
        assert np.median(inside) > 2.0  # natural-log units above the floor of its loudest band


def test_minutes_of_sound_are_no_work() -> None:
    loud = []
    for seed in (1, 2):
        made = make_recording(FloorMel(), seed)
        level = made.features[:, : FloorMel().bands].max(1) > 2.0
        for action in made.actions:
            level[max(0, round((action.start - 2) * CLOCK_RATE)) :][: round(49 * CLOCK_RATE)] = (
                False
            )
        loud.append(level.mean())
    assert max(loud) > 0.05


def test_the_same_seed_is_the_same_recording(made: TrainingRecording) -> None:
    again, other = make_recording.__wrapped__(FloorMel(), 0), make_recording(FloorMel(), 1)
    assert (again.features == made.features).all() and again.actions == made.actions
    assert other.actions != made.actions


@pytest.mark.parametrize("draw", TOOLS, ids=lambda draw: draw.__name__)
def test_a_tool_of_a_tenth_of_a_second_is_sound(draw) -> None:
    samples = draw(1600, np.random.default_rng(0))
    assert samples.shape == (1600,) and np.isfinite(samples).all() and samples.std() > 0


def test_as_many_are_made_as_asked_for_and_none_where_no_sound_is_heard() -> None:
    assert [each.name for each in make_recordings(Settings(made=2))] == ["made-0", "made-1"]
    assert list(make_recordings(replace(Settings(), made=0))) == []
    assert list(make_recordings(replace(Settings(), encoder="packets", made=2))) == []
