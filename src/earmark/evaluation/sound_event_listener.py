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
from earmark.evaluation.metrics.coverage_counts import reach
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
    weights: FloatArray
    """One a feature, the constant first."""
    centre: FloatArray
    scale: FloatArray
    survival: Survival
    """How long the actions of the fitted recordings last."""
    recordings: int
    """Recordings it was fitted on."""

    @classmethod
    def fit(
        cls, actions: Annotations, events: Annotations, *, window: float = 4.0
    ) -> SoundEventListener:
        """Fit on the recordings of `actions`; one without any event counts as silent.

        Raises:
            AnnotationError: no recording has an action, or none has an event.
        """
        if not actions.actions:
            raise AnnotationError(
                f"no action in the recordings to fit on ({few(actions.recordings)}); "
                f"mark some, or evaluate fewer of the annotated ones (--recordings)"
            )
        if not any(events.recordings.get(name) for name in actions.recordings):
            raise AnnotationError(
                f"no event in the recordings to fit on ({few(actions.recordings)}); "
                f"--evidence must mark the same recordings by the same names"
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
        rows = np.concatenate(seen)
        centre, scale = rows.mean(axis=0), np.where(np.ptp(rows, axis=0) > 0, rows.std(axis=0), 1.0)
        weights = fit_poisson((rows - centre) / scale, np.concatenate(starts))
        lasts = Survival.from_lengths(actions.lengths)
        return cls(window, labels, weights, centre, scale, lasts, len(actions.recordings))

    def windows(self, events: Sequence[Action], duration: float) -> Windows:
        """The windows of a recording whose sound events are `events`.

        The score of a window is its rate. Its instant is the middle of the longest stretch of sound
        in it, the middle of the window where there is none.
        """
        rows = features(events, duration, window=self.window, labels=self.labels)
        rates = _rate((rows - self.centre) / self.scale, self.weights)
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
        np.log1p(count_sounding(events, count, window=window)),
        share_filled(events, count, window=window),
    ]
    padded = np.pad(np.stack(channels, axis=1), ((NEIGHBOURS, NEIGHBOURS), (0, 0)))
    columns = [padded[shift : shift + count] for shift in range(2 * NEIGHBOURS + 1)]
    for label in labels:
        named = [event for event in events if event.label == label]
        columns.append(np.minimum(count_starts(named, count, window=window), 3)[:, None])
        columns.append(np.minimum(count_sounding(named, count, window=window), 1)[:, None])
    return np.concatenate(columns, axis=1)


def count_sounding(spans: Sequence[Action], count: int, *, window: float) -> FloatArray:
    """How many of `spans` overlap each of `count` windows."""
    first, after = reach(spans, count, window)
    change = np.bincount(first, minlength=count + 1) - np.bincount(after, minlength=count + 1)
    return np.cumsum(change)[:count].astype(float)


def count_starts(spans: Sequence[Action], count: int, *, window: float) -> FloatArray:
    """How many of `spans` start in each of `count` windows."""
    edges = np.arange(count + 1) * window
    starts = np.array([span.start for span in spans], dtype=float)
    owner = np.searchsorted(edges, starts, side="right") - 1
    return np.bincount(np.clip(owner, 0, max(count - 1, 0)), minlength=count)[:count].astype(float)


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


def fit_poisson(rows: FloatArray, counts: FloatArray, *, steps: int = 50) -> FloatArray:
    """Weights of `log(expected count) = constant + rows @ weights`, the constant first.

    Newton's method on the penalised likelihood, which is concave; a step that does not raise it is
    halved. With `rows` all equal it is the logarithm of the mean count.
    """
    design = np.column_stack([np.ones(len(rows)), rows])
    penalty = np.full(design.shape[1], RIDGE)
    penalty[0] = 0.0
    weights = np.zeros(design.shape[1])
    weights[0] = np.log(max(counts.mean(), 1e-9))
    best = _likelihood(design, counts, weights, penalty)
    for _ in range(steps):
        expected = np.exp(np.clip(design @ weights, -30, 30))
        slope = design.T @ (counts - expected) - penalty * weights
        bend = (design * expected[:, None]).T @ design + np.diag(penalty + 1e-9)
        step = np.linalg.solve(bend, slope)
        while (value := _likelihood(design, counts, weights + step, penalty)) < best:
            step = step / 2
            if np.abs(step).max() < 1e-10:
                return weights
        weights = weights + step
        if value - best < 1e-9 * (1 + abs(best)):
            break
        best = value
    return weights


def _likelihood(
    design: FloatArray, counts: FloatArray, weights: FloatArray, penalty: FloatArray
) -> float:
    """The penalised Poisson log-likelihood, up to a constant."""
    linear = np.clip(design @ weights, -30, 30)
    return float(counts @ linear - np.exp(linear).sum() - (penalty * weights**2).sum() / 2)


def _rate(rows: FloatArray, weights: FloatArray) -> FloatArray:
    """Expected starts of each row."""
    rates: FloatArray = np.exp(np.clip(weights[0] + rows @ weights[1:], -30, 3))
    return rates
