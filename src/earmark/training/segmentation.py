"""A segmentation head: which of the annotated classes of sound is heard at each step.

The paper's optional head beside its gate, on the features of a frozen encoder; its classes are the
labels of the annotations. `earmark.features.pretrained.segments` computes boundaries and events
from its posteriors.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from pickle import UnpicklingError

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional

from earmark.errors import AnnotationError, ModelMismatch
from earmark.evaluation.annotations.actions import Action
from earmark.evaluation.metrics.boundaries import (
    ONSET_COLLAR,
    MatchCounts,
    compare_boundaries,
    even_segments,
    match_events,
)
from earmark.evaluation.tables.table import plain
from earmark.features.pretrained.checkpoint import torch_reason
from earmark.features.pretrained.segments import PAPER_THRESHOLD, boundaries, segments
from earmark.media.atomic_file import replacing, write_whole
from earmark.timeline import CLOCK_RATE, FloatArray, Track
from earmark.training.dataset import Material, TrainingRecording, fingerprint, fold
from earmark.training.head import Head
from earmark.training.optimisation import Crops, Descent
from earmark.training.settings import Settings


class SegmentHead(Head):
    """A head with one logit for each class and step, from features `(batch, steps, channels)`."""

    def __init__(self, channels: int, classes: int, *, width: int, dropout: float) -> None:
        super().__init__(channels, width=width, dropout=dropout)
        self.tower.leave = nn.Conv1d(width, classes, 1)

    def forward(self, features: Tensor) -> Tensor:
        """The logits, `(batch, steps, classes)`."""
        return self.logits(features).transpose(1, 2)


@dataclass(frozen=True, slots=True, eq=False)
class Segmenter:
    """A trained head with the names of its classes."""

    head: SegmentHead
    classes: tuple[str, ...]
    encoder: str = ""
    """Name of the encoder of its features; empty if unknown."""

    def save(self, path: Path) -> None:
        """Write the head to `path`; a failed write leaves no partial file."""
        weights = self.head.state_dict()
        with replacing(path) as scratch:
            torch.save({"head": weights, "classes": self.classes, "encoder": self.encoder}, scratch)

    @classmethod
    def load(cls, path: Path) -> Segmenter:
        """The head that `save` wrote to `path`.

        Raises:
            ModelMismatch: the file cannot be read or is no segmentation head.
        """
        try:
            state = torch.load(path, weights_only=True)
            weights, classes = state["head"], tuple(state["classes"])
            width, channels, _ = weights["tower.enter.weight"].shape
            head = SegmentHead(channels, len(classes), width=width, dropout=0.0)
            head.load_state_dict(weights)
            return cls(head.eval(), classes, state["encoder"])
        except (OSError, EOFError, RuntimeError, UnpicklingError, KeyError, TypeError) as error:
            why = f"{path} is no segmentation head of earmark: {torch_reason(error)}"
            raise ModelMismatch(why) from error

    def __call__(self, features: FloatArray) -> Track:
        """The logits of a whole recording, `(steps, classes)`."""
        with torch.no_grad():
            rows = self.head.eval()(torch.from_numpy(features.astype(np.float32))[None])
        return Track(rows[0].numpy())


def list_classes(recordings: Sequence[TrainingRecording]) -> tuple[str, ...]:
    """The sorted labels of the events of `recordings`; `AnnotationError` if there are none."""
    found = sorted({event.label for heard in recordings for event in heard.actions if event.label})
    if not found:
        raise AnnotationError("no event has a label, so there is no class of sound to learn")
    return tuple(found)


def mark_classes(heard: TrainingRecording, classes: Sequence[str]) -> FloatArray:
    """1 where a class is heard, else 0, `(steps, classes)`."""
    marked = np.zeros((len(heard.takes[0]), len(classes)), dtype=np.float32)
    places = {name: place for place, name in enumerate(classes)}
    for event in heard.actions:
        if event.label in places:
            first, last = (round(time * CLOCK_RATE) for time in (event.start, event.end))
            marked[first : max(last, first + 1), places[event.label]] = 1.0
    return marked


def fit_segmenter(
    recordings: Sequence[TrainingRecording],
    settings: Settings,
    *,
    seed: int = 0,
    progress: Callable[[int, int], None] = lambda *_: None,
    checkpoint: Path | None = None,
) -> Segmenter:
    """A head fitted to the labelled events of `recordings`; several classes may be heard at once.

    Of `settings` it uses width, dropout, steps, batch, crop, those of AdamW, and `check_every` for
    saving a `checkpoint`, see `Descent`.
    """
    classes = list_classes(recordings)
    torch.manual_seed(seed)
    head = SegmentHead(
        recordings[0].takes[0].shape[1], len(classes), width=settings.width,
        dropout=settings.dropout,
    )  # fmt: skip
    features = [heard.takes[0] for heard in recordings]
    head.settle([torch.from_numpy(rows) for rows in features])
    targets = [mark_classes(heard, classes) for heard in recordings]
    size = min(round(settings.crop * CLOCK_RATE), *map(len, features))
    first = [replace(heard, takes=heard.takes[:1]) for heard in recordings]
    crops = Crops(first, size, settings.batch, seed=seed)

    def loss() -> Tensor:
        places = [(which, slice(begin, begin + size)) for which, _, begin in crops.draw_places()]
        read, wanted = (
            torch.from_numpy(np.stack([rows[which][crop] for which, crop in places])).float()
            for rows in (features, targets)
        )
        return functional.binary_cross_entropy_with_logits(head(read), wanted)

    descent = Descent(
        head, recordings, settings, crops.rng, checkpoint, is_plain=True, classes=classes
    )
    for step, _ in descent.steps(loss):
        progress(step, settings.steps)
    return Segmenter(head.eval(), classes, settings.encoder)


@dataclass(frozen=True, slots=True)
class SegmentScores:
    """Quality of a head's segments on recordings, as counts over all of them."""

    events: MatchCounts
    """Matches of its segments with the annotated events, by class and onset."""
    boundaries: Mapping[tuple[str, float], MatchCounts]
    """Boundary matches, by `segments` or as many `even segments`, and by tolerance in seconds."""
    sure: int
    """Number of boundaries at which a posterior passes `PAPER_THRESHOLD`."""


