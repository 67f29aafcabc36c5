"""Where the scores of an evaluation come from: listening to media, or annotated sound events.

Events stand for an ideal listener, fitted on recordings that are not evaluated.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from earmark.errors import AnnotationError
from earmark.gate.forecast_error import ForecastError
from earmark.gate.frontline import frontline_named
from earmark.gate.lengths import ActionLengths
from earmark.gate.survival import Survival
from earmark.grid import Grid, ScoredRecording, Windows
from earmark.media import Recording
from earmark.pipeline.listen import listen
from earmark.pipeline.session import open_session
from earmark.timeline import FloatArray, Track
from earmark_lab.annotations.actions import Action, Annotations, list_few
from earmark_lab.experiments.benchmark import Case, CaseTasks
from earmark_lab.metrics.counts import count_overlaps, count_starts, longest_overlaps
from earmark_lab.metrics.statistics import fit_poisson

SOUND_EVENTS = "sound-events"
FOLDS = 5
NEIGHBOURS = 2
MIN_LABEL_COUNT = 60
RIDGE = 150.0
"""Highest likelihood, cross-validated by participant, on the 114 EPIC-KITCHENS-100 validation
recordings that the paper does not evaluate."""


@dataclass(frozen=True, slots=True, eq=False)
class SoundEventListener:
    window: float
    labels: tuple[str, ...]
    intercept: float
    weights: FloatArray
    survival: Survival

    @classmethod
    def fit(
        cls, actions: Annotations, events: Annotations, *, window: float = 4.0
    ) -> SoundEventListener:
        """A recording without events counts as silent."""
        if not actions.actions:
            raise AnnotationError(
                f"no action in the recordings to fit on ({list_few(actions.recordings)}); "
                f"mark some, or evaluate fewer of the annotated ones (--recordings)"
            )
        if not any(events.recordings.get(name) for name in actions.recordings):
            raise AnnotationError(
                f"no event in the recordings to fit on ({list_few(actions.recordings)}); "
                f"--sound-events must mark the same recordings by the same names"
            )
        events_by_name = {name: events.recordings.get(name, []) for name in actions.recordings}
        counts = Counter(
            event.label
            for events_in in events_by_name.values()
            for event in events_in
            if event.label
        )
        labels = tuple(sorted(label for label, count in counts.items() if count >= MIN_LABEL_COUNT))
        features = [
            event_features(events_in, actions.durations[name], window=window, labels=labels)
            for name, events_in in events_by_name.items()
        ]
        starts = [
            count_starts(marked, len(rows), window=window)
            for marked, rows in zip(actions.recordings.values(), features, strict=True)
        ]
        fit = fit_poisson(np.concatenate(features), np.concatenate(starts), ridge=RIDGE)
        return cls(window, labels, *fit, Survival.from_lengths(actions.lengths))

    def windows(self, events: Sequence[Action], duration: float) -> Windows:
        """The score is the rate, the instant the middle of the window's longest event."""
        rows = event_features(events, duration, window=self.window, labels=self.labels)
        rates = np.exp(np.clip(self.intercept + rows @ self.weights, -30, 3))
        instants = longest_event_instants(events, duration, window=self.window)
        return Windows(self.window, duration, rates, instants, rates, self.survival)


