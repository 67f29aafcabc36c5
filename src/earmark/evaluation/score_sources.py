"""Where the scores of an evaluation come from: media that are listened to, or marked events."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from earmark.evaluation.annotations.actions import Annotations
from earmark.evaluation.benchmark import Case, Tasks
from earmark.evaluation.sound_event_listener import (
    FittingSplit,
    SoundEventListener,
    split_for_fitting,
)
from earmark.gate.forecast_error import ForecastError
from earmark.gate.frontline_registry import frontline_named
from earmark.gate.survival import Survival
from earmark.grid import Grid, Placement, ScoredRecording, Windows
from earmark.media import Recording
from earmark.pipeline.listen import listen
from earmark.pipeline.run_plan import make_plan
from earmark.timeline import Track

SOUND_EVENTS = "sound-events"
"""The name under which annotated events stand in for a frontline."""


@dataclass(frozen=True, slots=True, eq=False)
class SoundEventScores:
    """Scores from annotated sound events, by listeners fitted on other recordings."""

    annotations: Annotations
    """Every annotated recording: those that are evaluated and those to fit on."""
    events: Annotations
    split: FittingSplit
    window: float = 4.0
    """Seconds of one call."""
    frontlines: tuple[str, ...] = (SOUND_EVENTS,)
    _listeners: dict[tuple[str, ...], SoundEventListener] = field(default_factory=dict, init=False)

    @property
    def evaluated(self) -> Annotations:
        """The recordings that are judged."""
        return self.annotations.only(self.split.evaluated)

    def describe(self) -> str:
        """One line on where the scores come from."""
        return f"annotated events, {self.split.words}"

    def settings(self) -> dict[str, Any]:
        """What tells one source from another."""
        return {"sound_events": self.events.fingerprint, "sound": None}

    def tasks(self) -> Tasks:
        """One task for each evaluated recording: rate its windows by the events marked in it."""
        return {(SOUND_EVENTS, name): partial(self.case, name) for name in self.split.evaluated}

    def case(self, name: str) -> Case:
        """A recording rated by a listener that did not see it."""
        names = self._fitted_for(name)
        if names not in self._listeners:
            chosen = self.annotations.only(names)
            fitted = SoundEventListener.fit(chosen, self.events, window=self.window)
            self._listeners[names] = fitted
        marked = self.events.recordings.get(name, [])
        windows = self._listeners[names].windows(marked, self.annotations.durations[name])
        return Case(name, SOUND_EVENTS, windows, self.annotations.recordings[name])

    def track(self, name: str, frontline: str | None = None) -> Track:  # noqa: ARG002 - has one
        """The scores of a recording, one a window."""
        return Track(self.case(name).windows.scores, hop=self.window)

    def _fitted_for(self, name: str) -> tuple[str, ...]:
        """What to fit on to score a recording; one to choose on is scored by others of its kind."""
        if name in self.split.fitted:
            return self.split.fitted[name]
        return split_for_fitting(self.annotations.without(self.split.evaluated)).fitted[name]


@dataclass(frozen=True, slots=True, eq=False)
class UnheardScores:
    """No scores at all: even rates, and lengths of actions, of other recordings."""

    annotations: Annotations
    split: FittingSplit
    window: float = 4.0
    """Seconds of one call."""
    frontlines: tuple[str, ...] = ("none",)

    @property
    def evaluated(self) -> Annotations:
        """The recordings that are judged."""
        return self.annotations.only(self.split.evaluated)

    def describe(self) -> str:
        """One line on where the scores come from."""
        return f"nowhere: nothing is heard; lengths and rates are {self.split.words}"

    def settings(self) -> dict[str, Any]:
        """What tells one source from another."""
        return {"sound_events": None, "sound": None}

    def tasks(self) -> Tasks:
        """One task for each evaluated recording."""
        return {("none", name): partial(self.case, name) for name in self.split.evaluated}

    def case(self, name: str) -> Case:
        """A recording whose windows are all alike."""
        others = self.annotations.only(self.split.fitted[name])
        duration = self.annotations.durations[name]
        starts = self.window * others.actions / (3600 * others.hours)
        count = Grid(self.window).count(duration)
        rates = np.full(count, starts)
        middles = (np.arange(count) + 0.5) * self.window
        instants = np.minimum(middles, duration)
        survival = Survival.from_lengths(others.lengths)
        windows = Windows(self.window, duration, np.zeros(count), instants, rates, survival)
        return Case(name, "none", windows, self.annotations.recordings[name])

    def track(self, name: str, frontline: str | None = None) -> Track:  # noqa: ARG002 - has one
        """Zeros, one a window."""
        return Track(self.case(name).windows.scores, hop=self.window)


@dataclass(frozen=True, slots=True, eq=False)
class MediaScores:
    """Scores from media that are listened to."""

    annotations: Annotations
    evaluated: Annotations
    """The recordings that are judged."""
    recordings: Mapping[str, Recording]
    """The opened media, by name."""
    frontlines: tuple[str, ...] = ("auto",)
    window: float = 4.0
    """Seconds of one call."""
    cache: Path | None = None
    files: Mapping[str, str] = field(default_factory=dict)
    """Gate files of frontlines that go by another name here."""
    placement: Placement = "grid"
    """With `free`, cases can also be judged with windows at any half second."""

    def describe(self) -> str:
        """One line on where the scores come from."""
        return f"listening with {', '.join(self.frontlines)}"

    def settings(self) -> dict[str, Any]:
        """What tells one source from another."""
        heard = {name: self.recordings[name] for name in self.evaluated.recordings}
        return {
            "sound_events": None,
            "sound": sound_fingerprint(heard, [*map(self._file, self.frontlines)]),
        }

    def tasks(self) -> Tasks:
        """One task for each frontline and recording: listen, or take what was heard before."""
        return {
            (line, name): partial(self.case, line, name)
            for line in self.frontlines
            for name in self.evaluated.recordings
        }

    @property
    def errors(self) -> dict[str, ForecastError | None]:
        """How far the forecasts of each frontline may be off."""
        return {line: frontline_named(self._file(line)).error for line in self.frontlines}

    def case(self, frontline: str, name: str) -> Case:
        """A recording scored by a frontline."""
        scored, line = self._hear(frontline, name), frontline_named(self._file(frontline))
        steps = None
        if self.placement == "free":
            steps = Grid(self.window, self.placement).lay(scored.heard, line).windows
        actions = self.annotations.recordings[name]
        return Case(name, frontline, scored.windows, actions, line.separation, steps)

    def track(self, name: str, frontline: str | None = None) -> Track:
        """The scores of a recording by the first frontline or another, on its own clock."""
        return self._hear(frontline or self.frontlines[0], name).heard.scores

    def _file(self, frontline: str) -> str:
        return self.files.get(frontline, frontline)

    def _hear(self, frontline: str, name: str) -> ScoredRecording:
        plan = make_plan(frontline=self._file(frontline), window=self.window, cache=self.cache)
        return listen(self.recordings[name].source, plan.listening)


ScoreSource = SoundEventScores | UnheardScores | MediaScores
"""Scores annotated recordings, so that rules can be compared on them."""


def sound_fingerprint(recordings: Mapping[str, Recording], frontlines: Sequence[str]) -> str:
    """A short hash of the sound of every recording and of what listens to it."""
    digest = hashlib.sha256()
    for name in sorted(recordings):
        digest.update(f"{name} {recordings[name].key}\n".encode())
    for line in map(frontline_named, frontlines):
        parts = (line.encoder, line.scorer, line.rates, line.survival)
        digest.update(f"{parts!r}\n".encode())
    return digest.hexdigest()[:16]
