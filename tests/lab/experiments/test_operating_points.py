"""Looks where nothing was kept, chosen on other recordings."""

from __future__ import annotations

import math
from functools import partial

import numpy as np
import pytest

from earmark import Span, Track
from earmark.gate.episodes import Episodes
from earmark_lab.annotations.actions import Action
from earmark_lab.experiments.operating_points import (
    MEDIANS,
    EpisodeShape,
    EpisodeTrial,
    count_setting,
    find_episodes,
    look_between,
    points_table,
)
from earmark_lab.experiments.score_sources import AnnotatedScores


def scores(drawing: str, *actions: tuple[float, float]) -> AnnotatedScores:
    """One character a second; digits over ten are scores, dots are 0."""
    values = np.array([0 if sign == "." else int(sign) for sign in drawing]) / 10
    marked = [Action(*each) for each in actions]
    return AnnotatedScores("a", Track(values, hop=1.0), float(len(drawing)), marked)


def test_what_is_kept_are_the_episodes_of_the_gate():
    """Hysteresis and the median filter, specks dropped before gaps are closed, 0.6 s left open."""
    #        a speck beside a stretch, a gap of exactly 0.6 s, a dip that stays above the closing
    values = [0, 9, 0, 9, 9, 0, 0, 0, 0, 0, 0, 9, 9, 5, 9, 9, 0]
    one = AnnotatedScores("a", Track(np.array(values) / 10, hop=0.1), 1.7, [])
    plain = find_episodes(one, EpisodeShape().rule(0.9))
    assert [(round(s.start, 2), round(s.end, 2)) for s in plain] == [(0.3, 0.5), (1.1, 1.6)]
    assert plain == Episodes(0.9, 0.9)(one.track)
    held = find_episodes(one, EpisodeShape(off_share=0.4).rule(0.9))
    assert [(round(s.start, 2), round(s.end, 2)) for s in held] == [(0.3, 0.5), (1.1, 1.6)]
    apart = AnnotatedScores(
        "b", Track(np.array([9, 9, 9, 5, 5, 5, 5, 5, 5, 9, 9]) / 10, hop=0.1), 1.1, []
    )
    assert len(find_episodes(apart, EpisodeShape().rule(0.9))) == 2
    assert len(find_episodes(apart, EpisodeShape(off_share=0.5).rule(0.9))) == 1
    smooth = find_episodes(one, EpisodeShape(median=3).rule(0.9))
    assert [(round(s.start, 2), round(s.end, 2)) for s in smooth] == [(0.2, 0.5), (1.1, 1.6)]


def test_what_is_heard_past_the_end_is_cut():
    """A track may be a little longer than its recording, and an episode may begin there."""
    one = AnnotatedScores("a", Track(np.array([9, 9, 0, 0, 9, 9]) / 10, hop=1.0), 3.5, [])
    assert find_episodes(one, EpisodeShape().rule(0.9)) == [Span(0, 2)]


def test_closing_threshold_and_filter_are_chosen_on_the_development_recordings():
    """A score that dips inside an action costs two calls without hysteresis, and one with it."""
    dips = scores("9.9.9.9.............", (0, 7))
    assert EpisodeTrial([dips], []).choose_shape() == EpisodeShape()
    flickers = AnnotatedScores(
        "f", Track(np.tile([0.9, 0.1, 0.1, 0.9, 0.9], 20), hop=0.04), 4.0, [Action(2.0, 2.04)]
    )
    assert EpisodeTrial([flickers], []).choose_shape().median in MEDIANS
    points = EpisodeTrial([dips], [dips]).measure_points([0.5, 1.0])
    assert all(point.rule and point.rule.on == 0.9 for point in points)


def test_operating_points_are_chosen_on_some_and_judged_on_others():
    dev = scores("..9...5.....", (2, 3), (6, 7))
    test = scores("5.9.........", (0, 1), (2, 3), (8, 9))
    half, all_ = EpisodeTrial([dev], [test]).measure_points([0.5, 1.0])
    assert half.rule and (half.rule.on, half.counts.reached) == (0.9, 1)
    assert all_.rule and (all_.rule.on, all_.counts.reached) == (0.5, 2)
    table = points_table({"ear": [half, all_]})
    assert table.rows[0][:3] == ("ear", "50 %", pytest.approx(100 / 3))
    assert table.rows[0][3] == pytest.approx(100 * 11 / 12)
    assert table.rows[0][4] == "—"  # one recording says nothing of how far they differ
    assert table.rows[0][6] == 4.0  # one second is charged a quarter of a call, and costs one


def test_an_operating_point_has_an_interval_over_recordings():
    dev = scores("..9...5.....", (2, 3), (6, 7))
    many = [scores("9" * kept + "." * (12 - kept), (0, 1)) for kept in (1, 2, 3, 4)]
    (point,) = EpisodeTrial([dev], many).measure_points([0.5])
    low, high = point.reduction_interval
    assert point.counts.reduction == pytest.approx(1 - 10 / 48)
    assert low < point.counts.reduction < high
    plain = EpisodeTrial([dev], many).measure_points([0.5], shape=EpisodeShape())[0]
    assert plain.rule and (plain.rule.off, plain.rule.median) == (plain.rule.on, 1)


def test_looks_lie_in_the_gaps():
    looks = look_between([Span(4, 6)], 20.0, every=4.0)
    assert looks == [Span(1, 3), Span(7, 9), Span(11, 13), Span(15, 17)]
    assert look_between([Span(0, 20)], 20.0, every=4.0) == []
    assert look_between([], 3.0, every=4.0) == []


def test_the_setting_that_throws_most_away_at_the_target():
    # Two loud actions and one silent one: the threshold alone must keep everything to reach all.
    one = scores("..99............99..", (2, 4), (9, 11), (16, 18))
    plain, trial = EpisodeShape(), EpisodeTrial([one], [])
    chosen = partial(trial.measure_points, shape=plain, highest=False)
    most, every = chosen([0.6, 1.0])
    assert (most.rule, every.rule) == (plain.rule(0.9), plain.rule(0.0))
    assert (most.every, every.every) == (None, None)
    (looking,) = chosen([1.0], every=[None, 4.0])
    assert (looking.rule, looking.every) == (plain.rule(0.9), 4.0)
    kept = count_setting([one], plain.rule(0.9), [4.0], window=4.0)[0]
    assert (kept.recall, kept.kept) == (1.0, 10.0)
    assert kept.calls == 5  # but every window is called: seconds hide it
    (counted,) = chosen([1.0], every=[None, 4.0], unit="calls")
    # Nothing is saved, so the first of equals.
    assert (counted.rule, counted.every) == (plain.rule(0.0), None)


def test_the_table_has_a_dash_where_no_setting_reaches_the_target():
    dev = scores("..99..", (2, 4), (20, 21))  # the second lies past the end of the scores
    table = EpisodeTrial([dev], [dev]).downsample_table(targets=[0.5, 0.9])
    assert table.rows[0][1] == 50.0
    assert math.isnan(float(table.rows[1][1]))
    assert table.rows[1][4] == "—"
