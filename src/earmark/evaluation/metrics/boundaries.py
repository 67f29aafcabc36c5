"""Matches boundaries and events with annotated ones: counts, and F1 from the counts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from earmark.evaluation.annotations.actions import Action
from earmark.evaluation.metrics.coverage_counts import Addable, Ratio, share
from earmark.timeline import Span

TOLERANCES = (0.5, 1.0, 2.0)
"""Seconds a boundary may be away from the annotated one; the paper's three."""

ONSET_COLLAR = 0.5
"""Seconds an event's onset may be away; the paper's, wider than DCASE's 0.2 s."""

ROUNDING = 1e-9
"""Seconds of rounding error allowed, so that exactly one tolerance apart is a match."""


@dataclass(frozen=True, slots=True)
class MatchCounts(Addable):
    """Matches between annotated and detected items; can be added over recordings.

    >>> (MatchCounts(3, 4, 6) + MatchCounts(1, 2, 0)).recall
    0.6666666666666666
    """

    hits: int = 0
    """Pairs matched."""
    reference: int = 0
    """Annotated items."""
    found: int = 0
    """Detected items, right or wrong."""

    precision = Ratio("hits", "found")
    """Share of the detected items that match."""
    recall = Ratio("hits", "reference")
    """Share of the annotated items that were detected."""

    @property
    def f1(self) -> float:
        """Harmonic mean of precision and recall; nan if both sides are empty."""
        return share(2 * self.hits, self.reference + self.found)


def boundaries(spans: Sequence[Span]) -> list[float]:
    """Every distinct start and end of `spans`, in order."""
    return sorted({time for span in spans for time in (span.start, span.end)})


def even_segments(count: int, duration: float) -> list[Span]:
    """`count` segments of equal length, with gaps of that length between them.

    >>> [(span.start, span.end) for span in even_segments(3, 60.0)]
    [(0.0, 10.0), (20.0, 30.0), (40.0, 50.0)]
    """
    edges = np.linspace(0.0, duration, 2 * count + 1).tolist()
    return [Span(edges[2 * place], edges[2 * place + 1]) for place in range(count)]


def match_boundaries(
    reference: Sequence[float], found: Sequence[float], *, tolerance: float
) -> MatchCounts:
    """Match boundaries at most `tolerance` seconds apart, nearest pair first, each used once.

    F1 rises with the number of boundaries, so compare systems only at equal counts, as
    `compare_boundaries` does.
    """
    truth, guesses = np.sort(reference), np.sort(found)
    low = np.searchsorted(guesses, truth - tolerance - ROUNDING, side="left").tolist()
    high = np.searchsorted(guesses, truth + tolerance + ROUNDING, side="right").tolist()
    pairs = [
        (abs(float(truth[marked] - guesses[guess])), marked, guess)
        for marked in range(len(truth))
        for guess in range(low[marked], high[marked])
    ]
    matched: set[int] = set()
    used: set[int] = set()
    for _, marked, guess in sorted(pairs):
        if marked not in matched and guess not in used:
            matched.add(marked)
            used.add(guess)
    return MatchCounts(len(matched), len(reference), len(found))


def compare_boundaries(
    reference: Sequence[Span], systems: Mapping[str, Sequence[Span]]
) -> dict[str, dict[float, MatchCounts]]:
    """Boundary matches of several systems at each of `TOLERANCES`.

    All systems must have the same number of segments, since more segments raise F1.
    """
    segments = {name: len(spans) for name, spans in systems.items()}
    if len(set(segments.values())) > 1:
        counts = ", ".join(f"{name} {count}" for name, count in segments.items())
        raise ValueError(f"boundary F1 compares equal segment counts only, not {counts}")
    truth = boundaries(reference)
    return {
        name: {t: match_boundaries(truth, boundaries(spans), tolerance=t) for t in TOLERANCES}
        for name, spans in systems.items()
    }


def match_events(
    reference: Sequence[Action], found: Sequence[Action], *, collar: float = ONSET_COLLAR
) -> MatchCounts:
    """Match sound events of the same label whose onsets are at most `collar` seconds apart.

    The matching is the largest possible, each event used once. Since all collars are equal, going
    through both sides in order of onset and dropping the earlier unmatched one finds it.
    """
    return sum(match_by_class(reference, found, collar=collar).values(), MatchCounts())


def match_by_class(
    reference: Sequence[Action], found: Sequence[Action], *, collar: float = ONSET_COLLAR
) -> dict[str, MatchCounts]:
    """`match_events` for each label separately, for a mean over classes."""
    counts = {}
    for label in sorted({event.label for event in (*reference, *found)}):
        marked, guesses = (
            sorted(event.start for event in events if event.label == label)
            for events in (reference, found)
        )
        hits = left = right = 0
        while left < len(marked) and right < len(guesses):
            gap = guesses[right] - marked[left]
            matched = abs(gap) <= collar + ROUNDING
            hits += matched
            left += matched or gap > 0
            right += matched or gap <= 0
        counts[label] = MatchCounts(hits, len(marked), len(guesses))
    return counts
