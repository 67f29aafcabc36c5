"""One evaluation from files to answer: what is asked, and everything that answers it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from earmark.errors import AnnotationError
from earmark.evaluation.annotations.actions import Annotations, counted, few, reconcile
from earmark.evaluation.annotations.readers import read_annotations
from earmark.evaluation.annotations.table_readers import read_durations, seconds
from earmark.evaluation.benchmark import BenchmarkRow, rows_as_csv
from earmark.evaluation.benchmark_run import ROWS, BenchmarkDesign, Tasks, Watch, report, run
from earmark.evaluation.experiment_report import ExperimentReport, claim_folder
from earmark.evaluation.paper.downsampling import ScoredRecording, Unit, downsample_table
from earmark.evaluation.score_sources import (
    EVIDENCE,
    evidence_tasks,
    find_media,
    fingerprint,
    heard_fingerprint,
    listeners,
    media_tasks,
    open_media,
    split_for_fitting,
)
from earmark.evaluation.tables.figures import can_draw, png
from earmark.evaluation.tables.table import Table
from earmark.evaluation.tables.timeline_strip import (
    LENGTH,
    TimelineStrip,
    draw,
    make_strip,
    middle_minute,
    with_media,
)
from earmark.gate.score_cache import ScoreCache
from earmark.media import Recording, Source, open_recording
from earmark.pipeline.triage import hear, make_plan
from earmark.timeline import Span, Track
from earmark.version import VERSION


@dataclass(frozen=True, slots=True)
class EvaluationPlan:
    """Which recordings, whose marks, and what listens."""

    spans: tuple[Path, ...]
    spans_format: str | None = None
    durations: Path | None = None
    recordings: tuple[str, ...] = ()
    """The ones to evaluate; all that are annotated if none is named."""
    media: tuple[str, ...] = ()
    frontlines: tuple[str, ...] = ("auto",)
    evidence: tuple[Path, ...] = ()
    evidence_format: str | None = None
    allow_missing: bool = False
    downsample: bool = False
    development: tuple[str, ...] = ()
    """With media, the recordings that downsampling is chosen on."""
    strip: str | None = None
    """A recording to draw a minute of, `NAME` or `NAME@SECONDS`."""
    cache: Path | None = None


@dataclass(frozen=True, slots=True)
class Answer:
    """The rows of an evaluation and what they come to."""

    rows: tuple[BenchmarkRow, ...]
    outcome: ExperimentReport

    def rows_as_csv(self) -> str:
        """The rows as `per_recording.csv` holds them."""
        return rows_as_csv(self.rows)


@dataclass(frozen=True, slots=True, eq=False)
class _Ground:
    """Everything read before the first case is judged."""

    marked: Annotations
    """The recordings that are evaluated."""
    tasks: Tasks
    words: str
    """One line on where the scores come from."""
    everything: Annotations
    """The recordings that are annotated."""
    events: Annotations | None = None
    media: Mapping[str, Source] = field(default_factory=dict)
    scores: Callable[[str, tuple[str, ...]], Track] | None = None
    """The score track of a recording; from events, by a listener fitted on the named others."""
    left_out: tuple[str, ...] = ()
    """One line for each side on which recordings are missing."""
    sound: str | None = None
    """Tells one set of media and listeners from another; none where events stand in."""


def answer(
    question: EvaluationPlan,
    design: BenchmarkDesign,
    *,
    folder: Path | None = None,
    fresh: bool = False,
    watch: Watch | None = None,
) -> Answer:
    """Evaluate, and write the results into `folder` if there is one.

    Raises:
        AnnotationError: the annotations contradict themselves or the media.
        LedgerError: `folder` holds another run.
        ValueError: neither media nor evidence is given, or both are.
    """
    ground = _ground(question, design)
    if question.downsample:
        _development(question, ground)  # says what is missing before the work begins
    if question.strip:
        _minute(question.strip, ground.marked)
    settings = _settings(question, design, ground)
    if folder:
        claim_folder(folder, settings, fresh=fresh, rows=ROWS)
    ran = run(ground.tasks, design, folder=folder, watch=watch)
    about = (f"scores from {ground.words}", f"earmark {VERSION}, windows of {design.window:g} s")
    notes = (*about, *ground.left_out)
    outcome = report(ran, ground.marked, design, settings=settings, notes=notes)
    if question.downsample:
        more = _downsampling(question, design, ground)
        outcome = replace(outcome, tables=(*outcome.tables, *more))
    if question.strip and can_draw():
        caption = "One minute of the stream and the calls spent on it."
        strip = {"strip": (caption, lambda: png(draw(_strip(question, design, ground))))}
        outcome = replace(outcome, figures={**outcome.figures, **strip})
    if folder:
        outcome.write(folder)
    return Answer(ran.rows, outcome)


def _ground(question: EvaluationPlan, design: BenchmarkDesign) -> _Ground:
    """Read what is asked about."""
    if bool(question.media) == bool(question.evidence):
        raise ValueError("an evaluation needs --media to listen to or --evidence, and not both")
    table = read_durations(question.durations) if question.durations else {}
    marked = read_annotations(question.spans, format=question.spans_format, durations=table)
    return (_heard if question.media else _marked)(question, design, marked, table)


def _marked(
    question: EvaluationPlan,
    design: BenchmarkDesign,
    marked: Annotations,
    table: Mapping[str, float],
) -> _Ground:
    """Scores from annotated events."""
    events = read_annotations(question.evidence, format=question.evidence_format, durations=table)
    fitting = split_for_fitting(marked, question.recordings)
    silent = [name for name in fitting.evaluated if not events.recordings.get(name)]
    if silent and not question.allow_missing:
        heard = [name for name in fitting.evaluated if name not in set(silent)]
        reconcile(fitting.evaluated, heard, what="events")
    tasks = evidence_tasks(marked, events, fitting, window=design.window)
    words = f"annotated events, {fitting.words}"
    listener = listeners(marked, events, window=design.window)

    def scores(name: str, fitted: tuple[str, ...]) -> Track:
        heard = listener(fitted or fitting.fitted[name])
        windows = heard.windows(events.recordings.get(name, []), marked.durations[name])
        return Track(windows.scores, hop=design.window)

    unmarked = [name for name in events.recordings if name not in marked.recordings]
    left_out = (
        *_left_out("without events, so heard as silent", silent),
        *_left_out("with events and no annotations, not used", unmarked),
    )
    chosen = marked.only(fitting.evaluated)
    return _Ground(chosen, tasks, words, marked, events, scores=scores, left_out=left_out)


def _heard(
    question: EvaluationPlan,
    design: BenchmarkDesign,
    marked: Annotations,
    table: Mapping[str, float],
) -> _Ground:
    """Scores from media that are listened to."""
    media = find_media(question.media)
    opened, left_out = _open(question, marked, media)
    lengths = {**table, **{name: recording.duration for name, recording in opened.items()}}
    read = read_annotations(
        question.spans, format=question.spans_format, durations=lengths, duration_source="media"
    )
    chosen = question.recordings or tuple(marked.recordings)
    here = read.only(reconcile(chosen, opened, allow_missing=True))
    tasks = media_tasks(
        here,
        media,
        frontlines=question.frontlines,
        window=design.window,
        cache_folder=question.cache,
    )
    words = f"listening with {', '.join(question.frontlines)}"
    plan = make_plan(frontline=question.frontlines[0], window=design.window)
    kept = ScoreCache(question.cache) if question.cache else None

    def scores(name: str, _: tuple[str, ...]) -> Track:
        return hear(media[name], plan, cache=kept).heard.scores

    sound = heard_fingerprint({name: opened[name] for name in here.recordings}, question.frontlines)
    return _Ground(
        here, tasks, words, read, media=media, scores=scores, left_out=left_out, sound=sound
    )


def _open(
    question: EvaluationPlan, marked: Annotations, media: Mapping[str, Source]
) -> tuple[dict[str, Recording], tuple[str, ...]]:
    """The recordings to evaluate and to choose on, opened; and a line for every kind left out."""
    chosen = question.recordings or tuple(marked.recordings)
    marked.only(chosen)  # says which are not annotated
    astray = [n for n in question.development if n not in media or n not in marked.recordings]
    if astray:
        raise AnnotationError(
            f"--dev names {few(astray)}: no media, or no annotations, of that name"
        )
    unmarked = [] if question.recordings else [n for n in media if n not in marked.recordings]
    available = [*(name for name in chosen if name in media), *unmarked]
    both = reconcile(chosen, available, allow_missing=question.allow_missing)
    opened, broken = open_media(media, dict.fromkeys([*both, *question.development]))
    if broken and not question.allow_missing:
        reasons = few(broken.values(), most=10)
        raise AnnotationError(f"{reasons}: pass --allow-missing to evaluate the others")
    return opened, (
        *_left_out("annotated but without media, left out", [n for n in chosen if n not in media]),
        *_left_out("not annotated, left out", unmarked),
        *_left_out("whose media cannot be read, left out", list(broken.values())),
    )


def _left_out(why: str, names: Sequence[str]) -> tuple[str, ...]:
    """A line for the recordings that are missing; nothing if none is."""
    return (f"{counted(len(names), 'recording')} {why}: {few(names, most=10)}",) if names else ()


def _settings(question: EvaluationPlan, design: BenchmarkDesign, ground: _Ground) -> dict[str, Any]:
    """Every choice of the run; two runs with the same can share rows."""
    return {
        "experiment": "evaluate",
        **design.to_json(),
        "rules": list(design.rules),
        "budgets": list(design.budgets),
        "frontlines": list(question.frontlines) if question.media else [EVIDENCE],
        "recordings": list(ground.marked.recordings),
        "annotations": fingerprint(ground.everything),
        "evidence": fingerprint(ground.events) if ground.events else None,
        "sound": ground.sound,
        "earmark": VERSION,
    }


def _downsampling(
    question: EvaluationPlan, design: BenchmarkDesign, ground: _Ground
) -> list[Table]:
    """Downsampling, to save time and to save calls, chosen on recordings that are not evaluated.

    Where events stand in for the ear, those recordings too are scored by listeners that did not see
    them.
    """
    others = _development(question, ground)
    seen = split_for_fitting(ground.everything.only(others)).fitted if ground.events else {}
    development = [_scores(ground, name, seen.get(name, ())) for name in others]
    judged = [_scores(ground, name) for name in ground.marked.recordings]
    units: tuple[Unit, ...] = ("time", "calls")
    return [downsample_table(development, judged, window=design.window, unit=u) for u in units]


def _development(question: EvaluationPlan, ground: _Ground) -> list[str]:
    """The recordings to choose on."""
    if ground.events is not None:
        others = [n for n in ground.everything.recordings if n not in ground.marked.recordings]
    else:
        others = list(question.development)
    if not others:
        raise ValueError("--downsample needs recordings to choose on that are not evaluated: --dev")
    shared = [name for name in others if name in ground.marked.recordings]
    if shared:
        raise AnnotationError(f"{shared[0]} is both evaluated and chosen on (--dev)")
    return others


def _scores(ground: _Ground, name: str, fitted: tuple[str, ...] = ()) -> ScoredRecording:
    """The score track of one recording, with its actions."""
    assert ground.scores is not None
    actions, duration = ground.everything.recordings[name], ground.everything.durations[name]
    return ScoredRecording(name, ground.scores(name, fitted), duration, actions)


def _strip(question: EvaluationPlan, design: BenchmarkDesign, ground: _Ground) -> TimelineStrip:
    """The minute that was asked for; the middle one unless a time is given."""
    assert question.strip is not None
    name, span = _minute(question.strip, ground.marked)
    line = EVIDENCE if ground.events is not None else question.frontlines[0]
    drawn = make_strip(
        ground.tasks[line, name](),
        rule=design.subject,
        budget=design.shown,
        rounding=design.rounding,
        span=span,
        scores=_scores(ground, name).track,
    )
    return with_media(drawn, open_recording(ground.media[name])) if ground.media else drawn


def _minute(words: str, marked: Annotations) -> tuple[str, Span]:
    """The recording and the sixty seconds named by `NAME` or `NAME@SECONDS`."""
    name, at = (words, "") if words in marked.recordings else words.rpartition("@")[::2]
    name, at = (name, at) if name else (words, "")
    marked.only([name])
    duration = marked.durations[name]
    if not at:
        return name, middle_minute(duration)
    start = seconds(at)
    if not 0 <= start < duration:
        raise ValueError(f"--strip {words}: {at!r} is no time within the {duration:g} s of {name}")
    return name, Span(start, min(duration, start + LENGTH))
