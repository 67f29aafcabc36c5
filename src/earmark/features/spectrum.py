from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import cache

import numpy as np

from earmark.features.encoder import SAMPLE_RATE, STEP, cut_cells
from earmark.media import Sound
from earmark.timeline import FloatArray

WINDOW = 512  # samples: 32 ms, short enough for an impact
SPECTRA = 4  # per step of the clock: one every 10 ms
SPECTRA_PER_BLOCK = 512  # 3,000 at once take a fifth longer because of page faults
SMALL_PRODUCT = 1 << 19  # multiplications up to which OpenBLAS stays on one thread, with a margin
MAX_COLUMNS = 128

EPSILON = 1e-8
"""Power added before the logarithm: -80 dB, where a full-scale tone has its mean square, 0.5."""

SILENCE_DB = -100.0


def power_spectra(sound: Iterable[Sound]) -> Iterator[tuple[FloatArray, int]]:
    """`(steps, SPECTRA, WINDOW // 2 + 1)`, and the number of the first step."""
    from scipy import fft  # four times as quick as NumPy's on float32, and slow to import

    hop = STEP // SPECTRA
    margin = (WINDOW - hop) // 2
    taper = np.hanning(WINDOW + 1)[:-1]
    taper = (taper / np.sqrt((taper**2).sum() * WINDOW / 2)).astype(np.float32)  # see EPSILON
    for piece in cut_cells(sound, before=margin, after=margin):
        rows = np.lib.stride_tricks.sliding_window_view(piece.samples, WINDOW)[::hop]
        rows = rows[: piece.steps * SPECTRA]
        power = np.empty((len(rows), WINDOW // 2 + 1), dtype=np.float32)
        for start in range(0, len(rows), SPECTRA_PER_BLOCK):
            spectra = fft.rfft(rows[start : start + SPECTRA_PER_BLOCK] * taper, axis=1)
            np.add(spectra.real**2, spectra.imag**2, out=power[start : start + SPECTRA_PER_BLOCK])
        yield power.reshape(piece.steps, SPECTRA, -1), piece.first


def serial_matmul(rows: FloatArray, weights: FloatArray) -> FloatArray:
    """On one thread: threads of the linear algebra library spin between blocks."""
    inner, columns = weights.shape
    wide = min(columns, MAX_COLUMNS)
    high = max(1, SMALL_PRODUCT // (inner * wide))
    product = np.empty((len(rows), columns), dtype=rows.dtype)
    for first in range(0, columns, wide):
        part, columns_of_part = weights[:, first : first + wide], slice(first, first + wide)
        for start in range(0, len(rows), high):
            np.matmul(
                rows[start : start + high], part, out=product[start : start + high, columns_of_part]
            )
    return product


@cache
def mel_weights(bands: int, *, low: float = 50.0, high: float = 7_800.0) -> FloatArray:
    """Triangles evenly spaced on the mel scale, `(WINDOW // 2 + 1, bands)`; sums are 1.

    Mel is 2595 log10(1 + f / 700) (O'Shaughnessy). Every band has at least one bin.
    """
    edges = to_hertz(np.linspace(to_mel(low), to_mel(high), bands + 2))
    bins = np.arange(WINDOW // 2 + 1)[:, None] * SAMPLE_RATE / WINDOW
    triangles = triangles_between(edges, bins)
    nearest = np.abs(bins - edges[1:-1]).argmin(axis=0)
    empty = triangles.sum(axis=0) == 0
    triangles[nearest[empty], np.flatnonzero(empty)] = 1.0
    return (triangles / triangles.sum(axis=0)).astype(np.float32)


def triangles_between(edges: FloatArray, bins: FloatArray) -> FloatArray:
    """From 0 at one edge to 1 at the next and 0 at the one after, `(bins, bands)`, in hertz."""
    rising = (bins - edges[:-2]) / (edges[1:-1] - edges[:-2])
    falling = (edges[2:] - bins) / (edges[2:] - edges[1:-1])
    return np.clip(np.minimum(rising, falling), 0.0, None)


def hertz_bands(
    bands: int, *, size: int, sample_rate: int, low: float, high: float, slaney: bool
) -> FloatArray:
    """Triangles linear in hertz, `(bands, size // 2 + 1)`.

    Evenly spaced on O'Shaughnessy's mel scale with peaks of 1, or on Slaney's with equal areas.
    """
    mel, hertz = (_slaney_mel, _slaney_hertz) if slaney else (to_mel, to_hertz)
    edges = hertz(np.linspace(mel(np.array(low)), mel(np.array(high)), bands + 2))
    triangles = triangles_between(edges, np.arange(size // 2 + 1)[:, None] * sample_rate / size)
    if slaney:
        triangles *= 2.0 / (edges[2:] - edges[:-2])
    return triangles.T


def to_mel(frequency: FloatArray | float) -> FloatArray:
    return 2595.0 * np.log10(1.0 + frequency / 700.0)


def to_hertz(mel: FloatArray) -> FloatArray:
    return 700.0 * (10.0 ** (mel / 2595.0) - 1.0)


def _slaney_mel(frequency: FloatArray) -> FloatArray:
    """Linear to 1 kHz at 66.7 Hz per mel, then 27 mels per factor of 6.4."""
    above = 15.0 + np.log(np.maximum(frequency, 1e-9) / 1000.0) * 27.0 / np.log(6.4)
    return np.where(frequency < 1000.0, frequency * 3.0 / 200.0, above)


def _slaney_hertz(mel: FloatArray) -> FloatArray:
    above = 1000.0 * np.exp((mel - 15.0) * np.log(6.4) / 27.0)
    return np.where(mel < 15.0, mel * 200.0 / 3.0, above)


def decibels(energy: FloatArray) -> FloatArray:
    least = np.float32(10.0 ** (SILENCE_DB / 20))
    return 20 * np.log10(np.maximum(energy, least))
