"""Every encoder keeps the contract, and hears what it says it hears."""

from __future__ import annotations

import math

import numpy as np
import pytest

from earmark.features.encoder import SAMPLE_RATE, STEP
from earmark.features.sound_levels import Energy, EnergyVariance, FloorMel, Flux, LogMel, NoiseFloor
from earmark.features.spectrum import (
    MAX_COLUMNS,
    SILENCE_DB,
    SPECTRA_PER_BLOCK,
    decibels,
    mel_weights,
    power_spectra,
    serial_matmul,
)
from sound_blocks import blocks, features

SOUND_ENCODERS = [Energy(), EnergyVariance(), Flux(), LogMel(), FloorMel()]


def noise(seconds: float, *, seed: int = 0) -> np.ndarray:
    return 0.1 * np.random.default_rng(seed).standard_normal(round(seconds * SAMPLE_RATE))


@pytest.mark.parametrize("encoder", SOUND_ENCODERS, ids=lambda encoder: type(encoder).__name__)
class TestContract:
    @pytest.mark.parametrize("samples", [1, STEP - 1, STEP, STEP + 1, 5 * SAMPLE_RATE + 7])
    def test_one_row_a_step_and_the_last_filled_up(self, encoder, samples):
        rows = features(encoder, noise(6)[:samples])
        assert len(rows) == math.ceil(samples / STEP)
        assert rows.size == len(rows) * encoder.channels
        assert rows.dtype == np.float32

    def test_blocks_do_not_matter(self, encoder):
        whole = features(encoder, noise(5))
        cut = features(encoder, noise(5), 1, 777, 5_000, 64, STEP)
        np.testing.assert_allclose(cut, whole, atol=1e-5)

    def test_silence_is_flat_and_finite(self, encoder):
        rows = features(encoder, np.zeros(3 * SAMPLE_RATE))
        assert np.isfinite(rows).all()
        assert np.ptp(rows) < 1e-9

    def test_nothing_gives_nothing(self, encoder):
        assert list(encoder.encode([])) == []


def test_energy_is_the_root_mean_square():
    tone = 0.5 * np.sin(2 * np.pi * 1_000 * np.arange(SAMPLE_RATE) / SAMPLE_RATE)
    np.testing.assert_allclose(features(Energy(), tone), 0.5 / math.sqrt(2), rtol=1e-3)


def test_decibels_of_full_scale_and_of_silence():
    assert decibels(np.array([1.0, 0.1, 0.0])) == pytest.approx([0.0, -20.0, SILENCE_DB])


