"""Published models in PyTorch: loaded from a checkpoint, run, and exported to ONNX."""

from __future__ import annotations

import contextlib
import io
import logging
import pickle
import warnings
from abc import abstractmethod
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F  # noqa: N812 - the name everybody knows it by

from earmark.errors import ModelMismatch
from earmark.features.sound_tags import class_names
from earmark.media.atomic_file import replacing
from earmark.models import Model, find_checkpoint
from earmark.models.sessions import open_session
from earmark.timeline import CLOCK_RATE, FloatArray
from earmark_lab.encoders.chunk_encoder import WeightsFile
from earmark_lab.encoders.pretrained_encoder import (
    CARD,
    Architecture,
    ExportCard,
    NetworkOptions,
    architecture_of,
)

TOLERANCE = 1e-4
"""Of logits, relative to the root mean square of their row if that is above 1."""

OPSET = 18
OUTPUTS = ("embeddings", "logits", "posteriors")

_ARRAYS: list[Any] = [
    np.ndarray,
    np.dtype,
    *(type(np.dtype(kind)) for kind in (np.float32, np.float64, np.int32, np.int64, np.bool_)),
    *(
        (value.__reduce__()[0], f"numpy.{module}.multiarray.{function}")
        for value, function in ((np.zeros(1), "_reconstruct"), (np.float64(0), "scalar"))
        for module in ("core", "_core")  # as NumPy 1 and 2 write it
    ),
]
"""PANNs checkpoints hold these besides weights; no other types are unpickled."""

STEPS = 250
"""Ten seconds at 25 Hz."""


class Detector(nn.Module):
    """A model in three stages, which can be run separately and in different precision.

    sound (batch, samples) ─spectrum▶ ... ─embed▶ (batch, rows, width) ─classify▶ logits
    """

    def prepare(self) -> None: ...

    layers_path: ClassVar[str] = ""
    """Name of the submodule; empty without a transformer."""

    def drop_layers(self, count: int) -> None:
        layers = self.get_submodule(self.layers_path) if self.layers_path else nn.ModuleList()
        assert isinstance(layers, nn.Sequential | nn.ModuleList)
        kept = len(layers) - count
        if count and not 0 < kept < len(layers):
            name = type(self).__name__
            raise ValueError(f"cannot drop {count} of the {len(layers)} layers of {name}")
        del layers[kept:]

    @abstractmethod
    def spectrum(self, sound: Tensor) -> Tensor:
        """From `(batch, samples)`; always in full precision."""

    @abstractmethod
    def embed(self, spectrum: Tensor) -> Tensor:
        """`(batch, rows, width)`."""

    @abstractmethod
    def classify(self, rows: Tensor) -> Tensor:
        """`(batch, rows, classes)`."""

    def posteriors(self, logits: Tensor) -> Tensor:
        """In double precision: single has no numbers between 0.9999999 and 1."""
        return torch.sigmoid(logits.double())

    def forward(self, sound: Tensor) -> Tensor:
        return self.classify(self.embed(self.spectrum(sound)))


class StrongDetector(Detector):
    """With a head trained on AudioSet-Strong (Schmid et al., ICASSP 2025), which reads 250 rows.

    The network is called `model.<name>`, as in the checkpoints.
    """

    def __init__(self, name: str, network: nn.Module, *, width: int, classes: int = 447) -> None:
        super().__init__()
        self.model = nn.ModuleDict({name: network})
        self.strong_head = nn.Linear(width, classes)
        self._name = name

    def embed(self, spectrum: Tensor) -> Tensor:
        rows: Tensor = self.model[self._name](spectrum)
        if rows.shape[1] == STEPS:
            return rows
        return F.adaptive_avg_pool1d(rows.transpose(1, 2), STEPS).transpose(1, 2)

    def classify(self, rows: Tensor) -> Tensor:
        return self.strong_head(rows)


