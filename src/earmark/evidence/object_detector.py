"""Names the objects in frames, without a vision model: EfficientDet-Lite0 (extra `vision`).

For the `tags` captioner, so that a window without a captioner is more than what is heard in it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from earmark.evidence.evidence_entry import EvidenceEntry
from earmark.media import Frame
from earmark.models import ModelStore
from earmark.models.litert import borrow, class_names, open_network
from earmark.timeline import Span

MODEL = "efficientdet-lite0"

SIDE = 320
"""Pixels along each side of the network's input."""

UNNAMED_CLASS = "???"
"""Entry of the published class list for numbers without a class."""


@dataclass(frozen=True, slots=True)
class ObjectTagger:
    """Names the objects in frames, of 80 everyday classes; may be called from several threads."""

    least: float = 0.4
    """Least confidence of a named object."""
    most: int = 5
    """Most names returned."""
    weights: Path | None = None
    """`efficientdet-lite0.tflite`; None takes it from the user's model store."""

    def check(self) -> None:
        """Raises `ModelMissing` or `MissingExtra` if no frame can be processed."""
        with borrow(_open, self._file()):
            pass

    def __call__(self, frames: Sequence[Frame]) -> tuple[str, ...]:
        """The objects in any of `frames`, by decreasing confidence, each class once."""
        return tuple(name for name, _ in self.find(frames))

    def find(self, frames: Sequence[Frame]) -> list[tuple[str, float]]:
        """The objects in any of `frames` with their confidence, in decreasing order."""
        best: dict[int, float] = {}
        with borrow(_open, self._file()) as network:
            for frame in frames:
                for number, score in _detect(network, frame):
                    best[number] = max(score, best.get(number, 0.0))
        names = class_names(self._file())
        ranked = sorted(best, key=lambda number: (-best[number], number))
        found = [(names[number], best[number]) for number in ranked if best[number] >= self.least]
        return [(name, score) for name, score in found if name != UNNAMED_CLASS][: self.most]

    def read(self, frames: Sequence[Frame], span: Span) -> list[EvidenceEntry]:
        """The objects in any of `frames`, as evidence about `span`."""
        return [
            EvidenceEntry(span, "seen", name, score, MODEL) for name, score in self.find(frames)
        ]

    def _file(self) -> Path:
        return self.weights or ModelStore().find(MODEL)


_open = partial(open_network, MODEL)


def _detect(network: Any, frame: Frame) -> list[tuple[int, float]]:
    """Class number and confidence of every detection in one frame."""
    network.set_tensor(0, frame.resized(SIDE, SIDE).rgb[None])
    network.invoke()
    _, classes, scores, _ = (
        network.get_tensor(each["index"])[0] for each in network.get_output_details()
    )
    return [(int(number), float(score)) for number, score in zip(classes, scores, strict=True)]
