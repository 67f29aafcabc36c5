"""The detector of talk learns what it is told, once, and leaves work in talk alone."""

from __future__ import annotations

from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from earmark.errors import ModelMismatch
from earmark_lab.training import optimisation
from earmark_lab.training.dataset import TrainingRecording
from earmark_lab.training.optimisation import fit_detector
from earmark_lab.training.settings import Settings
from earmark_lab.training.synthetic_sound import ALONE, OTHER, UNKNOWN, WORK, TalkMixture

SETTINGS = Settings(steps=40, width=8, crop=20.0)


def noise(seed: int) -> np.ndarray:
    return np.random.default_rng(seed).normal(0, 0.3, (4000, 16)).astype(np.float16)


def talked(seed: int) -> TalkMixture:
    """The first channel is loud where there is talk, the second where there is work."""
    rows, labels = noise(seed), np.full(4000, OTHER, np.int8)
    rows[1000:3000, 0] += 3
    labels[1000:3000] = ALONE
    rows[1800:2200, 1] += 3
    labels[1800:2200] = WORK
    labels[2180:2220] = UNKNOWN
    return TalkMixture(rows, labels)


def at_work(seed: int) -> TrainingRecording:
    rows = noise(seed)
    rows[500:2500, 1] += 3
    return TrainingRecording(f"P0{seed}_1", 160.0, (rows,), ())


def test_talk_alone_is_silenced_and_work_is_not(tmp_path: Path) -> None:
    detector = fit_detector(
        [talked(1), talked(2)], [at_work(3)], SETTINGS, checkpoint=tmp_path / "talk.pt"
    )
    heard, busy = talked(7), at_work(8).features
    with torch.no_grad():
        left = detector.without_talk(torch.from_numpy(heard.features.astype(np.float32))[None])[0]
        kept = detector.without_talk(torch.from_numpy(busy)[None])[0]
    assert left.numpy()[heard.labels == ALONE].mean() < 0.05
    assert left.numpy()[heard.labels == WORK].mean() > 0.9
    assert kept.mean() > 0.95


def test_a_finished_training_is_taken_up(tmp_path: Path) -> None:
    few, path = replace(SETTINGS, steps=3), tmp_path / "talk.pt"
    first = fit_detector([talked(1)], [at_work(3)], few, checkpoint=path)
    stamp = path.stat().st_mtime_ns
    again = fit_detector([talked(1)], [at_work(3)], few, checkpoint=path)
    assert path.stat().st_mtime_ns == stamp
    for name, value in first.state_dict().items():
        assert (again.state_dict()[name] == value).all(), name
    with pytest.raises(ModelMismatch, match="other"):
        fit_detector([talked(1)], [at_work(4)], few, checkpoint=path)
    with pytest.raises(ModelMismatch, match="other"):
        fit_detector([talked(2)], [at_work(3)], few, checkpoint=path)


def test_an_interrupted_training_ends_as_an_unbroken_one(tmp_path: Path, monkeypatch) -> None:
    few = replace(SETTINGS, steps=3, check_every=8)  # 20 steps of the detector
    whole = fit_detector([talked(1)], [at_work(3)], few, checkpoint=tmp_path / "whole.pt")
    draw, drawn = optimisation.draw_talk, []

    def draw_until_stopped(*given: Any) -> Any:
        drawn.append(given)
        if len(drawn) == 12:
            raise KeyboardInterrupt
        return draw(*given)

    monkeypatch.setattr(optimisation, "draw_talk", draw_until_stopped)
    for stopped in (True, False):
        with pytest.raises(KeyboardInterrupt) if stopped else nullcontext():
            resumed = fit_detector([talked(1)], [at_work(3)], few, checkpoint=tmp_path / "part.pt")
    assert len(drawn) == 12 + 12  # from the eighth step on
    for name, value in whole.state_dict().items():
        assert (resumed.state_dict()[name] == value).all(), name
