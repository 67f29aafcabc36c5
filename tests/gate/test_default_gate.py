"""The gate that comes with earmark, on sounds whose answer is plain."""

from __future__ import annotations

import numpy as np
import pytest

from earmark.features.floor_mel import FloorMel
from earmark.features.spectrum import decibels
from earmark.gate.gate import default_gate
from earmark.gate.listener import LEVEL_HOP
from earmark.grid import Grid, Windows
from earmark.media import Sound
from earmark.selection import Budget, Coverage
from earmark.selection.rules.rank import Rank
from earmark.timeline import Track

RATE = 16_000
CELL = round(LEVEL_HOP * RATE)


def noise(seconds: float, *, level: float = 0.003, seed: int = 0) -> np.ndarray:
    rng = np.random.default_rng(seed)
    return (rng.standard_normal(round(seconds * RATE)) * level).astype(np.float32)


def heard(samples: np.ndarray) -> Windows:
    gate, line = default_gate(), default_gate().frontline()
    assert line.shows_loudest
    scores = next(iter(gate.scorer(FloorMel().encode([Sound(samples, 0.0, RATE)]))))
    cells = samples[: len(samples) // CELL * CELL].reshape(-1, CELL)
    level = Track(decibels(np.sqrt((cells**2).mean(axis=1))), hop=LEVEL_HOP)
    length = len(samples) / RATE
    return Grid().score(scores, length, rates=gate.rates, survival=gate.survival, level=level)


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
    assert [recall for recall, _ in gate.points["on"]] == [0.99, 0.97, 0.95, 0.93, 0.90, 0.87]
    thresholds = [threshold for _, threshold in gate.points["on"]]
    assert thresholds == sorted(thresholds)
    for row in gate.card.honesty:
        assert abs(row.forecast - row.actual) < 0.06


def test_bursts_are_picked_in_the_windows_they_fill() -> None:
    windows = heard(with_bursts((20, 24), (60, 64), (100, 104)))
    picks = Rank()(windows, budget=3)
    assert [pick.window for pick in picks] == [5, 15, 25]
    for pick, start in zip(picks, (20, 60, 100), strict=True):
        assert start <= pick.instant < start + 4


@pytest.mark.parametrize(
    ("burst", "what"),
    [
        ((41.0, 41.2), "a knock"),
        ((40.1, 40.3), "a knock at the beginning of a window"),
        ((43.2, 43.6), "a knock near its end"),
        ((40.0, 41.0), "a second of work that begins with its window"),
        ((43.0, 44.0), "one that ends with it"),
        ((41.5, 42.9), "work in the middle"),
        ((43.4, 44.6), "work that lies over an edge"),
    ],
)
def test_what_is_shown_is_the_sound_that_earned_the_pick(
    burst: tuple[float, float], what: str
) -> None:
    shown = [pick.instant for pick in Coverage()(heard(with_bursts(burst)), budget=2)]
    assert any(burst[0] <= each < burst[1] for each in shown), f"{what} at {burst}: {shown}"


def test_of_two_knocks_one_is_shown() -> None:
    first, second = (41.0, 41.1), (41.5, 41.6)
    (pick,) = Coverage()(heard(with_bursts(first, second)), budget=1)
    assert 40.8 <= pick.instant < 41.8


def test_a_drill_is_not_picked_before_it_starts() -> None:
    windows = heard(with_bursts((42, 72)))
    for pick in Coverage()(windows, budget=4):
        assert 42 <= pick.instant < 72


@pytest.mark.parametrize("level", [0.0, 1e-4, 0.003, 0.1])
def test_noise_alone_is_worth_next_to_no_call(level: float) -> None:
    windows = heard(noise(600.0, level=level))
    bought = Coverage().solve_many([windows], budget=Budget(price=0.3))[0]
    assert len(bought) <= 0.02 * len(windows)
