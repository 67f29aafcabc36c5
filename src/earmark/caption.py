"""The whole job: listen, choose, decode only the picks, ask once a window, keep every answer.

paths ──▶ hear ──▶ spend ──▶ unanswered ──▶ decode ──▶ ask ──▶ ledger ──▶ page
            └─ ledger ─┘         ▲                       │
                                 └── a second run asks only what has no answer
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from earmark.call import Answer, Captioner, Failure, Limits, Request, Tally, ask_all
from earmark.errors import EarmarkError
from earmark.gate.cache import HeardCache
from earmark.gate.frontline import EVERYDAY
from earmark.gate.listen import Heard
from earmark.gate.survival import Survival
from earmark.hear.naming import SoundNamer
from earmark.hear.words import describe
from earmark.ledger import Ledger, Look, RecordingRow, Totals
from earmark.ledger.statements import as_place
from earmark.media import Frame, Recording, Source, find
from earmark.media.ahead import Seen, Window, look_ahead
from earmark.media.inspection import remarks
from earmark.question import Ask, Sounds, Task
from earmark.report.index import write_report
from earmark.select import Choice, Pick, forecast
from earmark.select.pick import explain
from earmark.timeline import Span, Track
from earmark.triage import Ears, OwnEars, Plan, Scored, Told, Watch, notes_on, spend

THUMBNAIL = 320
"""Pixels across a picture in the report."""


@dataclass(frozen=True, slots=True)
class Captioned:
    """What a run has come to."""

    folder: Path
    page: Path
    totals: Totals
    tally: Tally
    """Of the calls of this very run; `totals` are of all there ever were."""
    missed: int
    """Recordings that could not be worked on."""
    interrupted: int
    """Calls an earlier process left in flight; these may have been asked twice."""


Step = Callable[[Tally, int], None]
"""Told the calls so far and how many there are to make."""

Show = Callable[
    [Sequence[Task], Ledger, Callable[[Task, str], None]], Generator[Request, None, None]
]
"""Makes requests of tasks as `show` does."""


@dataclass(frozen=True, slots=True)
class Job:
    """Everything a run is made by."""

    plan: Plan
    captioner: Captioner
    ask: Ask = field(default_factory=Ask)
    limits: Limits = field(default_factory=Limits)
    cache: HeardCache | None = None
    """Where to keep what was heard, beside the run."""
    namer: SoundNamer | None = None
    """Who names the sounds in a window; None says nothing about them."""

    def to_json(self) -> dict[str, Any]:
        """All that can change an answer, as plain values."""
        names = {
            "model": self.captioner.model,
            "sounds": self.namer.model if self.namer else None,
        }
        return {**self.plan.to_json(), **names, "ask": self.ask.to_json()}


def caption(
    paths: Sequence[str | Path | Source],
    job: Job,
    *,
    folder: Path,
    watch: Watch | None = None,
    step: Step | None = None,
    ears: Ears | None = None,
    look: Show | None = None,
) -> Captioned:
    """Caption the windows of the recordings at `paths` most worth a call.

    Run again with the same `folder` it takes up where it stopped: no kept answer is asked for
    again, and a larger budget asks only the new windows.

    Args:
        paths: Files, folders, globs and addresses.
        job: How to listen, to choose and to ask, and whom.
        folder: The run: its ledger and its report.
        watch: Told how far listening has come.
        step: Told how far asking has come.
        ears: Who listens; this process, one recording after the other, if not given.
        look: Who decodes; this process, a few windows ahead of the calls, if not given.

    Raises:
        LedgerError: the run is in use, damaged or of another version.
        CallError: no call could succeed. A single failed call is a row, not an error.
    """
    job.captioner.check()
    with Ledger.open(folder, job.to_json()) as ledger:
        tasks, missed = prepare(paths, job, ledger, watch=watch, ears=ears)
        tally = _ask(tasks, job, ledger, step, look or show)
        page, totals = publish(ledger)
        return Captioned(folder, page, totals, tally, missed, ledger.interrupted)


@dataclass(frozen=True, slots=True)
class Preview:
    """What a run would ask, and what that costs at most."""

    calls: int
    kept: int
    """Picks whose answer is kept already."""
    windows: int
    tokens: int
    money: float


def preview(
    paths: Sequence[str | Path | Source],
    job: Job,
    *,
    folder: Path,
    watch: Watch | None = None,
    ears: Ears | None = None,
) -> Preview:
    """Listen and choose as `caption` would; decode and ask nothing."""
    with Ledger.open(folder, job.to_json()) as ledger:
        tasks, _ = prepare(paths, job, ledger, watch=watch, ears=ears)
        with ledger.run() as run:
            totals = run.totals()
    requests = [task.request for task in tasks]
    return Preview(
        calls=len(tasks),
        kept=totals.picks - len(tasks),
        windows=totals.windows,
        tokens=sum(request.most_input_tokens + request.answer_tokens for request in requests),
        money=sum(job.limits.price_at_most(request) for request in requests),
    )


def publish(ledger: Ledger) -> tuple[Path, Totals]:
    """Write the report of the run as it stands."""
    with ledger.run() as run:
        return write_report(run, ledger.folder / "report.html"), run.totals()


def prepare(
    paths: Sequence[str | Path | Source],
    job: Job,
    ledger: Ledger,
    *,
    watch: Watch | None = None,
    ears: Ears | None = None,
) -> tuple[list[Task], int]:
    """Listen and choose; the tasks without an answer, and how many recordings were missed."""
    sources = find(paths)
    ledger.rate_by(_survival(job.plan))
    listen, known = ears or OwnEars(watch), _known(sources, job, ledger)
    told = listen(sources, job.plan, known=known, cache=job.cache)
    scored, missed = _keep_heard(told, job, ledger)
    ordered = [scored[source] for source in sources if source in scored]
    windows, weights = [one.windows for one in ordered], [one.weight for one in ordered]
    choices = spend(job.plan, windows, weights=weights)
    tasks = [
        task
        for one, choice in zip(ordered, choices, strict=True)
        for task in _choose(one, choice, job, ledger)
    ]
    waiting = {row.identity for row in ledger.unanswered([task.row for task in tasks])}
    # Two copies of one file ask the same question: it is asked once.
    unasked = {task.request.identity: task for task in tasks}
    return [task for identity, task in unasked.items() if identity in waiting], missed


def _known(sources: Sequence[Source], job: Job, ledger: Ledger) -> dict[Source, str]:
    """The keys of those of `sources` whose windows the ledger has, heard as this job would."""
    if job.cache is None:
        return {}
    by_path = ledger.heard_at(key=_listening_key(job.plan))
    places = {source: by_path.get(as_place(source.uris[0])) for source in sources}
    return {source: key for source, key in places.items() if key is not None}


def _keep_heard(
    told: Iterable[tuple[Source, Told]], job: Job, ledger: Ledger
) -> tuple[dict[Source, Scored], int]:
    """Keep what was heard as it comes in; it by source, and how many could not be heard."""
    scored: dict[Source, Scored] = {}
    missed = 0
    for source, one in told:
        if isinstance(one, EarmarkError):
            ledger.miss(source.uris[0], source.uris[0], str(one))
            missed += 1
        else:
            scored[source] = _owning(_kept(one, job.plan, ledger), job, ledger)
    return scored, missed


def _kept(one: Scored | Recording, plan: Plan, ledger: Ledger) -> Scored:
    """What was heard, kept now or in an earlier run of this ledger."""
    if isinstance(one, Recording):
        ledger.add(_row(one))
        return _remembered(one, plan, ledger)
    ledger.add(_row(one.heard.recording))
    ledger.hear(
        one.heard.recording.key,
        one.windows,
        key=_listening_key(plan),
        level=one.heard.level,
        sound_bytes=one.heard.bytes_read,
        access=one.heard.access,
    )
    # One curve for all, where each came with its own from another process.
    return replace(one, windows=replace(one.windows, survival=_survival(plan)))


def _row(recording: Recording) -> RecordingRow:
    video = recording.video
    return RecordingRow(
        id=recording.key,
        path=recording.source.uris[0],
        duration=recording.duration,
        size_bytes=recording.size_bytes,
        frame_rate=video.mean_fps if video else 0.0,
        frame_count=round(video.mean_fps * recording.duration) if video else 0,
    )


def _remembered(recording: Recording, plan: Plan, ledger: Ledger) -> Scored:
    """What was heard of `recording` in an earlier run of this ledger."""
    windows = ledger.heard(recording.key, key=_listening_key(plan), survival=_survival(plan))
    with ledger.run() as run:
        row = run.heard(recording.key)
    assert windows is not None and row is not None, "only what the ledger has is taken from it"
    name = plan.frontline.name if plan.frontline else "none"
    silent = Track(np.zeros(0, np.float32))
    heard = Heard(
        recording=recording,
        frontline=name,
        scores=silent,
        level=row.level,
        access=row.access,
        bytes_read=row.sound_bytes,
        seconds=0.0,
        warnings=tuple(remarks(recording)) if recording.has_audio else (),
        from_cache=True,
    )
    return Scored(heard, windows)


def _survival(plan: Plan) -> Survival:
    return plan.frontline.survival if plan.frontline else EVERYDAY


def _owning(one: Scored, job: Job, ledger: Ledger) -> Scored:
    """The same with the windows marked whose answer, to this very question, is kept already.

    So a larger budget adds to what was bought instead of choosing anew.
    """
    key, model = one.heard.recording.key, job.captioner.model
    rows = ledger.answered(key)
    paid = {row.identity for row in rows}
    windows = sorted({row.window for row in rows if row.window < len(one.windows)})
    picks = explain(one.windows, windows, lambda *_: "")
    sounds = _sounds(one.heard, picks, job)
    owned = tuple(
        pick.window
        for pick in picks
        if job.ask.request(key, pick, sounds[pick.window], model).identity in paid
    )
    return replace(one, windows=replace(one.windows, owned=owned))


def _sounds(heard: Heard, picks: Sequence[Pick], job: Job) -> dict[int, Sounds]:
    """What is heard in each of `picks`, by window."""
    spans = {pick.window: Span(pick.start, pick.end) for pick in picks}
    named = job.namer is not None and heard.recording.has_audio and bool(picks)
    names = job.namer(heard.recording, list(spans.values())) if job.namer and named else {}
    return {
        window: Sounds(
            names=names.get(span, ()),
            words=describe(heard.level, span) if heard.level else (),
        )
        for window, span in spans.items()
    }


def _listening_key(plan: Plan) -> str:
    """Names all that can change the windows of a recording."""
    line = plan.frontline
    parts = (line.encoder, line.scorer, line.rates, plan.audio_track) if line else ()
    return hashlib.sha256(repr((parts, plan.grid)).encode()).hexdigest()


def _choose(one: Scored, choice: Choice, job: Job, ledger: Ledger) -> Iterator[Task]:
    """Keep the picks of one recording; each as a task."""
    recording = one.heard.recording
    share = forecast(one.windows, [pick.window for pick in choice.picks])
    sounds = _sounds(one.heard, choice.picks, job)
    ledger.choose(
        recording.key,
        choice.picks,
        tags={window: heard.tags for window, heard in sounds.items()},
        rule=choice.rule_used,
        forecast=None if math.isnan(share) else share,
        notes=notes_on(one.heard, choice),
    )
    for pick in choice.picks:
        request = job.ask.request(recording.key, pick, sounds[pick.window], job.captioner.model)
        yield Task(recording, pick.window, request)


def _ask(tasks: Sequence[Task], job: Job, ledger: Ledger, step: Step | None, look: Show) -> Tally:
    """Decode and ask, and keep each outcome as it arrives."""
    rows = {task.request.identity: task.row for task in tasks}
    tally = Tally()

    def moved() -> None:
        if step is not None:
            step(tally, len(tasks))

    def answered(request: Request, answer: Answer) -> None:
        spent = job.limits.price(answer.prompt_tokens or 0, answer.completion_tokens or 0)
        ledger.keep(rows[request.identity], answer, spend=spent)
        moved()

    def failed(failure: Failure) -> None:
        ledger.fail(rows[failure.request.identity], failure.reason)
        moved()

    def sent(request: Request) -> None:
        ledger.begin(rows[request.identity])

    def unseen(task: Task, reason: str) -> None:
        tally.calls, tally.failed = tally.calls + 1, tally.failed + 1
        failed(Failure(task.request, reason, attempts=0))

    moved()
    with closing(look(tasks, ledger, unseen)) as shown:
        return ask_all(
            shown, job.captioner, job.limits, answered, failed, on_send=sent, tally=tally
        )


def show(
    tasks: Sequence[Task], ledger: Ledger, unseen: Callable[[Task, str], None]
) -> Generator[Request, None, None]:
    """The requests with their frames, in order.

    A window that cannot be decoded is left out; `unseen` is told which and why.
    """
    wanted = (Window(task.recording, task.request.times) for task in tasks)
    with closing(look_ahead(wanted)) as ahead:
        for task, seen in zip(tasks, ahead, strict=True):
            if not seen.frames:
                unseen(task, seen.failure)
                continue
            ledger.look(task.recording.key, look_of(task, seen))
            yield task.request.showing(seen.frames)


def look_of(task: Task, seen: Seen) -> Look:
    """What looking at a window took, with a picture of it."""
    return Look(
        window=task.window,
        thumbnail=thumbnail(seen.frames[len(seen.frames) // 2]),
        frames_decoded=seen.frames_decoded,
        frames_sent=len(seen.frames),
        bytes_read=seen.bytes_read,
    )


def thumbnail(frame: Frame) -> bytes:
    """A small JPEG of `frame`, for the report."""
    width = min(THUMBNAIL, frame.width)
    height = max(1, round(frame.height * width / frame.width))
    return frame.resized(width, height).jpeg(quality=80)
