"""Asks about random windows that a run has not covered, to estimate how much it has missed.

run ──▶ windows no pick touches ──▶ draw ──▶ ask ──▶ share that is active, with an interval

The draws are stored in the run before the first call, so a killed audit resumes with the same
draws. A merged run keeps the draws of every shard, and estimates one share from all of them.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from itertools import islice
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from earmark.captioning.request import Request, Task
from earmark.captioning.usage import Tally
from earmark.errors import LedgerError
from earmark.evidence.sound_names import name_sounds
from earmark.evidence.window_sounds import sounds_in
from earmark.gate.survival import Survival
from earmark.grid import Windows
from earmark.ledger.blurred_ledger import blur_run
from earmark.ledger.ledger import Ledger
from earmark.ledger.run_calls import CallRecorder
from earmark.ledger.run_reader import Run
from earmark.pipeline.backend import InProcessBackend
from earmark.pipeline.resume import blur_report, blurred_like, question_of, reopen
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
"""Name of the note in which a run stores the draws of its last audit."""


@dataclass(frozen=True, slots=True)
class Draw:
    """A window that was drawn; start and end are in seconds."""

    recording: str
    start: float
    end: float


@dataclass(frozen=True, slots=True)
class AuditDraws:
    """The windows that were drawn, and from how many."""

    windows: int
    """Windows to draw from: those that no answered pick overlaps."""
    seed: int
    draws: tuple[Draw, ...]
    """Sorted by the probability, judged by the sound, that the window is active."""

    @classmethod
    def from_json(cls, text: str) -> list[AuditDraws]:
        """The draws stored in a run: one item, or one for each run that it was merged from."""
        plain = json.loads(text)
        return [
            cls(part["windows"], part["seed"], tuple(Draw(**one) for one in part["draws"]))
            for part in (plain if isinstance(plain, list) else [plain])
        ]


@dataclass(frozen=True, slots=True)
class AuditResult:
    """The result of an audit."""

    windows: int
    """Windows that no answered pick overlaps."""
    drawn: int
    answered: int
    active: int
    """Answered draws in which the model names an activity."""
    share: ShareInterval
    """Estimated share of `windows` that the model would call active."""
    windows_an_action: float
    """Mean number of windows that an action overlaps, by the action lengths of the run."""
    tally: Tally
    """What the calls of this command cost."""

    @property
    def activities(self) -> tuple[float, float, float]:
        """The approximate number of missed activities: lower bound, estimate, upper bound."""
        scale = self.windows / self.windows_an_action
        return self.share.low * scale, self.share.share * scale, self.share.high * scale


@dataclass(frozen=True, slots=True, eq=False)
class Untouched:
    """The windows of a run that no answered pick overlaps."""

    recordings: NDArray[np.object_]
    """Key of the recording of each window."""
    spans: FloatArray
    """Start and end of each window, in seconds."""
    chances: FloatArray
    """Probability that each window is active, judged by its sound."""


def forecast_widths(
    folder: Path, calls: Sequence[int], *, confidence: float = 0.95
) -> dict[int, float]:
    """The expected width of the interval of an audit, for each number of calls.

    A number above that of the windows to draw from is replaced by it.
    """
    _check_arguments(min(calls, default=1), confidence)
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
    """Ask about `calls` windows drawn at random from those that no answered pick overlaps.

    A second call with the same arguments resumes with the draws that have no answer yet. Another
    `seed`, or another number of calls, makes new draws. In a merged run, `calls` counts the draws
    of all its shards. The model and the limits are those of `plan`, the question that of the run.

    Raises:
        ValueError: `calls` or `confidence` is out of range.
        LedgerError: no run in `folder`, no plan to ask by in it, or no window left to draw.
        MediaError: a recording of the run is gone or has changed.
    """
    _check_arguments(calls, confidence)
    asking = blurred_like(plan or Plan(), folder)
    captioner = asking.open_captioner(api_key=api_key)
    captioner.check()
    with Run(folder) as run:
        described = run.plan()
    with Ledger(folder, described) as ledger, Run(folder) as run:  # who writes closes last
        if asking.question.blur:
            blur_report(run, asking.question.blur)
            blur_run(folder, asking.question.blur)
        parts = _drawn(run, ledger, calls, seed)
        draws = [one for part in parts for one in part.draws]
        tasks = _tasks(run, draws, asking, captioner.model)
        count = (progress or Progress()).count_calls
        log = CallRecorder(asking.limits, ledger, ledger.spent(), len(tasks), count)
        said = _activities(ledger, tasks)
        waiting = [task for task in tasks if task.request.identity not in said]
        tally = InProcessBackend().ask(iter(waiting), captioner, asking.limits, log)
        said = _activities(ledger, tasks)
        named = (said.get(task.request.identity) for task in tasks)
        found = [
            [bool(name) for name in islice(named, len(part.draws)) if name is not None]
            for part in parts
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


def _check_arguments(calls: int, confidence: float) -> None:
    if calls < 1 or not 0 < confidence < 1:
        raise ValueError("an audit takes 1 call or more, and a confidence between 0 and 1")


def _survival(run: Run) -> Survival:
    found = run.survival()
    if found is None:
        raise LedgerError(
            f"{run.folder} does not say how long actions last: it is of an earlier version; "
            "run `earmark caption` on it again"
        )
    return found


def _frame(run: Run) -> Untouched:
    """The windows of the run that no answered pick overlaps; they do not overlap each other.

    Raises:
        LedgerError: there is no such window, or the run does not store action lengths.
    """
    found = []
    for row in run.recordings():
        heard = run.heard(row.id)
        if heard is None:
            continue
        windows = heard.windows(_survival(run))
        taken = [pick.span for pick in run.picks(row.id) if pick.kept]
        places, spans = _untouched(windows, taken)
        found.append((row.id, spans, chance_of_activity(windows)[places]))
    if not any(len(spans) for _, spans, _ in found):
        raise LedgerError(f"the run in {run.folder} has looked at every window: nothing to audit")
    keys, many, chances = zip(*found, strict=True)
    recordings = np.repeat(np.array(keys, dtype=object), [len(spans) for spans in many])
    return Untouched(recordings, np.concatenate(many), np.concatenate(chances))


def _untouched(windows: Windows, taken: Sequence[Span]) -> tuple[IndexArray, FloatArray]:
    """Of the windows laid end to end, those that overlap nothing `taken`: indices and times."""
    every = np.arange(windows.per_call - 1, len(windows), windows.per_call, dtype=np.intp)
    starts = (every + 1 - windows.per_call) * windows.step
    ends = np.minimum(starts + windows.length, np.maximum(starts, windows.duration))
    free = np.ones(len(every), dtype=bool)
    for span in taken:
        free &= (ends <= span.start + 1e-9) | (starts >= span.end - 1e-9)
    return every[free], np.stack([starts, ends], axis=1)[free]


def _drawn(run: Run, ledger: Ledger, calls: int, seed: int) -> list[AuditDraws]:
    """The stored draws if they fit the arguments and the run, else new draws, which are stored."""
    frame = _frame(run)
    if kept := run.note(NOTE):
        parts = AuditDraws.from_json(kept)
        whole = sum(part.windows for part in parts)
        draws = sum(len(part.draws) for part in parts)
        is_same = {part.seed for part in parts} == {seed} and draws == min(calls, whole)
        # A single run may have answered more picks since its draws. In a merged run the numbers
        # must agree: else a shard was not audited, or shards overlap.
        is_whole = whole >= len(frame.spans) if len(parts) == 1 else whole == len(frame.spans)
        if is_same and is_whole:
            return parts
    places = draw_evenly(frame.chances, calls, np.random.default_rng(seed))
    chosen = zip(frame.recordings[places], frame.spans[places].tolist(), strict=True)
    drawn = AuditDraws(len(frame.spans), seed, tuple(Draw(key, *span) for key, span in chosen))
    ledger.note(NOTE, json.dumps([asdict(drawn)]))
    return [drawn]


def _tasks(run: Run, draws: Sequence[Draw], asking: Plan, model: str) -> list[Task]:
    """A task for each draw, in the order of `draws`; the question also asks for the activity."""
    question, survival = question_of(run, asking).with_activity(), _survival(run)
    rows = {row.id: row for row in run.recordings()}
    recordings = {key: reopen(run, rows[key]) for key in {one.recording for one in draws}}
    namer = asking.with_evidence().namer if run.plan().get("sounds") else None
    tasks: dict[Draw, Task] = {}
    for key, recording in recordings.items():
        drawn = [one for one in draws if one.recording == key]
        heard = run.heard(key)
        assert heard is not None, "it was drawn from"
        windows = heard.windows(survival)
        places = [windows.window_at(one.start) for one in drawn]
        picks = {pick.start: pick for pick in explain(windows, places, lambda *_: "")}
        spans = [pick.span for pick in picks.values()]
        ((names, _),) = name_sounds(namer, [(recording, spans)], InProcessBackend().map)
        sounds = sounds_in(spans, level=None, names=names)
        for one in drawn:
            pick = picks[one.start]
            request = Request.about(key, pick, question, sounds[pick.span], model)
            tasks[one] = Task(recording, request)
    return [tasks[one] for one in draws]


def _activities(ledger: Ledger, tasks: Sequence[Task]) -> dict[str, str | None]:
    """The activity that each answer about the recordings of `tasks` names: see `Ledger.said`."""
    keys = {task.recording.key for task in tasks}
    return {call: name for key in keys for call, name in ledger.said(key).items()}
