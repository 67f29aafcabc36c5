"""Whether two answers tell of the same activity: by words, and by meaning where it can be told."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

import numpy as np

from earmark.captioning.activity import same_activity
from earmark.models import ModelStore
from earmark.models.sentence_encoder import SentenceEncoder
from earmark.timeline import FloatArray

LEAST_SIMILARITY = 0.8
"""Product of two vectors from which on activities in other words are the same."""


@dataclass(slots=True)
class ActivityMeaning:
    """Compares activities; what it has read once it remembers."""

    encoder: SentenceEncoder
    vectors: dict[str, FloatArray] = field(default_factory=dict, repr=False)

    def read(self, activities: Iterable[str | None]) -> None:
        """Read many at once, which is quicker than one by one."""
        new = sorted({each for each in activities if each and each not in self.vectors})
        self.vectors.update(zip(new, self.encoder(new), strict=True))

    def __call__(self, first: str, last: str) -> bool:
        """Whether both are the same: most words shared, or the same meant."""
        if same_activity(first, last):
            return True
        self.read([first, last])
        nothing = np.zeros(1)
        one, other = (self.vectors.get(each, nothing) for each in (first, last))
        return one.shape == other.shape and float(one @ other) >= LEAST_SIMILARITY


def compare_activities(
    store: ModelStore, activities: Iterable[str | None]
) -> Callable[[str, str], bool]:
    """What compares `activities`: by meaning too where the sentence model is in `store`."""
    encoder = SentenceEncoder.if_available(store)
    if encoder is None:
        return same_activity
    meaning = ActivityMeaning(encoder)
    meaning.read(activities)
    return meaning
