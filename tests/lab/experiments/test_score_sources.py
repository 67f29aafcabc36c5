"""The ideal listener: its features, its fit, and that it never sees what it is judged on."""

from __future__ import annotations

import numpy as np
import pytest

from earmark.errors import AnnotationError
from earmark_lab.annotations.actions import Action, Annotations
from earmark_lab.experiments.score_sources import (
    FOLDS,
    NEIGHBOURS,
    FittedScores,
    SoundEventListener,
    event_features,
    longest_event_instants,
    share_filled,
    split_for_fitting,
)
from earmark_lab.metrics.counts import count_overlaps, count_starts
from made_kitchen import kitchen

#         0 s     4 s     8 s     12 s
EVENTS = [Action(1.0, 2.0, "clang"), Action(3.0, 9.0, "water"), Action(3.5, 5.0, "clang")]


def test_what_is_heard_in_each_window():
    assert count_starts(EVENTS, 3, window=4.0).tolist() == [3, 0, 0]
    assert count_overlaps(EVENTS, 3, window=4.0).tolist() == [3, 2, 1]
    assert share_filled(EVENTS, 3, window=4.0).tolist() == [0.5, 1.0, 0.25]
    assert longest_event_instants(EVENTS, 12.0, window=4.0).tolist() == [1.5, 6.0, 8.5]
    assert longest_event_instants([], 10.0, window=4.0).tolist() == [2.0, 6.0, 9.0]


def test_features_hold_the_neighbours_and_the_labels():
    rows = event_features(EVENTS, 12.0, window=4.0, labels=("clang",))
    assert rows.shape == (3, 3 * (2 * NEIGHBOURS + 1) + 2)
    middle = 3 * NEIGHBOURS
    assert rows[0, middle] == pytest.approx(np.log1p(3))
    assert rows[1, middle - 3] == rows[0, middle]  # the window before
    assert rows[0, :middle].tolist() == [0.0] * middle  # silent before the start
    assert rows[:, -2:].tolist() == [[2, 1], [0, 1], [0, 0]]


def test_a_listener_expects_about_what_there_is():
    actions, events = kitchen()
    fitted = SoundEventListener.fit(actions.without(["K00"]), events)
    windows = fitted.windows(events.recordings["K00"], actions.durations["K00"])
    assert windows.rates.sum() == pytest.approx(len(actions.recordings["K00"]), rel=0.4)
    starts = count_starts(actions.recordings["K00"], len(windows), window=4.0)
    assert np.corrcoef(windows.rates, starts)[0, 1] > 0.4


def test_a_listener_needs_actions_and_events():
    actions, events = kitchen(2)
    nothing = Annotations({name: [] for name in actions.recordings}, actions.durations)
    with pytest.raises(AnnotationError, match="no action in the recordings to fit on"):
        SoundEventListener.fit(nothing, events)
    with pytest.raises(AnnotationError, match="no event in the recordings to fit on"):
        SoundEventListener.fit(actions, nothing)


def test_recordings_are_never_judged_by_a_listener_that_saw_them():
    actions, _ = kitchen(7)
    held_out = split_for_fitting(actions, ["K01", "K04"])
    assert held_out.evaluated == ("K01", "K04")
    assert set(held_out.fitted["K01"]) == {"K00", "K02", "K03", "K05", "K06"}
    dealt = split_for_fitting(actions)
    assert dealt.evaluated == tuple(actions.recordings)
    assert all(name not in seen for name, seen in dealt.fitted.items())
    assert len(set(dealt.fitted.values())) == FOLDS
    with pytest.raises(AnnotationError, match="none is left to fit on"):
        split_for_fitting(actions, list(actions.recordings))


def test_the_actions_of_a_judged_recording_do_not_move_its_rates():
    actions, events = kitchen(4)
    fitting = split_for_fitting(actions, ["K02"])
    other = Annotations({**actions.recordings, "K02": []}, actions.durations)
    both = [
        FittedScores(marked, events, fitting).tasks()["sound-events", "K02"]()
        for marked in (actions, other)
    ]
    assert np.array_equal(both[0].windows.rates, both[1].windows.rates)
