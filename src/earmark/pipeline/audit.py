"""`audit`: a few windows drawn at random, asked like any other, say how much a run has not seen.

run ──▶ windows no pick touches ──▶ draw ──▶ ask ──▶ share that is active, with an interval

The draws are kept in the run before the first is asked, so a killed audit goes on with the same.
Those of shards that are merged are kept side by side, and judged as parts of one whole.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from itertools import islice
from pathlib import Path

import numpy as np

from earmark.captioning.question import Question
from earmark.captioning.request import Request, Task
from earmark.captioning.usage import Tally
from earmark.errors import LedgerError
from earmark.evidence.sound_names import name_sounds
from earmark.evidence.window_sounds import sounds_in
from earmark.gate.survival import Survival
from earmark.grid import Windows
from earmark.ledger.blurred_ledger import blur_run
from earmark.ledger.ledger import Ledger
from earmark.ledger.records import RecordingRow
from earmark.ledger.run_calls import CallRecorder
from earmark.ledger.run_reader import Run
from earmark.pipeline.backend import InProcessBackend
from earmark.pipeline.batch import reopen
from earmark.pipeline.resume import blurred_like, question_of
from earmark.pipeline.run_plan import Plan
from earmark.reporting.progress import Progress
from earmark.selection.audit_sample import (
    ShareInterval,
    chance_of_activity,
    draw_evenly,
    estimate_combined_share,
    forecast_width,
)
from earmark.selection.pick import explain
from earmark.timeline import FloatArray, IndexArray, Span

NOTE = "audit"
"""Where a run keeps its last audit."""


@dataclass(frozen=True, slots=True)
class Draw:
    """A window drawn."""

    recording: str
    start: float
    end: float


@dataclass(frozen=True, slots=True)
class AuditDraws:
    """The windows that were drawn, and from how many."""

    windows: int
    """That no answered pick touches."""
    seed: int
    draws: tuple[Draw, ...]
    """In order of how likely the sound makes them to be active."""

    @classmethod
    def from_json(cls, text: str) -> list[AuditDraws]:
        """What a run keeps: its own draws, or those of each run it was merged of."""
        plain = json.loads(text)
        return [
            cls(part["windows"], part["seed"], tuple(Draw(**one) for one in part["draws"]))
            for part in (plain if isinstance(plain, list) else [plain])
        ]


@dataclass(frozen=True, slots=True)
class AuditResult:
    """What an audit found."""

    windows: int
    """That nobody has looked at."""
    drawn: int
    answered: int
    active: int
    """Of the answered, those in which the model says that something is being done."""
    share: ShareInterval
    """Of the windows nobody has looked at, those the model would call active."""
    windows_an_action: float
    """Windows that an action touches in the mean, by the lengths the run was rated by."""
    tally: Tally
    """What asking took this time."""

    @property
    def activities(self) -> tuple[float, float, float]:
        """About how many activities that is: the least, the estimate and the most."""
        scale = self.windows / self.windows_an_action
        return self.share.low * scale, self.share.share * scale, self.share.high * scale


@dataclass(frozen=True, slots=True, eq=False)
class Untouched:
    """The windows of a run that no answered pick touches."""

    recordings: tuple[RecordingRow, ...]
    owner: IndexArray
    """Of each window its recording, by place."""
    places: IndexArray
    """Of each its place among the recording's windows."""
    chances: FloatArray
    """How likely each is to be active, by its sound."""


def forecast_widths(
    folder: Path, calls: Sequence[int], *, confidence: float = 0.95
) -> dict[int, float]:
    """The expected width of the interval of an audit, for each number of calls.

    A number above that of the windows to draw from is replaced by it.
    """
    with Run(folder) as run:
        frame = _frame(run)
    fitting = (min(each, len(frame.chances)) for each in calls)  # no window is drawn twice
    return {each: forecast_width(frame.chances, each, confidence=confidence) for each in fitting}


def audit(
    folder: Path,
    *,
    calls: int = 40,
    plan: Plan | None = None,
    api_key: str | None = None,
    confidence: float = 0.95,
    seed: int = 0,
    progress: Progress | None = None,
) -> AuditResult:
    """Ask about `calls` windows drawn at random among those that the run has not touched.

    The same call again goes on with what has no answer yet; another `seed`, or another number of
    calls, draws anew. In a merged run the number is that of all its shards together.

    Args:
        folder: The run.
        calls: Windows to draw.
        plan: Whom to ask, and within what limits; how is the run's own.
        api_key: For a server that wants one; kept nowhere.
        confidence: How often the interval is to hold.
        seed: Of the draw.
        progress: Told how far it has come.

    Raises:
        LedgerError: no run in `folder`, or one without answers.
        MediaError: a recording of the run is gone or has changed.
    """
    if calls < 1 or not 0 < confidence < 1:
        raise ValueError("an audit takes 1 call or more, and a confidence between 0 and 1")
    asking = blurred_like(plan or Plan(), folder)
    captioner = asking.open_captioner(api_key=api_key)
    captioner.check()
    with Run(folder) as run, _opened(folder, run) as ledger:
        if asking.question.blur:
            blur_run(folder, asking.question.blur)
        parts = _drawn(run, ledger, calls, seed)
        draws = [one for part in parts for one in part.draws]
        tasks = list(_tasks(run, draws, asking, captioner.model))
        count = (progress or Progress()).count_calls
        log = CallRecorder(asking.limits, ledger, ledger.spent(), len(tasks), count)
        waiting = [task for task in tasks if not _is_answered(ledger, task)]
        tally = InProcessBackend().ask(iter(waiting), captioner, asking.limits, log)
        said = iter(_found(ledger, tasks))
        found = [
            [one for one in islice(said, len(part.draws)) if one is not None] for part in parts
        ]
        windows = [part.windows for part in parts]
        return AuditResult(
            windows=sum(windows),
            drawn=len(draws),
            answered=sum(map(len, found)),
            active=sum(map(sum, found)),
            share=estimate_combined_share(found, population=windows, confidence=confidence),
            windows_an_action=float(_survival(run).reach(tasks[0].request.span.duration).sum()),
            tally=tally,
        )


