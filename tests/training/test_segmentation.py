"""A head that learns which class of sound is heard, and whose boundaries are found again."""

from __future__ import annotations

import numpy as np
import pytest

from earmark.errors import AnnotationError
from earmark.evaluation.annotations.actions import Action
from earmark.evaluation.metrics.boundaries import match_events
from earmark.features.pretrained.segments import segments
from earmark.training.dataset import TrainingRecording
from earmark.training.segmentation import fit_segmenter, list_classes, mark_classes
from earmark.training.settings import Settings

SETTINGS = Settings(
    objective="frame", width=16, dropout=0.0, steps=50, batch=4, crop=8.0, learning_rate=2e-2,
)  # fmt: skip


def recording(name: str, seed: int) -> TrainingRecording:
    """A minute in which `tap` raises one channel and `knife` another."""
    rng = np.random.default_rng(seed)
    features = rng.standard_normal((1500, 4)) * 0.1
    events = []
    for place, start in enumerate(np.arange(2.0, 56.0, 6.0)):
        kind, channel = (("tap", 0), ("knife", 1))[(place + seed) % 2]
        features[round(start * 25) : round((start + 2) * 25), channel] += 3.0
        events.append(Action(float(start), float(start) + 2.0, kind))
    return TrainingRecording(name, 60.0, (features.astype(np.float16),), tuple(events))


def test_events_of_another_recording_are_found_with_their_class():
    segmenter = fit_segmenter([recording("a", 0), recording("b", 1)], SETTINGS)
    assert segmenter.classes == ("knife", "tap")
    other = recording("c", 2)
    found = [
        Action(each.span.start, each.span.end, each.name)
        for each in segments([segmenter(other.features)], segmenter.classes)
    ]
    assert match_events(other.actions, found).f1 > 0.9


def test_the_same_seed_gives_the_same_head():
    few = Settings(objective="frame", width=8, steps=3, batch=2, crop=8.0)
    one, same, other = (
        fit_segmenter([recording("a", 0)], few, seed=seed)(recording("c", 2).features).values
        for seed in (0, 0, 1)
    )
    assert (one == same).all() and (one != other).any()


def test_a_class_is_marked_while_it_sounds():
    marked = mark_classes(recording("a", 0), ("tap",))
    assert marked[:, 0].sum() == 5 * 50 and marked[50, 0] == 1 and marked[49, 0] == 0


def test_events_without_labels_are_no_classes():
    heard = recording("a", 0)
    mute = TrainingRecording("a", 60.0, heard.takes, (Action(1.0, 2.0),))
    with pytest.raises(AnnotationError, match="no event has a label"):
        list_classes([mute])
