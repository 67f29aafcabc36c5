"""What was left out, and why."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from drawing import windows
from earmark.grid import Windows
from earmark.selection import Coverage
from earmark.selection.pick import additions, best_left_out, losses
from earmark.selection.rules.ranking import Rank
from reckoning import CURVES, recordings, worth


@given(recordings(longest=15), st.data())
def test_additions_and_losses_are_differences_of_worth(
    recording: Windows, data: st.DataObject
) -> None:
    places = list(range(len(recording)))
    picks = sorted(data.draw(st.lists(st.sampled_from(places), unique=True)) if places else [])
    now = worth(recording, picks)
    chosen = np.array(picks, dtype=np.intp)
    for window, extra in enumerate(additions(recording, chosen).tolist()):
        assert extra == pytest.approx(worth(recording, {*picks, window}) - now, abs=1e-9)
    for pick, loss in zip(picks, losses(recording, chosen).tolist(), strict=True):
        assert loss == pytest.approx(now - worth(recording, {*picks} - {pick}), abs=1e-9)


def test_the_best_scores_not_taken_come_first() -> None:
    recording = windows(".8.9...3..6.", survival=CURVES["brief"])
    out = best_left_out(recording, Rank()(recording, budget=2), limit=2)
    assert [(one.window, one.score) for one in out] == [(10, 0.6), (7, 0.3)]
    assert out[0].reason == "0.6 new actions expected beyond the picks, below the price 0.8"
    assert (out[0].start, out[0].end) == (40.0, 44.0)


def test_what_lies_just_below_the_price_is_told_apart_from_it() -> None:
    recording = windows("7...8", survival=CURVES["brief"], rates=[1.15, 0, 0, 0, 1.17])
    (out,) = best_left_out(recording, Rank()(recording, budget=1), limit=1)
    assert out.reason == "1.15 new actions expected beyond the picks, below the price 1.17"


def test_scores_go_before_what_windows_would_add() -> None:
    recording = windows("99.......5", rates=[1, 1, 2, 3, 4, 5, 6, 7, 8, 0.1])
    out = best_left_out(recording, Rank()(recording, budget=2), limit=2)
    assert [one.window for one in out] == [9, 2]
    two = windows("99.......9", rates=[1, 1, 2, 3, 4, 5, 6, 7, 8, 0.1])
    assert best_left_out(two, Rank()(two, budget=2), limit=1)[0].window == 9


def test_what_brings_as_much_as_a_pick_is_ranked_lower_by_the_rule() -> None:
    recording = windows("9...8", survival=CURVES["brief"], rates=[1, 0, 0, 0, 1])
    (out,) = best_left_out(recording, Rank()(recording, budget=1), limit=1)
    assert (
        out.reason
        == "1 new actions expected beyond the picks; the rule ranks it lower than the picks"
    )


def test_a_neighbour_says_whose_it_is() -> None:
    recording = windows("." * 180 + ".89.")
    (out,) = best_left_out(recording, Rank()(recording, budget=1), limit=1)
    assert out.window == 181
    assert out.reason.startswith("next to the pick at 12:08; 0.3")


def test_hours_are_shown_where_there_are_any() -> None:
    recording = windows("." * 1000 + "89")
    (out,) = best_left_out(recording, Rank()(recording, budget=1), limit=1)
    assert "next to the pick at 1:06:44" in out.reason


def test_with_no_call_to_spend() -> None:
    (out,) = best_left_out(windows("15"), [], limit=1)
    assert out.reason.endswith("and no call to spend")


def test_with_equal_scores_what_would_add_most_comes_first() -> None:
    flat = windows("5" * 9)
    out = best_left_out(flat, Coverage()(flat, budget=1), limit=3)
    assert [one.expected for one in out] == sorted((one.expected for one in out), reverse=True)


def test_nothing_is_left_out_when_all_is_taken() -> None:
    recording = windows("123")
    assert best_left_out(recording, Rank()(recording, budget=3)) == []
    assert best_left_out(windows(""), []) == []
