"""Names the objects in frames, without a vision model: EfficientDet-Lite0 (extra `vision`).

For the `tags` captioner, so that a window without a captioner is more than what is heard in it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from earmark.evidence.evidence_entry import EvidenceEntry
from earmark.media import Frame
from earmark.models import ModelStore
from earmark.timeline import Span

MODEL = "efficientdet-lite0"

SIDE = 320
"""Pixels along each side of what the network sees."""

UNNAMED_CLASS = "???"
"""How the published list marks numbers that name nothing."""


@dataclass(frozen=True, slots=True)
class ObjectTagger:
    """Says which of 80 everyday things frames show; may be called from several threads."""

    least: float = 0.4
    """Confidence below which nothing is named."""
    most: int = 5
    """Names given at most."""
    weights: Path | None = None
    """`efficientdet-lite0.tflite`; None takes it from the user's model store."""

    def check(self) -> None:
        """Raises `ModelMissing` or `MissingExtra` if no frame could be looked at."""
        from earmark.models.litert import borrow

        with borrow(_open, self._file()):
            pass

    def __call__(self, frames: Sequence[Frame]) -> tuple[str, ...]:
        """What is seen in any of `frames`, the surest first, each thing once."""
        return tuple(name for name, _ in self.find(frames))

    def find(self, frames: Sequence[Frame]) -> list[tuple[str, float]]:
        """What is seen in any of `frames` and how sure that is, the surest first."""
        from earmark.models.litert import borrow, class_names

        best: dict[int, float] = {}
        with borrow(_open, self._file()) as network:
            for frame in frames:
                for number, score in _detect(network, frame):
                    best[number] = max(score, best.get(number, 0.0))
        names = class_names(self._file())
        ranked = sorted(best, key=lambda number: (-best[number], number))
        detected = [
            (names[number], best[number]) for number in ranked if best[number] >= self.least
        ]
        return [(name, score) for name, score in detected if name != UNNAMED_CLASS][: self.most]

    def read(self, frames: Sequence[Frame], span: Span) -> list[EvidenceEntry]:
        """What is seen in any of `frames`, which stand for `span`, as evidence."""
        return [
            EvidenceEntry(span, "seen", name, score, MODEL) for name, score in self.find(frames)
        ]

    def _file(self) -> Path:
        return self.weights if self.weights is not None else ModelStore().find(MODEL)


def _open(path: Path) -> Any:
    from earmark.models.litert import open_network

    return open_network(MODEL, path)


def _detect(network: Any, frame: Frame) -> list[tuple[int, float]]:
    """Number and confidence of everything found in one frame."""
    network.set_tensor(0, frame.resized(SIDE, SIDE).rgb[None])
    network.invoke()
    _, classes, scores, _ = (
        network.get_tensor(each["index"])[0] for each in network.get_output_details()
    )
    return [(int(number), float(score)) for number, score in zip(classes, scores, strict=True)]
