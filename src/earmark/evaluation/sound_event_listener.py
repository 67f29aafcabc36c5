"""An ideal listener: rates from annotated sound events, fitted on recordings that are not judged.

A Poisson regression says how many actions start in a window from the sound events in it and in its
neighbours. With events a person marked, it shows how much hearing could give; and it lets every
rule run where annotations are at hand but no audio.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from earmark.errors import AnnotationError
from earmark.evaluation.annotations.actions import Action, Annotations, few
from earmark.evaluation.metrics.coverage_counts import count_overlaps, count_starts, reach
from earmark.gate.rates import fit_poisson
from earmark.gate.survival import Survival
from earmark.grid import Grid, Windows
from earmark.timeline import FloatArray

NEIGHBOURS = 2
"""Windows looked at on either side of the one that is rated."""

COMMON = 60
"""Events of one label among the fitted recordings from which on the label is listened to."""

RIDGE = 150.0
"""Penalty on each squared weight of a standardised feature; the constant has none.

This and the choice of features are those of highest likelihood, left out by participant, on the
114 EPIC-KITCHENS-100 validation recordings that the paper does not evaluate.
"""


@dataclass(frozen=True, slots=True, eq=False)
class SoundEventListener:
    """Rates windows by the sound events marked in and around them."""

    window: float
    """Seconds of the windows it was fitted on, and rates."""
    labels: tuple[str, ...]
    """Labels of events that have weights of their own."""
    intercept: float
    weights: FloatArray
    """One a feature."""
    survival: Survival
    """How long the actions of the fitted recordings last."""

    @classmethod
    def fit(
        cls, actions: Annotations, events: Annotations, *, window: float = 4.0
    ) -> SoundEventListener:
        """Fit on the recordings of `actions`; one without any event counts as silent.

        `AnnotationError` where no recording has an action, or none has an event.
        """
        if not actions.actions:
            raise AnnotationError(
                f"no action in the recordings to fit on ({few(actions.recordings)}); "
                f"mark some, or evaluate fewer of the annotated ones (--recordings)"
            )
        if not any(events.recordings.get(name) for name in actions.recordings):
            raise AnnotationError(
                f"no event in the recordings to fit on ({few(actions.recordings)}); "
                f"--sound-events must mark the same recordings by the same names"
            )
        heard = {name: events.recordings.get(name, []) for name in actions.recordings}
        labels = common_labels(heard.values())
        seen = [
            features(each, actions.durations[name], window=window, labels=labels)
            for name, each in heard.items()
        ]
        starts = [
            count_starts(marked, len(rows), window=window)
            for marked, rows in zip(actions.recordings.values(), seen, strict=True)
        ]
        fit = fit_poisson(np.concatenate(seen), np.concatenate(starts), ridge=RIDGE)
        return cls(window, labels, *fit, Survival.from_lengths(actions.lengths))

    def windows(self, events: Sequence[Action], duration: float) -> Windows:
        """The windows of a recording whose sound events are `events`.

        The score of a window is its rate. Its instant is the middle of the longest stretch of sound
        in it, the middle of the window where there is none.
        """
        rows = features(events, duration, window=self.window, labels=self.labels)
        rates = np.exp(np.clip(self.intercept + rows @ self.weights, -30, 3))
        instants = loudest(events, duration, window=self.window)
        return Windows(self.window, duration, rates, instants, rates, self.survival)


def common_labels(recordings: Iterable[Sequence[Action]]) -> tuple[str, ...]:
    """The labels of at least `COMMON` events, in order of the alphabet."""
    counts = Counter(event.label for events in recordings for event in events if event.label)
    return tuple(sorted(label for label, count in counts.items() if count >= COMMON))


def features(
    events: Sequence[Action], duration: float, *, window: float, labels: Sequence[str] = ()
) -> FloatArray:
    """What is heard in and around each window, one row a window.

    Three channels for the window and `NEIGHBOURS` on either side (silent past the ends): events
    that start, events that sound, and the share of the window that is not silent. Two for each of
    `labels`, in the window alone: events that start (up to 3), and whether one sounds.
    """
    count = Grid(window).count(duration)
    channels = [
        np.log1p(count_starts(events, count, window=window)),
        np.log1p(count_overlaps(events, count, window=window)),
        share_filled(events, count, window=window),
    ]
    padded = np.pad(np.stack(channels, axis=1), ((NEIGHBOURS, NEIGHBOURS), (0, 0)))
    columns = [padded[shift : shift + count] for shift in range(2 * NEIGHBOURS + 1)]
    for label in labels:
        named = [event for event in events if event.label == label]
        columns.append(np.minimum(count_starts(named, count, window=window), 3)[:, None])
        columns.append(np.minimum(count_overlaps(named, count, window=window), 1)[:, None])
    return np.concatenate(columns, axis=1)


def share_filled(spans: Sequence[Action], count: int, *, window: float) -> FloatArray:
    """The share of each of `count` windows that lies inside any of `spans`.

    Seconds filled up to a time rise in straight lines between the ends of the joined spans, so
    they are read off at the windows' edges.
    """
    times, filled = [0.0], [0.0]
    for start, end in sorted((span.start, span.end) for span in spans):
        begin = max(start, times[-1])
        if end > begin:
            times += [begin, end]
            filled += [filled[-1], filled[-1] + end - begin]
    edges = np.arange(count + 1) * window
    shares: FloatArray = np.diff(np.interp(edges, times, filled)) / window
    return shares


def loudest(events: Sequence[Action], duration: float, *, window: float) -> FloatArray:
    """The middle of the longest stretch of one event in each window; its own middle in silence."""
    count = Grid(window).count(duration)
    edges = np.arange(count + 1) * window
    ends = np.minimum(edges[1:], duration)
    instants: FloatArray = (edges[:-1] + ends) / 2
    longest = np.zeros(count)
    first, after = reach(events, count, window)
    for event, begin, stop in zip(events, first.tolist(), after.tolist(), strict=True):
        for place in range(begin, stop):
            low, high = max(event.start, edges[place]), min(event.end, ends[place])
            if high - low > longest[place]:
                longest[place] = high - low
                instants[place] = (low + high) / 2
    return instants