def judge_segmenter(
    segmenter: Segmenter,
    recordings: Iterable[TrainingRecording],
    *,
    actions: Mapping[str, Sequence[Action]] | None = None,
) -> SegmentScores:
    """Compare segments with the recordings' events, and boundaries with `actions` if given.

    As a baseline, boundaries of as many segments of equal length are compared too.
    """
    total: dict[tuple[str, float], MatchCounts] = {}
    events, sure = MatchCounts(), 0
    for heard in recordings:
        track = segmenter(heard.features)
        found = list(segments([track], segmenter.classes))
        spans = {"segments": [each.span for each in found]}
        spans["even segments"] = even_segments(len(found), heard.duration)
        marks = actions[heard.name] if actions else heard.actions
        for name, by in compare_boundaries(marks, spans).items():
            for tolerance, counts in by.items():
                total[name, tolerance] = total.get((name, tolerance), MatchCounts()) + counts
        named = [Action(each.span.start, each.span.end, each.name) for each in found]
        events += match_events(heard.actions, named, collar=ONSET_COLLAR)
        sure += len(boundaries(segments([track], segmenter.classes, threshold=PAPER_THRESHOLD)))
    return SegmentScores(events, total, sure)


def train_segmenter(
    material: Material,
    settings: Settings,
    *,
    folder: Path,
    held_out: Sequence[str] = (),
    progress: Callable[[int, int], None] = lambda *_: None,
) -> tuple[Segmenter, SegmentScores]:
    """A head fitted without the recordings `held_out`, and its quality on these.

    By default the participants of the first fold are held out. Writes `segments.pt` and `run.json`
    to `folder`; an interrupted training continues from its checkpoint.
    """
    held_out = held_out or fold(sorted(material), folds=settings.folds)[0]
    training = [heard for name, heard in sorted(material.items()) if name not in held_out]
    seed = settings.first_seed
    segmenter = fit_segmenter(
        training, settings, seed=seed, progress=progress,
        checkpoint=folder / "checkpoints" / f"seed-{seed}-segments.pt",
    )  # fmt: skip
    segmenter.save(folder / "segments.pt")
    scores = judge_segmenter(segmenter, [material[name] for name in held_out])
    kept = {
        "settings": settings.to_json(),
        "classes": list(segmenter.classes),
        "data_hash": fingerprint(material),
        "held_out": list(held_out),
        "event_f1": plain(scores.events.f1),
        "boundary_f1": {f"{w} {t:g}": plain(c.f1) for (w, t), c in scores.boundaries.items()},
    }
    write_whole(folder / "run.json", json.dumps(kept, indent=1, allow_nan=False))
    return segmenter, scores
