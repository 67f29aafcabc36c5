"""Segments and boundaries of sounds, from the posteriors of a model.

most likely   . . a a a a b b . . b      segments   a, b, b
boundaries        ^       ^   ^   ^
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from earmark.timeline import Span, Track

NO_CLASS = -1
"""The label of a step at which no class is likely enough."""


PAPER_THRESHOLD = 0.95
"""The posterior above which the paper counts boundaries."""


@dataclass(frozen=True, slots=True)
class Segment:
    """A span in which one class is the most likely."""

    span: Span
    name: str


def segments(
    features: Iterable[Track],
    classes: Sequence[str],
    *,
    threshold: float = 0.5,
    shortest: float = 0.0,
) -> Iterator[Segment]:
    """The segments of `features`, which are logits, in order of time.

    A step belongs to its most likely class, or to none if its posterior is below `threshold`. A
    segment is a run of steps of one class; those shorter than `shortest` seconds are left out. The
    segments do not depend on how the features are cut into tracks.
    """
    if not 0.0 < threshold < 1.0:
        raise ValueError(f"a threshold on posteriors lies between 0 and 1, not at {threshold}")
    for first, end, label in _runs(features, float(np.log(threshold / (1.0 - threshold)))):
        if label != NO_CLASS and end - first >= shortest - 1e-9:
            yield Segment(Span(first, end), classes[label])


def boundaries(found: Iterable[Segment]) -> list[float]:
    """The distinct start and end times of the segments, in order."""
    return sorted({time for segment in found for time in (segment.span.start, segment.span.end)})


def _runs(features: Iterable[Track], least: float) -> Iterator[tuple[float, float, int]]:
    """Start, end and label of every run of steps with one label."""
    started, end, label = 0.0, 0.0, NO_CLASS
    for track in features:
        best = track.values.argmax(axis=1)
        sure = track.values.max(axis=1) >= least
        labels = np.where(sure, best, NO_CLASS)
        before = np.concatenate([[label], labels[:-1]])
        for step in np.flatnonzero(labels != before):
            time = track.time_of(int(step))
            yield started, time, label
            started, label = time, int(labels[step])
        end = track.span.end
    if end > started:
        yield started, end, label
