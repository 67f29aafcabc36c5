from __future__ import annotations

import contextlib
import io
import logging
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from torch import Tensor, nn

from earmark.errors import ModelMismatch
from earmark.features.sound_tags import class_names
from earmark.media.atomic_file import replacing
from earmark.models import find_checkpoint
from earmark.models.sessions import open_session
from earmark.timeline import CLOCK_RATE, FloatArray
from earmark_lab.encoders.architecture import architecture_of
from earmark_lab.encoders.checkpoint import load_detector
from earmark_lab.encoders.chunk_encoder import WeightsFile
from earmark_lab.encoders.detector import Detector
from earmark_lab.encoders.pretrained_encoder import CARD, ExportCard

TOLERANCE = 1e-4
"""Of logits, relative to the root mean square of their row if that is above 1."""

OPSET = 18
OUTPUTS = ("embeddings", "logits", "posteriors")


@dataclass(frozen=True, slots=True)
class ExportResult:
    file: Path
    card: ExportCard
    difference: float
    chunks: int
    size_bytes: int


def export(name: str, checkpoint: Path, target: Path, *, dropped_layers: int = 0) -> ExportResult:
    """The copy is compared with the original before it is put in place."""
    (known, network), file = architecture_of(name), find_checkpoint(name, checkpoint)
    detector = load_detector(known, network, file)
    detector.drop_layers(dropped_layers)
    card = ExportCard(
        name=name,
        source_sha256=WeightsFile.of(file).digest,
        drop_layers=dropped_layers,
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
