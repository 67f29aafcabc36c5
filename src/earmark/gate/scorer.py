"""What a scorer is: features in, one score per moment out."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Protocol

from earmark.timeline import Track


class Scorer(Protocol):
    """Says how much each moment deserves a look, from the features alone.

    Takes consecutive tracks of features, `(steps, channels)` or `(steps,)`, and yields consecutive
    tracks of scores, `(steps,)`, with the same clock and as many rows in all. However the
    features are cut into tracks, the scores are the same.
    """

    def __call__(self, features: Iterable[Track]) -> Iterator[Track]:
        """The scores of `features`, in order."""
        ...


@dataclass(frozen=True, slots=True)
class MeanChannel:
    """The mean over the channels is the score; a single channel is the score itself."""

    def __call__(self, features: Iterable[Track]) -> Iterator[Track]:
        """The scores of `features`, in order."""
        for track in features:
            rows = track.values if track.values.ndim == 1 else track.values.mean(axis=1)
            yield Track(rows, hop=track.hop, start=track.start)
