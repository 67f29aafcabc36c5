"""Encoders over named sound classes: tags and activity from their scores."""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from earmark.features.encoder import SoundEncoder
from earmark.features.pretrained.vocabulary import not_manipulation
from earmark.media import Meter, Recording
from earmark.timeline import FloatArray, Span

BACKGROUND = "Silence"
"""The first of the last AudioSet classes, which name rooms, noise and the recording itself."""

MAX_TAGS = 3
"""Tags of one span at most."""

MIN_PROBABILITY = 0.2
"""Least probability of a class that becomes a tag."""
_MIN_LOGIT = math.log(MIN_PROBABILITY / (1 - MIN_PROBABILITY))


def likeliest_names(logits: FloatArray, names: Sequence[str]) -> tuple[str, ...]:
    """Up to `MAX_TAGS` of `names` by decreasing logit; background and unlikely classes left out."""
    count = names.index(BACKGROUND) if BACKGROUND in names else len(names)
    likeliest = np.argsort(-logits[:count], kind="stable")[:MAX_TAGS].tolist()
    return tuple(names[place] for place in likeliest if logits[place] >= _MIN_LOGIT)


class SoundTagger(SoundEncoder):
    """An encoder whose classes have names.

    Its option `reads` chooses `logits`, one class per channel, or `activity`: the highest posterior
    of any class that hands can cause; 0 where it is below `threshold`.
    """

    __slots__ = ()

    reads: str
    threshold: float
    excluded: tuple[str, ...] | None = None
    """Names of classes that are not activity; None for the documented list."""

    @property
    @abstractmethod
    def classes(self) -> tuple[str, ...]:
        """The names of the classes, in the order of the logits."""

    def tags(self, recording: Recording, spans: Sequence[Span]) -> list[tuple[str, ...]]:
        """The classes in each of `spans`, likeliest first; the recording is decoded once.

        The probability of a class in a span is its maximum over the span; classes below
        `MIN_PROBABILITY` are left out. Spans may overlap and come in any order.
        """
        listener = replace(self, reads="logits", threshold=0.0)  # type: ignore[type-var]
        best = np.full((len(spans), len(self.classes)), -np.inf, dtype=np.float32)
        for track in listener(recording, meter=Meter()):
            for place, span in enumerate(spans):
                first = max(0, int((span.start - track.start) / track.hop + 1e-6))
                last = max(0, int(np.ceil((span.end - track.start) / track.hop - 1e-6)))
                inside = track.values[first:last]  # the rows that touch the span
                if len(inside):
                    best[place] = np.maximum(best[place], inside.max(axis=0))
        return [likeliest_names(row, self.classes) for row in best]

    def _activity(self, posteriors: FloatArray) -> FloatArray:
        """The highest posterior in each row of any class that hands can cause, `(steps,)`."""
        excluded = not_manipulation() if self.excluded is None else frozenset(self.excluded)
        kept = np.flatnonzero([name not in excluded for name in self.classes])
        if len(kept) == 0:
            count = len(self.classes)
            raise ValueError(f"all {count} classes are excluded, so nothing is left to detect")
        most = posteriors[:, kept].max(axis=1)
        return np.where(most >= self.threshold, most, 0.0).astype(np.float32)

    def _check(self, name: str, *, reads: tuple[str, ...]) -> None:
        """Raise `ValueError` if the options are invalid."""
        if self.reads not in reads:
            words = f"{', '.join(reads[:-1])} or {reads[-1]}"
            raise ValueError(f"{name} reads {words}, not {self.reads!r}")
        if self.threshold and self.reads != "activity":
            raise ValueError(f"{name} has a threshold for its activity and for nothing else")
        if not 0.0 <= self.threshold < 1.0:
            raise ValueError(f"a threshold on posteriors is 0 to 1, not {self.threshold}")