@dataclass(frozen=True, slots=True, eq=False)
class TorchNetwork:
    detector: Detector
    options: NetworkOptions
    source: str
    """SHA-256 of the checkpoint."""

    @classmethod
    def open(cls, options: NetworkOptions, weights: WeightsFile) -> TorchNetwork:
        detector = load_detector(*architecture_of(options.name), weights.file)
        detector.drop_layers(options.drop_layers)
        try:
            return cls(detector.to(options.device), options, weights.digest)
        except (RuntimeError, AssertionError) as error:  # how PyTorch says that it has none
            reason = str(error).split("\n", 1)[0]
            raise ValueError(f"PyTorch has no device {options.device!r} here: {reason}") from error

    def __call__(self, chunks: FloatArray, /) -> FloatArray:
        detector, device = self.detector, torch.device(self.options.device)
        has_head = self.options.has_head
        with torch.inference_mode(), torch_threads(self.options.threads):
            spectrum = detector.spectrum(torch.from_numpy(chunks).to(device))
            with torch.autocast(device.type, torch.float16, enabled=self.options.is_half):
                rows = detector.embed(spectrum).float()
                if has_head:
                    rows = detector.classify(rows).float()
            rows = rows.cpu()  # not every device has the double precision of posteriors
            values: FloatArray = (detector.posteriors(rows) if has_head else rows).numpy()
        return values


@contextlib.contextmanager
def torch_threads(count: int | None) -> Iterator[None]:
    before = torch.get_num_threads()
    try:
        torch.set_num_threads(count or before)
        yield
    finally:
        torch.set_num_threads(before)


def load_detector(model: Model, architecture: Architecture, file: Path) -> Detector:
    detector = build(architecture)
    weights = _renamed(_read(model, architecture.section, file), architecture)
    expected = detector.state_dict()
    _check(weights, expected, model, file)
    detector.load_state_dict({name: weights[name] for name in expected})
    detector.prepare()
    return detector.eval()


def build(architecture: Architecture) -> Detector:
    module, name = architecture.network.split(":")
    network = getattr(import_module(f"earmark_lab.encoders.{module}"), name)
    classes = len(class_names(architecture.vocabulary))
    detector = network(classes=classes, **dict(architecture.options))
    assert isinstance(detector, Detector)
    return detector


def _read(model: Model, section: str | None, file: Path) -> Mapping[str, Any]:
    """Nothing in `file` is executed."""
    try:
        with torch.serialization.safe_globals(_ARRAYS):
            stored = torch.load(file, map_location="cpu", weights_only=True)
    except (RuntimeError, pickle.UnpicklingError, EOFError, ValueError, KeyError) as error:
        raise ModelMismatch(
            f"{file} is cut off, or no checkpoint of weights alone ({torch_reason(error)}); "
            f"expected {model.title}, published as {model.file}"
        ) from error
    weights = stored.get(section) if section and isinstance(stored, Mapping) else stored
    if not isinstance(weights, Mapping):
        inside = f" under {section!r}" if section else ""
        raise ModelMismatch(f"{file.name} holds no weights{inside}; expected {model.file}")
    return weights


def torch_reason(error: Exception) -> str:
    """Without PyTorch's advice to trust the file."""
    _, _, refused = str(error).partition("WeightsUnpickler error: ")
    words = (refused or str(error)).split("\n", 1)[0].split(". ", 1)[0].strip()
    return words[:120] or type(error).__name__


def _renamed(weights: Mapping[str, Any], architecture: Architecture) -> dict[str, Any]:
    renamed = {}
    for name, value in weights.items():
        for old, new in architecture.renamed:
            if name.startswith(old) and not name.startswith(new):
                name = new + name.removeprefix(old)  # noqa: PLW2901 - one rename after another
        if not name.startswith(architecture.unused):
            renamed[name] = value
    return renamed


def _check(
    weights: Mapping[str, Any], expected: Mapping[str, Tensor], model: Model, file: Path
) -> None:
    missing = [name for name in expected if name not in weights]
    foreign = [name for name in weights if name not in expected]
    shared = [(name, weights[name], tensor) for name, tensor in expected.items() if name in weights]
    odd = [
        f"{name} is {_shape(value)} instead of {_shape(tensor)}"
        for name, value, tensor in shared
        if _shape(value) != _shape(tensor)
    ]
    broken = [
        f"{name} is not finite"
        for name, value, tensor in shared
        if tensor.is_floating_point() and isinstance(value, Tensor) and not value.isfinite().all()
    ]
    named = (*_first("is missing", missing), *_first("does not belong there", foreign))
    problems = [*named, *odd[:1], *broken[:1]]
    if problems:
        raise ModelMismatch(
            f"{file.name} is not {model.title} (expected {model.file}): {'; '.join(problems)}"
        )


