from __future__ import annotations

import os
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from earmark.errors import ModelMissing
from earmark.evidence.evidence_entry import EvidenceEntry
from earmark.media import Frame
from earmark.models import ModelStore
from earmark.models.catalogue import PPOCR
from earmark.models.sessions import borrow, class_names, open_network
from earmark.timeline import Span

DETECTOR = "efficientdet-lite0"

REQUIREMENTS = {
    "heard": ("ai_edge_litert", ("yamnet",)),
    "read": ("cv2", PPOCR),
    "seen": ("ai_edge_litert", (DETECTOR,)),
}

MIN_CONFIDENCE = 0.5

SIDE = 320
"""Pixels along each side of the detector's input."""

UNNAMED_CLASS = "???"

PictureReader = Callable[[Sequence[Frame], Span], list[EvidenceEntry]]

_SLOTS = threading.BoundedSemaphore(os.cpu_count() or 1)
"""One window per core at once, since each takes some 100 MB."""


@dataclass(frozen=True, slots=True)
class PictureEvidence:
    readers: tuple[PictureReader, ...]

    def __call__(self, frames: Sequence[Frame], span: Span) -> tuple[EvidenceEntry, ...]:
        with _SLOTS:
            return tuple(entry for reader in self.readers for entry in reader(frames, span))


@dataclass(frozen=True, slots=True)
class ObjectTagger:
    """Names objects of 80 everyday classes: EfficientDet-Lite0 (extra `vision`)."""

    least: float = 0.4
    most: int = 5
    weights: Path | None = None

    def __call__(self, frames: Sequence[Frame], span: Span) -> list[EvidenceEntry]:
        weights = self.weights or ModelStore().find(DETECTOR)
        best: dict[int, float] = {}
        with borrow(_open_detector, weights) as network:
            for frame in frames:
                for number, score in _detect(network, frame):
                    best[number] = max(score, best.get(number, 0.0))
        names = class_names(weights)
        objects = [
            EvidenceEntry(span, "seen", names[number], score, DETECTOR)
            for number, score in sorted(best.items(), key=lambda item: (-item[1], item[0]))
            if score >= self.least and names[number] != UNNAMED_CLASS
        ]
        return objects[: self.most]


_open_detector = partial(open_network, DETECTOR)


def _detect(network: Any, frame: Frame) -> list[tuple[int, float]]:
    network.set_tensor(0, frame.resized(SIDE, SIDE).rgb[None])
    network.invoke()
    _, classes, scores, _ = (
        network.get_tensor(output["index"])[0] for output in network.get_output_details()
    )
    return [(int(number), float(score)) for number, score in zip(classes, scores, strict=True)]


def available_kinds(store: ModelStore) -> list[str]:
    return [
        kind
        for kind, (library, names) in REQUIREMENTS.items()
        if find_spec(library) and all(store.state(name) == "here" for name in names)
    ]


def picture_evidence(
    wanted: bool | None = None, store: ModelStore | None = None
) -> PictureEvidence | None:
    """If `wanted` is true, `ModelMissing` says how to get a model; if None, none is needed."""
    store = store or ModelStore()
    readers: list[PictureReader] = []
    if wanted is False:
        return None
    available = available_kinds(store)
    if "read" in available:
        from earmark.evidence.text_reader import TextReader

        readers.append(TextReader(store=store))
    if "seen" in available:
        readers.append(ObjectTagger(least=MIN_CONFIDENCE, weights=store.find(DETECTOR)))
    if wanted and not readers:
        raise ModelMissing(
            "nothing here reads text or names objects in frames: pip install "
            "'earmark[vision]' and run `earmark models get evidence`"
        )
    return PictureEvidence(tuple(readers)) if readers else None