def _opened(folder: Path, run: Run) -> Ledger:
    """The run's ledger under the plan it has."""
    return Ledger(folder, run.plan())


def _survival(run: Run) -> Survival:
    found = run.survival()
    if found is None:
        raise LedgerError(
            f"{run.folder} does not say how long actions last: it is of an earlier version; "
            "run `earmark caption` on it again"
        )
    return found


def _question(run: Run, asking: Plan) -> Question:
    """The run's own question, asking also what is being done."""
    return question_of(run, asking).with_activity()


def _frame(run: Run) -> Untouched:
    """The windows of the run that no answered pick touches, each recording cut without overlap."""
    rows: list[RecordingRow] = []
    owners: list[IndexArray] = []
    places: list[IndexArray] = []
    chances: list[FloatArray] = []
    for row in run.recordings():
        heard = run.heard(row.id)
        if heard is None:
            continue
        windows = heard.windows(_survival(run))
        free = _untouched(windows, [pick.span for pick in run.picks(row.id) if pick.kept])
        owners.append(np.full(len(free), len(rows), dtype=np.intp))
        rows.append(row)
        places.append(free)
        chances.append(chance_of_activity(windows)[free])
    if not sum(map(len, places)):
        raise LedgerError(f"the run in {run.folder} has looked at every window: nothing to audit")
    whole = np.concatenate(owners), np.concatenate(places)
    return Untouched(tuple(rows), *whole, np.concatenate(chances))


def _untouched(windows: Windows, spans: Sequence[Span]) -> IndexArray:
    """The windows, laid end to end, that no span overlaps."""
    every = np.arange(windows.per_call - 1, len(windows), windows.per_call, dtype=np.intp)
    starts = (every + 1 - windows.per_call) * windows.step
    ends = starts + windows.length
    free = np.ones(len(every), dtype=bool)
    for span in spans:
        free &= (ends <= span.start + 1e-9) | (starts >= span.end - 1e-9)
    return every[free]


def _drawn(run: Run, ledger: Ledger, calls: int, seed: int) -> list[AuditDraws]:
    """The draws of the audit that is under way, or new ones, kept before anything is asked."""
    frame = _frame(run)
    if kept := run.note(NOTE):
        parts = AuditDraws.from_json(kept)
        whole = sum(part.windows for part in parts)
        draws = sum(len(part.draws) for part in parts)
        is_same = {part.seed for part in parts} == {seed} and draws == min(calls, whole)
        # A run may have looked at more since; one with a shard that was not audited, or of shards
        # that overlap, is not what was drawn from.
        is_whole = whole >= len(frame.places) if len(parts) == 1 else whole == len(frame.places)
        if is_same and is_whole:
            return parts
    drawn = _draw(run, frame, calls, seed)
    ledger.note(NOTE, json.dumps([asdict(drawn)]))
    return [drawn]


def _draw(run: Run, frame: Untouched, calls: int, seed: int) -> AuditDraws:
    survival = _survival(run)
    draws = []
    for place in draw_evenly(frame.chances, calls, np.random.default_rng(seed)).tolist():
        row = frame.recordings[frame.owner[place]]
        heard = run.heard(row.id)
        assert heard is not None, "it is in the frame"
        span = heard.windows(survival).span(int(frame.places[place]))
        draws.append(Draw(row.id, span.start, span.end))
    return AuditDraws(len(frame.places), seed, tuple(draws))


def _tasks(run: Run, draws: Sequence[Draw], asking: Plan, model: str) -> Iterator[Task]:
    """The windows drawn as questions, in order of the draws."""
    question = _question(run, asking)
    survival = _survival(run)
    rows = {row.id: row for row in run.recordings()}
    recordings = {key: reopen(rows[key]) for key in {one.recording for one in draws}}
    namer = asking.with_evidence().namer if run.plan().get("sounds") else None
    requests: dict[Draw, Request] = {}
    for key, recording in recordings.items():
        own = [one for one in draws if one.recording == key]
        heard = run.heard(key)
        assert heard is not None, "it was drawn from"
        windows = heard.windows(survival)
        places = [windows.window_at(one.start) for one in own]
        picks = {pick.start: pick for pick in explain(windows, places, lambda *_: "")}
        spans = [pick.span for pick in picks.values()]
        ((names, _),) = name_sounds(namer, [(recording, spans)], InProcessBackend().map)
        sounds = sounds_in(spans, level=None, names=names)
        for one in own:
            pick = picks[one.start]
            requests[one] = Request.about(key, pick, question, sounds[pick.span], model)
    for one in draws:
        yield Task(recordings[one.recording], requests[one])


def _is_answered(ledger: Ledger, task: Task) -> bool:
    return task.request.identity in ledger.said(task.recording.key)


def _found(ledger: Ledger, tasks: Sequence[Task]) -> list[bool | None]:
    """Whether each draw is active; None where no answer says."""
    keys = {task.recording.key for task in tasks}
    said = {call: words for key in keys for call, words in ledger.said(key).items()}
    found = (said.get(task.request.identity) for task in tasks)
    return [None if words is None else bool(words) for words in found]
