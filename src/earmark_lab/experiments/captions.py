"""Stimuli, vocabularies, captions and their log, and the crop to the hands.

The crop to the hands is a negative result of the paper, kept runnable: MediaPipe's palm detector in
LiteRT (extra `vision`) finds the hand, not what it holds.

    frame ──▶ 192 x 192, letterboxed in black ──▶ 2,016 anchors ──▶ palms ──▶ crop around them
"""

from __future__ import annotations

import ast
import csv
import json
import random
import re
import threading
from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from earmark.errors import AnnotationError, EarmarkError
from earmark.evidence.face_blur import enlarge_box, without_overlaps
from earmark.media import Frame, Recording
from earmark.models import ModelStore
from earmark.timeline import FloatArray, Span
from earmark_lab.annotations.actions import list_few
from earmark_lab.annotations.table_readers import PLACE, csv_rows, parse_time, read_errors
from earmark_lab.metrics.counts import Addable, Ratio

_WORD = re.compile(r"[a-z]+")
_PARTICLES = frozenset(
    {"in", "into", "on", "onto", "off", "of", "out", "up", "down", "from", "to", "with", "at"}
    | {"away", "back", "over", "under", "through", "around", "inside", "together", "and", "the"}
)

AROUND = 4.0
"""Seconds; the paper's call, centred on the action."""

SLACK = 1.0


@dataclass(frozen=True, slots=True)
class NamingCounts(Addable):
    named: int = 0
    asked: int = 0

    accuracy = Ratio("named", "asked")

    @classmethod
    def of(cls, named: Collection[bool]) -> NamingCounts:
        return cls(sum(named), len(named))


@dataclass(frozen=True, slots=True)
class Vocabulary:
    """Classes, each with the phrases for it.

    >>> nouns = Vocabulary({"spoon": ("spoon", "spoon:wooden", "ladle")})
    >>> nouns.mentions("Two wooden spoons lie there.", "spoon"), nouns.mentions("A fork.", "spoon")
    (True, False)
    """

    phrases: dict[str, tuple[str, ...]]

    @classmethod
    def from_epic(cls, path: Path) -> Vocabulary:
        phrases: dict[str, tuple[str, ...]] = {}
        with read_errors(path), path.open(encoding="utf-8-sig", newline="") as file:
            for row in csv.DictReader(file):
                try:
                    words = ast.literal_eval(row["instances"])
                    if not isinstance(words, list) or not all(isinstance(w, str) for w in words):
                        raise ValueError(words)
                    phrases[row["key"]] = tuple(words)
                except (KeyError, ValueError, SyntaxError) as error:
                    raise AnnotationError(
                        f"{path.name} is no list of classes: it needs the columns key and "
                        f"instances, a list of words"
                    ) from error
        return cls(phrases)

    def mentions(self, caption: str, label: str) -> bool:
        """In any inflection; a compound (`spoon:wooden`) needs all of its words but particles."""
        forms = {form for word in _WORD.findall(caption.lower()) for form in _stems(word)}
        for phrase in (label, *self.phrases.get(label, ())):
            words = _WORD.findall(phrase.lower())
            telling = [word for word in words if word not in _PARTICLES] or words
            if telling and all(_stems(word) & forms for word in telling):
                return True
        return False


def _stems(word: str) -> set[str]:
    """chopped, chopping, chops -> chop; slicing, sliced -> slice; knives -> knife; dries -> dry."""
    forms = {word}
    for ending in ("s", "es", "d", "ed", "ing"):
        if word.endswith(ending) and len(word) - len(ending) >= 3:
            stem = word.removesuffix(ending)
            forms.add(stem)
            if ending in ("ed", "ing"):
                forms.add(stem + "e")
                forms.add(stem[:-1] if stem[-1] == stem[-2] else stem)
    for ending, ground in (("ies", "y"), ("ied", "y"), ("ves", "f"), ("ves", "fe")):
        if word.endswith(ending) and len(word) > len(ending) + 1:
            forms.add(word.removesuffix(ending) + ground)
    return forms | _IRREGULAR.get(word, set())


