"""How calls are dealt into rounds."""

from __future__ import annotations

import pytest

from earmark.selection.budget import parse_rounds
from earmark.selection.rounds import Turn, calls_now, spread_evenly, turns


def test_rounds_are_written_as_a_number_or_auto():
    assert [parse_rounds(word) for word in ("1", " 3", "9", " Auto ")] == [1, 3, 9, "auto"]


@pytest.mark.parametrize(
    ("word", "why"),
    [
        ("0", "^rounds are 1 to 9"),
        ("10", "^rounds are 1 to 9"),
        ("x", "'x' is no"),
        ("-1", "'-1' is no"),
        ("2.0", "'2.0' is no"),
    ],
)
def test_what_is_no_number_of_rounds_is_said_so(word, why):
    with pytest.raises(ValueError, match=why):
        parse_rounds(word)


def test_half_is_asked_first_and_all_at_the_end():
    assert list(turns(1)) == [Turn()]
    assert [turn.share for turn in turns(2)] == [0.5, 1.0]
    assert list(turns(3)) == [Turn(1, 0.5), Turn(2, 0.75), Turn(3, 1.0)]
    assert [turn.is_auto for turn in turns("auto")] == [True] * 3
    assert [turn.is_last for turn in turns(3)] == [False, False, True]
    assert Turn().is_last


@pytest.mark.parametrize("planned", range(12))
@pytest.mark.parametrize("count", [1, 2, 3, 5])
def test_the_rounds_spend_every_call_once(planned, count):
    waiting, asked = list(range(planned)), []
    for turn in turns(count):
        now = spread_evenly(waiting, calls_now(planned, len(asked), turn.share))
        asked += now
        waiting = [one for one in waiting if one not in now]
    assert sorted(asked) == list(range(planned))


def test_a_part_is_spread_over_the_whole():
    """From one end to the other: of what lies beyond the outermost answers none tells anything."""
    assert spread_evenly(range(8), 4) == [0, 2, 5, 7]
    assert spread_evenly(range(9), 5) == [0, 2, 4, 6, 8]
    assert spread_evenly(range(9), 2) == [0, 8]
    assert spread_evenly("abc", 1) == ["b"]
    assert spread_evenly("abc", 9) == list("abc")
    assert spread_evenly("abc", 0) == spread_evenly("", 3) == []


def test_what_is_asked_already_is_not_asked_for_again():
    assert calls_now(8, 0, 0.5) == 4
    assert calls_now(8, 4, 0.5) == calls_now(8, 7, 0.5) == 0
    assert calls_now(7, 4, 1.0) == 3
