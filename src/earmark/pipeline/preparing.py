"""Before anything is asked: listen, choose, and find out which picks have no answer yet.

    sources ──▶ ears ──▶ ledger ──▶ one price ──▶ picks ──▶ ledger ──▶ Tasks
                           └ windows are read back when they are needed, a recording at a time

What is held of a recording is its description and the numbers of its windows; what was heard of it
lies in the ledger. So an archive takes a few kilobytes a recording, and 8 bytes a window while its
price is found.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import overload

import numpy as np

from earmark.errors import EarmarkError, UnreadableFile
from earmark.grid import Windows
from earmark.ledger import Ledger, RecordingRow
from earmark.ledger.row_values import as_place
from earmark.media import Recording, Source, find
from earmark.pipeline.choosing import (
    Known,
    Places,
    Tasks,
    choose_all,
    listening_key,
    names_in,
    sounds_in,
    survival_of,
    task_of,
    windows_of,
)
from earmark.pipeline.job import Job
from earmark.pipeline.triage import Ears, OwnEars, Plan, Scored, Told, Watch, spend
from earmark.selection.pick import explain


def prepare(
    paths: Sequence[str | Path | Source],
    job: Job,
    ledger: Ledger,
    *,
    watch: Watch | None = None,
    ears: Ears | None = None,
) -> tuple[Tasks, int]:
    """Listen and choose; the tasks without an answer, and how many recordings were missed."""
    sources = find(paths)
    ledger.rate_by(survival_of(job.plan))
    listen, known = ears or OwnEars(watch), _known(sources, job, ledger)
    told = listen(sources, job.plan, known=known, cache=job.cache)
    heard, missed = _keep_heard(_with_pictures(told), job, ledger)
    shelf = _Shelf([heard[source] for source in sources if source in heard], job.plan, ledger)
    weights = [one.recording.source.weight for one in shelf.known]
    choices = spend(job.plan, shelf, weights=weights)
    return choose_all(shelf.known, choices, job, ledger), missed


@dataclass(frozen=True, slots=True)
class _Shelf(Sequence[Windows]):
    """The windows of many recordings, read from the ledger whenever they are looked at."""

    known: Sequence[Known]
    plan: Plan
    ledger: Ledger

    def __len__(self) -> int:
        return len(self.known)

    @overload
    def __getitem__(self, place: int) -> Windows: ...
    @overload
    def __getitem__(self, place: slice) -> Sequence[Windows]: ...
    def __getitem__(self, place: int | slice) -> Windows | Sequence[Windows]:
        if isinstance(place, slice):
            return [self[one] for one in range(len(self))[place]]
        one = self.known[place]
        owned = tuple(one.owned.tolist())
        return windows_of(one.recording, self.plan, self.ledger, owned=owned)


def _known(sources: Sequence[Source], job: Job, ledger: Ledger) -> dict[Source, str]:
    """The keys of those of `sources` whose windows the ledger has, heard as this job would."""
    if job.cache is None:
        return {}
    by_path = ledger.heard_at(key=listening_key(job.plan))
    places = {source: by_path.get(as_place(source.uris[0])) for source in sources}
    return {source: key for source, key in places.items() if key is not None}


def _with_pictures(told: Iterable[tuple[Source, Told]]) -> Iterator[tuple[Source, Told]]:
    """The same, where a recording without pictures has failed: no call is planned for it."""
    for source, one in told:
        recording = one.heard.recording if isinstance(one, Scored) else one
        if isinstance(recording, Recording) and recording.video is None:
            yield (
                source,
                UnreadableFile(
                    f"{source.uris[0]} has sound and no pictures, so there is nothing to caption; "
                    "`earmark select` says which of its moments are worth hearing"
                ),
            )
        else:
            yield source, one


def _keep_heard(
    told: Iterable[tuple[Source, Told]], job: Job, ledger: Ledger
) -> tuple[dict[Source, Known], int]:
    """Keep what was heard as it comes in; what is known by source, and how many were missed."""
    heard: dict[Source, Known] = {}
    missed = 0
    for source, one in told:
        if isinstance(one, EarmarkError):
            ledger.fail_recording(source.uris[0], source.uris[0], str(one), name=source.id)
            missed += 1
        else:
            heard[source] = _kept(one, job, ledger)
    return heard, missed


def _kept(one: Scored | Recording, job: Job, ledger: Ledger) -> Known:
    """A recording whose windows are in the ledger, from now or from an earlier run."""
    recording = one if isinstance(one, Recording) else one.heard.recording
    ledger.add(_row(recording))
    if isinstance(one, Scored):
        ledger.hear(
            recording.key,
            one.windows,
            key=listening_key(job.plan),
            level=one.heard.level,
            sound_bytes=one.heard.bytes_read,
            access=one.heard.access,
            warnings=one.heard.warnings,
        )
    return Known(recording, _owned(recording, job, ledger))


def _row(recording: Recording) -> RecordingRow:
    video, parts = recording.video, recording.parts
    return RecordingRow(
        id=recording.key,
        path=recording.source.uris[0],
        duration=recording.duration,
        size_bytes=recording.size_bytes,
        frame_rate=video.mean_fps if video else 0.0,
        frame_count=round(video.mean_fps * recording.duration) if video else 0,
        name=recording.source.id,
        chapters=tuple((part.uri, part.start) for part in parts) if len(parts) > 1 else (),
    )


def _owned(recording: Recording, job: Job, ledger: Ledger) -> Places:
    """The windows of `recording` whose answer, to this very question, is kept already.

    So a larger budget adds to what was bought instead of choosing anew.
    """
    rows = ledger.answered(recording.key)
    if not rows:
        return np.zeros(0, np.int32)
    windows = windows_of(recording, job.plan, ledger)
    paid = {row.identity for row in rows}
    spans = {row.span for row in rows}
    asked = [place for place in range(len(windows)) if windows.span(place) in spans]
    picks = explain(windows, asked, lambda *_: "")
    sounds = sounds_in(picks, level=None, names=names_in(recording, picks, job))
    tasks = (task_of(recording, pick, sounds[pick.window], job) for pick in picks)
    return np.array([task.window for task in tasks if task.request.identity in paid], np.int32)
