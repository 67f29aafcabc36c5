"""Encoders that run a published model: with PyTorch from its checkpoint, or exported with ONNX."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING

from earmark.features.pretrained.catalogue import find_checkpoint, published, require
from earmark.features.pretrained.chunk_encoder import ChunkEncoder, Listening, Weights
from earmark.features.pretrained.chunks import Layout
from earmark.features.pretrained.onnx_encoder import ExportedEncoder, read_card
from earmark.features.pretrained.readout import Logits, Reading
from earmark.timeline import FloatArray

if TYPE_CHECKING:
    from earmark.features.pretrained.detector import Detector


@dataclass(frozen=True, slots=True)
class PublishedEncoder(ChunkEncoder):
    """A published model, run by PyTorch."""

    name: str
    weights: Weights
    reading: Reading
    layout: Layout
    listening: Listening

    @property
    def sample_rate(self) -> int:
        """Samples a second that the model was trained at."""
        return published(self.name).sample_rate

    @property
    def classes(self) -> tuple[str, ...]:
        """The names of the classes, in the order of the posteriors."""
        return published(self.name).classes

    @property
    def width(self) -> int:
        """Values in each row that is read."""
        known = published(self.name)
        return len(known.classes) if self.reading.output == "posteriors" else known.width

    @property
    def source(self) -> str:
        """SHA-256 of the checkpoint."""
        return self.weights.digest

    def detector(self) -> Detector:
        """The model itself, loaded once a process."""
        return _loaded(self.name, self.weights, self.reading.drop_layers, self.listening.device)

    def hear(self, chunks: FloatArray) -> FloatArray:
        """The rows that `reading` reads, `(chunks, rows, width)`, of `(chunks, samples)`."""
        import torch

        detector, device = self.detector(), torch.device(self.listening.device)
        with torch.inference_mode(), _threads(self.listening.threads):
            spectrum = detector.spectrum(torch.from_numpy(chunks).to(device))
            with torch.autocast(device.type, torch.float16, enabled=self.listening.is_half):
                rows = detector.embed(spectrum).float()
                if self.reading.output == "posteriors":
                    rows = detector.classify(rows).float()
            rows = rows.cpu()  # not every device has the double precision of posteriors
            if self.reading.output == "posteriors":
                rows = detector.posteriors(rows)
            heard: FloatArray = rows.numpy()
        return heard


def open_encoder(
    name: str,
    checkpoint: Path,
    *,
    reading: Reading | None = None,
    hop: float | None = None,
    listening: Listening | None = None,
) -> ChunkEncoder:
    """The encoder `name` with the weights at `checkpoint`: a published file or an exported one.

    The file is read and checked here, not when the first sound is heard.

    Args:
        name: One of `PUBLISHED`.
        checkpoint: The file, or the folder that holds it under its published name.
        reading: What is made of the model's rows; posteriors in logit space if None.
        hop: Seconds from one chunk to the next; the model's own if None.
        listening: Batch, threads and device.

    Raises:
        ModelMismatch: There is no such file, or it is not this model's.
        MissingExtra: The file is not an exported one and PyTorch is not installed.
    """
    known, file = published(name), find_checkpoint(name, checkpoint)
    reading, listening = reading or Logits(), listening or Listening()
    layout = known.layout if hop is None else known.layout.every(hop)
    if file.suffix == ".onnx":
        card = read_card(file, name=name, reading=reading)
        return ExportedEncoder(name, Weights.of(file), card, reading, layout, listening)
    require("torch", what=f"the {name} encoder")
    encoder = PublishedEncoder(name, Weights.of(file), reading, layout, listening)
    encoder.detector()
    return encoder


@lru_cache(maxsize=1)
def _loaded(name: str, weights: Weights, dropped: int, device: str) -> Detector:
    from earmark.features.pretrained.checkpoint import drop_layers, load_detector

    detector = load_detector(published(name), weights.file)
    drop_layers(detector, dropped)
    try:
        return detector.to(device)
    except (RuntimeError, AssertionError) as error:  # how PyTorch says that it has none
        reason = str(error).split("\n", 1)[0]
        raise ValueError(f"PyTorch has no device {device!r} here: {reason}") from error


@contextmanager
def _threads(count: int | None) -> Iterator[None]:
    """Run PyTorch on `count` threads, and on as many as before afterwards."""
    import torch

    before = torch.get_num_threads()
    try:
        torch.set_num_threads(count or before)
        yield
    finally:
        torch.set_num_threads(before)
