"""Segments and their boundaries, drawn: one letter is one step's most likely class."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from earmark import Track
from earmark.timeline import HOP
from earmark_lab.encoders.chunk_encoder import boundaries, segments

CLASSES = "abc"


def drawn(letters: str, *cuts: int) -> list[Track]:
    """Capital letters are sure (logit 4), small ones are not (logit 0.5); dots are nothing."""
    rows = np.full((len(letters), 3), -5.0)
    for step, letter in enumerate(letters):
        if letter != ".":
            rows[step, CLASSES.index(letter.lower())] = 4.0 if letter.isupper() else 0.5
    edges = [0, *cuts, len(letters)]
    pairs = itertools.pairwise(edges)
    return [Track(rows[first:end], start=first * HOP) for first, end in pairs]


def steps(tracks: list[Track], **options: float) -> list[tuple[str, int, int]]:
    found = segments(tracks, CLASSES, **options)
    return [(s.name, round(s.span.start / HOP), round(s.span.end / HOP)) for s in found]


def test_runs_of_one_class_are_segments():
    assert steps(drawn("..AAABB..b")) == [("a", 2, 5), ("b", 5, 7), ("b", 9, 10)]


def test_cutting_the_tracks_changes_nothing():
    assert steps(drawn("..AAABB..b", 1, 3, 4, 9)) == steps(drawn("..AAABB..b"))


def test_a_stricter_threshold_leaves_out_the_unsure():
    assert steps(drawn("AAbbBB"), threshold=0.9) == [("a", 0, 2), ("b", 4, 6)]


def test_boundaries_are_told_once_and_in_order():
    times = boundaries(segments(drawn("..AAABB..b"), CLASSES))
    assert np.round(np.array(times) / HOP).astype(int).tolist() == [2, 5, 7, 9, 10]


def test_nothing_has_no_segments():
    assert steps([]) == steps(drawn(".....")) == []


@pytest.mark.parametrize("threshold", [0.0, 1.0, 95.0])
def test_a_threshold_is_a_posterior(threshold):
    with pytest.raises(ValueError, match="between 0 and 1"):
        steps(drawn("AA"), threshold=threshold)