def event_features(
    events: Sequence[Action], duration: float, *, window: float, labels: Sequence[str] = ()
) -> FloatArray:
    """For the window and `NEIGHBOURS` on either side: starts, overlaps, and the share not silent.

    For each of `labels`, in the window only: starts (up to 3), and whether one overlaps.
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
    """The share of each of `count` windows that lies inside any of `spans`."""
    times, filled = [0.0], [0.0]
    for start, end in sorted((span.start, span.end) for span in spans):
        begin = max(start, times[-1])
        if end > begin:
            times += [begin, end]
            filled += [filled[-1], filled[-1] + end - begin]
    edges = np.arange(count + 1) * window
    shares: FloatArray = np.diff(np.interp(edges, times, filled)) / window
    return shares


def longest_event_instants(
    events: Sequence[Action], duration: float, *, window: float
) -> FloatArray:
    """The middle of what each window holds of its longest event, or the middle of the window."""
    count = Grid(window).count(duration)
    edges = np.minimum(np.arange(count + 1) * window, duration)
    low, high = edges[:-1].copy(), edges[1:].copy()
    owner = longest_overlaps(events, count, window=window, duration=duration)
    times = np.array([(event.start, event.end) for event in events]).reshape(-1, 2)
    has_event = owner >= 0
    low[has_event] = np.maximum(low[has_event], times[owner[has_event], 0])
    high[has_event] = np.minimum(high[has_event], times[owner[has_event], 1])
    instants: FloatArray = (low + high) / 2
    return instants


@dataclass(frozen=True, slots=True)
class FittingSplit:
    evaluated: tuple[str, ...]
    fitted: Mapping[str, tuple[str, ...]]
    """By evaluated recording, which is never among them."""
    description: str


def split_for_fitting(annotations: Annotations, evaluated: Sequence[str] = ()) -> FittingSplit:
    """Cross-validates all if `evaluated` is empty."""
    names = list(annotations.recordings)
    if evaluated:
        annotations.only(evaluated)  # raises AnnotationError for unknown recordings
        rest = tuple(name for name in names if name not in set(evaluated))
        if not rest:
            raise AnnotationError("every annotated recording is evaluated: none is left to fit on")
        description = f"fitted on the {len(rest)} other annotated recordings"
        return FittingSplit(tuple(evaluated), dict.fromkeys(evaluated, rest), description)
    if len(names) < 2:
        raise AnnotationError(f"only {list_few(names)} is annotated: none is left to fit on")
    parts = min(FOLDS, len(names))
    others = [tuple(n for p, n in enumerate(names) if p % parts != part) for part in range(parts)]
    fitted = {name: others[index % parts] for index, name in enumerate(names)}
    return FittingSplit(tuple(names), fitted, f"fitted on the other parts of {parts}, part by part")


@dataclass(frozen=True, slots=True, eq=False)
class FittedScores:
    """Without events every window gets the mean rate of the other recordings."""

    annotations: Annotations
    events: Annotations | None
    split: FittingSplit
    window: float = 4.0
    _listeners: dict[tuple[str, ...], SoundEventListener] = field(default_factory=dict, init=False)

    @property
    def frontlines(self) -> tuple[str]:
        return (SOUND_EVENTS if self.events else "none",)

    @property
    def evaluated(self) -> Annotations:
        return self.annotations.only(self.split.evaluated)

    def describe(self) -> str:
        if self.events:
            return f"annotated events, {self.split.description}"
        return f"nowhere: nothing is heard; lengths and rates are {self.split.description}"

    def settings(self) -> dict[str, Any]:
        return {"sound_events": self.events.fingerprint if self.events else None, "sound": None}

    def tasks(self) -> CaseTasks:
        line = self.frontlines[0]
        return {(line, name): partial(self.case, name) for name in self.split.evaluated}

    def case(self, name: str) -> Case:
        windows = self._windows(name, self.annotations.durations[name])
        return Case(name, self.frontlines[0], windows, self.annotations.recordings[name])

    def track(self, name: str, frontline: str | None = None) -> Track:  # noqa: ARG002 - has one
        return Track(self.case(name).windows.scores, hop=self.window)

    def _windows(self, name: str, duration: float) -> Windows:
        names = self.split.fitted.get(name)
        if names is None:  # a development recording: scored by other development recordings
            rest = self.annotations.without(self.split.evaluated)
            names = split_for_fitting(rest).fitted[name]
        others = self.annotations.only(names)
        if not self.events:
            rate = self.window * others.actions / (3600 * others.hours)
            survival = Survival.from_lengths(others.lengths)
            return even_windows(self.window, duration, rate, survival)
        if names not in self._listeners:
            fitted = SoundEventListener.fit(others, self.events, window=self.window)
            self._listeners[names] = fitted
        return self._listeners[names].windows(self.events.recordings.get(name, []), duration)


def even_windows(length: float, duration: float, rate: float, lengths: ActionLengths) -> Windows:
    count = Grid(length).count(duration)
    instants = np.minimum((np.arange(count) + 0.5) * length, duration)
    flat = np.zeros(count)
    return Windows(length, duration, flat, instants, flat + rate, lengths)


@dataclass(frozen=True, slots=True, eq=False)
class MediaScores:
    annotations: Annotations
    evaluated: Annotations
    recordings: Mapping[str, Recording]
    frontlines: tuple[str, ...] = ("auto",)
    window: float = 4.0
    cache: Path | None = None
    files: Mapping[str, str] = field(default_factory=dict)

    def describe(self) -> str:
        return f"listening with {', '.join(self.frontlines)}"

    def settings(self) -> dict[str, Any]:
        recordings = {name: self.recordings[name] for name in self.evaluated.recordings}
        return {
            "sound_events": None,
            "sound": sound_fingerprint(recordings, [*map(self._file, self.frontlines)]),
        }

    def tasks(self) -> CaseTasks:
        return {
            (line, name): partial(self.case, line, name)
            for line in self.frontlines
            for name in self.evaluated.recordings
        }

    @property
    def forecast_errors(self) -> dict[str, ForecastError | None]:
        return {line: frontline_named(self._file(line)).error for line in self.frontlines}

    def case(self, frontline: str, name: str) -> Case:
        scored, line = self._listen(frontline, name), frontline_named(self._file(frontline))
        actions = self.annotations.recordings[name]
        return Case(name, frontline, scored, actions, line.separation)

    def track(self, name: str, frontline: str | None = None) -> Track:
        return self._listen(frontline or self.frontlines[0], name).heard.scores

    def _file(self, frontline: str) -> str:
        return self.files.get(frontline, frontline)

    def _listen(self, frontline: str, name: str) -> ScoredRecording:
        plan = open_session(frontline=self._file(frontline), window=self.window, cache=self.cache)
        return listen(self.recordings[name].source, plan.listening)


ScoreSource = FittedScores | MediaScores


@dataclass(frozen=True, slots=True, eq=False)
class AnnotatedScores:
    recording: str
    track: Track
    duration: float
    actions: Sequence[Action]


def score_recordings(
    source: ScoreSource, frontline: str, names: Iterable[str]
) -> list[AnnotatedScores]:
    marked = source.annotations
    return [
        AnnotatedScores(
            name, source.track(name, frontline), marked.durations[name], marked.recordings[name]
        )
        for name in names
    ]


def sound_fingerprint(recordings: Mapping[str, Recording], frontlines: Sequence[str]) -> str:
    digest = hashlib.sha256()
    for name in sorted(recordings):
        digest.update(f"{name} {recordings[name].key}\n".encode())
    for line in map(frontline_named, frontlines):
        parts = (line.encoder, line.scorer, line.rates, line.lengths)
        digest.update(f"{parts!r}\n".encode())
    return digest.hexdigest()[:16]
