"""A run as the page and the exports tell it: plain values, read from the ledger once."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlsplit

import numpy as np

from earmark.ledger import FailedRecording, PickRow, RecordingRow, Run, Totals
from earmark.timeline import FloatArray

MOST_POINTS = 4000
"""Of a recording's sound level: more than any screen has columns for."""


@dataclass(frozen=True, slots=True)
class PickReport:
    """A pick, what became of it, and its picture."""

    row: PickRow
    picture: bytes
    """A JPEG; empty when there is none."""


@dataclass(frozen=True, slots=True, eq=False)
class RecordingReport:
    """One recording: what was heard along it, and the picks."""

    recording: RecordingRow
    files: tuple[tuple[str, float], ...]
    """Where a browser beside the report finds each file, and the second it begins at; empty where
    it cannot."""
    window: float
    """Seconds of one window; 0 when it was not listened to."""
    scores: FloatArray
    """One a window."""
    level: FloatArray
    """Sound level in decibels, evenly spaced; empty when it is not known."""
    level_hop: float
    """Seconds between two values of `level`."""
    expected: float
    """Actions expected in the recording."""
    rule: str
    forecast: float | None
    """Share of all actions the picks are expected to touch; None where none are expected."""
    notes: tuple[str, ...]
    access: str
    sound_bytes: int
    picks: tuple[PickReport, ...]


@dataclass(frozen=True, slots=True, eq=False)
class RunReport:
    """A whole run."""

    title: str
    opened: str
    """When its plan was first used, in UTC."""
    plan: dict[str, Any]
    totals: Totals
    recordings: tuple[RecordingReport, ...]
    missed: tuple[FailedRecording, ...]


def load_report(run: Run, *, beside: Path, title: str | None = None) -> RunReport:
    """The report of `run`; links to videos are made for a page that lies in `beside`."""
    return RunReport(
        title=title or run.folder.resolve().name,
        opened=run.opened(),
        plan=run.plan(),
        totals=run.totals(),
        recordings=tuple(load_recordings(run, run.recordings(), beside=beside)),
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
        return path
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


def load_recordings(
    run: Run, recordings: Iterable[RecordingRow], *, beside: Path
) -> Iterator[RecordingReport]:
    """What was heard and picked of each of `recordings`, in order."""
    for recording in recordings:
        heard, choice = run.heard(recording.id), run.choice(recording.id)
        level = heard.level if heard else None
        if level is not None:
            level = level.thinned(hop=max(level.hop, level.duration / MOST_POINTS))
        yield RecordingReport(
            recording=recording,
            files=tuple(_files(recording, beside=beside)),
            window=heard.window if heard else 0.0,
            scores=heard.scores if heard else np.zeros(0),
            level=level.values if level else np.zeros(0),
            level_hop=level.hop if level else 1.0,
            expected=float(np.sum(heard.rates)) if heard else 0.0,
            rule=choice.rule,
            forecast=choice.forecast,
            notes=choice.notes,
            access=heard.access if heard else "",
            sound_bytes=heard.sound_bytes if heard else 0,
            picks=tuple(
                PickReport(row, run.thumbnail(recording.id, row.span))
                for row in run.picks(recording.id)
            ),
        )
