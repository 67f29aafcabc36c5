"""The gate that comes with earmark, on sounds whose answer is plain."""

from __future__ import annotations

import numpy as np
import pytest

from earmark.features.floor_mel import FloorMel
from earmark.gate.gate import default_gate
from earmark.grid import Grid, Windows
from earmark.media import Sound
from earmark.selection import Budget, Coverage
from earmark.selection.rules.rank import Rank

RATE = 16_000


def noise(seconds: float, *, level: float = 0.003, seed: int = 0) -> np.ndarray:
    rng = np.random.default_rng(seed)
    return (rng.standard_normal(round(seconds * RATE)) * level).astype(np.float32)


def heard(samples: np.ndarray) -> Windows:
    gate = default_gate()
    tracks = gate.scorer(FloorMel().encode([Sound(samples, 0.0, RATE)]))
    scores = next(iter(tracks))
    length = len(samples) / RATE
    return Grid().score(scores, length, rates=gate.rates, survival=gate.survival)


def with_bursts(*spans: tuple[float, float]) -> np.ndarray:
    sound = noise(120.0)
    for start, end in spans:
        place = slice(round(start * RATE), round(end * RATE))
        sound[place] += noise(end - start, level=0.1, seed=7)
    return sound


def test_what_it_says_of_itself() -> None:
    gate = default_gate()
    assert gate.card.objective == "where"
    assert "composites" in gate.card.data
    assert "research use only" in gate.card.licence
    assert len(gate.card.commit) == 40
    assert [recall for recall, _ in gate.points.on] == [0.99, 0.97, 0.95, 0.93, 0.90, 0.87]
    thresholds = [threshold for _, threshold in gate.points.on]
    assert thresholds == sorted(thresholds)
    for row in gate.card.honesty:
        assert abs(row.forecast - row.actual) < 0.06


def test_bursts_are_picked_in_the_windows_they_fill() -> None:
    windows = heard(with_bursts((20, 24), (60, 64), (100, 104)))
    picks = Rank()(windows, budget=3)
    assert [pick.window for pick in picks] == [5, 15, 25]
    for pick in picks:
        assert pick.start <= pick.instant < pick.end


def test_a_drill_is_not_picked_before_it_starts() -> None:
    windows = heard(with_bursts((42, 72)))
    for pick in Coverage()(windows, budget=4):
        assert 42 <= pick.instant < 72


@pytest.mark.parametrize("level", [0.0, 1e-4, 0.003, 0.1])
def test_noise_alone_is_worth_next_to_no_call(level: float) -> None:
    windows = heard(noise(600.0, level=level))
    bought = Coverage().solve_many([windows], budget=Budget(price=0.3))[0]
    assert len(bought) <= 0.02 * len(windows)
