"""Looks where nothing was kept, chosen on other recordings."""

from __future__ import annotations

import math

import numpy as np
import pytest

from earmark.evaluation.annotations.actions import Action
from earmark.evaluation.paper.downsampling import (
    AnnotatedScores,
    DownsampleSetting,
    choose_settings,
    count_setting,
    downsample_table,
    keep_above,
    look_between,
)
from earmark.timeline import Span, Track


def scores(drawing: str, *actions: tuple[float, float]) -> AnnotatedScores:
    """One character a second; digits over ten are scores, dots are 0."""
    values = np.array([0 if sign == "." else int(sign) for sign in drawing]) / 10
    marked = [Action(*each) for each in actions]
    return AnnotatedScores("a", Track(values, hop=1.0), float(len(drawing)), marked)


def test_stretches_above_a_threshold():
    one = scores("..99.9..5.")
    assert keep_above(one.track, 0.9, 10.0) == [Span(2, 4), Span(5, 6)]
    assert keep_above(one.track, 0.5, 8.5) == [Span(2, 4), Span(5, 6), Span(8, 8.5)]
    fine = Track(np.array([1, 0, 1, *[0] * 8, 1.0]), hop=0.1)
    (kept,) = keep_above(fine, 0.5, 1.2)  # the gap is closed, the speck dropped
    assert (kept.start, kept.end) == pytest.approx((0.0, 0.3))


def test_looks_lie_in_the_gaps():
    looks = look_between([Span(4, 6)], 20.0, every=4.0)
    assert looks == [Span(1, 3), Span(7, 9), Span(11, 13), Span(15, 17)]
    assert look_between([Span(0, 20)], 20.0, every=4.0) == []
    assert look_between([], 3.0, every=4.0) == []


def test_the_setting_that_throws_most_away_at_the_target():
    # Two loud actions and one silent one: the threshold alone must keep everything to reach all.
    one = scores("..99............99..", (2, 4), (9, 11), (16, 18))
    alone = choose_settings([one], [0.6, 1.0], every=[None], window=4.0)
    assert alone[0.6] == DownsampleSetting(0.9)
    assert alone[1.0] == DownsampleSetting(0.0)
    looking = choose_settings([one], [1.0], every=[None, 4.0], window=4.0)
    assert looking[1.0] == DownsampleSetting(0.9, 4.0)
    kept = count_setting([one], 0.9, [4.0], window=4.0)[0]
    assert (kept.recall, kept.kept) == (1.0, 10.0)
    assert kept.calls == 5  # but every window is called: seconds hide it
    counted = choose_settings([one], [1.0], every=[None, 4.0], window=4.0, unit="calls")
    assert counted[1.0] == DownsampleSetting(0.0)  # nothing is saved, so the first of equals


def test_the_table_has_a_dash_where_no_setting_reaches_the_target():
    dev = scores("..99..", (2, 4), (20, 21))  # the second lies past the end of the scores
    table = downsample_table([dev], [dev], window=4.0, targets=[0.5, 0.9])
    assert table.rows[0][1] == 50.0
    assert math.isnan(float(table.rows[1][1]))
    assert table.rows[1][4] == "—"