def _first(what: str, names: list[str]) -> Iterable[str]:
    if names:
        more = f" and {len(names) - 1} more" if len(names) > 1 else ""
        yield f"{names[0]} {what}{more}"


def _shape(value: Any) -> tuple[int, ...] | str:
    return tuple(value.shape) if isinstance(value, Tensor) else type(value).__name__


@dataclass(frozen=True, slots=True)
class ExportResult:
    file: Path
    card: ExportCard
    difference: float
    chunks: int
    size_bytes: int


def export(name: str, checkpoint: Path, target: Path) -> ExportResult:
    """The copy is compared with the original before it is put in place."""
    (model, network), file = architecture_of(name), find_checkpoint(name, checkpoint)
    detector = load_detector(model, network, file)
    card = ExportCard(
        name=name,
        source_sha256=WeightsFile.of(file).digest,
        drop_layers=0,
        sample_rate=network.sample_rate,
        samples=network.layout.chunk * network.sample_rate // CLOCK_RATE,
        width=network.width,
        classes=class_names(network.vocabulary),
    )
    with replacing(target) as scratch:
        write(detector, card, scratch)
        chunks = sample_chunks(card)
        difference = verify(detector, scratch, chunks)
    return ExportResult(target, card, difference, len(chunks), target.stat().st_size)


def write(detector: Detector, card: ExportCard, target: Path) -> None:
    example = torch.zeros(2, card.samples)
    with _silence_exporter():
        program = torch.onnx.export(
            _AllOutputs(detector).eval(),
            (example,),
            dynamo=True,
            verbose=False,
            opset_version=OPSET,
            input_names=["sound"],
            output_names=list(OUTPUTS),
            dynamic_shapes=({0: torch.export.Dim("chunks")},),
        )
    assert program is not None
    program.model.metadata_props[CARD] = card.to_json()
    program.save(str(target), external_data=False)


def verify(detector: Detector, file: Path, chunks: FloatArray) -> float:
    """The largest difference; `ModelMismatch` above `TOLERANCE`."""
    session = open_session(file)
    with torch.inference_mode():
        original = detector(torch.from_numpy(chunks)).numpy()
    together = session.run(["logits"], {"sound": chunks})[0]
    alone = session.run(["logits"], {"sound": chunks[:1]})[0]
    difference = max(_difference(together, original), _difference(alone, original[:1]))
    if not difference <= TOLERANCE:
        raise ModelMismatch(
            f"the exported model hears something else: logits differ by {difference:.1e}, "
            f"more than {TOLERANCE:.0e}; nothing was written"
        )
    return difference


def _difference(copy: FloatArray, original: FloatArray) -> float:
    usual = np.sqrt(np.mean(original**2, axis=-1, keepdims=True))
    return float((np.abs(copy - original) / np.maximum(1.0, usual)).max())


def sample_chunks(card: ExportCard) -> FloatArray:
    """The tone has noise below it: without it, rounding errors would be compared."""
    rng = np.random.default_rng(0)
    count, rate = card.samples, card.sample_rate
    noise = 0.05 * rng.standard_normal(count)
    clicks = 0.1 * noise
    clicks[:: rate // 2] = 0.9
    tone = 0.2 * np.sin(2 * np.pi * 440 * np.arange(count) / rate) + 0.2 * noise
    return np.stack([noise, clicks, tone, np.zeros(count)]).astype(np.float32)


class _AllOutputs(nn.Module):
    def __init__(self, detector: Detector) -> None:
        super().__init__()
        self._detector = detector

    def forward(self, sound: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        rows = self._detector.embed(self._detector.spectrum(sound))
        logits = self._detector.classify(rows)
        return rows, logits, self._detector.posteriors(logits)


@contextlib.contextmanager
def _silence_exporter() -> Iterator[None]:
    logger = logging.getLogger("torch.onnx")
    level = logger.level
    logger.setLevel(logging.ERROR)
    try:
        with warnings.catch_warnings(), contextlib.redirect_stdout(io.StringIO()):
            warnings.simplefilter("ignore")
            yield
    finally:
        logger.setLevel(level)
