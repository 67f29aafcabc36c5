"""Coverage, occupancy, episodes and calls saved, drawn small and checked against obvious loops."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from earmark import Pick, Span
from earmark.grid import Grid
from earmark_lab.annotations.actions import Action
from earmark_lab.metrics.counts import (
    CoverageCounts,
    EpisodeCounts,
    ForecastCounts,
    OccupancyCounts,
    calls_saved,
    count_covered,
    count_kept,
    count_occupied,
    forecast_error,
    is_covered,
    or_dash,
)


def actions(*drawings: str) -> list[Action]:
    """One action a line: `=` marks the half seconds it lasts."""
    return [Action(d.index("=") / 2, (d.rindex("=") + 1) / 2) for d in drawings]


def pick(window: int, instant: float, *, length: float = 4.0) -> Pick:
    start = window * length
    return Pick(window, start, start + length, instant, 0.5, 0.5, 0.5, "")


#        windows of 4 s: |0......|1......|2......|
DRAWN = actions(
    "====            ",
    "       ==       ",
    "        ========",
    "                ======",
)


def test_an_action_is_covered_by_any_window_it_overlaps():
    def names(*chosen: int) -> list[float]:
        return is_covered(DRAWN, np.array(chosen), windows=3, length=4.0).tolist()

    assert names(0) == [1, 1, 0, 0]
    assert names(1) == [0, 1, 1, 0]  # the third ends at 8 s sharp: window 2 does not touch it
    assert names(2) == [0, 0, 0, 1]
    assert names(0, 2) == [1, 1, 0, 1]
    assert names() == [0, 0, 0, 0]


def test_strict_coverage_wants_the_instant_inside():
    counts = count_covered(DRAWN, [pick(0, 2.0), pick(1, 4.25)], windows=3, length=4.0)
    # 2.0 s is where the first action ends, so it is outside; 4.25 s is in the second and third.
    assert counts == CoverageCounts(windows=3, calls=2, actions=4, covered=3, strict=2)
    assert counts.cost == pytest.approx(2 / 3)
    assert counts.coverage == 0.75
    assert counts.strict_coverage == 0.5


def test_counts_add_up_before_a_share_is_taken():
    both = CoverageCounts(10, 5, 8, 8, 4) + CoverageCounts(30, 5, 2, 0, 0)
    assert both == CoverageCounts(40, 10, 10, 8, 4)
    assert both.coverage == 0.8


def test_nothing_to_find_is_a_dash_and_never_nought():
    empty = count_covered([], [pick(0, 1.0)], windows=3, length=4.0)
    assert math.isnan(empty.coverage)
    assert math.isnan(empty.strict_coverage)
    assert math.isnan(CoverageCounts().cost)
    assert math.isnan(OccupancyCounts().occupancy)
    assert math.isnan(EpisodeCounts().recall)
    assert or_dash(empty.coverage) == "—"
    assert or_dash(0.0) == "0.0"


spans = st.tuples(st.floats(0, 60), st.floats(0.01, 20))


@given(
    rows=st.lists(spans, max_size=12),
    chosen=st.sets(st.integers(0, 15)),
    length=st.sampled_from([0.5, 1.0, 4.0, 0.3]),
)
def test_coverage_and_occupancy_equal_the_obvious_loops(
    rows: list[tuple[float, float]], chosen: set[int], length: float
):
    marked = [Action(start, start + lasts) for start, lasts in rows]
    windows = Grid(length).count(80.0)
    touched = [
        [max(m * length, a.start) < min((m + 1) * length, a.end) for m in range(windows)]
        for a in marked
    ]
    got = is_covered(marked, np.array(sorted(chosen), dtype=int), windows=windows, length=length)
    assert got.tolist() == [any(row[m] for m in chosen) for row in touched]
    full = count_occupied(marked, 80.0, window=length)
    assert full.windows == windows
    assert full.overlaps == sum(map(sum, touched))
    assert full.occupied == sum(any(row[m] for row in touched) for m in range(windows))


@given(rows=st.lists(spans, max_size=8), kept=st.lists(spans, max_size=8))
def test_episodes_equal_the_obvious_loops(
    rows: list[tuple[float, float]], kept: list[tuple[float, float]]
):
    marked = [Action(start, start + lasts) for start, lasts in rows]
    episodes = [Span(start, start + lasts) for start, lasts in kept]
    got = count_kept(marked, episodes, 80.0, window=4.0)
    assert got.reached == sum(any(each.overlaps(e) for e in episodes) for each in marked)
    cells = [Span(m * 4.0, (m + 1) * 4.0) for m in range(20)]
    assert got.calls == sum(any(cell.overlaps(e) for e in episodes) for cell in cells)


def test_short_episodes_cost_more_calls_than_their_seconds():
    #          |0......|1......|2......|3......|
    episodes = "..==.......====................."
    spans = [Span(1.0, 2.0), Span(5.5, 8.5)]
    assert len(episodes) == 32
    got = count_kept(DRAWN, spans, 16.0, window=4.0)
    assert (got.kept, got.calls, got.windows) == (4.0, 3, 4)
    assert got.undercount == 3.0  # four seconds would have been one call
    assert got.reduction == 0.75
    assert got.recall == 0.75
    assert (got + got).undercount == 3.0
    assert math.isnan(count_kept(DRAWN, [], 16.0, window=4.0).undercount)
    finer = got + count_kept(DRAWN, spans, 16.0, window=2.0)
    assert finer.undercount == (3 + 4) / (1 + 2)  # what windows of any length are charged adds up


def test_episodes_end_with_the_recording():
    got = count_kept([Action(1, 2)], [Span(6.0, 30.0), Span(40.0, 50.0)], 10.0, window=4.0)
    assert (got.kept, got.episodes, got.calls, got.reached) == (4.0, 1, 2, 0)
    assert got.reduction == pytest.approx(0.6)


def test_an_action_that_lasts_nothing_touches_nothing():
    moments = [Action(5.0, 5.0), Action(4.0, 4.0)]
    assert is_covered(moments, np.array([0, 1, 2]), windows=3, length=4.0).tolist() == [0, 0]
    assert count_occupied(moments, 12.0, window=4.0) == OccupancyCounts(3, 0, 0)


def test_the_paper_s_undercount():
    deployed = EpisodeCounts(seconds=8700, windows=2181, calls=2109, charged=1201)
    assert round(deployed.undercount, 2) == 1.76


UNIFORM = [(0.1, 0.2), (0.3, 0.5), (0.5, 0.5), (1.0, 0.9)]


def test_calls_saved_reads_the_baseline_sideways():
    assert calls_saved(0.1, 0.35, UNIFORM) == pytest.approx(0.5)
    assert calls_saved(0.2, 0.2, UNIFORM) == pytest.approx(-1.0)
    assert calls_saved(0.3, 0.5, UNIFORM) == pytest.approx(0.0)  # the cheapest of two


@pytest.mark.parametrize("coverage", [0.1, 0.95, math.nan])
def test_calls_saved_is_undefined_where_the_baseline_cannot_be_read(coverage: float):
    assert math.isnan(calls_saved(0.2, coverage, UNIFORM))
    assert math.isnan(calls_saved(0.2, coverage, []))


@given(
    curve=st.lists(st.tuples(st.integers(1, 20), st.integers(0, 20)), min_size=1, max_size=6),
    reached=st.integers(0, 80),
)
def test_calls_saved_equals_walking_along_the_curve(curve: list[tuple[int, int]], reached: int):
    baseline = sorted({cost: (cost / 20, cover / 20) for cost, cover in curve}.values())
    costs, covers = (np.array(side) for side in zip(*baseline, strict=True))
    steps = np.unique(np.concatenate([np.linspace(costs[0], costs[-1], 20_001), costs]))
    walked = np.interp(steps, costs, covers)
    coverage = reached / 80
    got = calls_saved(0.1, coverage, baseline)
    if coverage < covers[0] or coverage > covers.max():
        assert math.isnan(got)
    else:
        first = steps[np.argmax(walked >= coverage - 1e-9)]
        assert got == pytest.approx(1 - 0.1 / first, abs=0.005)


def test_forecast_error_counts_recordings_with_actions_only():
    first = forecast_error(CoverageCounts(10, 2, 10, 5, 0), expected=6, foreseen=12)
    second = forecast_error(CoverageCounts(10, 2, 10, 9, 0), expected=6, foreseen=8)
    nothing = forecast_error(CoverageCounts(10, 2, 0, 0, 0), expected=6, foreseen=8)
    assert nothing == ForecastCounts()
    both = first + second + nothing
    assert both.error == pytest.approx((0.0 + 0.15) / 2)
    assert both.forecast == pytest.approx(12 / 20)
    assert both.bias == pytest.approx(12 / 20 - 14 / 20)
