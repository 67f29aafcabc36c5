"""Rooms and microphones of synthetic talk."""

from __future__ import annotations

import numpy as np
import pytest

from earmark_lab.training.synthetic_sound import filtered, reverberate


def test_nothing_is_heard_before_it_happens() -> None:
    click = np.zeros(16_000, dtype=np.float32)
    click[8_000] = 0.5
    rng = np.random.default_rng(1)
    for change in (reverberate, filtered):
        assert np.abs(change(click, 16_000, rng)[:7_990]).max() < 1e-4
        assert np.abs(change(click, 16_000, rng)[7_990:8_400]).max() > 0.05


@pytest.mark.parametrize("sample_rate", [8_000, 16_000, 32_000])
def test_rooms_and_microphones_are_the_same_at_any_sample_rate(sample_rate: int) -> None:
    """An echo dies away in seconds and a filter cuts at a pitch, not at a number of samples."""
    click = np.zeros(2 * sample_rate, dtype=np.float32)
    click[0] = 1.0
    echo = reverberate(click, sample_rate, np.random.default_rng(3))
    decay = np.random.default_rng(3).uniform(0.1, 0.6)
    assert np.flatnonzero(np.abs(echo) > 1e-5)[-1] / sample_rate == pytest.approx(decay, rel=0.05)
    heard = np.abs(np.fft.rfft(filtered(click, sample_rate, np.random.default_rng(3))))
    pitches = np.fft.rfftfreq(len(click), 1 / sample_rate)
    highest = min(np.random.default_rng(3).uniform([20, 3_000], [250, 7_500])[1], sample_rate / 2)
    assert pitches[heard > np.sqrt(0.5)].max() == pytest.approx(highest, rel=0.07)