def test_flux_points_at_the_click():
    sound = noise(4) * 0.01
    sound[2 * SAMPLE_RATE + 100] = 1.0
    assert abs(int(features(Flux(), sound).argmax()) - 2 * SAMPLE_RATE // STEP) <= 1


def test_flux_hears_a_beginning_and_not_an_end():
    """sound  ____####____        flux  ....^......."""
    sound = noise(3) * 0.001
    sound[SAMPLE_RATE : 2 * SAMPLE_RATE] += noise(1, seed=1)
    rises = features(Flux(), sound)
    begins, ends = SAMPLE_RATE // STEP, 2 * SAMPLE_RATE // STEP
    assert rises[begins - 1 : begins + 2].max() > 10 * rises[ends - 1 : ends + 2].max()


def test_variance_tells_a_restless_level_from_a_steady_one():
    steady = noise(2)
    restless = noise(2) * np.repeat([0.01, 1.0] * 10, SAMPLE_RATE // 10)
    rows = features(EnergyVariance(), np.concatenate([steady, restless]))
    assert rows[60:90].mean() > 20 * rows[10:40].mean()


class TestLogMel:
    def test_a_louder_room_looks_the_same_after_a_while(self):
        """The same noise at another level, beside a fixed burst, gives nearly the same rows."""
        burst = noise(20)
        burst[15 * SAMPLE_RATE : 15 * SAMPLE_RATE + 800] *= 8
        quiet, loud = features(LogMel(), burst), features(LogMel(), 5 * burst)
        np.testing.assert_allclose(quiet[100:], loud[100:], atol=0.05)

    def test_a_burst_stands_out(self):
        burst = noise(20)
        burst[15 * SAMPLE_RATE : 15 * SAMPLE_RATE + 800] *= 8
        rows = features(LogMel(), burst).mean(axis=1)
        assert abs(int(rows.argmax()) - 15 * SAMPLE_RATE // STEP) <= 1

    def test_running_values_equal_the_weighted_sums_they_stand_for(self):
        encoder = LogMel(bands=8, memory=2.0, least_spread=0.1)
        sound = noise(3)
        levels = np.concatenate(
            [
                np.log(power.mean(axis=1) @ mel_weights(8) + 1e-8)
                for power, _ in power_spectra(blocks(sound.astype(np.float32), len(sound)))
            ]
        )
        keep = math.exp(-1 / (2.0 * 25))
        row = 50
        weights = keep ** np.arange(row, -1, -1)
        mean = np.average(levels[: row + 1], axis=0, weights=weights)
        spread = np.sqrt(np.average(levels[: row + 1] ** 2, axis=0, weights=weights) - mean**2)
        expected = (levels[row] - mean) / np.maximum(spread, 0.1)
        np.testing.assert_allclose(features(encoder, sound)[row], expected, atol=1e-3)


class TestFloorMel:
    def test_a_sustained_sound_stays_above_the_floor_and_a_new_room_becomes_it(self):
        sound = 0.01 * noise(400)
        sound[20 * SAMPLE_RATE : 50 * SAMPLE_RATE] *= 30
        sound[100 * SAMPLE_RATE :] *= 10
        above = features(FloorMel(), sound)[:, :8].mean(axis=1)
        assert above[25 * 25 : 50 * 25].min() > 4  # half a minute of drilling, to its end
        assert above[60 * 25 : 95 * 25].mean() < 1.0
        assert above[105 * 25 : 110 * 25].mean() > 3
        assert above[390 * 25 :].mean() < 1.0  # 4.6 units at 0.02 a second take 230 s

    def test_the_floor_equals_the_recursion_it_stands_for(self):
        rows = np.random.default_rng(0).standard_normal((200, 3))
        floor = NoiseFloor(0.01)
        got = np.concatenate(
            [floor.advance(rows[:7]), floor.advance(rows[7:90]), floor.advance(rows[90:])]
        )
        padded = np.concatenate([np.repeat(rows[:1], 24, axis=0), rows])
        last = np.full(3, np.inf)
        for place in range(200):
            last = np.minimum(padded[place : place + 25].mean(axis=0), last + 0.01)
            np.testing.assert_allclose(got[place], last)


def test_mel_triangles_sum_to_one_and_none_is_empty():
    weights = mel_weights(128)
    np.testing.assert_allclose(weights.sum(axis=0), 1, rtol=1e-5)
    assert (np.diff(weights.argmax(axis=0)) >= 0).all()


def test_a_tone_lands_in_its_band():
    tone = np.sin(2 * np.pi * 1_000 * np.arange(SAMPLE_RATE) / SAMPLE_RATE).astype(np.float32)
    power, _ = next(power_spectra(blocks(tone, len(tone))))
    bins = power[10, 0]
    assert bins.argmax() == 1_000 * 512 // SAMPLE_RATE
    assert bins.sum() == pytest.approx(0.5, rel=0.05)


@pytest.mark.parametrize(
    "shape", [(1, 3, 2), (100, 257, 64), (9, 1024, 521), (5, 8, 2 * MAX_COLUMNS)]
)
def test_a_product_of_small_parts_is_the_product(shape):
    """Of whole numbers, so that the order of the sums does not show."""
    rows, inner, columns = shape
    draw = np.random.default_rng(0).integers
    left, right = draw(-128, 128, (rows, inner)), draw(-128, 128, (inner, columns))
    assert np.array_equal(serial_matmul(left.astype(float), right.astype(float)), left @ right)
    assert serial_matmul(np.zeros((0, inner)), right.astype(float)).shape == (0, columns)


def test_spectra_do_not_depend_on_how_many_are_made_at_once():
    sound = noise(11.0).astype(np.float32)  # 1,100 spectra
    assert len(sound) / STEP * 4 > 2 * SPECTRA_PER_BLOCK
    middle = sound[40 * STEP : 240 * STEP]
    whole, part = (
        np.concatenate([power for power, _ in power_spectra(blocks(some, len(some)))])
        for some in (sound, middle)
    )
    assert np.array_equal(whole[50:225], part[10:185])  # around its ends `middle` has silence
