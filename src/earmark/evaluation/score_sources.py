"""Where the scores of an evaluation come from: listening to media, or annotated sound events.

Annotated events stand for an ideal listener: a Poisson regression, fitted on recordings that are
not evaluated, predicts how many actions start in a window from the sound events in it and in its
neighbours. It shows how much listening could gain, and lets every rule run without audio.
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
from earmark.evaluation.annotations.actions import Action, Annotations, list_few
from earmark.evaluation.benchmark import Case, CaseTasks
from earmark.evaluation.metrics.coverage_counts import count_overlaps, count_starts, window_range
from earmark.gate.forecast_error import ForecastError
from earmark.gate.frontline_registry import frontline_named
from earmark.gate.rates import fit_poisson
from earmark.gate.survival import Survival
from earmark.grid import Grid, Placement, ScoredRecording, Windows
from earmark.media import Recording
from earmark.pipeline.listen import listen
from earmark.pipeline.run_plan import make_plan
from earmark.timeline import FloatArray, Track

SOUND_EVENTS = "sound-events"
"""The name under which annotated events stand in for a frontline."""

FOLDS = 5
"""Folds of the cross-validation where all recordings are evaluated."""

NEIGHBOURS = 2
"""Windows on either side whose events are features of a window."""

MIN_LABEL_COUNT = 60
"""Least number of events with a label in the fitted recordings for it to have features."""

RIDGE = 150.0
"""Penalty on each squared weight of a standardised feature; the intercept has none.

This value and the features have the highest likelihood, cross-validated by participant, on the
114 EPIC-KITCHENS-100 validation recordings that the paper does not evaluate.
"""


@dataclass(frozen=True, slots=True, eq=False)
class SoundEventListener:
    """Predicts the rate of windows from the sound events annotated in and around them."""

    window: float
    """Window length in seconds, in fitting and in use."""
    labels: tuple[str, ...]
    """Event labels with their own weights."""
    intercept: float
    weights: FloatArray
    """One per feature."""
    survival: Survival
    """Of the lengths of the actions in the fitted recordings."""

    @classmethod
    def fit(
        cls, actions: Annotations, events: Annotations, *, window: float = 4.0
    ) -> SoundEventListener:
        """Fit on the recordings of `actions`; a recording without events counts as silent.

        `AnnotationError` if no recording has an action, or none has an event.
        """
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
        heard = {name: events.recordings.get(name, []) for name in actions.recordings}
        counts = Counter(event.label for each in heard.values() for event in each if event.label)
        labels = tuple(sorted(label for label, count in counts.items() if count >= MIN_LABEL_COUNT))
        seen = [
            event_features(each, actions.durations[name], window=window, labels=labels)
            for name, each in heard.items()
        ]
        starts = [
            count_starts(marked, len(rows), window=window)
            for marked, rows in zip(actions.recordings.values(), seen, strict=True)
        ]
        fit = fit_poisson(np.concatenate(seen), np.concatenate(starts), ridge=RIDGE)
        return cls(window, labels, *fit, Survival.from_lengths(actions.lengths))

    def windows(self, events: Sequence[Action], duration: float) -> Windows:
        """The windows of a recording with the sound events `events`.

        The score of a window is its rate. Its instant is the middle of the longest event within
        it, or of the window where there is none.
        """
        rows = event_features(events, duration, window=self.window, labels=self.labels)
        rates = np.exp(np.clip(self.intercept + rows @ self.weights, -30, 3))
        instants = longest_event_instants(events, duration, window=self.window)
        return Windows(self.window, duration, rates, instants, rates, self.survival)


def event_features(
    events: Sequence[Action], duration: float, *, window: float, labels: Sequence[str] = ()
) -> FloatArray:
    """Features of the sound events in and around each window, `(windows, features)`.

    Three channels for the window and `NEIGHBOURS` on either side (silent past the ends): events
    that start, events that overlap, and the share of the window that is not silent. Two for each
    of `labels`, in the window only: events that start (up to 3), and whether one overlaps.
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

    The seconds filled up to a time are piecewise linear with knots at the ends of the joined
    spans; they are interpolated at the edges of the windows.
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


def longest_event_instants(
    events: Sequence[Action], duration: float, *, window: float
) -> FloatArray:
    """The middle of the longest part of one event in each window, or of a silent window."""
    count = Grid(window).count(duration)
    edges = np.arange(count + 1) * window
    ends = np.minimum(edges[1:], duration)
    instants: FloatArray = (edges[:-1] + ends) / 2
    longest = np.zeros(count)
    first, after = window_range(events, count, window)
    for event, begin, stop in zip(events, first.tolist(), after.tolist(), strict=True):
        for place in range(begin, stop):
            low, high = max(event.start, edges[place]), min(event.end, ends[place])
            if high - low > longest[place]:
                longest[place] = high - low
                instants[place] = (low + high) / 2
    return instants


@dataclass(frozen=True, slots=True)
class FittingSplit:
    """The recordings that a listener is fitted on, for each evaluated recording."""

    evaluated: tuple[str, ...]
    fitted: Mapping[str, tuple[str, ...]]
    """By evaluated recording, which is never among them."""
    description: str
    """One line for a reader of the results."""


def split_for_fitting(annotations: Annotations, evaluated: Sequence[str] = ()) -> FittingSplit:
    """Fit on all recordings that are not `evaluated`; if that is empty, cross-validate all.

    Recordings are then assigned to five folds in turn, and each fold is scored by a listener
    fitted on the other four. `AnnotationError` if no recording is left to fit on.
    """
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
    fitted = {name: others[place % parts] for place, name in enumerate(names)}
    return FittingSplit(tuple(names), fitted, f"fitted on the other parts of {parts}, part by part")


