"""Small gates and small kitchens for tests: made in memory, no media, no training data."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import torch

from earmark.timeline import CLOCK_RATE
from earmark_lab.annotations.actions import Action
from earmark_lab.training.dataset import Material, TrainingRecording
from earmark_lab.training.gate_training import Provenance, Trained, train_gate
from earmark_lab.training.settings import Settings

torch.set_num_threads(1)  # small arrays on shared cores: a second thread only waits

SMALL = Settings(
    encoder="log-mel",
    bands=4,
    context_channels=4,
    steps=4,
    check_every=2,
    folds=2,
    width=8,
    batch=2,
    crop=8.0,
    seeds=1,
    dropout=0.1,
    made=0,
)


def kitchen(recordings: int = 6, *, seconds: float = 60.0, seed: int = 0) -> Material:
    """Recordings of three people whose features jump where an action starts."""
    rng = np.random.default_rng(seed)
    material = {}
    for number in range(recordings):
        name = f"P{number % 3:02d}_{number}"
        duration = seconds + number
        features = rng.standard_normal((int(np.ceil(duration * CLOCK_RATE)), 64)) * 0.3
        actions = []
        for start in np.sort(rng.uniform(0, duration - 3, 12)).tolist():
            actions.append(Action(start, start + rng.uniform(0.5, 3.0)))
            features[round(start * CLOCK_RATE) :][:10] += 2.0
        material[name] = TrainingRecording(
            name, duration, (features.astype(np.float16),), tuple(actions)
        )
    return material


def small_training(folder: Path, settings: Settings = SMALL) -> Trained:
    """A gate trained for a moment."""
    return train_gate(kitchen(), settings, folder=folder, origin=Provenance("made up", "none"))
