"""YAMNet: a small network trained on AudioSet, run without PyTorch (extra `yamnet`, LiteRT).

There is one patch of 0.975 s for every cell of the clock, centred on it:

    sound    [----------|======== cell ========|----------]      one patch, 15,600 samples
    clock               |. . . . . . . . . . . .|                12 steps of 0.04 s: 0.48 s
    next                            [----------|======== cell ========|----------]

The published file computes in 8 bits and rounds its 521 logits to steps of 0.347, where many tie.
The embedding is rounded ten times finer, so the last layer is computed here, with the file's own
weights: the same logits to within half a step, without the ties.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import ClassVar, Literal, get_args

import numpy as np
from numpy.typing import NDArray

from earmark.features.encoder import STEP
from earmark.features.sound_tags import PatchTagger
from earmark.features.spectrum import serial_matmul
from earmark.models.sessions import borrow, class_names, open_network
from earmark.timeline import FloatArray

PATCH = 15_600  # samples at 16 kHz
WINDOW, BANDS, LEAST_POWER, SPECTRA, EMBEDDING, WEIGHTS, BIASES = 11, 22, 23, 32, 115, 116, 117

MODEL_EDITS = {3839128: SPECTRA, 3839120: EMBEDDING, 3836304: 28, 3836212: 92}
"""By byte offset of the published file, to run only the part between spectra and embedding: input,
output, the number of operators between them (of 47), and the offset of their list. The file's
own spectra take a third of the total time."""

FFT_SIZE, FFT_HOP = 512, 160  # samples at 16 kHz
PATCH_SHAPE = (96, 64)
BLOCK = 4  # patches whose spectra fit the CPU cache together
MAX_CELL = PATCH // STEP
CLASSES, WIDTH = 521, 1024
Reads = Literal["logits", "activity", "embedding"]


@dataclass(frozen=True, slots=True)
class YAMNet(PatchTagger):
    """Features of the published network: its 521 classes in logit space, or its embedding.

    As a detector, the probability of the likeliest class that hands can cause. Voices, animals,
    music, traffic and other classes unrelated to what hands do are left out, as the paper does for
    every pretrained detector it compares.
    """

    reads: Reads = "logits"
    """`logits`, 521 classes; `activity`, the probability of the likeliest class that hands can
    cause; `embedding`, the 1,024 inputs of the last layer."""
    cell: int = 12
    """Steps of the clock that share one patch; 12 is YAMNet's own 0.48 s."""
    threshold: float = 0.0
    """Probabilities below this count as 0; activity only."""
    weights: Path | None = field(default=None, repr=False)
    """None takes it from the model store, see `earmark models get yamnet`."""
    store: Path | None = field(default=None, repr=False)

    name: ClassVar[str] = "yamnet"
    patch: ClassVar[int] = PATCH
    onset: ClassVar[float] = 0.4

    def __post_init__(self) -> None:
        self._check_cell(MAX_CELL)
        self._check(self.name, reads=get_args(Reads))

    @property
    def channels(self) -> int:
        return {"logits": CLASSES, "activity": 1, "embedding": WIDTH}[self.reads]

    @property
    def classes(self) -> tuple[str, ...]:
        return class_names(self._file())

    def _inputs(self, samples: FloatArray) -> FloatArray:
        return np.lib.stride_tricks.sliding_window_view(samples, PATCH)[:: self.cell * STEP]

    def _rows(self, inputs: FloatArray) -> FloatArray:
        with borrow(_QuantizedNetwork, self._file()) as network:
            rows = network.embed(inputs)
            return (network.embedding if self.reads == "embedding" else network.logits)(rows)


class _QuantizedNetwork:
    def __init__(self, path: Path) -> None:
        self._interpreter = open_network("yamnet", path, edits=MODEL_EDITS)
        details = {tensor["index"]: tensor for tensor in self._interpreter.get_tensor_details()}
        self._window, self._bands, self._least, weights, biases = map(
            self._interpreter.get_tensor, (WINDOW, BANDS, LEAST_POWER, WEIGHTS, BIASES)
        )
        self._bands = np.ascontiguousarray(self._bands.T)  # (FFT_SIZE // 2 + 1, 64): half the time
        self._level, self._offset = details[SPECTRA]["quantization"]
        self._scale, self._zero = details[EMBEDDING]["quantization"]
        self._weights = weights.T.astype(float)  # (WIDTH, CLASSES)
        self._weights_scale, _ = details[WEIGHTS]["quantization"]
        self._biases = biases * details[BIASES]["quantization"][0]

    def embed(self, patches: FloatArray) -> FloatArray:
        rows = np.empty((len(patches), WIDTH))
        for number, spectra in enumerate(self._spectra(patches) if len(patches) else ()):
            self._interpreter.set_tensor(SPECTRA, spectra[None, :, :, None])
            self._interpreter.invoke()
            rows[number] = self._interpreter.get_tensor(EMBEDDING).reshape(-1)
        return rows - self._zero

    def _spectra(self, patches: FloatArray) -> NDArray[np.int8]:
        """`(patches, 96, 64)`, rounded as the file does."""
        from scipy import fft  # slow to import

        parts = np.lib.stride_tricks.sliding_window_view(patches, len(self._window), axis=1)
        parts = parts[:, ::FFT_HOP]
        whole = np.empty((len(patches), *PATCH_SHAPE), dtype=np.int8)
        padded = np.zeros((BLOCK, PATCH_SHAPE[0], FFT_SIZE), np.float32)  # for the transform
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
        return (rows * self._scale).astype(np.float32)

    def logits(self, rows: FloatArray) -> FloatArray:
        """`(patches, CLASSES)`, the same on every machine: products of whole numbers are exact."""
        products = serial_matmul(rows, self._weights)
        logits = products * (self._scale * self._weights_scale) + self._biases
        return logits.astype(np.float32)