@dataclass(frozen=True, slots=True, eq=False)
class FittedScores:
    """Scores from annotated sound events, by listeners fitted on other recordings.

    Without events every window gets the mean rate, and actions the lengths, of the other
    recordings.
    """

    annotations: Annotations
    """Every annotated recording: those that are evaluated and those to fit on."""
    events: Annotations | None
    split: FittingSplit
    window: float = 4.0
    """Seconds of one call."""
    _listeners: dict[tuple[str, ...], SoundEventListener] = field(default_factory=dict, init=False)

    @property
    def frontlines(self) -> tuple[str]:
        """The name of the only frontline."""
        return (SOUND_EVENTS if self.events else "none",)

    @property
    def evaluated(self) -> Annotations:
        """The recordings that are evaluated."""
        return self.annotations.only(self.split.evaluated)

    def describe(self) -> str:
        """One line on where the scores come from."""
        if self.events:
            return f"annotated events, {self.split.description}"
        return f"nowhere: nothing is heard; lengths and rates are {self.split.description}"

    def settings(self) -> dict[str, Any]:
        """The values that identify the source."""
        return {"sound_events": self.events.fingerprint if self.events else None, "sound": None}

    def tasks(self) -> CaseTasks:
        """One task for each evaluated recording: rate its windows."""
        line = self.frontlines[0]
        return {(line, name): partial(self.case, name) for name in self.split.evaluated}

    def case(self, name: str) -> Case:
        """A recording scored by a listener that was not fitted on it."""
        windows = self._windows(name, self.annotations.durations[name])
        return Case(name, self.frontlines[0], windows, self.annotations.recordings[name])

    def track(self, name: str, frontline: str | None = None) -> Track:  # noqa: ARG002 - has one
        """The scores of a recording, one per window."""
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


def even_windows(length: float, duration: float, rate: float, survival: Survival) -> Windows:
    """Windows of equal rate and score 0, each with its middle as instant."""
    count = Grid(length).count(duration)
    instants = np.minimum((np.arange(count) + 0.5) * length, duration)
    flat = np.zeros(count)
    return Windows(length, duration, flat, instants, flat + rate, survival)


@dataclass(frozen=True, slots=True, eq=False)
class MediaScores:
    """Scores from listening to media."""

    annotations: Annotations
    evaluated: Annotations
    """The recordings that are evaluated."""
    recordings: Mapping[str, Recording]
    """The opened media, by name."""
    frontlines: tuple[str, ...] = ("auto",)
    window: float = 4.0
    """Seconds of one call."""
    cache: Path | None = None
    files: Mapping[str, str] = field(default_factory=dict)
    """Gate files by the name of their frontline."""
    placement: Placement = "grid"
    """With `free`, cases also have windows at any half second."""

    def describe(self) -> str:
        """One line on where the scores come from."""
        return f"listening with {', '.join(self.frontlines)}"

    def settings(self) -> dict[str, Any]:
        """The values that identify the source."""
        heard = {name: self.recordings[name] for name in self.evaluated.recordings}
        return {
            "sound_events": None,
            "sound": sound_fingerprint(heard, [*map(self._file, self.frontlines)]),
        }

    def tasks(self) -> CaseTasks:
        """One task for each frontline and recording: listen, or read the cached scores."""
        return {
            (line, name): partial(self.case, line, name)
            for line in self.frontlines
            for name in self.evaluated.recordings
        }

    @property
    def forecast_errors(self) -> dict[str, ForecastError | None]:
        """The forecast error of each frontline; None where it was not measured."""
        return {line: frontline_named(self._file(line)).error for line in self.frontlines}

    def case(self, frontline: str, name: str) -> Case:
        """A recording scored by a frontline."""
        scored, line = self._listen(frontline, name), frontline_named(self._file(frontline))
        steps = None
        if self.placement == "free":
            steps = Grid(self.window, self.placement).score_recording(scored.heard, line).windows
        actions = self.annotations.recordings[name]
        return Case(name, frontline, scored.windows, actions, line.separation, steps)

    def track(self, name: str, frontline: str | None = None) -> Track:
        """The scores of a recording by `frontline`, else by the first one, on their own clock."""
        return self._listen(frontline or self.frontlines[0], name).heard.scores

    def _file(self, frontline: str) -> str:
        return self.files.get(frontline, frontline)

    def _listen(self, frontline: str, name: str) -> ScoredRecording:
        plan = make_plan(frontline=self._file(frontline), window=self.window, cache=self.cache)
        return listen(self.recordings[name].source, plan.listening)


ScoreSource = FittedScores | MediaScores
"""Scores annotated recordings, so that rules can be compared on them."""


@dataclass(frozen=True, slots=True, eq=False)
class AnnotatedScores:
    """One recording's scores with its actions."""

    recording: str
    track: Track
    duration: float
    actions: Sequence[Action]


def score_recordings(
    source: ScoreSource, frontline: str, names: Iterable[str]
) -> list[AnnotatedScores]:
    """The scores of recordings with their actions."""
    marked = source.annotations
    return [
        AnnotatedScores(
            name, source.track(name, frontline), marked.durations[name], marked.recordings[name]
        )
        for name in names
    ]


def sound_fingerprint(recordings: Mapping[str, Recording], frontlines: Sequence[str]) -> str:
    """A short hash of the sound of every recording and of the frontlines."""
    digest = hashlib.sha256()
    for name in sorted(recordings):
        digest.update(f"{name} {recordings[name].key}\n".encode())
    for line in map(frontline_named, frontlines):
        parts = (line.encoder, line.scorer, line.rates, line.survival)
        digest.update(f"{parts!r}\n".encode())
    return digest.hexdigest()[:16]
