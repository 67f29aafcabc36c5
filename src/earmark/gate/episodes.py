"""Episodes: the stretches a gate keeps open, found as the scores come in."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import numpy as np

from earmark.timeline import FloatArray, Span, Track, merge

SHORTEST = 0.15
"""Seconds; anything shorter is shorter than any annotated action. The paper's."""

CLOSED_GAP = 0.6
"""Seconds; a shorter silence is cheaper to keep than to resolve. The paper's."""


@dataclass(frozen=True, slots=True)
class Episodes:
    """Opens at `on`, closes below `off`, drops blips and closes short gaps.

        score          on ─────╱╲──────╱╲───
                      off ────╱──╲╱╲──╱──╲──
        open                  ▁▁▁███████████▁   (the dip between stays above `off`)

    Scores are median-filtered first, each end continued by its own value. However the scores are
    cut into tracks, the episodes are the same.
    """

    on: float
    off: float
    median: int = 1
    """Steps of the median filter, odd; 1 leaves the scores as they are."""
    shortest: float = SHORTEST
    gap: float = CLOSED_GAP

    def __post_init__(self) -> None:
        if not self.off <= self.on:
            raise ValueError(f"an episode closes at or below where it opens: {self.off}, {self.on}")
        if self.median < 1 or self.median % 2 == 0:
            raise ValueError(f"a median filter is an odd number of steps wide, not {self.median}")

    def __call__(self, scores: Iterable[Track]) -> Iterator[Span]:
        """The episodes of `scores`, in order, each as soon as nothing can change it."""
        waiting: Span | None = None
        for span in self._long_enough(scores):
            if waiting is not None and span.start - waiting.end < self.gap:
                waiting = Span(waiting.start, span.end)
                continue
            if waiting is not None:
                yield waiting
            waiting = span
        if waiting is not None:
            yield waiting

    def _long_enough(self, scores: Iterable[Track]) -> Iterator[Span]:
        """The open stretches that are not blips; `1e-9` forgives the arithmetic of the clock."""
        for span in self._opened(scores):
            if span.duration > self.shortest - 1e-9:
                yield span

    def _opened(self, scores: Iterable[Track]) -> Iterator[Span]:
        """The stretches between an opening and the next closing."""
        opened: float | None = None
        end = 0.0
        for track in self._smoothed(scores):
            for time, is_open in self._changes(track, opened is not None):
                if is_open:
                    opened = time
                elif opened is not None:
                    yield Span(opened, time)
                    opened = None
            end = track.span.end
        if opened is not None:
            yield Span(opened, end)

    def _changes(self, track: Track, is_open: bool) -> Iterator[tuple[float, bool]]:
        """When the gate opens and closes within `track`, given how it stood before."""
        says = np.where(track.values >= self.on, 1, np.where(track.values < self.off, 0, -1))
        said = np.flatnonzero(says >= 0)
        states = np.concatenate([[int(is_open)], says[said]])
        for place in np.flatnonzero(np.diff(states)).tolist():
            yield track.time_of(int(said[place])), bool(states[place + 1])

    def _smoothed(self, scores: Iterable[Track]) -> Iterator[Track]:
        """The median-filtered scores, held back by half the filter's width."""
        side = self.median // 2
        kept, start, hop = np.zeros(0), 0.0, 1.0
        for count, track in enumerate(scores):
            if count == 0:
                start, hop = track.start, track.hop
                kept = np.repeat(np.asarray(track.values[:1], dtype=float), side)
            kept = np.concatenate([kept, track.values])
            ready = len(kept) - 2 * side
            if ready > 0:
                yield Track(_median(kept, self.median), hop=hop, start=start)
                kept, start = kept[ready:], start + ready * hop
        rest = len(kept) - side
        if rest > 0:
            kept = np.concatenate([kept, np.repeat(kept[-1:], side)])
            yield Track(_median(kept, self.median)[-rest:], hop=hop, start=start)


def _median(values: FloatArray, width: int) -> FloatArray:
    """The running median of every full stretch of `width` steps."""
    from scipy.ndimage import median_filter  # slow to import, and not needed to listen

    filtered: FloatArray = median_filter(values, size=width, mode="nearest")
    return filtered[width // 2 : len(values) - width // 2]


@dataclass(frozen=True, slots=True)
class Bill:
    """What episodes cost: in calls, and in the account that charges for their duration alone."""

    episodes: int
    duration: float
    """Seconds the episodes last together."""
    calls: int
    """Windows that at least one episode touches: one call each."""
    windows: int
    """Windows of the whole recording."""
    charged: float
    """Calls a duration account would charge: `duration / length`."""

    @property
    def undercount(self) -> float:
        """How many times more calls are made than a duration account charges; nan for none."""
        return self.calls / self.charged if self.charged else float("nan")


def bill(episodes: Iterable[Span], *, length: float, windows: int) -> Bill:
    """What `episodes` cost on a grid of `windows` windows of `length` seconds."""
    spans = merge(episodes)
    touched = np.zeros(windows + 1, dtype=np.intp)
    for span in spans:
        first = int(span.start // length)
        last = int(np.ceil(span.end / length - 1e-9))
        touched[min(first, windows)] += 1
        touched[min(last, windows)] -= 1
    duration = sum(span.duration for span in spans)
    calls = int((np.cumsum(touched)[:windows] > 0).sum())
    return Bill(len(spans), duration, calls, windows, duration / length)
