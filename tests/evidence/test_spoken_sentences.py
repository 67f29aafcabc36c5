"""What is said in each window: found quickly, and the same as by looking at every sentence."""

from __future__ import annotations

import time

import numpy as np
import pytest

from earmark import Span
from earmark.evidence.evidence_entry import EvidenceEntry
from earmark.evidence.sound_names import sounds_in


def spoken(start: float, end: float) -> EvidenceEntry:
    return EvidenceEntry(Span(start, end), "said", f"{start} to {end}", 0.9, "whisper")


@pytest.mark.parametrize("seed", range(20))
def test_the_sentences_of_a_window_are_those_that_overlap_it(seed: int):
    rng = np.random.default_rng(seed)
    starts = np.sort(rng.integers(0, 40, size=30))
    lengths = rng.choice([0, 1, 2, 3, 30], size=30)
    said = [spoken(float(a), float(a + b)) for a, b in zip(starts, lengths, strict=True)]
    spans = [Span(float(a), float(a + b)) for a in range(45) for b in (0, 1, 4)]
    found = sounds_in(spans, level=None, names={}, said=said)
    for span in spans:
        slow = tuple(entry.text for entry in said if entry.span.overlaps(span))
        assert found[span].said == slow


def test_a_long_day_of_talk_is_no_square_of_it():
    said = [spoken(4.0 * number, 4.0 * number + 5.0) for number in range(9000)]
    spans = [Span(4.0 * number, 4.0 * number + 4.0) for number in range(9000)]
    began = time.perf_counter()
    found = sounds_in(spans, level=None, names={}, said=said)
    assert time.perf_counter() - began < 5.0
    assert {len(each.said) for each in found.values()} == {1, 2}