_IRREGULAR: dict[str, set[str]] = {
    "took": {"take"}, "taken": {"take"}, "held": {"hold"}, "cutting": {"cut"},
    "putting": {"put"}, "puts": {"put"}, "threw": {"throw"}, "thrown": {"throw"},
    "shook": {"shake"}, "tore": {"tear"}, "ate": {"eat"}, "drank": {"drink"}, "got": {"get"},
    "broke": {"break"}, "spread": {"spread"}, "hung": {"hang"}, "drew": {"draw"},
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Stimulus:
    recording: str
    span: Span
    noun: str
    verb: str

    @property
    def time(self) -> float:
        return self.span.middle

    @property
    def window(self) -> Span:
        start = max(0.0, self.time - AROUND / 2)
        return Span(start, start + AROUND)


def read_stimuli(path: Path, *, nouns: Vocabulary, verbs: Vocabulary) -> list[Stimulus]:
    """Actions without a noun or verb are left out: no caption could name them."""
    stimuli = []
    with read_errors(path):
        for row in csv_rows(path, ()):
            try:
                name = row.get("video_id") or row["recording"]
                start = parse_time(row.get("start_timestamp") or row["start"])
                span = Span(start, parse_time(row.get("stop_timestamp") or row["end"]))
                noun, verb = row["noun"], row["verb"]
            except (KeyError, ValueError) as error:
                raise AnnotationError(
                    f"{row[PLACE]}: an action needs recording, start, end, noun and verb ({error})"
                ) from error
            if noun and verb:
                stimuli.append(
                    Stimulus(name, span, find_class(noun, nouns), find_class(verb, verbs))
                )
    if not stimuli:
        raise AnnotationError(f"{path.name} marks no action, so there is nothing to ask about")
    return stimuli


def check_inside(stimuli: Sequence[Stimulus], recordings: Mapping[str, Recording]) -> None:
    lost = sorted({stimulus.recording for stimulus in stimuli} - set(recordings))
    if lost:
        raise AnnotationError(f"no media for {list_few(lost)}; the names must agree")
    for stimulus in stimuli:
        lasts, span = recordings[stimulus.recording].duration, stimulus.span
        if stimulus.time >= lasts or span.end > lasts + SLACK:
            raise AnnotationError(
                f"{stimulus.recording}: the action {span.start:g}-{span.end:g} s lies outside the "
                f"recording, which lasts {lasts:g} s; check the row, or that it is the right file"
            )


def draw_stimuli(stimuli: Sequence[Stimulus], count: int, *, seed: int = 0) -> list[Stimulus]:
    chosen = random.Random(seed).sample(list(stimuli), min(count, len(stimuli)))  # noqa: S311
    return sorted(chosen, key=lambda stimulus: (stimulus.recording, stimulus.span))


def find_class(word: str, vocabulary: Vocabulary) -> str:
    """`word` itself if there is none."""
    if word in vocabulary.phrases:
        return word
    return next((label for label, phrases in vocabulary.phrases.items() if word in phrases), word)


@dataclass(frozen=True, slots=True)
class Caption:
    identity: str
    """Of the request."""
    text: str
    prompt_tokens: int | None = None
    sounds: tuple[str, ...] = ()
    is_whole: bool = False
    """No hand was found to crop to."""
    answer_tokens: int | None = None

    @property
    def tokens(self) -> int | None:
        """Read and written; None if the server does not report them."""
        if self.prompt_tokens is None or self.answer_tokens is None:
            return self.prompt_tokens
        return self.prompt_tokens + self.answer_tokens

    @classmethod
    def from_json(cls, row: dict[str, Any]) -> Caption:
        answer = (row["text"], row["prompt_tokens"], tuple(row["sounds"]))
        return cls(row["identity"], *answer, row["whole_frame"], row["answer_tokens"])


@dataclass(slots=True)
class CaptionLog:
    """One line of JSON per caption, so that a stopped comparison can go on."""

    path: Path | None = None
    captions: dict[str, Caption] = field(default_factory=dict)

    @classmethod
    def open(cls, path: Path) -> CaptionLog:
        """`EarmarkError` if it is another kind of file. Only its last line can be incomplete."""
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.touch()
            data = path.read_bytes()
            whole = data[: data.rfind(b"\n") + 1]  # an incomplete last line is asked again
            captions = [Caption.from_json(json.loads(line)) for line in whole.splitlines()]
            if whole != data:
                path.write_bytes(whole)
        except OSError as error:
            raise EarmarkError(f"captions cannot be kept in {path}: {error.strerror}") from error
        except (ValueError, KeyError, TypeError) as error:
            raise EarmarkError(
                f"{path.name} holds something else than captions kept here; name another file"
            ) from error
        return cls(path, {caption.identity: caption for caption in captions})

    def add(self, caption: Caption, asked: Mapping[str, str], *, stimulus: Stimulus) -> None:
        """`asked` names the model and the variant."""
        self.captions[caption.identity] = caption
        if self.path is not None:
            values, about = asdict(caption), asdict(stimulus)
            whole = {"whole_frame": values.pop("is_whole")}
            row = {**asked, **values, **about.pop("span"), **about, **whole}
            with self.path.open("a", encoding="utf-8") as file:
                file.write(json.dumps(row) + "\n")


AROUND_HAND = 2.6
"""Size of the crop relative to the palms: MediaPipe's factor for a whole hand."""

CONFIDENCE = 0.5
SIDE = 192
"""Pixels of the network's input."""

GRIDS = ((24, 2), (12, 6))
"""Cells along each side, and anchors in each cell."""


@dataclass(slots=True)
class HandCrop:
    """Thread-safe; None if there is no hand in the frame."""

    weights: Path | None = None
    """`palm_detection_full.tflite`; None takes it from the user's model store."""
    _lock: threading.Lock = field(default_factory=threading.Lock, repr=False, compare=False)
    _network: Any = field(default=None, repr=False, compare=False)

    def __call__(self, frame: Frame) -> Frame | None:
        palms = self.find(frame)
        return crop(frame, palms, around=AROUND_HAND) if palms else None

    def find(self, frame: Frame) -> list[FloatArray]:
        """Top, left, bottom and right in pixels, by falling confidence."""
        from earmark.models.sessions import open_network

        canvas, scale, left, top = letterbox(frame)
        with self._lock:
            if self._network is None:
                path = self.weights if self.weights is not None else ModelStore().find("hands")
                self._network = open_network("hands", path)
            network = self._network
            network.set_tensor(0, canvas[None])
            network.invoke()
            places, scores = (
                network.get_tensor(output["index"])[0] for output in network.get_output_details()
            )
        corner = np.array([top, left, top, left])
        return [(palm - corner) / scale for palm in decode(places, scores[:, 0], CONFIDENCE)]


def crop(frame: Frame, boxes: Sequence[FloatArray], *, around: float) -> Frame:
    """To a box around all `boxes`, scaled by `around` and clipped to the frame."""
    edges = np.stack(boxes)  # (boxes, 4): top, left, bottom, right
    box = np.concatenate([edges[:, :2].min(axis=0), edges[:, 2:].max(axis=0)])
    top, bottom, left, right = enlarge_box(box, frame, around)
    return Frame(frame.time, np.ascontiguousarray(frame.rgb[top:bottom, left:right]))


def letterbox(frame: Frame) -> tuple[FloatArray, float, int, int]:
    """A black square, the frame's scale in it, and its left and top pixel."""
    scale = SIDE / max(frame.width, frame.height)
    width, height = max(1, round(frame.width * scale)), max(1, round(frame.height * scale))
    left, top = (SIDE - width) // 2, (SIDE - height) // 2
    canvas = np.zeros((SIDE, SIDE, 3), dtype=np.float32)
    canvas[top : top + height, left : left + width] = frame.resized(width, height).rgb / 255
    return canvas, scale, left, top


def decode(places: FloatArray, scores: FloatArray, least: float) -> list[FloatArray]:
    """In pixels of the network's input, by falling confidence, overlaps suppressed.

    `places`, `(2016, 18)`: the centre's offset from the anchor, width and height, then joints;
    `scores` are logits.
    """
    sure = 1 / (1 + np.exp(-np.clip(scores, -50, 50)))
    best = np.argsort(-sure, kind="stable")[: int((sure >= least).sum())]
    middles = (anchors()[best] * SIDE + places[best, :2])[:, ::-1]  # down and across
    halves = np.maximum(places[best, 2:4], 0)[:, ::-1] / 2
    return without_overlaps(np.concatenate([middles - halves, middles + halves], axis=1))


@cache
def anchors() -> FloatArray:
    """Centres, `(2016, 2)`: x and y as shares of the input's side."""
    spots = []
    for side, shared in GRIDS:
        middles = (np.arange(side) + 0.5) / side
        down, across = np.meshgrid(middles, middles, indexing="ij")
        spots.append(np.stack([across, down], axis=-1).reshape(-1, 2).repeat(shared, axis=0))
    places: FloatArray = np.concatenate(spots)
    return places
