"""The paper's optional segmentation head: which annotated class of sound is heard at each step."""

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
from earmark.media.atomic_file import replacing, write_whole
from earmark.timeline import CLOCK_RATE, FloatArray, Track
from earmark_lab.annotations.actions import Action
from earmark_lab.encoders.chunk_encoder import PAPER_THRESHOLD, boundaries, segments
from earmark_lab.encoders.detector import torch_reason
from earmark_lab.experiments.report import plain
from earmark_lab.metrics.counts import (
    ONSET_COLLAR,
    MatchCounts,
    compare_boundaries,
    match_events,
    uniform_windows,
)
from earmark_lab.training.dataset import Material, TrainingRecording, fingerprint, fold
from earmark_lab.training.head import Head
from earmark_lab.training.optimisation import Crops, Descent
from earmark_lab.training.settings import Settings


class SegmentHead(Head):
    def __init__(self, channels: int, classes: int, *, width: int, dropout: float) -> None:
        super().__init__(channels, width=width, dropout=dropout)
        self.tower.leave = nn.Conv1d(width, classes, 1)

    def forward(self, features: Tensor) -> Tensor:
        return self.logits(features).transpose(1, 2)


@dataclass(frozen=True, slots=True, eq=False)
class Segmenter:
    head: SegmentHead
    classes: tuple[str, ...]
    encoder: str = ""

    def save(self, path: Path) -> None:
        weights = self.head.state_dict()
        with replacing(path) as scratch:
            torch.save({"head": weights, "classes": self.classes, "encoder": self.encoder}, scratch)

    @classmethod
    def load(cls, path: Path) -> Segmenter:
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
        with torch.no_grad():
            rows = self.head.eval()(torch.from_numpy(features.astype(np.float32))[None])
        return Track(rows[0].numpy())


def list_classes(recordings: Sequence[TrainingRecording]) -> tuple[str, ...]:
    labels = sorted(
        {event.label for recording in recordings for event in recording.actions if event.label}
    )
    if not labels:
        raise AnnotationError("no event has a label, so there is no class of sound to learn")
    return tuple(labels)


def mark_classes(recording: TrainingRecording, classes: Sequence[str]) -> FloatArray:
    """0 or 1, `(steps, classes)`."""
    marked = np.zeros((len(recording.takes[0]), len(classes)), dtype=np.float32)
    columns = {name: column for column, name in enumerate(classes)}
    for event in recording.actions:
        if event.label in columns:
            first, last = (round(time * CLOCK_RATE) for time in (event.start, event.end))
            marked[first : max(last, first + 1), columns[event.label]] = 1.0
    return marked


def fit_segmenter(
    recordings: Sequence[TrainingRecording],
    settings: Settings,
    *,
    seed: int = 0,
    progress: Callable[[int, int], None] = lambda *_: None,
    checkpoint: Path | None = None,
) -> Segmenter:
    classes = list_classes(recordings)
    torch.manual_seed(seed)
    head = SegmentHead(
        recordings[0].takes[0].shape[1], len(classes), width=settings.width,
        dropout=settings.dropout,
    )  # fmt: skip
    features = [recording.takes[0] for recording in recordings]
    head.settle([torch.from_numpy(rows) for rows in features])
    targets = [mark_classes(recording, classes) for recording in recordings]
    size = min(round(settings.crop * CLOCK_RATE), *map(len, features))
    first = [replace(recording, takes=recording.takes[:1]) for recording in recordings]
    crops = Crops(first, size, settings.batch, seed=seed)

    def loss() -> Tensor:
        places = [(which, slice(begin, begin + size)) for which, _, begin in crops.draw_places()]
        read, expected = (
            torch.from_numpy(np.stack([rows[which][crop] for which, crop in places])).float()
            for rows in (features, targets)
        )
        return functional.binary_cross_entropy_with_logits(head(read), expected)

    descent = Descent(
        head, recordings, settings, crops.rng, checkpoint, is_plain=True, classes=classes
    )
    for step, _ in descent.steps(loss):
        progress(step, settings.steps)
    return Segmenter(head.eval(), classes, settings.encoder)


@dataclass(frozen=True, slots=True)
class SegmentScores:
    events: MatchCounts
    boundaries: Mapping[tuple[str, float], MatchCounts]
    """By `segments` or as many `uniform_windows`, and by tolerance in seconds."""
    sure: int


def judge_segmenter(
    segmenter: Segmenter,
    recordings: Iterable[TrainingRecording],
    *,
    actions: Mapping[str, Sequence[Action]] | None = None,
) -> SegmentScores:
    total: dict[tuple[str, float], MatchCounts] = {}
    events, sure = MatchCounts(), 0
    for recording in recordings:
        track = segmenter(recording.features)
        detected = list(segments([track], segmenter.classes))
        spans = {"segments": [segment.span for segment in detected]}
        spans |= uniform_windows(len(detected), recording.duration)
        marks = actions[recording.name] if actions else recording.actions
        for name, by in compare_boundaries(marks, spans).items():
            for tolerance, counts in by.items():
                total[name, tolerance] = total.get((name, tolerance), MatchCounts()) + counts
        named = [Action(segment.span.start, segment.span.end, segment.name) for segment in detected]
        events += match_events(recording.actions, named, collar=ONSET_COLLAR)
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
    """Fit without `held_out`, by default the first fold; continues from a checkpoint."""
    held_out = held_out or fold(sorted(material), folds=settings.folds)[0]
    training = [recording for name, recording in sorted(material.items()) if name not in held_out]
    seed = settings.first_seed
    segmenter = fit_segmenter(
        training, settings, seed=seed, progress=progress,
        checkpoint=folder / "checkpoints" / f"seed-{seed}-segments.pt",
    )  # fmt: skip
    segmenter.save(folder / "segments.pt")
    scores = judge_segmenter(segmenter, [material[name] for name in held_out])
    run = {
        "settings": settings.to_json(),
        "classes": list(segmenter.classes),
        "data_hash": fingerprint(material),
        "held_out": list(held_out),
        "event_f1": plain(scores.events.f1),
        "boundary_f1": {f"{w} {t:g}": plain(c.f1) for (w, t), c in scores.boundaries.items()},
    }
    write_whole(folder / "run.json", json.dumps(run, indent=1, allow_nan=False))
    return segmenter, scores
