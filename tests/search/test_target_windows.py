"""Which windows are asked about when one thing is looked for; a character is a window."""

from __future__ import annotations

import numpy as np
import pytest

from drawing import SHORT
from earmark.grid import Windows
from earmark.search.target_windows import TargetWindows, estimate_missed, next_windows
from earmark.timeline import Span

LIKELY = {".": 0.0, "d": 0.4, "D": 0.9}


def target(drawing: str, **asked: bool) -> TargetWindows:
    """Windows of four seconds; a letter is how likely a sound that is meant is."""
    count = len(drawing)
    flat = np.zeros(count)
    windows = Windows(4.0, 4.0 * count, flat, (np.arange(count) + 0.5) * 4, flat, SHORT)
    relevance = np.array([LIKELY[sign] for sign in drawing])
    known = {int(name[1:]): seen for name, seen in asked.items()}
    return TargetWindows("a", windows, relevance, known)


def drawn(one: TargetWindows, calls: int, *, first: bool = False) -> str:
    (windows,) = next_windows([one], calls, first=first)
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


def test_some_calls_go_where_nothing_is_heard_and_never_more_than_there_are():
    one = target("DDDD" + 40 * ".")
    assert "^" in drawn(one, calls=10, first=True)[8:]
    assert drawn(one, calls=10, first=True).count("^") == 10
    assert drawn(target("..."), calls=10).count("^") == 3


def test_a_moment_is_what_was_seen_and_the_sound_around_it():
    assert target("..DDD...D..", w3=True, w8=False).moments() == [Span(8.0, 20.0)]
    assert target(".....", w2=True).moments() == [Span(8.0, 12.0)]


def test_the_estimate_falls_as_answers_come_in_and_holds_its_range():
    before = estimate_missed([target("..DDD......DD.....")])
    after = estimate_missed([target("..DDD......DD.....", w3=True, w11=True)])
    assert before.low <= before.expected <= before.high
    assert after.expected < before.expected
    denied = {f"w{place}": False for place in range(18)}
    assert estimate_missed([target("..DDD......DD.....", **denied)]).high == pytest.approx(0)
    assert estimate_missed([]).high == 0
