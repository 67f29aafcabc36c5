"""Altered sound is other sound of the same length, the same for the same seed."""

from __future__ import annotations

import numpy as np
import pytest

from earmark.training.augmentation import alter, companded, filtered, noisy, reverberate

SOUND = (np.random.default_rng(0).standard_normal(16_000) * 0.1).astype(np.float32)


@pytest.mark.parametrize("seed", range(12))
def test_alter_keeps_length_range_and_time(seed: int) -> None:
    altered = alter(SOUND, 16_000, seed=seed)
    assert altered.shape == SOUND.shape
    assert np.isfinite(altered).all() and np.abs(altered).max() <= 1
    np.testing.assert_array_equal(altered, alter(SOUND, 16_000, seed=seed))
    assert not np.allclose(altered, alter(SOUND, 16_000, seed=seed + 1))


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


def test_noise_lies_below_the_sound() -> None:
    added = noisy(SOUND, np.random.default_rng(2)) - SOUND
    ratio = 20 * np.log10(SOUND.std() / added.std())
    assert 4.5 < ratio < 30.5
    assert np.isfinite(noisy(np.zeros(100, dtype=np.float32), np.random.default_rng(0))).all()


def test_a_codec_is_coarse_and_close() -> None:
    coarse = companded(SOUND)
    assert len(np.unique(coarse)) <= 255
    assert np.abs(coarse - SOUND).max() < 0.03
