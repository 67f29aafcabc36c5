"""A run as the page and the exports tell it: plain values, read from the ledger once."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlsplit

from earmark.evidence.evidence_entry import SOUND_TRACK, EvidenceEntry
from earmark.gate.forecast_error import ActionRange, CoverageRange
from earmark.ledger.kept_forecast import NOTE, actions_of, coverage_of, read_error
from earmark.ledger.records import (
    ChoiceRow,
    FailedRecording,
    HeardRow,
    PickRow,
    RecordingRow,
    Totals,
)
from earmark.ledger.run_reader import Run
from earmark.redaction import is_redacted
from earmark.reporting.run_overview import RecordingOverview, overview_of

MOST_POINTS = 4000
"""Of a recording's sound level: more than any screen has columns for."""


@dataclass(frozen=True, slots=True)
class PickReport:
    """A pick, what became of it, and its picture."""

    row: PickRow
    load_picture: Callable[[], bytes]
    """Reads its JPEG from the run; empty when there is none."""


@dataclass(frozen=True, slots=True, eq=False)
class RecordingReport:
    """One recording: what was heard along it, and the picks."""

    recording: RecordingRow
    files: tuple[tuple[str, float], ...]
    """Where a browser beside the report finds each file, and the second it begins at; empty where
    it cannot."""
    heard: HeardRow
    """Its level no finer than a screen can show."""
    choice: ChoiceRow
    picks: tuple[PickReport, ...]
    evidence: tuple[EvidenceEntry, ...] = ()
    """What is known without a vision model, by time; a sound that is followed over the whole
    recording is told once."""
    overview: RecordingOverview | None = None
    """What happened in it; None where that is not known."""
    actions: tuple[float | None, ActionRange | None] = (None, None)
    """Actions that it is expected to hold, and between what that number is to lie."""

    @property
    def has_something(self) -> bool:
        """Whether there is anything to tell."""
        return self.overview is None or self.overview.has_something


@dataclass(frozen=True, slots=True, eq=False)
class RunReport:
    """A whole run."""

    title: str
    opened: str
    """When its plan was first used, in UTC."""
    plan: dict[str, Any]
    totals: Totals
    recordings: tuple[RecordingReport, ...]
    missed: tuple[FailedRecording, ...] = ()
    coverage: tuple[float | None, CoverageRange | None] = (None, None)
    """Share of the actions that the picks are to touch, and between what it is to lie."""
    actions: tuple[float | None, ActionRange | None] = (None, None)
    """Actions that are expected in all recordings, and between what that number is to lie."""


def load_report(run: Run, *, beside: Path, title: str | None = None) -> RunReport:
    """The report of `run`; links to videos are made for a page that lies in `beside`.

    Recordings in which something happened come first, else by path.
    """
    recordings = [load_recording(run, recording, beside=beside) for recording in run.recordings()]
    totals, error = run.totals(), read_error(run.note(NOTE))
    return RunReport(
        title=title or run.folder.resolve().name,
        opened=run.opened(),
        plan=run.plan(),
        totals=totals,
        coverage=coverage_of(totals, error),
        actions=actions_of(totals.expected, totals.duration, error),
        recordings=tuple(sorted(recordings, key=lambda one: not one.has_something)),
        missed=tuple(run.failed_recordings()),
    )


def link_to(path: str, *, beside: Path) -> str | None:
    """How a page in `beside` names a recording; None when a browser cannot open it.

    >>> link_to("https://cams.example/a b.mp4", beside=Path("."))
    'https://cams.example/a b.mp4'
    >>> link_to("s3://bucket/a.mp4", beside=Path(".")) is None
    True
    """
    scheme = urlsplit(path).scheme
    if scheme in ("http", "https"):
        return None if is_redacted(path) else path
    if len(scheme) > 1:  # one letter is a Windows drive
        return None
    absolute = Path(path).resolve()
    try:
        relative = Path(os.path.relpath(absolute, beside.resolve()))
    except ValueError:  # another Windows drive
        return absolute.as_uri()
    return quote(f"./{relative.as_posix()}")


def _files(recording: RecordingRow, *, beside: Path) -> Iterator[tuple[str, float]]:
    for path, start in recording.chapters or ((recording.path, 0.0),):
        link = link_to(path, beside=beside)
        if link is not None:
            yield link, start


def load_recording(run: Run, recording: RecordingRow, *, beside: Path) -> RecordingReport:
    """What was heard and picked of `recording`."""
    heard = run.heard(recording.id) or HeardRow(recording.id)
    if heard.level is not None:
        hop = max(heard.level.hop, heard.level.duration / MOST_POINTS)
        heard = replace(heard, level=heard.level.thinned(hop=hop))
    rows = run.picks(recording.id)
    return RecordingReport(
        recording=recording,
        files=tuple(_files(recording, beside=beside)),
        heard=heard,
        choice=run.choice(recording.id),
        picks=tuple(
            PickReport(row, partial(run.thumbnail, recording.id, row.span)) for row in rows
        ),
        evidence=tuple(_each_once(list(run.evidence(recording.id)))),
        overview=overview_of(run, recording),
        actions=expected_of(run, recording, heard),
    )


def expected_of(
    run: Run, recording: RecordingRow, heard: HeardRow
) -> tuple[float | None, ActionRange | None]:
    """How many actions a recording of `run` is expected to hold, as `actions_of` says it."""
    expected = float(heard.rates.sum())
    return actions_of(expected, recording.duration, read_error(run.note(NOTE)))


def _each_once(entries: Sequence[EvidenceEntry]) -> Iterator[EvidenceEntry]:
    """The entries but for sounds of windows that a track over the whole recording has too."""
    tracked = {entry.text for entry in entries if entry.origin == SOUND_TRACK}
    for entry in entries:
        if entry.kind != "heard" or entry.origin == SOUND_TRACK or entry.text not in tracked:
            yield entry
