"""Text and objects in frames: PP-OCR and EfficientDet-Lite0 (extra `vision`).

    frame ──▶ text probability per pixel ──▶ boxes around lines ──▶ upright strips ──▶ letters

A line is kept if its confidence is high. Its text is a quotation, never an instruction.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cache, partial
from importlib.util import find_spec
from pathlib import Path
from typing import Any, ClassVar, NamedTuple

import numpy as np

from earmark.errors import ModelMissing
from earmark.evidence.evidence_entry import EvidenceEntry
from earmark.media import Frame
from earmark.media.frame import Pixels
from earmark.models import ModelStore, require
from earmark.models.catalogue import PPOCR
from earmark.models.sessions import borrow, class_names, open_network, open_session
from earmark.timeline import FloatArray, Span

DETECTOR = "efficientdet-lite0"


class Requirement(NamedTuple):
    library: str
    models: tuple[str, ...]


REQUIREMENTS = {
    "heard": (Requirement("onnxruntime", ("mn04",)), Requirement("ai_edge_litert", ("yamnet",))),
    "read": (Requirement("cv2", PPOCR),),
    "seen": (Requirement("ai_edge_litert", (DETECTOR,)),),
}
"""Of each kind, the alternatives, first choice first: see experiments/naming-sounds.md."""

SIDE = 320
"""Pixels along each side of the detector's input."""

UNNAMED_CLASS = "???"

PictureReader = Callable[[Sequence[Frame], Span], list[EvidenceEntry]]

LONGEST_SIDE = 960
"""Pixels of the input of the first network; a multiple of `CELL`."""

CELL = 32
MEAN, STD = np.array([0.485, 0.456, 0.406]), np.array([0.229, 0.224, 0.225])
"""Of the training pictures, per colour channel."""

TEXT_PROBABILITY, LINE_PROBABILITY = 0.3, 0.5
BOX_GROWTH = 1.6
"""Times area over perimeter: the network was trained to find smaller boxes."""

STRIP_HEIGHT = 48
MAX_LINES = 24


_SLOTS = threading.BoundedSemaphore(os.cpu_count() or 1)
"""One window per core at once, since each takes some 100 MB."""


@dataclass(frozen=True, slots=True)
class PictureEvidence:
    readers: tuple[PictureReader, ...]

    def __call__(self, frames: Sequence[Frame], span: Span) -> tuple[EvidenceEntry, ...]:
        with _SLOTS:
            return tuple(entry for reader in self.readers for entry in reader(frames, span))


def _surest(
    readings: Iterable[tuple[str, float]], most: int, span: Span, kind: str, origin: str
) -> list[EvidenceEntry]:
    """Each text once, with its best confidence."""
    best: dict[str, float] = {}
    for text, confidence in readings:
        best[text] = max(confidence, best.get(text, 0.0))
    texts = sorted(best, key=lambda text: (-best[text], text))[:most]
    return [EvidenceEntry(span, kind, text, best[text], origin) for text in texts]


@dataclass(frozen=True, slots=True)
class ObjectTagger:
    """Names objects of 80 everyday classes."""

    least: float = 0.5
    most: int = 5
    weights: Path | None = None

    def __call__(self, frames: Sequence[Frame], span: Span) -> list[EvidenceEntry]:
        weights = self.weights or ModelStore().find(DETECTOR)
        with borrow(_open_detector, weights) as network:
            detections = [pair for frame in frames for pair in _detect(network, frame)]
        names = class_names(weights)
        objects = (
            (names[number], score)
            for number, score in detections
            if score >= self.least and names[number] != UNNAMED_CLASS
        )
        return _surest(objects, self.most, span, "seen", DETECTOR)


_open_detector = partial(open_network, DETECTOR)


def _detect(network: Any, frame: Frame) -> list[tuple[int, float]]:
    network.set_tensor(0, frame.resized(SIDE, SIDE).rgb[None])
    network.invoke()
    _, classes, scores, _ = (
        network.get_tensor(output["index"])[0] for output in network.get_output_details()
    )
    return [(int(number), float(score)) for number, score in zip(classes, scores, strict=True)]


def installed_models(kind: str, store: ModelStore) -> tuple[str, ...]:
    """Those of the first alternative that is complete; empty if none is."""
    for library, models in REQUIREMENTS[kind]:
        if find_spec(library) and all(store.state(name) == "here" for name in models):
            return models
    return ()


def available_kinds(store: ModelStore) -> list[str]:
    return [kind for kind in REQUIREMENTS if installed_models(kind, store)]


def picture_evidence(
    wanted: bool | None = None, store: ModelStore | None = None
) -> PictureEvidence | None:
    """If `wanted` is true, `ModelMissing` says how to get a model; if None, none is needed."""
    if wanted is False:
        return None
    store = store or ModelStore()
    readers: list[PictureReader] = []
    available = available_kinds(store)
    if "read" in available:
        readers.append(TextReader(store=store))
    if "seen" in available:
        readers.append(ObjectTagger(weights=store.find(DETECTOR)))
    if wanted and not readers:
        raise ModelMissing(
            "nothing here reads text or names objects in frames: pip install "
            "'earmark[vision]' and run `earmark models get evidence`"
        )
    return PictureEvidence(tuple(readers)) if readers else None


