"""Published models in PyTorch: loaded from a checkpoint and run."""

from __future__ import annotations

import contextlib
import pickle
from abc import abstractmethod
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F  # noqa: N812 - the name everybody knows it by

from earmark.errors import ModelMismatch
from earmark.features.sound_tags import class_names
from earmark.models import Model
from earmark.timeline import FloatArray
from earmark_lab.encoders.chunk_encoder import WeightsFile
from earmark_lab.encoders.pretrained_encoder import Architecture, architecture_of

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
    """A model in three stages, which can be run separately.

    sound (batch, samples) ─spectrum▶ ... ─embed▶ (batch, rows, width) ─classify▶ logits
    """

    def prepare(self) -> None: ...

    @abstractmethod
    def spectrum(self, sound: Tensor) -> Tensor:
        """From `(batch, samples)`."""

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
    source: str
    """SHA-256 of the checkpoint."""
    device: str = "cpu"
    has_head: bool = True

    @classmethod
    def open(
        cls, name: str, weights: WeightsFile, device: str = "cpu", *, has_head: bool = True
    ) -> TorchNetwork:
        detector = load_detector(*architecture_of(name), weights.file)
        try:
            return cls(detector.to(device), weights.digest, device, has_head)
        except (RuntimeError, AssertionError) as error:  # how PyTorch says that it has none
            reason = str(error).split("\n", 1)[0]
            raise ValueError(f"PyTorch has no device {device!r} here: {reason}") from error

    def __call__(self, chunks: FloatArray, /) -> FloatArray:
        with torch.inference_mode():
            rows = self.detector.embed(
                self.detector.spectrum(torch.from_numpy(chunks).to(self.device))
            )
            if self.has_head:
                # On the CPU: not every device has the double precision of posteriors.
                rows = self.detector.posteriors(self.detector.classify(rows).cpu())
            values: FloatArray = rows.cpu().numpy()
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
