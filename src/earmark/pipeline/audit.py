"""Asks about random windows that a run has not covered, to estimate how much it has missed.

run ──▶ windows no pick touches ──▶ draw ──▶ ask ──▶ share that is active, with an interval

The draws are stored in the run before the first call, so a killed audit resumes with the same
draws. A merged run keeps the draws of every shard, and estimates one share from all of them.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from earmark.captioning.dispatch import Tally
from earmark.captioning.request import Request, Task
from earmark.errors import RunError
from earmark.evidence.sound_names import name_sounds, sounds_in
from earmark.gate.forecast_error import as_share
from earmark.pipeline.backend import InProcessBackend
from earmark.pipeline.resume import blur_report, blurred_like, question_of, reopen
from earmark.pipeline.session import Session, open_session
from earmark.report.progress import Progress
from earmark.run.run import Run
from earmark.run.tasks import CallRecorder
from earmark.selection.audit_sample import (
    ShareInterval,
    chance_of_activity,
    draw_evenly,
    estimate_combined_share,
    forecast_width,
)
from earmark.selection.pick import explain
from earmark.settings import Settings
from earmark.text_format import counted
from earmark.timeline import FloatArray

NOTE = "audit"


@dataclass(frozen=True, slots=True)
class Draw:
    recording: str
    start: float
    end: float


@dataclass(frozen=True, slots=True)
class AuditDraws:
    windows: int
    seed: int
    draws: tuple[Draw, ...]
    """Sorted by the probability, judged by the sound, that the window is active."""

    @classmethod
    def from_json(cls, text: str) -> list[AuditDraws]:
        """One for each shard of a merged run."""
        return [
            cls(part["windows"], part["seed"], tuple(Draw(**draw) for draw in part["draws"]))
            for part in json.loads(text)
        ]


@dataclass(frozen=True, slots=True)
class AuditResult:
    windows: int
    drawn: int
    answered: int
    active: int
    share: ShareInterval
    windows_an_action: float
    tally: Tally

    @property
    def activities(self) -> tuple[float, float, float]:
        """Missed, approximately: lower bound, estimate, upper bound."""
        scale = self.windows / self.windows_an_action
        return self.share.low * scale, self.share.share * scale, self.share.high * scale

    def to_json(self) -> dict[str, Any]:
        low, estimate, high = self.activities
        return asdict(self) | {"activities": {"low": low, "estimate": estimate, "high": high}}

    def lines(self) -> Iterator[str]:
        """The estimates, and the number of draws they rest on; nothing without an answer."""
        if not self.answered:
            return
        share, (low, estimate, high) = self.share, self.activities
        yield (
            f"{self.active} of {counted(self.answered, 'drawn window')} active; estimate for the "
            f"{self.windows} windows that no answered pick touches: {as_share(share.share)} active "
            f"({as_share(share.low)} to {as_share(share.high)} with "
            f"{100 * share.confidence:g} % confidence)"
        )
        yield (
            f"activities not seen: about {estimate:.0f} ({low:.0f} to {high:.0f}), if they last as "
            f"long as the run's gate expects ({self.windows_an_action:.2g} windows each) and do "
            "not overlap"
        )


@dataclass(frozen=True, slots=True, eq=False)
class Untouched:
    recordings: NDArray[np.object_]
    spans: FloatArray
    chances: FloatArray


def forecast_widths(
    folder: Path, calls: Sequence[int], *, confidence: float = 0.95
) -> dict[int, float]:
    _check_arguments(min(calls, default=1), confidence)
    with Run(folder) as run:
        frame = _frame(run)
    chances = frame.chances
    counts = {min(count, len(chances)) for count in calls}  # no window is drawn twice
    return {
        count: forecast_width(chances, count, confidence=confidence) for count in sorted(counts)
    }


def audit(
    folder: Path,
    *,
    calls: int = 40,
    settings: Settings | Session | None = None,
    api_key: str | None = None,
    confidence: float = 0.95,
    seed: int = 0,
    progress: Progress | None = None,
) -> AuditResult:
    """Ask about `calls` windows drawn at random from those that no answered pick overlaps.

    A second call with the same arguments resumes with the draws that have no answer yet; another
    `seed` or number of calls makes new ones. In a merged run, `calls` counts the draws of all its
    shards. Model and limits are those of `settings`, the question is that of the run.
    """
    _check_arguments(calls, confidence)
    asking = blurred_like(open_session((), settings), folder)
    captioner = asking.open_captioner(api_key=api_key)
    captioner.check()
    with Run.resume(folder) as run:
        if asking.question.blur:
            blur_report(run, asking.question.blur)
            run.blur_pictures(asking.question.blur)
        parts = _drawn(run, calls, seed)
        draws = [draw for part in parts for draw in part.draws]
        tasks = _tasks(run, draws, asking, captioner.model)
        count = (progress or Progress()).count_calls
        log = CallRecorder(asking.settings.limits, run, run.spent(), len(tasks), count)
        answered = _activities(run, tasks)
        waiting = (task for task in tasks if task.request.identity not in answered)
        tally = InProcessBackend().ask(waiting, captioner, log)
        answered = _activities(run, tasks)
        activities = (answered.get(task.request.identity) for task in tasks)
        is_active = [
            [bool(name) for name in islice(activities, len(part.draws)) if name is not None]
            for part in parts
        ]
        windows = [part.windows for part in parts]
        return AuditResult(
            windows=sum(windows),
            drawn=len(draws),
            answered=sum(map(len, is_active)),
            active=sum(map(sum, is_active)),
            share=estimate_combined_share(is_active, population=windows, confidence=confidence),
            windows_an_action=_windows_an_action(run, draws),
            tally=tally,
        )


def _check_arguments(calls: int, confidence: float) -> None:
    if calls < 1 or not 0 < confidence < 1:
        raise ValueError("an audit takes 1 call or more, and a confidence between 0 and 1")


def _windows_an_action(run: Run, draws: Sequence[Draw]) -> float:
    recordings = {draw.recording for draw in draws}
    return float(np.mean([run.heard(key).reach.sum() for key in recordings]))


def _frame(run: Run) -> Untouched:
    untouched = []
    for row in run.recordings():
        windows = run.heard(row.id)
        if not windows:
            continue
        starts = np.arange(len(windows)) * windows.length
        ends = np.minimum(starts + windows.length, np.maximum(starts, windows.duration))
        is_free = np.ones(len(windows), dtype=bool)
        for pick in run.picks(row.id):
            if pick.answer:
                is_free &= (ends <= pick.span.start + 1e-9) | (starts >= pick.span.end - 1e-9)
        spans = np.stack([starts, ends], axis=1)[is_free]
        untouched.append((row.id, spans, chance_of_activity(windows)[is_free]))
    if not any(len(spans) for _, spans, _ in untouched):
        raise RunError(f"the run in {run.folder} has looked at every window: nothing to audit")
    keys, all_spans, chances = zip(*untouched, strict=True)
    recordings = np.repeat(np.array(keys, dtype=object), [len(spans) for spans in all_spans])
    return Untouched(recordings, np.concatenate(all_spans), np.concatenate(chances))


def _drawn(run: Run, calls: int, seed: int) -> list[AuditDraws]:
    frame = _frame(run)
    if note := run.note(NOTE):
        parts = AuditDraws.from_json(note)
        whole = sum(part.windows for part in parts)
        draws = sum(len(part.draws) for part in parts)
        is_same = {part.seed for part in parts} == {seed} and draws == min(calls, whole)
        # A single run may have answered more picks since its draws. In a merged run the numbers
        # must agree: else a shard was not audited, or shards overlap.
        is_whole = whole >= len(frame.spans) if len(parts) == 1 else whole == len(frame.spans)
        if is_same and is_whole:
            return parts
    indices = draw_evenly(frame.chances, calls, np.random.default_rng(seed))
    chosen = zip(frame.recordings[indices], frame.spans[indices].tolist(), strict=True)
    drawn = AuditDraws(len(frame.spans), seed, tuple(Draw(key, *span) for key, span in chosen))
    run.set_note(NOTE, json.dumps([asdict(drawn)]))
    return [drawn]


def _tasks(run: Run, draws: Sequence[Draw], asking: Session, model: str) -> list[Task]:
    question = question_of(run, asking).with_activity()
    rows = {row.id: row for row in run.recordings()}
    recordings = {
        key: reopen(rows[key], run.heard(key), folders=asking.settings.folders)
        for key in {draw.recording for draw in draws}
    }
    namer = asking.with_evidence().namer if run.plan().get("sounds") else None
    tasks: dict[Draw, Task] = {}
    for key, recording in recordings.items():
        drawn = [draw for draw in draws if draw.recording == key]
        windows = run.heard(key)
        indices = [windows.window_at(draw.start) for draw in drawn]
        picks = {pick.start: pick for pick in explain(windows, indices, lambda *_: "")}
        spans = [pick.span for pick in picks.values()]
        ((names, _),) = name_sounds(namer, [(recording, spans)], InProcessBackend().map)
        sounds = sounds_in(spans, level=None, names=names)
        for draw in drawn:
            pick = picks[draw.start]
            request = Request.about(key, pick, question, sounds[pick.span], model)
            tasks[draw] = Task(recording, request)
    return [tasks[draw] for draw in draws]


def _activities(run: Run, tasks: Sequence[Task]) -> dict[str, str | None]:
    keys = {task.recording.id for task in tasks}
    return {call: name for key in keys for call, name in run.activities(key).items()}
