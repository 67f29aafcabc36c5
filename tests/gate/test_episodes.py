"""Episodes, drawn: one character is one step of 40 ms, a digit is a score over ten."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.ndimage import median_filter

from earmark import Span, Track
from earmark.gate.episodes import Episodes
from earmark.selection.episodes import RecordingEpisodes

HOP = 0.04


def draw(rule: Episodes, drawing: str) -> str:
    """The episodes of the drawing, as carets beneath it."""
    scores = np.array([0 if sign == "." else int(sign) for sign in drawing]) / 10
    line = ["."] * len(drawing)
    for span in rule(Track(scores)):
        for step in range(round(span.start / HOP), round(span.end / HOP)):
            line[step] = "^"
    return "".join(line)


def slowly(rule: Episodes, scores: np.ndarray) -> list[tuple[int, int]]:
    """The same in steps, one step after the other."""
    smooth = median_filter(scores, size=rule.median, mode="nearest") if len(scores) else scores
    found, begun = [], None
    for step, score in enumerate(smooth):
        if begun is None and score >= rule.on:
            begun = step
        elif begun is not None and score < rule.off:
            found.append((begun, step))
            begun = None
    if begun is not None:
        found.append((begun, len(smooth)))
    found = [(a, b) for a, b in found if b - a >= round(rule.shortest / HOP + 0.499)]
    joined: list[tuple[int, int]] = []
    for a, b in found:
        if joined and a - joined[-1][1] < round(rule.gap / HOP):
            joined[-1] = (joined[-1][0], b)
        else:
            joined.append((a, b))
    return joined


def test_a_dip_above_the_lower_threshold_does_not_close() -> None:
    rule = Episodes(on=0.8, off=0.4, shortest=0, gap=0)
    assert draw(rule, "..58876559843..") == "...^^^^^^^^^..."
    abrupt = Episodes(on=0.8, off=0.8, shortest=0, gap=0)
    assert draw(abrupt, "..58876559843..") == "...^^....^^...."


def test_blips_are_dropped_and_short_gaps_closed() -> None:
    rule = Episodes(on=0.8, off=0.8)
    assert draw(rule, "9" * 3 + "." * 20) == "." * 23  # 0.12 s
    assert draw(rule, "9" * 4 + "." * 20) == "^" * 4 + "." * 20  # 0.16 s
    assert draw(rule, "9999" + "." * 14 + "9999") == "^" * 22  # 0.56 s
    assert draw(rule, "9999" + "." * 15 + "9999") == "^^^^" + "." * 15 + "^^^^"  # 0.60 s


@pytest.mark.parametrize(("steps", "is_closed"), [(14, True), (15, False), (16, False)])
def test_a_gap_counts_in_whole_steps_wherever_it_lies(steps: int, is_closed: bool) -> None:
    """0.6 s are 15 steps at every one of 15,000 positions, not at those that round up."""
    rule, pattern = Episodes(on=0.8, off=0.8), [0.9] * 4 + [0.0] * steps
    count = 15_000 // len(pattern)
    found = rule(Track(np.array(pattern * count)))
    assert len(found) == (1 if is_closed else count)


def test_shifting_a_track_shifts_its_episodes_by_as_many_steps() -> None:
    rng = np.random.default_rng(3)
    rule, scores = Episodes(on=0.6, off=0.4), rng.random(600).repeat(5)
    begins, ends = rule.edges(scores)
    for shift in range(2_000):
        moved = rule.edges(np.concatenate([np.zeros(shift), scores]))
        np.testing.assert_array_equal(np.rint(moved[0] / HOP) - shift, np.rint(begins / HOP))
        np.testing.assert_array_equal(np.rint(moved[1] / HOP) - shift, np.rint(ends / HOP))


def test_a_median_filter_forgives_single_steps() -> None:
    plain, wide = (Episodes(0.8, 0.8, median=m, shortest=0, gap=0) for m in (1, 3))
    assert draw(plain, "..9..99.99..") == "..^..^^.^^.."
    assert draw(wide, "..9..99.99..") == ".....^^^^^.."


@given(
    st.lists(st.integers(0, 9), max_size=150),
    st.sampled_from([1, 3, 7, 25]),
    st.sampled_from([(0.8, 0.8), (0.7, 0.3), (0.0, 0.0)]),
    st.sampled_from([0.0, 2.0]),
)
def test_the_quick_way_agrees_with_the_obvious_loop(
    tenths: list[int], median: int, thresholds: tuple[float, float], start: float
) -> None:
    scores, rule = np.array(tenths) / 10, Episodes(*thresholds, median=median)
    found = rule(Track(scores, start=start))
    got = [(round((s.start - start) / HOP), round((s.end - start) / HOP)) for s in found]
    assert got == slowly(rule, scores)


def test_impossible_rules_are_refused() -> None:
    with pytest.raises(ValueError, match="closes at or below where it opens"):
        Episodes(on=0.4, off=0.5)
    with pytest.raises(ValueError, match="odd number of steps"):
        Episodes(on=0.4, off=0.4, median=2)


def test_calls_are_counted_by_window_not_by_duration() -> None:
    # windows  [0,4) [4,8) [8,12) [12,16)
    spans = (Span(3.5, 4.5), Span(6, 6.5), Span(12, 13))
    account = RecordingEpisodes("a.wav", 16.0, spans, 4.0)
    assert (account.calls, account.windows) == (3, 4)
    assert account.kept == pytest.approx(2.5)
    assert account.charged == pytest.approx(0.625)
    assert account.undercount == pytest.approx(4.8)


def test_nothing_costs_nothing() -> None:
    account = RecordingEpisodes("a.wav", 16.0, (), 4.0)
    assert (account.calls, account.charged, account.undercount) == (0, 0, None)
