"""Spectra against the formulas written out, one stretch at a time and in double precision."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch

from earmark.features.spectrum import hertz_bands
from earmark_lab.encoders.audio_transformers import (
    AtstFrame,
    Beats,
    EmphasisedLogMel,
    TransformerSize,
    kaldi_bands,
)
from earmark_lab.encoders.convolutional import Cnn14, SlowFast
from published_weights import seeded_sound

SMALL = TransformerSize(width=16, heads=2, layers=1)


def spectrum_of(detector, sound: np.ndarray) -> np.ndarray:
    with torch.inference_mode():
        return detector.spectrum(torch.from_numpy(sound)[None])[0].numpy()


def stretch(sound: np.ndarray, centre: int, length: int, *, reflect: bool = True) -> np.ndarray:
    """Samples around `centre`, in double precision."""
    side = length // 2
    padded = np.pad(sound.astype(float), side, mode="reflect" if reflect else "constant")
    return padded[centre : centre + length]


def power(samples: np.ndarray, size: int) -> np.ndarray:
    """The Fourier sum itself."""
    turns = np.outer(np.arange(size // 2 + 1), np.arange(len(samples))) / size
    return np.abs(np.exp(-2j * np.pi * turns) @ samples) ** 2


def hann(length: int, *, periodic: bool = True) -> np.ndarray:
    return 0.5 - 0.5 * np.cos(2 * np.pi * np.arange(length) / (length if periodic else length - 1))


def triangle(bins: np.ndarray, left: float, centre: float, right: float) -> np.ndarray:
    return np.maximum(
        0, np.minimum((bins - left) / (centre - left), (right - bins) / (right - centre))
    )


def mel_kaldi(frequency):
    return 1127 * np.log(1 + np.asarray(frequency) / 700)


def kaldi_bank(bands: int, low: float, high: float) -> np.ndarray:
    points = np.linspace(mel_kaldi(low), mel_kaldi(high), bands + 2)
    bins = mel_kaldi(np.arange(256) * 31.25)
    rows = [triangle(bins, *points[band : band + 3]) for band in range(bands)]
    return np.pad(np.array(rows), ((0, 0), (0, 1)))


def htk_bank(bands: int, size: int, rate: int, low: float, high: float) -> np.ndarray:
    mels = np.linspace(*(2595 * math.log10(1 + f / 700) for f in (low, high)), bands + 2)
    points = 700 * (10 ** (mels / 2595) - 1)
    bins = np.arange(size // 2 + 1) * rate / size
    return np.array([triangle(bins, *points[band : band + 3]) for band in range(bands)])


def test_beats_hears_kaldi_filter_banks():
    sound = seeded_sound(1.0, 16_000)
    rows = spectrum_of(Beats(size=SMALL), sound)
    assert rows.shape == (98, 128)  # whole stretches of 25 ms every 10 ms
    for row in (0, 41, 97):
        samples = sound[160 * row : 160 * row + 400].astype(float) * 2**15
        samples -= samples.mean()
        samples = samples - 0.97 * np.concatenate([samples[:1], samples[:-1]])
        energy = kaldi_bank(128, 20, 8000) @ power(samples * hann(400, periodic=False) ** 0.85, 512)
        expected = (np.log(np.maximum(energy, 1.1920929e-07)) - 15.41663) / (2 * 6.55582)
        np.testing.assert_allclose(rows[row], expected, atol=2e-4)


def test_atst_hears_levels_above_the_loudest_less_eighty():
    sound = seeded_sound(1.0, 16_000)
    sound[8_000:] = 0
    rows = spectrum_of(AtstFrame(size=SMALL), sound)
    assert rows.shape == (64, 101)
    bank = htk_bank(64, 1024, 16_000, 60, 7800)
    levels = np.stack(
        [
            10
            * np.log10(
                np.maximum(bank @ power(stretch(sound, 160 * row, 1024) * hann(1024), 1024), 1e-10)
            )
            for row in range(0, 101, 10)
        ]
    )
    everything = rows.max()
    loudest = (everything + 1) / 2 * (50.6842 + 79.6482) - 79.6482
    levels = np.clip(np.maximum(levels, loudest - 80), -50, 80)
    expected = (levels + 79.6482) / (50.6842 + 79.6482) * 2 - 1
    np.testing.assert_allclose(rows.T[::10], expected, atol=2e-4)


def test_atst_does_not_look_at_the_other_chunks():
    loud = torch.from_numpy(seeded_sound(1.0, 16_000))
    model = AtstFrame(size=SMALL)
    together = model.spectrum(torch.stack([loud, 1e-4 * loud]))[1]
    np.testing.assert_allclose(together, model.spectrum(1e-4 * loud[None])[0], atol=1e-6)


@pytest.mark.parametrize("periodic", [True, False])
def test_emphasised_log_mel(periodic):
    sound = seeded_sound(1.0, 16_000)
    with torch.inference_mode():
        rows = EmphasisedLogMel(periodic=periodic)(torch.from_numpy(sound)[None])[0].numpy()
    assert rows.shape == (128, 100)
    emphasised = sound[1:].astype(float) - 0.97 * sound[:-1]
    for row in (3, 50, 96):
        energy = kaldi_bank(128, 0, 7000) @ power(
            stretch(emphasised, 160 * row, 400) * hann(400, periodic=periodic), 512
        )
        expected = (np.log(np.maximum(energy, 1e-7)) + 4.5) / 5
        np.testing.assert_allclose(rows[:, row], expected, atol=5e-4)


def test_slowfast_hears_magnitudes():
    sound = seeded_sound(2.0, 24_000)
    rows = spectrum_of(SlowFast(channels=8), sound)
    assert rows.shape == (400, 128)
    bank = htk_bank(128, 2048, 24_000, 0, 12_000)
    for row in (5, 200, 390):
        samples = stretch(sound[:47_975], 120 * row, 240, reflect=False) * hann(240)
        expected = np.log(bank @ np.sqrt(power(samples, 2048)) + 1e-6)
        np.testing.assert_allclose(rows[row], expected, atol=1e-3)


def test_panns_hears_decibels_in_slaney_bands():
    sound = seeded_sound(1.0, 32_000)
    rows = spectrum_of(Cnn14(channels=1), sound)
    assert rows.shape == (101, 64)
    bank = hertz_bands(64, size=1024, sample_rate=32_000, low=50, high=14_000, slaney=True)
    energy = bank @ power(stretch(sound, 320 * 50, 1024) * hann(1024), 1024)
    np.testing.assert_allclose(rows[50], 10 * np.log10(np.maximum(energy, 1e-10)), atol=1e-2)


def test_slaney_bands_are_spaced_and_weighted_as_in_the_auditory_toolbox():
    """Linear below 1 kHz at 66.7 Hz a mel, then a factor of 6.4 every 27; areas of 1."""
    mel, bin_width = 200 / 3, 32_000 / 8192
    bands = hertz_bands(10, size=8192, sample_rate=32_000, low=mel, high=12 * mel, slaney=True)
    np.testing.assert_allclose(
        bands.argmax(axis=1) * bin_width, mel * np.arange(2, 12), atol=bin_width
    )
    np.testing.assert_allclose(bands.sum(axis=1) * bin_width, 1.0, rtol=0.02)
    wide = hertz_bands(1, size=8192, sample_rate=32_000, low=1e3, high=1e3 * 6.4**2, slaney=True)
    assert wide.argmax() * bin_width == pytest.approx(6_400, abs=bin_width)


def test_kaldi_bands_leave_out_the_last_bin():
    bands = kaldi_bands(128, size=512, sample_rate=16_000, low=20, high=8_000)
    assert bands.shape == (128, 257)
    assert not bands[:, 256].any()
    np.testing.assert_allclose(bands, kaldi_bank(128, 20, 8_000), atol=1e-4)
