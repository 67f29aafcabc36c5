"""Spans and tracks."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from earmark import Span, Track
from earmark.timeline import CLOCK_RATE, HOP, format_clock, merge


def test_touching_spans_do_not_overlap() -> None:
    #  |--a--|--b--|      |--c
    a, b, c = Span(0.0, 2.0), Span(2.0, 4.0), Span(3.9, 5.0)
    assert not a.overlaps(b)
    assert b.overlaps(c)
    assert c.overlaps(b)


def test_an_empty_span_overlaps_nothing() -> None:
    assert not Span(1.0, 1.0).overlaps(Span(0.0, 2.0))
    assert not Span(0.0, 2.0).overlaps(Span(1.0, 1.0))


def test_a_span_has_a_length_and_a_middle() -> None:
    span = Span(1.0, 2.5)
    assert (span.duration, span.middle) == (1.5, 1.75)


@pytest.mark.parametrize(("start", "end"), [(2.0, 1.0), (float("nan"), 1.0), (0.0, float("inf"))])
def test_a_span_is_checked_where_it_is_made(start: float, end: float) -> None:
    with pytest.raises(ValueError, match="a span"):
        Span(start, end)


def test_merging_joins_what_touches_and_what_is_near() -> None:
    spans = [Span(4.0, 5.0), Span(0.0, 1.0), Span(1.0, 2.0), Span(2.5, 3.0)]
    assert merge(spans) == [Span(0.0, 2.0), Span(2.5, 3.0), Span(4.0, 5.0)]
    assert merge(spans, gap=0.5) == [Span(0.0, 3.0), Span(4.0, 5.0)]
    assert merge([]) == []


@given(st.lists(st.tuples(st.integers(0, 30), st.integers(1, 9))))
def test_merged_spans_hold_the_same_moments(pairs: list[tuple[int, int]]) -> None:
    spans = [Span(float(start), float(start + length)) for start, length in pairs]
    merged = merge(spans)
    for moment in np.arange(0.5, 40.0):
        held = any(span.start <= moment < span.end for span in spans)
        assert held == any(span.start <= moment < span.end for span in merged)
    assert all(a.end < b.start for a, b in itertools.pairwise(merged))


def test_a_track_knows_the_time_of_its_rows() -> None:
    track = Track(np.zeros((5, 3)), hop=0.5, start=10.0)
    assert len(track) == 5
    assert track.span == Span(10.0, 12.5)
    assert track.time_of(2) == 11.0
    assert HOP * CLOCK_RATE == 1.0


def test_a_track_has_a_clock_and_rows() -> None:
    with pytest.raises(ValueError, match="positive hop, not 0"):
        Track(np.zeros(3), hop=0.0)
    with pytest.raises(ValueError, match=r"not \(2, 2, 2\)"):
        Track(np.zeros((2, 2, 2)))


def test_a_track_is_thinned_by_its_largest() -> None:
    track = Track(np.array([0.0, 1, 9, 1, 2, 2, 1, 2, 3]), hop=0.25, start=5.0)
    thinned = track.thinned()
    assert thinned.values.tolist() == [9, 2, 3]
    assert (thinned.hop, thinned.start) == (1.0, 5.0)
    assert thinned.thinned() is thinned


@pytest.mark.parametrize(("steps", "drawn"), [(25, 25), (50_000, 2_000), (25 * 7_200, 7_200)])
def test_a_sketch_is_a_value_a_second_or_enough_of_a_short_one(steps: int, drawn: int) -> None:
    assert len(Track(np.zeros(steps)).sketched()) == drawn


@pytest.mark.parametrize(
    ("seconds", "tenths", "whole", "with_hours"),
    [
        (0.0, "0:00.0", "0:00", "0:00:00.0"),
        (59.96, "1:00.0", "1:00", "0:01:00.0"),
        (125.5, "2:05.5", "2:05", "0:02:05.5"),
        (3599.99, "1:00:00.0", "1:00:00", "1:00:00.0"),
        (36000.0, "10:00:00.0", "10:00:00", "10:00:00.0"),
    ],
)
def test_a_clock_shows_what_there_is(
    seconds: float, tenths: str, whole: str, with_hours: str
) -> None:
    assert format_clock(seconds) == tenths
    assert format_clock(seconds, tenths=False) == whole
    assert format_clock(seconds, hours=True) == with_hours
