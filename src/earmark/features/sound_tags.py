"""Encoders over classes that have names, and what is made of their scores."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable, Sequence
from dataclasses import replace

import numpy as np

from earmark.features.encoder import SoundEncoder
from earmark.features.pretrained.vocabulary import kept_classes, not_manipulation
from earmark.media import Meter, Recording
from earmark.timeline import FloatArray, Span, Track

BACKGROUND = "Silence"
"""From this class of AudioSet to the last they name rooms, noise and the recording itself."""

MOST = 3
"""Names a stretch has at most."""

LEAST = 0.2
"""Probability from which on a class is named."""


class SoundTagger(SoundEncoder):
    """An encoder that can say in words what is heard.

    Its option `reads` chooses `logits`, a class a channel, or `activity`: the greatest posterior of
    any class that hands may have to do with, where that is no less than `threshold`.
    """

    __slots__ = ()

    reads: str
    threshold: float

    @property
    @abstractmethod
    def classes(self) -> tuple[str, ...]:
        """The names of the classes, in the order of the logits."""

    def tags(
        self,
        recording: Recording,
        spans: Sequence[Span],
        *,
        most: int = MOST,
        least: float = LEAST,
    ) -> list[tuple[str, ...]]:
        """What is heard in each of `spans`, by the network's own classes: see `name_likeliest`.

        The recording is listened to once, however many there are.
        """
        listener = replace(self, reads="logits", threshold=0.0)  # type: ignore[type-var]
        heard = listener(recording, meter=Meter())
        return name_likeliest(heard, spans, self.classes, most=most, least=least)

    def _check_threshold(self, name: str) -> None:
        if self.threshold and self.reads != "activity":
            raise ValueError(f"{name} has a threshold for its activity and for nothing else")
        if not 0.0 <= self.threshold < 1.0:
            raise ValueError(f"a threshold on posteriors is 0 to 1, not {self.threshold}")


def strongest(
    rows: FloatArray,
    classes: Sequence[str],
    *,
    threshold: float = 0.0,
    excluded: Sequence[str] | None = None,
) -> FloatArray:
    """The greatest posterior of each row, `(steps,)`, of any class that hands may have to do with.

    Posteriors, `(steps, classes)`, below `threshold` count as 0, and so do `excluded` classes; None
    for the documented list.
    """
    names = not_manipulation() if excluded is None else frozenset(excluded)
    most = rows[:, kept_classes(classes, names)].max(axis=1)
    return np.where(most >= threshold, most, 0.0).astype(np.float32)


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
            first = max(0, int((span.start - track.start) / track.hop + 1e-6))
            last = max(0, int(np.ceil((span.end - track.start) / track.hop - 1e-6)))
            inside = track.values[first:last]  # the rows that touch the span
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
