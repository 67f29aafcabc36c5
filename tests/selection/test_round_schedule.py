"""How calls are dealt into rounds."""

from __future__ import annotations

import pytest

from earmark.selection.rounds import ALL_AT_ONCE, Rounds, calls_now, spread_evenly, turns


def test_rounds_are_written_as_a_number_or_auto():
    assert Rounds.parse("3") == Rounds.parse(3) == Rounds(3)
    assert Rounds.parse(" Auto ") == Rounds.parse(None) == Rounds(None)
    assert [str(Rounds.parse(word)) for word in ("1", "auto")] == ["1", "auto"]
    assert Rounds.parse(Rounds(2)) == Rounds(2)


@pytest.mark.parametrize(
    ("word", "why"),
    [
        ("0", "^rounds are 1 to 9"),
        ("10", "^rounds are 1 to 9"),
        (-1, "^rounds are 1 to 9"),
        ("x", "'x' is no"),
        ("-1", "'-1' is no"),
        (True, "^True is no"),
        (2.0, "^2.0 is no"),
    ],
)
def test_what_is_no_number_of_rounds_is_said_so(word, why):
    with pytest.raises(ValueError, match=why):
        Rounds.parse(word)


@pytest.mark.parametrize("count", ["3", 2.0, True])
def test_a_count_of_rounds_is_a_whole_number(count):
    with pytest.raises(ValueError, match=r"^rounds are 1 to 9, or auto, not"):
        Rounds(count)


def test_half_is_asked_first_and_all_at_the_end():
    assert Rounds(1).shares() == (1.0,)
    assert Rounds(2).shares() == (0.5, 1.0)
    assert Rounds(3).shares() == (0.5, 0.75, 1.0)
    assert [turn.number for turn in turns(Rounds(3))] == [1, 2, 3]
    assert [turn.is_last for turn in turns(Rounds(3))] == [False, False, True]
    assert list(turns(Rounds(1))) == [ALL_AT_ONCE]
    assert ALL_AT_ONCE.is_last


@pytest.mark.parametrize("planned", range(12))
@pytest.mark.parametrize("count", [1, 2, 3, 5])
def test_the_rounds_spend_every_call_once(planned, count):
    waiting, asked = list(range(planned)), []
    for share in Rounds(count).shares():
        now = spread_evenly(waiting, calls_now(planned, len(asked), share))
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
