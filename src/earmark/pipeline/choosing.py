"""Of what was heard: which picks have no answer yet, and what is heard in each.

windows in the ledger ──▶ one price ──▶ picks ──▶ sounds named ──▶ ledger ──▶ Tasks
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice

import numpy as np
from numpy.typing import NDArray

from earmark.evidence.level_words import describe
from earmark.evidence.sound_names import Named
from earmark.gate.frontline import EVERYDAY
from earmark.gate.listener import Heard
from earmark.gate.survival import Survival
from earmark.grid import Windows
from earmark.ledger import HeardRow, Ledger
from earmark.media import Recording
from earmark.pipeline.job import Job
from earmark.pipeline.question import Sounds, Task
from earmark.pipeline.triage import Plan, notes_on
from earmark.selection import Choice, Pick
from earmark.selection.pick import explain
from earmark.timeline import Span, Track

Places = NDArray[np.int32]
"""Windows by number, increasing."""

AT_ONCE = 128
"""Recordings whose sounds are named together: enough to keep a cluster busy, few enough to hold."""


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


def windows_of(
    recording: Recording, plan: Plan, ledger: Ledger, *, owned: tuple[int, ...] = ()
) -> Windows:
    """The windows of a recording that the ledger has."""
    key = listening_key(plan)
    windows = ledger.heard(recording.key, key=key, survival=survival_of(plan), owned=owned)
    assert windows is not None, "only what the ledger has is taken from it"
    return windows


def task_of(recording: Recording, pick: Pick, sounds: Sounds, job: Job) -> Task:
    """The question about one pick."""
    request = job.ask.request(recording.key, pick, sounds, job.captioner.model)
    return Task(recording, pick.window, request)


def choose_all(
    known: Sequence[Known], choices: Iterable[Choice], job: Job, ledger: Ledger
) -> Tasks:
    """Keep the picks of every recording; those that have no answer."""
    tasks = Tasks(job, ledger)
    asked: dict[str, Places] = {}
    shared: dict[Sounds, Sounds] = {}  # words repeat, so picks share them
    with ledger.run() as run:
        for one, choice, names in _naming(zip(known, choices, strict=True), job):
            key = one.recording.key
            row = run.heard(key)
            assert row is not None, "it was heard"
            sounds = sounds_in(choice.picks, level=row.level, names=names)
            _keep_choice(one, row, choice, sounds, tasks)
            waiting = _unanswered(one, choice, sounds, job, ledger)
            # Two copies of one file ask the same question: it is asked once.
            before = asked.get(key, waiting[:0])
            places = np.setdiff1d(waiting, before)
            asked[key] = np.union1d(before, places)
            heard = [sounds[place] for place in places.tolist()]
            if heard:
                same = tuple(shared.setdefault(each, each) for each in heard)
                tasks.waiting.append(Waiting(one.recording, places, same))
    return tasks


def _naming(
    chosen: Iterator[tuple[Known, Choice]], job: Job
) -> Iterator[tuple[Known, Choice, Named]]:
    """Each with the names of its sounds; some together, so that several can name side by side."""
    if job.namer is None:
        yield from ((one, choice, {}) for one, choice in chosen)
        return
    while some := list(islice(chosen, AT_ONCE)):
        wanted = [(one.recording, _spans(one.recording, choice.picks)) for one, choice in some]
        for (one, choice), names in zip(some, job.namer.each(wanted), strict=True):
            yield one, choice, names


def _keep_choice(
    known: Known, row: HeardRow, choice: Choice, sounds: Mapping[int, Sounds], tasks: Tasks
) -> None:
    """Keep the picks of one recording, and what is heard in each."""
    expected = float(row.rates.sum())
    share = sum(pick.expected for pick in choice.picks) / expected if expected else math.nan
    tasks.ledger.choose(
        known.recording.key,
        choice.picks,
        tags={Span(pick.start, pick.end): sounds[pick.window].tags for pick in choice.picks},
        rule=choice.rule_used,
        forecast=None if math.isnan(share) else share,
        notes=notes_on(_heard(known, row, tasks.job.plan), choice),
    )


def _unanswered(
    known: Known, choice: Choice, sounds: dict[int, Sounds], job: Job, ledger: Ledger
) -> Places:
    """The picked windows of one recording that no answer is kept for."""
    tasks = [task_of(known.recording, pick, sounds[pick.window], job) for pick in choice.picks]
    waiting = {row.identity for row in ledger.unanswered([task.row for task in tasks])}
    left = [task.window for task in tasks if task.request.identity in waiting]
    return np.array(left, np.int32)


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


def sounds_in(picks: Sequence[Pick], *, level: Track | None, names: Named) -> dict[int, Sounds]:
    """What is heard in each of `picks`, by window."""
    spans = {pick.window: Span(pick.start, pick.end) for pick in picks}
    return {
        window: Sounds(
            names=names.get(span, ()),
            words=describe(level, span) if level else (),
        )
        for window, span in spans.items()
    }


def names_in(recording: Recording, picks: Sequence[Pick], job: Job) -> Named:
    """The names of the sounds in `picks`; none where nobody names them."""
    return job.namer(recording, _spans(recording, picks)) if job.namer else {}


def _spans(recording: Recording, picks: Sequence[Pick]) -> list[Span]:
    """The spans of `picks` in which there is something to hear."""
    return [Span(pick.start, pick.end) for pick in picks] if recording.has_audio else []


def survival_of(plan: Plan) -> Survival:
    """How long actions last, as the plan's frontline has it."""
    return plan.frontline.survival if plan.frontline else EVERYDAY


def listening_key(plan: Plan) -> str:
    """Names all that can change the windows of a recording."""
    line = plan.frontline
    parts = (line.encoder, line.scorer, line.rates, plan.audio_track) if line else ()
    named = f"({parts!r}, Grid(window={plan.grid.length!r}))"  # as older runs have named it
    return hashlib.sha256(named.encode()).hexdigest()
