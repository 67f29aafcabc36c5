"""The recall promise holds at the rate it states, and is not given where it cannot be."""

from __future__ import annotations

import numpy as np
import pytest

from earmark.gate.episodes import Misses
from earmark.selection.episodes import fewest, p_value, promise

THRESHOLDS = np.linspace(0, 1, 41)


def drawn(rng: np.random.Generator, recordings: int) -> Misses:
    """Recordings of a few actions each, kept with a chance that falls with the threshold.

    The expected miss of threshold t is t / 2, so 10 % are missed at 0.2; people differ.
    """
    habit = rng.beta(2, 2, size=(recordings, 1, 1))  # mean 1/2
    loudness = rng.random((recordings, 6, 1))
    return Misses(THRESHOLDS, (loudness < THRESHOLDS * habit).mean(axis=1))


@pytest.mark.parametrize("recordings", [60, 150])
def test_the_promise_holds_as_often_as_it_says(recordings: int) -> None:
    rng = np.random.default_rng(7)
    broken, used = 0, []
    for _ in range(400):
        given = promise(drawn(rng, recordings), recall=0.9, confidence=0.9)
        used.append(given.threshold)
        broken += given.threshold / 2 > 0.1 + 1e-12
    assert broken <= 400 * 0.1
    assert np.median(used) >= 0.025  # and it is no empty caution


def test_more_recordings_dare_more() -> None:
    rng = np.random.default_rng(1)
    few, many = (promise(drawn(rng, n), recall=0.9, confidence=0.95) for n in (80, 4000))
    assert few.threshold < many.threshold <= 0.2
    assert many.observed >= 0.9


def test_a_small_development_set_promises_nothing() -> None:
    perfect = Misses(THRESHOLDS, np.zeros((20, len(THRESHOLDS))))
    with pytest.raises(ValueError, match=r"20 development recordings cannot promise 90% .* 29;"):
        promise(perfect, recall=0.9, confidence=0.95)
    enough = Misses(THRESHOLDS, np.zeros((29, len(THRESHOLDS))))
    assert promise(enough, recall=0.9, confidence=0.95).threshold == 1.0
    assert fewest(recall=0.9, confidence=0.95) == 29


def test_a_weak_gate_promises_nothing() -> None:
    weak = Misses(THRESHOLDS, np.full((200, len(THRESHOLDS)), 0.3))
    with pytest.raises(ValueError, match="no threshold of this gate"):
        promise(weak, recall=0.9)


def test_the_first_threshold_that_fails_ends_the_search() -> None:
    shares = np.zeros((100, 3))
    shares[:, 1] = 0.5
    found = promise(Misses(np.array([0.1, 0.2, 0.3]), shares), recall=0.9)
    assert found.threshold == 0.1


@pytest.mark.parametrize(("recall", "confidence"), [(0, 0.9), (1, 0.9), (0.9, 1), (0.9, 0)])
def test_a_promise_needs_shares(recall: float, confidence: float) -> None:
    with pytest.raises(ValueError, match="lies between 0 % and 100 %"):
        promise(Misses(np.array([0.1]), np.zeros((50, 1))), recall=recall, confidence=confidence)


def test_a_p_value_is_one_where_the_risk_is_reached_and_falls_below() -> None:
    assert p_value(0.1, count=50, risk=0.1) == 1
    falling = [p_value(mean, count=100, risk=0.1) for mean in (0.08, 0.05, 0.02, 0.0)]
    assert falling == sorted(falling, reverse=True)
    assert falling[-1] == pytest.approx(0.9**100)


def test_misses_are_checked_where_they_are_made() -> None:
    with pytest.raises(ValueError, match="one column per threshold"):
        Misses(np.array([0.1, 0.2]), np.zeros((3, 1)))
    with pytest.raises(ValueError, match="thresholds must increase"):
        Misses(np.array([0.2, 0.1]), np.zeros((3, 2)))
    with pytest.raises(ValueError, match="between 0 and 1"):
        Misses(np.array([0.1, 0.2]), np.full((3, 2), 1.5))
