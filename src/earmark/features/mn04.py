"""EfficientAT's mn04 (Schmid et al., ICASSP 2023): a small network trained on AudioSet.

The published checkpoint is read without PyTorch and put into `mn04.onnx`, a graph without weights
that `scripts/mn04_graph.py` writes; ONNX Runtime runs it. A patch has 3.2 s around each cell.

The network was trained on 32,000 samples per second. Here it hears 16,000, as everything else in
earmark does: a transform of half the size has the same bins up to 8 kHz, and above there is
silence. On sound without anything above 8 kHz the logits are those of the published code to within
0.2 on average.
"""

from __future__ import annotations

import pickle
import zipfile
from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cache
from importlib import resources
from pathlib import Path, PurePosixPath
from typing import Any, ClassVar, Literal, get_args

import numpy as np

from earmark.errors import ModelMismatch
from earmark.features.encoder import STEP
from earmark.features.sound_tags import PatchTagger, class_names
from earmark.features.spectrum import serial_matmul
from earmark.models import MODELS
from earmark.models.sessions import borrow, open_session
from earmark.timeline import FloatArray

FFT_SIZE, FFT_HOP, WINDOW = 512, 160, 400  # samples at 16 kHz
SPECTRA = 320  # of a patch, 100 per second
PATCH = SPECTRA * FFT_HOP + FFT_SIZE - FFT_HOP
BANDS, TOP = 128, 15_000.0
EMPHASIS = 0.97
SPECTRA_PER_BLOCK = 512  # fit the CPU cache together
PATCHES_PER_RUN = 8
NORM_EPSILON = 1e-3  # of the batch norms
WIDTH = 384
Reads = Literal["logits", "activity", "embedding"]


