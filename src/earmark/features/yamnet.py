"""YAMNet: what AudioSet taught a small network, without PyTorch (extra `yamnet`, LiteRT).

The network hears patches of 0.975 s. One is heard for every cell of the clock, centred on it, and
all steps of the cell share its values:

    sound    [----------|======== cell ========|----------]      one patch, 15,600 samples
    clock               |. . . . . . . . . . . .|                12 steps of 0.04 s: 0.48 s
    next                            [----------|======== cell ========|----------]

The published file computes in 8 bits and rounds its 521 logits to steps of 0.347, where many tie.
The 1,024 values beneath them are rounded ten times finer, so the last layer is computed here, from
the file's own weights: the same logits to within half a step, without the ties. The spectra are
computed here too, as the file does and three times as fast.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from multiprocessing import current_process
from pathlib import Path
from typing import Literal, get_args

import numpy as np
from numpy.typing import NDArray

from earmark.features.encoder import STEP, cut_cells
from earmark.features.sound_tags import SoundTagger
from earmark.features.spectrum import serial_matmul
from earmark.media import Sound
from earmark.media.child_process import cores
from earmark.models import ModelStore
from earmark.models.litert import borrow, class_names, open_network
from earmark.timeline import CLOCK_RATE, FloatArray, IndexArray, Track

PATCH = 15_600
"""Samples the network hears at once, at 16 kHz."""

WINDOW, BANDS, LEAST_POWER, SPECTRA, EMBEDDING, WEIGHTS, BIASES = 11, 22, 23, 32, 115, 116, 117
"""Tensors of the published file: what spectra are made with, added to before their logarithm, and
read as; what the last layer reads, multiplies by and adds."""

MODEL_EDITS = {3839128: SPECTRA, 3839120: EMBEDDING, 3836304: 28, 3836212: 92}
"""Edits of the published file: its input, its output, the number of its 47 operators between them,
and the way to the list of these. Its own spectra take a third of the time of all."""

FFT_SIZE, FFT_HOP = 512, 160
"""Samples of a spectrum and from one to the next, at 16 kHz."""

PATCH_SHAPE = (96, 64)
"""Spectra of a patch, and bands of each."""

BLOCK = 4
"""Patches whose spectra are made together, which then stay in the cache."""

PATCHES_PER_THREAD, MAX_THREADS = 8, 4
"""Patches that a thread is worth being asked for, and as many threads as help."""

CLASSES, WIDTH = 521, 1024

Reads = Literal["logits", "activity", "embedding"]

_PendingLogits = tuple[int, int, IndexArray, list[Future[FloatArray]]]
"""A stretch of sound: its first cell, its steps, the cells that are heard, and their logits."""


@dataclass(frozen=True, slots=True)
class YAMNet(SoundTagger):
    """Features of the published network: its 521 classes in logit space, or what lies beneath.

    As a detector, how likely anything a hand can do is to be heard: the likeliest class, whichever
    it is. Voices, animals, music, traffic and other classes that say nothing of what hands do are
    left out, as the paper does for every pretrained detector it compares.
    """

    reads: Reads = "logits"
    """`logits`, one of 521 classes a channel; `activity`, the probability of the likeliest class of
    handiwork; `embedding`, the 1,024 values that logits are made of."""
    cell: int = 12
    """Steps of the clock that share one patch; 12 is YAMNet's own 0.48 s."""
    threshold: float = 0.0
    """Probabilities below this count as 0; activity only."""
    weights: Path | None = field(default=None, repr=False)
    """`yamnet.tflite`; None takes it from the model store, see `earmark models get yamnet`."""
    store: Path | None = field(default=None, repr=False)
    """The folder of the model store; None for the user's own."""

    def __post_init__(self) -> None:
        if not 1 <= self.cell <= PATCH // STEP:
            raise ValueError(f"a patch is shared by 1 to {PATCH // STEP} steps, not {self.cell}")
        if self.reads not in get_args(Reads):
            raise ValueError(f"YAMNet reads {', '.join(get_args(Reads))}, not {self.reads!r}")
        self._check_threshold("yamnet")

    @property
    def channels(self) -> int:
        """One per class, one in all, or one per value of the embedding."""
        return {"logits": CLASSES, "activity": 1, "embedding": WIDTH}[self.reads]

    @property
    def classes(self) -> tuple[str, ...]:
        """The 521 classes in the order of the logits, from the file itself."""
        return class_names(self._file())

    def encode(self, sound: Iterable[Sound]) -> Iterator[Track]:
        """The features of `sound`, a cell's worth of steps at a time.

        `MissingExtra` without LiteRT, `ModelMissing` without the weights, and `ModelMismatch` where
        the file is not the published one.
        """
        for cells, steps, first in _cells(sound, self.cell):
            with borrow(_QuantizedNetwork, self._file()) as network:
                rows = self._features(network, network.embed(cells))
            values = np.repeat(rows, self.cell, axis=0)[:steps]
            yield Track(values, start=first / CLOCK_RATE)

    def cell_logits(
        self, sound: Iterable[Sound], wanted: Callable[[FloatArray], IndexArray]
    ) -> Iterator[tuple[int, int, IndexArray, FloatArray]]:
        """Of each stretch of `sound` its first cell, its steps, and logits of some of its cells.

        Which is for `wanted` to say, given the samples of every cell in it, `(cells, samples)`.
        """
        waiting: deque[_PendingLogits] = deque()  # one of them is heard while the next one is read
        with ThreadPoolExecutor(_threads()) as pool:
            for pending in self._submit(sound, wanted, pool):
                waiting.append(pending)
                if len(waiting) > 1:
                    yield _finish(waiting.popleft())
            yield from map(_finish, waiting)

    def _submit(
        self, sound: Iterable[Sound], wanted: Callable[[FloatArray], IndexArray], pool: Executor
    ) -> Iterator[_PendingLogits]:
        """What `cell_logits` gives of each stretch; its logits are being made."""
        width = self.cell * STEP
        before = (PATCH - width) // 2
        for patches, steps, first in _cells(sound, self.cell):
            places = wanted(patches[:, before : before + width])
            shares = np.array_split(places, min(_threads(), 1 + len(places) // PATCHES_PER_THREAD))
            parts = [pool.submit(self._logits, patches[own]) for own in shares]
            yield first // self.cell, steps, places, parts

    def _logits(self, patches: FloatArray) -> FloatArray:
        with borrow(_QuantizedNetwork, self._file()) as network:
            return network.logits(network.embed(patches))

    def _features(self, network: _QuantizedNetwork, rows: FloatArray) -> FloatArray:
        """What is asked for, one row per cell, of embeddings in whole numbers."""
        if self.reads == "embedding":
            return network.embedding(rows)
        logits = network.logits(rows)
        if self.reads == "logits":
            return logits
        return self._activity(1 / (1 + np.exp(-logits)))

    def _file(self) -> Path:
        return self.weights or ModelStore.at(self.store).find("yamnet")


class _QuantizedNetwork:
    """The published file, opened on one thread; not to be shared between threads."""

    def __init__(self, path: Path) -> None:
        self._interpreter = open_network("yamnet", path, edits=MODEL_EDITS)
        details = {each["index"]: each for each in self._interpreter.get_tensor_details()}
        self._window, self._bands, self._least, weights, biases = map(
            self._interpreter.get_tensor, (WINDOW, BANDS, LEAST_POWER, WEIGHTS, BIASES)
        )
        self._bands = np.ascontiguousarray(self._bands.T)  # (SIZE // 2 + 1, 64): half the time
        self._level, self._offset = details[SPECTRA]["quantization"]
        self._scale, self._zero = details[EMBEDDING]["quantization"]
        self._weights = weights.T.astype(float)  # (WIDTH, CLASSES)
        self._weights_scale, _ = details[WEIGHTS]["quantization"]
        self._biases = biases * details[BIASES]["quantization"][0]

    def embed(self, patches: FloatArray) -> FloatArray:
        """The embedding of each patch as the whole numbers it is kept in, `(patches, WIDTH)`."""
        rows = np.empty((len(patches), WIDTH))
        for place, spectra in enumerate(self._spectra(patches) if len(patches) else ()):
            self._interpreter.set_tensor(SPECTRA, spectra[None, :, :, None])
            self._interpreter.invoke()
            rows[place] = self._interpreter.get_tensor(EMBEDDING).reshape(-1)
        return rows - self._zero

    def _spectra(self, patches: FloatArray) -> NDArray[np.int8]:
        """The log-mel spectra of each patch, `(patches, 96, 64)`, rounded as the file does."""
        from scipy import fft  # slow to import

        parts = np.lib.stride_tricks.sliding_window_view(patches, len(self._window), axis=1)
        parts = parts[:, ::FFT_HOP]
        whole = np.empty((len(patches), *PATCH_SHAPE), dtype=np.int8)
        padded = np.zeros(
            (BLOCK, PATCH_SHAPE[0], FFT_SIZE), dtype=np.float32
        )  # as the transform wants it
        for first in range(0, len(patches), BLOCK):
            some = slice(first, first + BLOCK)
            filled = padded[: len(parts[some])]
            np.multiply(parts[some], self._window, out=filled[..., : len(self._window)])
            spectra = np.abs(fft.rfft(filled, axis=2))
            bands = serial_matmul(spectra.reshape(-1, spectra.shape[2]), self._bands)
            levels = np.log(bands + self._least) / np.float32(self._level)
            rounded = np.clip(np.rint(levels) + self._offset, -128, 127)
            whole[some] = rounded.reshape(-1, *PATCH_SHAPE)
        return whole

    def embedding(self, rows: FloatArray) -> FloatArray:
        """Whole numbers in the unit of the network."""
        return (rows * self._scale).astype(np.float32)

    def logits(self, rows: FloatArray) -> FloatArray:
        """The last layer, `(patches, CLASSES)`.

        Products of whole numbers are exact, in whatever order they are summed, so neither the
        machine nor the number of rows shows.
        """
        products = serial_matmul(rows, self._weights)
        logits = products * (self._scale * self._weights_scale) + self._biases
        return logits.astype(np.float32)


def _threads() -> int:
    """Threads to hear patches with: one where a batch has a process on every core already."""
    return 1 if current_process().daemon else min(MAX_THREADS, cores())


def _finish(pending: _PendingLogits) -> tuple[int, int, IndexArray, FloatArray]:
    first, steps, places, parts = pending
    return first, steps, places, np.concatenate([part.result() for part in parts])


def _cells(sound: Iterable[Sound], cell: int) -> Iterator[tuple[FloatArray, int, int]]:
    """Patches centred on cells of `cell` steps, how many steps they stand for, and the first."""
    width = cell * STEP
    before = (PATCH - width) // 2
    for piece in cut_cells(sound, before=before, after=PATCH - width - before, cell=cell):
        patches = np.lib.stride_tricks.sliding_window_view(piece.samples, PATCH)[::width]
        yield patches, piece.steps, piece.first
