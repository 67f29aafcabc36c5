"""A published model from its checkpoint, run by PyTorch."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import torch

from earmark.features.pretrained.checkpoint import drop_layers, load_detector
from earmark.features.pretrained.detector import Detector
from earmark.features.pretrained.network import NetworkOptions, WeightsFile
from earmark.models import MODELS
from earmark.timeline import FloatArray


@dataclass(frozen=True, slots=True, eq=False)
class TorchNetwork:
    """A network with its weights on its device."""

    detector: Detector
    options: NetworkOptions
    source: str
    """SHA-256 of the checkpoint."""

    @classmethod
    def open(cls, options: NetworkOptions, weights: WeightsFile) -> TorchNetwork:
        """The network that `options` describe with the weights in the file.

        `ModelMismatch` where these are not its own, `ValueError` where there is no such device.
        """
        detector = load_detector(MODELS.named(options.name), weights.file)
        drop_layers(detector, options.drop_layers)
        try:
            return cls(detector.to(options.device), options, weights.digest)
        except (RuntimeError, AssertionError) as error:  # how PyTorch says that it has none
            reason = str(error).split("\n", 1)[0]
            raise ValueError(f"PyTorch has no device {options.device!r} here: {reason}") from error

    def __call__(self, chunks: FloatArray, /) -> FloatArray:
        """Posteriors or embeddings, `(chunks, rows, width)`, of `(chunks, samples)`."""
        detector, device = self.detector, torch.device(self.options.device)
        has_head = self.options.has_head
        with torch.inference_mode(), _threads(self.options.threads):
            spectrum = detector.spectrum(torch.from_numpy(chunks).to(device))
            with torch.autocast(device.type, torch.float16, enabled=self.options.is_half):
                rows = detector.embed(spectrum).float()
                if has_head:
                    rows = detector.classify(rows).float()
            rows = rows.cpu()  # not every device has the double precision of posteriors
            heard: FloatArray = (detector.posteriors(rows) if has_head else rows).numpy()
        return heard


@contextmanager
def _threads(count: int | None) -> Iterator[None]:
    """Run PyTorch on `count` threads, and on as many as before afterwards."""
    before = torch.get_num_threads()
    try:
        torch.set_num_threads(count or before)
        yield
    finally:
        torch.set_num_threads(before)