@dataclass(frozen=True, slots=True)
class TextReader:
    least: float = 0.8
    shortest: int = 2
    most: int = 8
    store: ModelStore = field(default_factory=ModelStore)
    name: ClassVar[str] = "pp-ocr"

    def check(self) -> None:
        require("cv2", what="reading text in frames", extra="vision")
        for name in PPOCR:
            self.store.find(name)

    def __call__(self, frames: Sequence[Frame], span: Span) -> list[EvidenceEntry]:
        self.check()
        lines = (line for frame in frames for line in self._read(frame))
        return _surest(lines, self.most, span, "read", self.name)

    def _read(self, frame: Frame) -> Iterator[tuple[str, float]]:
        detector, recogniser, letters = _open_networks(*map(self.store.find, PPOCR))
        for corners in _find_lines(detector, frame):
            strip = _straighten(frame.rgb, corners)
            (rows,) = recogniser.run(None, {"x": _network_input(strip, 0.5, 0.5)})
            text, confidence = _decode_letters(rows[0], letters)
            if confidence >= self.least and sum(map(str.isalnum, text)) >= self.shortest:
                yield text, confidence


@cache
def _open_networks(*files: Path) -> tuple[Any, Any, list[str]]:
    detector, recogniser = map(open_session, files)
    letters = recogniser.get_modelmeta().custom_metadata_map["character"].split("\n")
    return detector, recogniser, ["", *letters, " "]  # class 0 is the CTC blank


def _network_input(rgb: Pixels, mean: Any, std: Any) -> FloatArray:
    """BGR, normalised, shape (1, 3, height, width)."""
    values = (rgb[..., ::-1] / 255.0 - mean) / std
    return np.ascontiguousarray(values.transpose(2, 0, 1)[None], dtype=np.float32)


def _find_lines(network: Any, frame: Frame) -> list[FloatArray]:
    """The corners of lines of text, by decreasing probability."""
    import cv2

    scale = min(1.0, LONGEST_SIDE / max(frame.width, frame.height))
    width, height = (
        max(CELL, round(side * scale / CELL) * CELL) for side in (frame.width, frame.height)
    )
    pixels = _network_input(frame.resized(width, height).rgb, MEAN, STD)
    probability = network.run(None, {"x": pixels})[0][0, 0]
    outlines, _ = cv2.findContours(
        (probability > TEXT_PROBABILITY).astype(np.uint8), cv2.RETR_LIST, cv2.CHAIN_APPROX_SIMPLE
    )
    boxes = []
    for outline in outlines:
        centre, (wide, high), angle = cv2.minAreaRect(outline)
        left, top, across, down = cv2.boundingRect(outline)
        inside = np.zeros((down, across), np.uint8)
        cv2.fillPoly(inside, [outline - [left, top]], 1)
        mean = cv2.mean(probability[top : top + down, left : left + across], inside)[0]
        if min(wide, high) < 3 or mean < LINE_PROBABILITY:
            continue
        more = wide * high * BOX_GROWTH / (2 * (wide + high)) * 2
        corners = cv2.boxPoints((centre, (wide + more, high + more), angle))
        scaled = corners * [frame.width / width, frame.height / height]
        boxes.append((mean, _order_corners(scaled)))
    boxes.sort(key=lambda box: -box[0])
    return [corners for _, corners in boxes[:MAX_LINES]]


def _order_corners(corners: FloatArray) -> FloatArray:
    left, right = np.split(corners[np.argsort(corners[:, 0], kind="stable")], 2)
    (top_left, bottom_left) = left[np.argsort(left[:, 1])]
    (top_right, bottom_right) = right[np.argsort(right[:, 1])]
    return np.array([top_left, top_right, bottom_right, bottom_left], dtype=np.float32)


def _straighten(rgb: Pixels, corners: FloatArray) -> Pixels:
    import cv2

    wide = float(np.linalg.norm(corners[1] - corners[0]))
    high = float(np.linalg.norm(corners[3] - corners[0]))
    width = max(CELL, round(STRIP_HEIGHT * wide / max(high, 1.0)))
    flat = np.array(
        [[0, 0], [width, 0], [width, STRIP_HEIGHT], [0, STRIP_HEIGHT]], dtype=np.float32
    )
    turn = cv2.getPerspectiveTransform(corners, flat)
    strip = cv2.warpPerspective(
        rgb, turn, (min(width, 40 * STRIP_HEIGHT), STRIP_HEIGHT), flags=cv2.INTER_CUBIC
    )
    return np.asarray(strip, dtype=np.uint8)


def _decode_letters(rows: FloatArray, letters: Sequence[str]) -> tuple[str, float]:
    """Without repeats and blanks (CTC), and the mean confidence."""
    numbers = rows.argmax(axis=1)
    steps = np.flatnonzero((numbers != 0) & (np.diff(numbers, prepend=0) != 0))
    text = "".join(letters[number] for number in numbers[steps]).strip()
    confidence = float(rows.max(axis=1)[steps].mean()) if len(steps) else 0.0
    return text, min(1.0, confidence)
