"""A head that learns which class of sound is heard, and whose boundaries are found again."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from earmark.errors import AnnotationError, ModelMismatch
from earmark_lab.annotations.actions import Action
from earmark_lab.metrics.counts import CONTIGUOUS, GAPPED
from earmark_lab.training.dataset import TrainingRecording
from earmark_lab.training.segmentation import (
    Segmenter,
    fit_segmenter,
    list_classes,
    mark_classes,
    train_segmenter,
)
from earmark_lab.training.settings import Settings

SETTINGS = Settings(
    objective="classes", width=16, dropout=0.0, steps=50, batch=4, crop=8.0, learning_rate=2e-2,
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


def test_the_same_seed_gives_the_same_head():
    few = Settings(objective="classes", width=8, steps=3, batch=2, crop=8.0)
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


def test_a_stopped_fit_goes_on_to_the_same_head(tmp_path: Path):
    few = Settings(objective="classes", width=8, steps=4, batch=2, crop=8.0, check_every=2)
    made = [recording("a", 0), recording("b", 1)]
    whole = fit_segmenter(made, few)

    def stop(done: int, _: int) -> None:
        if done == 3:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        fit_segmenter(made, few, progress=stop, checkpoint=tmp_path / "kept.pt")
    again = fit_segmenter(made, few, checkpoint=tmp_path / "kept.pt")
    heard = recording("c", 2).features
    assert (whole(heard).values == again(heard).values).all()
    other = Settings(objective="classes", width=8, steps=5, batch=2, crop=8.0, check_every=2)
    with pytest.raises(ModelMismatch, match="a training with other settings"):
        fit_segmenter(made, other, checkpoint=tmp_path / "kept.pt")


def test_events_of_another_recording_are_found_with_their_class_by_a_head_that_is_kept(
    tmp_path: Path,
):
    material = {f"P0{n}_1": recording(f"P0{n}_1", n) for n in range(3)}
    segmenter, scores = train_segmenter(material, SETTINGS, folder=tmp_path, held_out=["P02_1"])
    assert scores.events.reference == 9 and scores.events.f1 > 0.9
    names = ("segments", GAPPED, CONTIGUOUS)
    found, gapped, contiguous = (scores.boundaries[name, 0.5] for name in names)
    assert found.found == gapped.found > contiguous.found
    assert found.f1 > max(gapped.f1, contiguous.f1)
    loaded = Segmenter.load(tmp_path / "segments.pt")
    heard = material["P02_1"].features
    assert loaded.classes == segmenter.classes
    assert (loaded(heard).values == segmenter(heard).values).all()
    assert json.loads((tmp_path / "run.json").read_text())["classes"] == ["knife", "tap"]
    (tmp_path / "other.pt").write_bytes(b"no head")
    with pytest.raises(ModelMismatch, match="no segmentation head"):
        Segmenter.load(tmp_path / "other.pt")


@pytest.mark.parametrize("content", [b"", b"PK\x03\x04", b"no head"])
def test_a_file_that_is_no_head_is_named(content: bytes, tmp_path: Path):
    (tmp_path / "other.pt").write_bytes(content)
    with pytest.raises(ModelMismatch, match=r"other\.pt is no segmentation head of earmark: .+\Z"):
        Segmenter.load(tmp_path / "other.pt")
