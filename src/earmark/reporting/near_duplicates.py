"""Answers that say the same again and again, folded into the first of them."""

from __future__ import annotations

from collections.abc import Sequence

from earmark.evidence.word_stems import stems

SAME = 0.85
"""Share of the words of both that two answers must have in common."""

FEWEST = 3
"""Answers in a row that are folded; two are shown."""


COMPARED = 10_000
"""Characters of an answer that are compared; a server may send megabytes."""


def fold_repeats(texts: Sequence[str | None]) -> list[int]:
    """For each of `texts`, in order of time, the place of the one it is folded into.

    That is its own place where it is not folded. What has no text ends a row.

    >>> fold_repeats(["A bench.", "a bench", "The bench, a bench!", "A hammer strikes."])
    [0, 1, 2, 3]
    >>> fold_repeats(["A bench.", "a bench", "A bench!", "A hammer strikes."])
    [0, 0, 0, 3]
    """
    words = [None if text is None else frozenset(stems(text[:COMPARED])) for text in texts]
    leaders = list(range(len(texts)))
    first = 0
    for place in range(1, len(texts) + 1):
        if place < len(texts) and _are_same(words[first], words[place]):
            continue
        if place - first >= FEWEST:
            leaders[first:place] = [first] * (place - first)
        first = place
    return leaders


def _are_same(one: frozenset[str] | None, other: frozenset[str] | None) -> bool:
    if not one or not other:
        return False
    return len(one & other) >= SAME * len(one | other)