@dataclass(frozen=True, slots=True)
class MN04(PatchTagger):
    """Features of the published network: its 527 classes in logit space, or its embedding.

    As a detector, the probability of the likeliest class that hands can cause.
    """

    reads: Reads = "logits"
    """`logits`, 527 classes; `activity`, the probability of the likeliest class that hands can
    cause; `embedding`, the 384 inputs of the last layers."""
    cell: int = 24
    """Steps of the clock that share one patch: 0.96 s."""
    threshold: float = 0.0
    """Probabilities below this count as 0; activity only."""
    weights: Path | None = field(default=None, repr=False)
    """None takes it from the model store, see `earmark models get mn04`."""
    store: Path | None = field(default=None, repr=False)

    name: ClassVar[str] = "mn04"
    patch: ClassVar[int] = PATCH
    onset: ClassVar[float] = 0.3

    def __post_init__(self) -> None:
        self._check_cell(SPECTRA * FFT_HOP // STEP)
        self._check(self.name, reads=get_args(Reads))

    @property
    def channels(self) -> int:
        return {"logits": len(self.classes), "activity": 1, "embedding": WIDTH}[self.reads]

    @property
    def classes(self) -> tuple[str, ...]:
        return class_names("audioset")

    def _inputs(self, samples: FloatArray) -> FloatArray:
        spectra = log_mel(samples)
        patches = np.lib.stride_tricks.sliding_window_view(spectra, SPECTRA, axis=0)
        return patches[:: self.cell * STEP // FFT_HOP]  # (cells, BANDS, SPECTRA)

    def _rows(self, inputs: FloatArray) -> FloatArray:
        output = "embedding" if self.reads == "embedding" else "logits"
        starts = range(0, len(inputs), PATCHES_PER_RUN)
        with borrow(_open, self._file()) as session:
            parts = [
                session.run([output], {"spectra": inputs[start : start + PATCHES_PER_RUN]})[0]
                for start in starts
            ]
        return np.concatenate(parts)


def log_mel(samples: FloatArray) -> FloatArray:
    """`(spectra, BANDS)`, the first centred `FFT_SIZE // 2` samples after the start."""
    from scipy import fft  # slow to import

    taper, bands = _taper(), _bands()
    rows = np.lib.stride_tricks.sliding_window_view(samples, FFT_SIZE)[::FFT_HOP]
    result = np.empty((len(rows), BANDS), np.float32)
    for start in range(0, len(rows), SPECTRA_PER_BLOCK):
        spectra = fft.rfft(rows[start : start + SPECTRA_PER_BLOCK] * taper, axis=1)
        energy = serial_matmul(spectra.real**2 + spectra.imag**2, bands)
        result[start : start + SPECTRA_PER_BLOCK] = (np.log(energy + np.float32(1e-5)) + 4.5) / 5
    return result


@cache
def _taper() -> FloatArray:
    """Every second sample of the published window of 800, whose sums are twice as large."""
    side = (FFT_SIZE - WINDOW) // 2
    return np.pad(2 * np.hanning(2 * WINDOW)[::2], side).astype(np.float32)


@cache
def _bands() -> FloatArray:
    """`(FFT_SIZE // 2 + 1, BANDS)`, triangular in mel, 1127 ln(1 + f / 700), up to `TOP`.

    The pre-emphasis of the published code, at 32,000 samples per second, is part of the weights.
    """
    bins = np.arange(FFT_SIZE // 2 + 1)
    mel = 1127 * np.log1p(bins * 16_000 / FFT_SIZE / 700)[:, None]
    edges = np.linspace(0, 1127 * np.log1p(TOP / 700), BANDS + 2)
    rising = (mel - edges[:-2]) / (edges[1:-1] - edges[:-2])
    falling = (edges[2:] - mel) / (edges[2:] - edges[1:-1])
    gain = np.abs(1 - EMPHASIS * np.exp(-2j * np.pi * bins / (2 * FFT_SIZE))) ** 2
    return (np.clip(np.minimum(rising, falling), 0, None) * gain[:, None]).astype(np.float32)


def _open(path: Path) -> Any:
    MODELS["mn04"].check_file(path)
    graph = resources.files("earmark.features").joinpath("mn04.onnx").read_bytes()
    return open_session(graph, weights=_fold_norms(read_weights(path)))


def _fold_norms(weights: dict[str, FloatArray]) -> dict[str, FloatArray]:
    """The weights with each batch norm, `….1`, folded into the convolution `….0` before it."""
    folded = {
        name: value
        for name, value in weights.items()
        if ".fc" in name or name.startswith("classifier.")
    }
    for name, variance in weights.items():
        norm, _, what = name.rpartition(".")
        if what != "running_var":
            continue
        convolution = f"{norm.removesuffix('.1')}.0"
        scale = weights[f"{norm}.weight"] / np.sqrt(variance + NORM_EPSILON)
        inner = weights[f"{convolution}.weight"]
        folded[f"{convolution}.weight"] = inner * scale[:, None, None, None]
        folded[f"{convolution}.bias"] = (
            weights[f"{norm}.bias"] - weights[f"{norm}.running_mean"] * scale
        )
    return folded


# A checkpoint is a ZIP: `data.pkl` describes the tensors, and `data/0`, `data/1`, ... hold their
# values. Nothing in it is executed.

_TYPES = {"FloatStorage": np.dtype("<f4"), "LongStorage": np.dtype("<i8")}


def read_weights(path: Path) -> dict[str, FloatArray]:
    """The tensors by name; `ModelMismatch` for anything but a flat dictionary of them."""
    try:
        with zipfile.ZipFile(path) as archive:
            inside = next(name for name in archive.namelist() if name.endswith("/data.pkl"))
            with archive.open(inside) as file:
                weights = _Unpickler(file, archive, PurePosixPath(inside).parent).load()
    except (*_DAMAGE, StopIteration) as error:
        raise ModelMismatch(
            f"{path.name} is damaged, or no PyTorch checkpoint of weights alone ({error})"
        ) from error
    if not isinstance(weights, dict) or not all(
        isinstance(value, np.ndarray) for value in weights.values()
    ):
        raise ModelMismatch(f"{path.name} holds other things than weights by name")
    return dict(weights)


_DAMAGE = (
    OSError,
    zipfile.BadZipFile,
    pickle.UnpicklingError,
    EOFError,
    KeyError,
    IndexError,
    ValueError,
    TypeError,
    AttributeError,
)


class _Unpickler(pickle.Unpickler):
    def __init__(self, file: Any, archive: zipfile.ZipFile, folder: PurePosixPath) -> None:
        super().__init__(file)
        self._archive, self._folder = archive, folder

    def find_class(self, module: str, name: str) -> Any:
        if (module, name) == ("collections", "OrderedDict"):
            return OrderedDict
        if (module, name) == ("torch._utils", "_rebuild_tensor_v2"):
            return _make_tensor
        if module == "torch" and name in _TYPES:
            return _TYPES[name]
        raise pickle.UnpicklingError(f"it holds a {module}.{name}")

    def persistent_load(self, pid: Any) -> FloatArray:
        _, kind, key, _, count = pid
        values = np.frombuffer(self._archive.read(str(self._folder / "data" / key)), dtype=kind)
        if len(values) != count:
            raise ValueError(f"{len(values)} values instead of {count}")
        return values


def _make_tensor(
    storage: FloatArray, offset: int, size: Sequence[int], stride: Sequence[int], *_: Any
) -> FloatArray:
    expected = [int(np.prod(size[axis + 1 :])) for axis in range(len(size))]
    if any(n > 1 and own != full for n, own, full in zip(size, stride, expected, strict=True)):
        raise ValueError("a tensor is not stored row by row")
    return storage[offset : offset + int(np.prod(size))].reshape(size)
