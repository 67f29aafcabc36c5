"""Which windows are asked about when one thing is looked for; a character is a window."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from drawing import SHORT
from earmark import Span
from earmark.evidence.sound_track import MIN_PROBABILITY, SoundTrack, logit
from earmark.grid import Windows
from earmark.search.target_windows import (
    SoundFinder,
    TargetWindows,
    _negative_binomial,
    estimate_missed,
    lifts,
    next_windows,
)

LIKELY = {".": 0.0, "d": 0.4, "D": 0.9}


def target(drawing: str, **asked: bool) -> TargetWindows:
    """Windows of four seconds; a letter is how likely a sound that is meant is."""
    count = len(drawing)
    flat = np.zeros(count)
    windows = Windows(4.0, 4.0 * count, flat, (np.arange(count) + 0.5) * 4, flat, SHORT)
    relevance = np.array([LIKELY[sign] for sign in drawing])
    known = {int(name[1:]): seen for name, seen in asked.items()}
    return TargetWindows("a", windows, relevance, known)


def drawn(one: TargetWindows, calls: int) -> str:
    (windows,) = next_windows([one], calls)
    return "".join("^" if place in windows else "." for place in range(len(one.relevance)))


def test_every_moment_gets_one_call_before_any_gets_two():
    asked = drawn(target("..DDD......DD.....dd.."), calls=3)
    assert asked.count("^") == 3
    assert "^" in asked[2:5] and "^" in asked[11:13] and "^" in asked[18:20]


def test_a_yes_settles_its_moment_and_the_next_call_goes_elsewhere():
    asked = drawn(target("..DDD......dd.........", w3=True), calls=1)
    assert "^" in asked[11:13]


def test_a_no_makes_its_sound_doubtful():
    asked = drawn(target("..DDD......dd.........", w3=False), calls=1)
    assert "^" in asked[11:13]


def test_neighbours_of_a_yes_are_confirmed_where_nothing_else_is_worth_more():
    asked = drawn(target("..DDD.................", w3=True), calls=2)
    assert "^" in asked[:2] and "^" in asked[5:7]


def test_what_faintly_sounds_like_it_comes_before_what_does_not_and_after_what_is_heard():
    one, hints = target("......................D......"), np.full(29, -4.0)
    hints[7] = -1.0
    one.lift = lifts({"a": hints})["a"]
    assert one.lift.mean() == pytest.approx(1.0)
    assert drawn(one, calls=1)[22] == "^"
    assert drawn(one, calls=2)[7] == "^"
    assert one.chances[7] < one.chances[22]
    assert lifts({}) == {}


def test_some_calls_go_where_nothing_is_heard_and_never_more_than_there_are():
    one = target("DDDD" + 40 * ".")
    assert "^" in drawn(one, calls=10)[8:]
    assert drawn(one, calls=10).count("^") == 10
    assert drawn(target("..."), calls=10).count("^") == 3
    assert drawn(one, calls=0).count("^") == 0


def played(drawing: str, shown: str, calls: int) -> list[int]:
    """The windows asked about in the end; `shown` has an x for each that shows it."""
    one, left = target(drawing), calls
    while any(chosen := next_windows([one], left)):
        one.asked |= {window: shown[window] == "x" for window in chosen[0]}
        left -= len(chosen[0])
    return sorted(one.asked)


@given(
    st.text(alphabet=".dD", min_size=1, max_size=60),
    st.text(alphabet=".x", min_size=60, max_size=60),
    st.integers(0, 45),
)
def test_one_more_call_finds_what_was_found_before_and_more(drawing: str, shown: str, calls: int):
    fewer, more = played(drawing, shown, calls), played(drawing, shown, calls + 1)
    assert len(fewer) == min(calls, len(drawing))
    assert set(fewer) <= set(more) and len(more) == min(calls + 1, len(drawing))


def test_calls_that_tell_nothing_apart_are_spread_over_all_of_it():
    """The first few of a batch too: not the beginning of the recording."""
    asked = drawn(target(40 * "."), calls=3)
    assert asked.count("^") == 3
    assert all("^" in asked[part : part + 14] for part in (0, 13, 26))


def test_a_yes_settles_its_window_and_the_sound_around_it():
    assert target("..DDD...D..", w3=True, w8=False).settled() == [Span(8.0, 20.0)]
    assert target(".....", w2=True).settled() == [Span(8.0, 12.0)]


def test_the_estimate_falls_as_answers_come_in_and_holds_its_range():
    before = estimate_missed([target("..DDD......DD.....")])
    after = estimate_missed([target("..DDD......DD.....", w3=True, w11=True)])
    assert before.low <= before.expected <= before.high
    assert after.expected < before.expected
    denied = {f"w{place}": False for place in range(18)}
    assert estimate_missed([target("..DDD......DD.....", **denied)]).high == pytest.approx(0)
    assert estimate_missed([]).high == 0


def test_a_moment_may_be_missed_while_a_window_is_left():
    one_left = {f"w{place}": False for place in range(5)}
    assert estimate_missed([target("......", **one_left)]).high == 1
    assert estimate_missed([target("......", **one_left, w5=False)]).high == 0


@pytest.mark.parametrize("shape", [0.1, 0.3, 1.0, 7.5, 200.0])
@pytest.mark.parametrize("chance", [0.001, 0.05, 0.5, 0.95])
def test_how_many_were_missed_follows_the_distribution_of_scipy(shape, chance):
    reference = stats.nbinom(shape, chance)
    likely = _negative_binomial(shape, chance)
    assert likely == pytest.approx(reference.pmf(np.arange(len(likely))), rel=1e-6, abs=1e-12)
    assert abs(len(likely) - 1 - reference.ppf(0.9999)) <= 1


def test_a_window_is_as_relevant_as_the_likeliest_sound_that_touches_it():
    """Rows of 1.5 s over windows of 2 s: the third row, from 3 s to 4.5 s, touches two windows."""
    certain = float(np.log(0.8 / 0.2))
    track = SoundTrack(
        "mn04",
        ("Drill", "Speech"),
        0.3,
        0.0,
        1.5,
        6.0,
        np.array([0, 2, 3]),
        np.array([1, 0, 1], np.int16),
        np.array([certain, certain, certain], np.float32),
    )
    finder = SoundFinder({}, np.array([0.5, 0.0]), np.array([0.5, 0.5]), 2.0, None)  # type: ignore[arg-type]
    likely, hints = finder.in_track(track)
    assert likely == pytest.approx([0.0, 0.4, 0.4, 0.0])
    least = logit(MIN_PROBABILITY)
    some = (certain + least) / 2
    assert hints == pytest.approx([some, some, some, -np.inf])
