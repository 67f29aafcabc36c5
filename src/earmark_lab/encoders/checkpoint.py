"""A published model loaded from its checkpoint and run by PyTorch."""

from __future__ import annotations

import pickle
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from earmark.errors import ModelMismatch
from earmark.features.sound_tags import class_names
from earmark.models import Model
from earmark.timeline import FloatArray
from earmark_lab.encoders.architecture import Architecture, architecture_of
from earmark_lab.encoders.chunk_encoder import WeightsFile
from earmark_lab.encoders.detector import Detector
from earmark_lab.encoders.pretrained_encoder import NetworkOptions

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
            heard: FloatArray = (detector.posteriors(rows) if has_head else rows).numpy()
        return heard


@contextmanager
def torch_threads(count: int | None) -> Iterator[None]:
    before = torch.get_num_threads()
    try:
        torch.set_num_threads(count or before)
        yield
    finally:
        torch.set_num_threads(before)


def load_detector(known: Model, architecture: Architecture, file: Path) -> Detector:
    detector = build(architecture)
    weights = _renamed(_read(known, architecture.section, file), architecture)
    expected = detector.state_dict()
    _check(weights, expected, known, file)
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


def _read(known: Model, section: str | None, file: Path) -> Mapping[str, Any]:
    """Nothing in `file` is executed."""
    try:
        with torch.serialization.safe_globals(_ARRAYS):
            held = torch.load(file, map_location="cpu", weights_only=True)
    except (RuntimeError, pickle.UnpicklingError, EOFError, ValueError, KeyError) as error:
        raise ModelMismatch(
            f"{file} is cut off, or no checkpoint of weights alone ({torch_reason(error)}); "
            f"expected {known.title}, published as {known.file}"
        ) from error
    weights = held.get(section) if section and isinstance(held, Mapping) else held
    if not isinstance(weights, Mapping):
        inside = f" under {section!r}" if section else ""
        raise ModelMismatch(f"{file.name} holds no weights{inside}; expected {known.file}")
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
    weights: Mapping[str, Any], expected: Mapping[str, Tensor], known: Model, file: Path
) -> None:
    missing = [name for name in expected if name not in weights]
    foreign = [name for name in weights if name not in expected]
    shared = [(name, weights[name], tensor) for name, tensor in expected.items() if name in weights]
    odd = [
        f"{name} is {_shape(held)} instead of {_shape(tensor)}"
        for name, held, tensor in shared
        if _shape(held) != _shape(tensor)
    ]
    broken = [
        f"{name} is not finite"
        for name, held, tensor in shared
        if tensor.is_floating_point() and isinstance(held, Tensor) and not held.isfinite().all()
    ]
    named = (*_first("is missing", missing), *_first("does not belong there", foreign))
    problems = [*named, *odd[:1], *broken[:1]]
    if problems:
        raise ModelMismatch(
            f"{file.name} is not {known.title} (expected {known.file}): {'; '.join(problems)}"
        )


def _first(what: str, names: list[str]) -> Iterable[str]:
    if names:
        more = f" and {len(names) - 1} more" if len(names) > 1 else ""
        yield f"{names[0]} {what}{more}"


def _shape(value: Any) -> tuple[int, ...] | str:
    return tuple(value.shape) if isinstance(value, Tensor) else type(value).__name__
