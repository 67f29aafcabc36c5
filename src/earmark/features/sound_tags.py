"""What is heard in stretches of a recording, in the words of a network that knows classes."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Protocol

import numpy as np

from earmark.media import Recording
from earmark.timeline import Span, Track

BACKGROUND = "Silence"
"""From this class of AudioSet to the last they name rooms, noise and the recording itself."""

MOST = 3
"""Names a stretch has at most."""

LEAST = 0.2
"""Probability from which on a class is named."""


class Tagger(Protocol):
    """Says in words what is heard."""

    def tags(self, recording: Recording, spans: Sequence[Span]) -> list[tuple[str, ...]]:
        """What is heard in each of `spans`, likeliest first; the recording is heard once."""
        ...


def name_likeliest(
    logits: Iterable[Track],
    spans: Sequence[Span],
    names: Sequence[str],
    *,
    most: int = MOST,
    least: float = LEAST,
) -> list[tuple[str, ...]]:
    """The likeliest of `names` in each of `spans`, at most `most`, from consecutive `logits`.

    A class is as likely in a span as at its likeliest moment there, and named where that is at
    least the probability `least`. Spans may overlap and come in any order.
    """
    best = np.full((len(spans), len(names)), -np.inf, dtype=np.float32)
    for track in logits:
        for place, span in enumerate(spans):
            inside = track.values[_steps_within(track, span)]
            if len(inside):
                best[place] = np.maximum(best[place], inside.max(axis=0))
    if BACKGROUND in names:
        best[:, list(names).index(BACKGROUND) :] = -np.inf
    floor = np.log(least / (1 - least))
    likeliest = np.argsort(-best, axis=1, kind="stable")[:, :most].tolist()
    return [
        tuple(names[place] for place in places if row[place] >= floor)
        for row, places in zip(best, likeliest, strict=True)
    ]


def _steps_within(track: Track, span: Span) -> slice:
    """The rows of `track` that touch `span`."""
    first = max(0, int((span.start - track.start) / track.hop + 1e-6))
    last = max(0, int(np.ceil((span.end - track.start) / track.hop - 1e-6)))
    return slice(first, last)
