"""Whether two activities are the same: by their words, and by meaning if the model is installed."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

import numpy as np

from earmark.captioning.activity import same_activity
from earmark.models import ModelStore
from earmark.models.sentence_encoder import SentenceEncoder
from earmark.timeline import FloatArray

LEAST_SIMILARITY = 0.8
"""Dot product of two unit vectors from which activities in different words are the same."""


@dataclass(slots=True)
class ActivityMeaning:
    """Compares activities; caches the vector of each."""

    encoder: SentenceEncoder
    vectors: dict[str, FloatArray] = field(default_factory=dict, repr=False)

    def read(self, activities: Iterable[str | None]) -> None:
        """Encode many in one batch, which is faster than one by one."""
        new = sorted({each for each in activities if each and each not in self.vectors})
        self.vectors.update(zip(new, self.encoder(new), strict=True))

    def __call__(self, first: str, last: str) -> bool:
        """Whether both are the same: by shared words, or by meaning."""
        if same_activity(first, last):
            return True
        self.read([first, last])
        nothing = np.zeros(1)
        one, other = (self.vectors.get(each, nothing) for each in (first, last))
        return one.shape == other.shape and float(one @ other) >= LEAST_SIMILARITY


def compare_activities(
    store: ModelStore, activities: Iterable[str | None]
) -> Callable[[str, str], bool]:
    """A function that compares two `activities`, by meaning too if `store` has the model for it."""
    encoder = SentenceEncoder.if_available(store)
    if encoder is None:
        return same_activity
    meaning = ActivityMeaning(encoder)
    meaning.read(activities)
    return meaning
