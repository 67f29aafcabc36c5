"""Short-time spectra and mel bands, shared by `flux`, `log-mel` and `floor-mel`."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import cache

import numpy as np

from earmark.features.encoder import SAMPLE_RATE, STEP, cut_cells
from earmark.media import Sound
from earmark.timeline import FloatArray

WINDOW = 512
"""Samples of one spectrum: 32 ms, short enough for an impact."""

SPECTRA = 4
"""Spectra in one step of the clock: one every 10 ms."""

SPECTRA_PER_BLOCK = 512
"""Spectra computed at once; 3,000 at once take a fifth longer because of page faults."""

SMALL_PRODUCT = 1 << 19
"""Multiplications up to which OpenBLAS stays on one thread, with a margin."""

MAX_COLUMNS = 128
"""Columns of such a product at most."""

EPSILON = 1e-8
"""Power added before the logarithm: -80 dB, where a full-scale tone has its mean square, 0.5."""

SILENCE_DB = -100.0
"""Level given to digital silence."""


def power_spectra(sound: Iterable[Sound]) -> Iterator[tuple[FloatArray, int]]:
    """Power spectra of `sound`, `(steps, SPECTRA, WINDOW // 2 + 1)`, and the first step's number.

    Spectrum k of a step is centred in its k-th quarter, so that a row covers all sound of its step.
    """
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
    """`rows @ weights`, computed in small parts on one thread.

    A large product starts the threads of the linear algebra library, which then spin between
    blocks and cost more than they save: half of the total time, measured on two cores, and ten
    times all the rest if the other core is busy.
    """
    inner, columns = weights.shape
    wide = min(columns, MAX_COLUMNS)
    high = max(1, SMALL_PRODUCT // (inner * wide))
    product = np.empty((len(rows), columns), dtype=rows.dtype)
    for first in range(0, columns, wide):
        some, place = weights[:, first : first + wide], slice(first, first + wide)
        for start in range(0, len(rows), high):
            np.matmul(rows[start : start + high], some, out=product[start : start + high, place])
    return product


@cache
def mel_weights(bands: int, *, low: float = 50.0, high: float = 7_800.0) -> FloatArray:
    """Triangular bands evenly spaced on the mel scale, `(WINDOW // 2 + 1, bands)`; sums are 1.

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
    """Triangles from 0 at one edge to 1 at the next and 0 at the one after, `(bins, bands)`.

    `edges` has two more values than there are bands; `bins` is a column, both in hertz.
    """
    rising = (bins - edges[:-2]) / (edges[1:-1] - edges[:-2])
    falling = (edges[2:] - bins) / (edges[2:] - edges[1:-1])
    return np.clip(np.minimum(rising, falling), 0.0, None)


def hertz_bands(
    bands: int, *, size: int, sample_rate: int, low: float, high: float, slaney: bool
) -> FloatArray:
    """Triangular bands that are linear in hertz, `(bands, size // 2 + 1)`.

    Evenly spaced either on O'Shaughnessy's mel scale with peaks of 1, or on Slaney's with equal
    areas.
    """
    mel, hertz = (_slaney_mel, _slaney_hertz) if slaney else (to_mel, to_hertz)
    edges = hertz(np.linspace(mel(np.array(low)), mel(np.array(high)), bands + 2))
    triangles = triangles_between(edges, np.arange(size // 2 + 1)[:, None] * sample_rate / size)
    if slaney:
        triangles *= 2.0 / (edges[2:] - edges[:-2])
    return triangles.T


def to_mel(frequency: FloatArray | float) -> FloatArray:
    """Frequency in hertz as mel on O'Shaughnessy's scale."""
    return 2595.0 * np.log10(1.0 + frequency / 700.0)


def to_hertz(mel: FloatArray) -> FloatArray:
    """Mel on O'Shaughnessy's scale as frequency in hertz."""
    return 700.0 * (10.0 ** (mel / 2595.0) - 1.0)


def _slaney_mel(frequency: FloatArray) -> FloatArray:
    """Slaney's mel: linear to 1 kHz at 66.7 Hz per mel, then 27 mels per factor of 6.4."""
    above = 15.0 + np.log(np.maximum(frequency, 1e-9) / 1000.0) * 27.0 / np.log(6.4)
    return np.where(frequency < 1000.0, frequency * 3.0 / 200.0, above)


def _slaney_hertz(mel: FloatArray) -> FloatArray:
    above = 1000.0 * np.exp((mel - 15.0) * np.log(6.4) / 27.0)
    return np.where(mel < 15.0, mel * 200.0 / 3.0, above)


def decibels(energy: FloatArray) -> FloatArray:
    """The level of a root mean square in dB of full scale; at least `SILENCE_DB`."""
    least = np.float32(10.0 ** (SILENCE_DB / 20))
    return 20 * np.log10(np.maximum(energy, least))
