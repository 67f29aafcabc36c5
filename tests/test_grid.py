"""The grid of windows, and scores brought onto it."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from drawing import windows
from earmark import Span, Track
from earmark.gate.rates import RankRates
from earmark.gate.survival import Survival
from earmark.grid import MIN_REMAINDER, Grid, Windows
from earmark.timeline import format_clock
from reckoning import CURVES


@pytest.mark.parametrize(
    ("duration", "count"),
    [
        (0.0, 0),
        (-1.0, 0),
        (0.1, 1),
        (4.0, 1),
        (4.0 + 1e-10, 1),
        (4.02, 1),
        (8.09, 2),
        (8.11, 3),
        (9.0, 3),
        (3600.0, 900),
    ],
)
def test_windows_are_counted_up(duration: float, count: int) -> None:
    assert Grid(4.0).count(duration) == count


@pytest.mark.parametrize("window", [0.1, 0.3, 0.7])
def test_rounding_makes_no_window(window: float) -> None:
    assert [Grid(window).count(window * number) for number in range(200)] == list(range(200))


@given(
    st.floats(0.1, 40.0) | st.integers(10, 4_000).map(lambda hundredths: hundredths / 100),
    st.sampled_from([1.0, 2.0, 4.0, 10.0]),
)
def test_no_window_is_shown_to_end_where_it_starts(duration: float, length: float) -> None:
    silence = Track(np.empty(0))
    laid = Grid(length).score(silence, duration, rates=RankRates(), lengths=CURVES["usual"])
    spans = [laid.span(window) for window in range(len(laid))]
    assert all(format_clock(span.start) != format_clock(span.end) for span in spans)
    assert duration - spans[-1].end <= MIN_REMAINDER + 1e-6
    assert np.all(laid.rates <= laid.rates[0])


@pytest.mark.parametrize("window", [0.0, -4.0, float("nan"), float("inf")])
def test_a_window_lasts(window: float) -> None:
    with pytest.raises(ValueError, match="or more"):
        Grid(window)


def slow_pool(scores: Track, grid: Grid, duration: float) -> list[tuple[float, float, float]]:
    """Peak, mean and instant of each window, one window at a time."""
    middles = [scores.time_of(step) + scores.hop / 2 for step in range(len(scores))]
    count = grid.count(duration)
    inside = [value for value, time in zip(scores.values, middles, strict=True)
              if 0 <= time < count * grid.length]  # fmt: skip
    rows = []
    for place in range(count):
        start, end = place * grid.length, (place + 1) * grid.length
        held = [(float(value), -time) for value, time in zip(scores.values, middles, strict=True)
                if start <= time < end]  # fmt: skip
        if not held:
            low = min(inside, default=0.0)
            rows.append((low, low, (start + min(end, duration)) / 2))
            continue
        best = sorted(held, reverse=True)
        tells = best[0][0] > best[-1][0]
        instant = -best[0][1] if tells else (start + min(end, max(duration, 0.0))) / 2
        rows.append((best[0][0], np.mean([value for value, _ in held]), instant))
    return rows


@given(
    st.lists(st.integers(0, 9), max_size=60),
    st.sampled_from([0.5, 1.0, 0.75]),
    st.sampled_from([-1.5, 0.0, 2.25]),
    st.floats(0.0, 40.0),
)
def test_pooling_is_the_slow_way(
    values: list[int], hop: float, start: float, duration: float
) -> None:
    track, grid = Track(np.array(values, dtype=float), hop=hop, start=start), Grid(4.0)
    pooled, instants = grid.pool(track, duration)
    slow = slow_pool(track, grid, duration)
    fast = np.stack([pooled.peak, pooled.mean, instants], axis=1)
    np.testing.assert_allclose(fast, np.array(slow).reshape(-1, 3), atol=1e-9)


def test_the_instant_is_that_of_the_first_largest_score() -> None:
    #                  window 0    window 1    window 2 has no step
    values = np.array([0, 3, 3, 1, 5, 0, 0, 0], dtype=float)
    pooled, instants = Grid(4.0).pool(Track(values, hop=1.0), 12.0)
    assert pooled.peak.tolist() == [3.0, 5.0, 0.0]
    assert instants.tolist() == [1.5, 4.5, 10.0]


def test_a_window_of_equal_scores_is_shown_at_its_middle() -> None:
    #                  silence     an event    silence, cut short
    values = np.array([0, 0, 0, 0, 0, 2, 0, 0, 0, 0], dtype=float)
    _, instants = Grid(4.0).pool(Track(values, hop=1.0), 10.0)
    assert instants.tolist() == [2.0, 5.5, 9.0]


def test_with_a_level_the_instant_is_the_loudest_moment() -> None:
    """A knock is louder than the hum that follows it, and shorter: the hum fills a moment."""
    scores = Track(np.linspace(1.0, 0.0, 300))
    #                 0.2 s each:  knock        hum
    level = np.full(60, -60.0)
    level[2], level[10:15] = -20.0, -30.0  # window 0: at 0.5 s, and from 2 to 3 s
    level[21] = -20.0  # window 1: a knock alone, at 4.3 s; window 2 is quiet throughout
    windows = Grid(4.0).score(
        scores,
        12.0,
        rates=RankRates(),
        lengths=Survival.lognormal(median=2.0, sigma=1.0),
        level=Track(level, hop=0.2),
        shows_loudest=True,
    )
    assert windows.instants.tolist() == pytest.approx([2.5, 4.3, 10.0])


def test_an_empty_track_leaves_the_middles() -> None:
    pooled, instants = Grid(4.0).pool(Track(np.empty(0)), 10.0)
    assert pooled.peak.tolist() == [0.0, 0.0, 0.0]
    assert instants.tolist() == [2.0, 6.0, 9.0]


@given(st.floats(1e-3, 1e3), st.integers(1, 400))
def test_a_constant_track_is_no_evidence(score: float, steps: int) -> None:
    pooled, _ = Grid(4.0).pool(Track(np.full(steps, score)), steps / 25)
    for values in (pooled.peak, pooled.mean):
        assert np.ptp(values) == 0


def test_scoring_gives_windows_with_rates() -> None:
    track = Track(np.repeat([0.1, 0.9, 0.4], 100))
    scored = Grid(4.0).score(track, 11.0, rates=RankRates(), lengths=CURVES["usual"])
    assert len(scored) == 3
    assert scored.scores.tolist() == [0.1, 0.9, 0.4]
    assert np.argsort(scored.rates[:2]).tolist() == [0, 1]
    assert scored.span(2) == Span(8.0, 11.0)
    assert scored.has_evidence


def test_a_last_window_cut_short_holds_less() -> None:
    flat = Track(np.full(300, 0.5))
    whole = Grid(4.0).score(flat, 12.0, rates=RankRates(), lengths=CURVES["usual"])
    cut = Grid(4.0).score(flat, 9.0, rates=RankRates(), lengths=CURVES["usual"])
    np.testing.assert_allclose(cut.rates, whole.rates * [1, 1, 0.25])
    assert not cut.has_evidence


def test_evidence_is_a_difference() -> None:
    assert not windows("5555").has_evidence
    assert not windows("5").has_evidence
    assert not windows("").has_evidence
    assert windows("5556").has_evidence
    assert windows("5555", rates=[1, 1, 2, 1]).has_evidence


def test_windows_are_checked_where_they_are_made() -> None:
    one, two, bad = np.ones(1), np.ones(2), np.array([np.nan])
    with pytest.raises(ValueError, match="as many scores"):
        Windows(4.0, 4.0, one, two, one, CURVES["usual"])
    with pytest.raises(ValueError, match="scores are finite"):
        Windows(4.0, 4.0, bad, one, one, CURVES["usual"])
    for rates in (bad, -one):
        with pytest.raises(ValueError, match="rates are finite and never negative"):
            Windows(4.0, 4.0, one, one, rates, CURVES["usual"])
