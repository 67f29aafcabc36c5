"""Before anything is asked: listen, choose, and find out which picks have no answer yet.

    sources ──▶ ears ──▶ ledger ──▶ one price ──▶ picks ──▶ ledger ──▶ Tasks
                           └ windows are read back when they are needed, a recording at a time

What is held of a recording is its description and the numbers of its windows; what was heard of it
lies in the ledger. So an archive takes a few kilobytes a recording, and 8 bytes a window while its
price is found.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import overload

import numpy as np
from numpy.typing import NDArray

from earmark.errors import EarmarkError, UnreadableFile
from earmark.gate.frontline import EVERYDAY
from earmark.gate.listen import Heard
from earmark.gate.survival import Survival
from earmark.grid import Windows
from earmark.hear.words import describe
from earmark.job import Job
from earmark.ledger import HeardRow, Ledger, RecordingRow
from earmark.ledger.statements import as_place
from earmark.media import Recording, Source, find
from earmark.question import Sounds, Task
from earmark.select import Choice, Pick
from earmark.select.pick import explain
from earmark.timeline import Span, Track
from earmark.triage import Ears, OwnEars, Plan, Scored, Told, Watch, notes_on, spend

Places = NDArray[np.int32]
"""Windows by number, increasing."""


@dataclass(frozen=True, slots=True, eq=False)
class Known:
    """A recording whose windows the ledger has."""

    recording: Recording
    owned: Places
    """Windows whose answer, to this very question, is kept already."""


@dataclass(frozen=True, slots=True, eq=False)
class Waiting:
    """The picks of one recording that have no answer."""

    recording: Recording
    windows: Places
    sounds: tuple[Sounds, ...]
    """What is heard in each."""


@dataclass(slots=True, eq=False)
class Tasks:
    """The windows without an answer; each becomes a task when it is come to, as often as asked."""

    job: Job
    ledger: Ledger
    waiting: list[Waiting] = field(default_factory=list)

    def __len__(self) -> int:
        return sum(len(one.windows) for one in self.waiting)

    def __iter__(self) -> Iterator[Task]:
        for one in self.waiting:
            windows = windows_of(one.recording, self.job.plan, self.ledger)
            picks = explain(windows, one.windows, lambda *_: "")
            for pick, sounds in zip(picks, one.sounds, strict=True):
                yield task_of(one.recording, pick, sounds, self.job)


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
    ledger.rate_by(_survival(job.plan))
    listen, known = ears or OwnEars(watch), _known(sources, job, ledger)
    told = listen(sources, job.plan, known=known, cache=job.cache)
    heard, missed = _keep_heard(_with_pictures(told), job, ledger)
    shelf = _Shelf([heard[source] for source in sources if source in heard], job.plan, ledger)
    weights = [one.recording.source.weight for one in shelf.known]
    choices = spend(job.plan, shelf, weights=weights)
    return _choose_all(shelf, choices, job), missed


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


def windows_of(
    recording: Recording, plan: Plan, ledger: Ledger, *, owned: tuple[int, ...] = ()
) -> Windows:
    """The windows of a recording that the ledger has."""
    key = _listening_key(plan)
    windows = ledger.heard(recording.key, key=key, survival=_survival(plan), owned=owned)
    assert windows is not None, "only what the ledger has is taken from it"
    return windows


def task_of(recording: Recording, pick: Pick, sounds: Sounds, job: Job) -> Task:
    """The question about one pick."""
    request = job.ask.request(recording.key, pick, sounds, job.captioner.model)
    return Task(recording, pick.window, request)


def _known(sources: Sequence[Source], job: Job, ledger: Ledger) -> dict[Source, str]:
    """The keys of those of `sources` whose windows the ledger has, heard as this job would."""
    if job.cache is None:
        return {}
    by_path = ledger.heard_at(key=_listening_key(job.plan))
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
            ledger.miss(source.uris[0], source.uris[0], str(one), name=source.id)
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
            key=_listening_key(job.plan),
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
    asked = sorted({row.window for row in rows if row.window < len(windows)})
    picks = explain(windows, asked, lambda *_: "")
    sounds = _sounds(recording, None, picks, job)
    tasks = (task_of(recording, pick, sounds[pick.window], job) for pick in picks)
    return np.array([task.window for task in tasks if task.request.identity in paid], np.int32)


def _choose_all(shelf: _Shelf, choices: Iterable[Choice], job: Job) -> Tasks:
    """Keep the picks of every recording; those that have no answer."""
    tasks = Tasks(job, shelf.ledger)
    asked: dict[str, Places] = {}
    shared: dict[Sounds, Sounds] = {}  # words repeat, so picks share them
    with shelf.ledger.run() as run:
        for known, choice in zip(shelf.known, choices, strict=True):
            key = known.recording.key
            row = run.heard(key)
            assert row is not None, "it was heard"
            sounds = _choose(known, row, choice, job, shelf.ledger)
            waiting = _unanswered(known, choice, sounds, job, shelf.ledger)
            # Two copies of one file ask the same question: it is asked once.
            before = asked.get(key, waiting[:0])
            places = np.setdiff1d(waiting, before)
            asked[key] = np.union1d(before, places)
            heard = [sounds[place] for place in places.tolist()]
            if heard:
                same = tuple(shared.setdefault(one, one) for one in heard)
                tasks.waiting.append(Waiting(known.recording, places, same))
    return tasks


def _choose(
    known: Known, row: HeardRow, choice: Choice, job: Job, ledger: Ledger
) -> dict[int, Sounds]:
    """Keep the picks of one recording; what is heard in each, by window."""
    recording, picks = known.recording, choice.picks
    sounds = _sounds(recording, row.level, picks, job)
    expected = float(row.rates.sum())
    share = sum(pick.expected for pick in picks) / expected if expected else math.nan
    ledger.choose(
        recording.key,
        picks,
        tags={window: heard.tags for window, heard in sounds.items()},
        rule=choice.rule_used,
        forecast=None if math.isnan(share) else share,
        notes=notes_on(_heard(known, row, job.plan), choice),
    )
    return sounds


def _survival(plan: Plan) -> Survival:
    return plan.frontline.survival if plan.frontline else EVERYDAY


def _listening_key(plan: Plan) -> str:
    """Names all that can change the windows of a recording."""
    line = plan.frontline
    parts = (line.encoder, line.scorer, line.rates, plan.audio_track) if line else ()
    return hashlib.sha256(repr((parts, plan.grid)).encode()).hexdigest()


def _unanswered(
    known: Known, choice: Choice, sounds: dict[int, Sounds], job: Job, ledger: Ledger
) -> Places:
    """The picked windows of one recording that no answer is kept for."""
    tasks = [task_of(known.recording, pick, sounds[pick.window], job) for pick in choice.picks]
    waiting = ledger.unanswered([task.row for task in tasks])
    return np.array([row.window for row in waiting], np.int32)


def _heard(known: Known, row: HeardRow, plan: Plan) -> Heard:
    """What the ledger remembers of listening to a recording."""
    return Heard(
        recording=known.recording,
        frontline=plan.frontline.name if plan.frontline else "none",
        scores=Track(np.zeros(0, np.float32)),
        level=row.level,
        access=row.access,
        bytes_read=row.sound_bytes,
        seconds=0.0,
        warnings=row.warnings,
        from_cache=True,
    )


def _sounds(
    recording: Recording, level: Track | None, picks: Sequence[Pick], job: Job
) -> dict[int, Sounds]:
    """What is heard in each of `picks`, by window."""
    spans = {pick.window: Span(pick.start, pick.end) for pick in picks}
    named = job.namer is not None and recording.has_audio and bool(picks)
    names = job.namer(recording, list(spans.values())) if job.namer and named else {}
    return {
        window: Sounds(
            names=names.get(span, ()),
            words=describe(level, span) if level else (),
        )
        for window, span in spans.items()
    }
