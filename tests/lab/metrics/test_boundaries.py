"""Boundaries nearest first, events by onset, and both against slow or foreign references."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import linear_sum_assignment

from earmark import Span
from earmark_lab.annotations.actions import Action
from earmark_lab.metrics.counts import (
    CONTIGUOUS,
    GAPPED,
    MatchCounts,
    boundaries,
    compare_boundaries,
    match_boundaries,
    match_by_class,
    match_events,
    uniform_windows,
)


def test_the_nearest_pair_goes_first_and_each_boundary_is_used_once():
    # 10.4 is nearest to 10.5, so 10.0 is left with 9.2 and both are hits at 1 s.
    assert match_boundaries([10.0, 10.5], [9.2, 10.4], tolerance=1.0) == MatchCounts(2, 2, 2)
    assert match_boundaries([10.0], [9.8, 10.1, 10.2], tolerance=0.5) == MatchCounts(1, 1, 3)
    assert match_boundaries([10.0], [10.5], tolerance=0.5).hits == 1
    assert match_boundaries([], [1.0], tolerance=0.5) == MatchCounts(0, 0, 1)


def test_greedy_is_not_optimal_and_is_what_the_paper_asks_for():
    # Nearest first takes (1.0, 1.1) and strands 0.6 and 1.5; an optimal matching finds two.
    assert match_boundaries([1.0, 1.5], [0.6, 1.1], tolerance=0.45).hits == 1


times = st.lists(st.integers(0, 60).map(lambda tick: tick / 4), max_size=8, unique=True)


@given(reference=times, found=times)
def test_boundaries_equal_the_obvious_loop(reference: list[float], found: list[float]):
    left, right, hits = sorted(reference), sorted(found), 0
    while left and right:
        gap, a, b = min((abs(a - b), a, b) for a in left for b in right)
        if gap > 1.0:
            break
        left.remove(a)
        right.remove(b)
        hits += 1
    assert match_boundaries(reference, found, tolerance=1.0).hits == hits


def test_boundaries_are_compared_at_equal_segment_counts_only():
    truth = [Span(0, 2), Span(2, 5)]
    got = compare_boundaries(
        truth, {"ours": [Span(0, 2.2), Span(2.2, 5)], "even": [Span(0, 2.5), Span(2.5, 5)]}
    )
    assert [got["ours"][t].hits for t in (0.5, 1.0, 2.0)] == [3, 3, 3]
    assert got["even"][0.5].f1 == 1.0  # 2.5 s is half a second away
    with pytest.raises(ValueError, match="equal segment counts only, not ours 1, even 2"):
        compare_boundaries(truth, {"ours": truth[:1], "even": truth})
    assert boundaries(truth) == [0, 2, 5]


def test_hits_add_up():
    both = MatchCounts(1, 2, 4) + MatchCounts(2, 2, 2)
    assert (both.precision, both.recall, both.f1) == (0.5, 0.75, 0.6)
    assert math.isnan(MatchCounts().f1)
    assert math.isnan(MatchCounts(0, 0, 3).recall)


events = st.lists(
    st.tuples(st.integers(0, 40).map(lambda tick: tick / 8), st.sampled_from("ab")), max_size=8
).map(lambda rows: [Action(start, start + 1, label) for start, label in rows])


@given(reference=events, found=events)
def test_events_are_matched_as_many_as_can_be(reference: list[Action], found: list[Action]):
    close = np.array(
        [[a.label == b.label and abs(a.start - b.start) <= 0.5 for b in found] for a in reference]
    ).reshape(len(reference), len(found))
    best = close[linear_sum_assignment(close, maximize=True)].sum()
    assert match_events(reference, found) == MatchCounts(int(best), len(reference), len(found))


def test_boundaries_and_events_have_one_tolerance():
    """0.7 + 0.5 is 1.2, and not a hair more: apart by exactly the tolerance is a match in both."""
    found = 0.1 + 0.2 + 0.9  # 1.2000000000000002
    assert found - 0.7 > 0.5
    assert match_boundaries([0.7], [found], tolerance=0.5).hits == 1
    assert match_events([Action(0.7, 1, "a")], [Action(found, 2, "a")], collar=0.5).hits == 1


def test_class_hits_add_up_to_all_hits():
    reference = [Action(0, 1, "a"), Action(2, 3, "a"), Action(2, 3, "b")]
    found = [Action(0.2, 1, "a"), Action(2, 3, "c")]
    by_class = match_by_class(reference, found)
    assert by_class == {
        "a": MatchCounts(1, 2, 1),
        "b": MatchCounts(0, 1, 0),
        "c": MatchCounts(0, 0, 1),
    }
    assert sum(by_class.values(), MatchCounts()) == match_events(reference, found)


GOLDEN = json.loads((Path(__file__).parent / "sed_eval.json").read_text(encoding="utf-8"))


@pytest.mark.parametrize("case", GOLDEN, ids=range(len(GOLDEN)))
def test_events_agree_with_sed_eval(case: dict[str, Any]):
    """Its counts were kept once: `sed_eval_golden.py` says how."""
    reference, found = (
        [Action(onset, onset + 1, label) for onset, label in case[side]]
        for side in ("reference", "found")
    )
    by_label = {label: MatchCounts(*counts) for label, counts in case["counts"].items()}
    assert match_events(reference, found) == by_label.pop("overall")
    ours = match_by_class(reference, found)
    assert {label: ours.get(label, MatchCounts()) for label in by_label} == by_label


def test_the_kept_cases_are_worth_comparing():
    assert len(GOLDEN) == 20
    hits = [case["counts"]["overall"][0] for case in GOLDEN]
    assert sum(hits) > 60
    edges = [
        case
        for case in GOLDEN
        if any(abs(a - b) == 0.5 for a, _ in case["reference"] for b, _ in case["found"])
    ]
    assert len(edges) >= 8  # onsets exactly one collar apart are matched


def test_uniform_windows_with_gaps_have_twice_as_many_boundaries():
    windows = uniform_windows(10, 100.0)
    found = {name: len(boundaries(spans)) for name, spans in windows.items()}
    assert found == {GAPPED: 20, CONTIGUOUS: 11}
