"""`evaluate`: compares rules and frontlines on annotated recordings, from files to a report.

spans ──▶ annotations ──▶ score source ──▶ benchmark run ──▶ report ──▶ folder
          media or sound events ──┘
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any

from earmark.errors import AnnotationError, MediaError
from earmark.media import Recording, open_recording
from earmark.text_format import counted
from earmark.version import VERSION
from earmark_lab.annotations.actions import Annotations, find_media, list_few, reconcile
from earmark_lab.annotations.readers import read_annotations
from earmark_lab.annotations.table_readers import read_durations
from earmark_lab.experiments import benchmark
from earmark_lab.experiments.benchmark import BenchmarkDesign, BenchmarkRow, CaseProgress
from earmark_lab.experiments.coverage_tables import report_coverage
from earmark_lab.experiments.operating_points import UNITS, EpisodeTrial, points_table
from earmark_lab.experiments.report import Report, Table, claim_folder
from earmark_lab.experiments.score_sources import (
    FittedScores,
    MediaScores,
    ScoreSource,
    score_recordings,
    split_for_fitting,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class EvaluationPlan(BenchmarkDesign):
    """Sequences may be lists; a single file needs no list."""

    spans: tuple[Path, ...]
    durations: Path | None = None
    recordings: tuple[str, ...] = ()
    media: tuple[str, ...] = ()
    frontlines: tuple[str, ...] = ("auto",)
    sound_events: tuple[Path, ...] = ()
    allow_missing: bool = False
    development: tuple[str, ...] = ()
    """Other recordings, to choose episodes on; if any, episodes are evaluated at six recalls."""
    cache: Path | None = None

    def __post_init__(self) -> None:
        for name in ("spans", "sound_events", "media"):
            kind = str if name == "media" else Path
            object.__setattr__(self, name, tuple(map(kind, as_list(getattr(self, name)))))
        for name in ("rules", "budgets", "recordings", "frontlines", "development"):
            object.__setattr__(self, name, tuple(as_list(getattr(self, name))))
        for name in ("durations", "cache"):
            path = getattr(self, name)
            object.__setattr__(self, name, None if path is None else Path(path))
        super(EvaluationPlan, self).__post_init__()
        sources = bool(self.media) + bool(self.sound_events)
        if sources > 1 or not (sources or self.answers):
            raise ValueError(
                "an evaluation needs --media to listen to or --sound-events, and not both"
            )
        if self.media and not self.frontlines:
            raise ValueError("an evaluation of media needs at least one frontline")


def as_list(values: Any) -> list[Any]:
    return [values] if isinstance(values, str | Path) else list(values)


@dataclass(frozen=True, slots=True)
class EvaluationResult:
    plan: EvaluationPlan
    rows: tuple[BenchmarkRow, ...]
    report: Report

    def __repr__(self) -> str:
        recordings = counted(len({row.recording for row in self.rows}), "recording")
        return f"<EvaluationResult: {len(self.rows)} rows on {recordings}>"

    def to_json(self) -> dict[str, Any]:
        return self.report.to_json()

    def to_csv(self) -> str:
        return benchmark.rows_to_csv(self.rows)


def evaluate(
    spans: EvaluationPlan | str | Path | Sequence[str | Path],
    *,
    out: str | Path | None = None,
    progress: CaseProgress | None = None,
    **choices: Any,
) -> EvaluationResult:
    """Compare rules and frontlines on annotated recordings, in coverage and calls.

        evaluate("spans.csv", media="videos/", budgets=[0.1, 0.25], out="results/")

    Args:
        spans: Annotation files or folders, or a whole plan.
        out: A folder for tables, figures and one page; a stopped run is resumed from it.
        progress: Called before each recording.
        **choices: Fields of `EvaluationPlan`.

    Raises:
        AnnotationError: the annotations contradict themselves or the media.
        RunError: `out` holds another run.
        ValueError: neither media nor sound events are given, or both are.
    """
    plan = (
        replace(spans, **choices)
        if isinstance(spans, EvaluationPlan)
        else EvaluationPlan(spans=spans, **choices)  # type: ignore[arg-type]
    )
    folder = None if out is None else Path(out)
    source, left_out = open_score_source(plan)
    if shared := set(plan.development) & set(source.evaluated.recordings):
        raise AnnotationError(f"{min(shared)} is both evaluated and chosen on (--dev)")
    settings = _settings(plan, source)
    if folder:
        claim_folder(folder, settings)
    ran = benchmark.run(source.tasks(), plan, folder=folder, progress=progress)
    about = f"scores from {source.describe()}", f"earmark {VERSION}, windows of {plan.window:g} s"
    errors = source.forecast_errors if isinstance(source, MediaScores) else {}
    report = report_coverage(
        ran, source.evaluated, plan, settings=settings, notes=(*about, *left_out), errors=errors
    )
    if plan.development:
        report = replace(report, tables=(*report.tables, *_episode_tables(plan, source)))
    if folder:
        report.write(folder)
    return EvaluationResult(plan, tuple(ran.rows), report)


def open_score_source(plan: EvaluationPlan) -> tuple[ScoreSource, tuple[str, ...]]:
    """Also one line for every reason that recordings were left out."""
    durations = read_durations(plan.durations) if plan.durations else {}
    marked = read_annotations(plan.spans, durations=durations)
    if plan.media:
        return _open_media_source(plan, marked, durations)
    marked.only(plan.development)  # raises AnnotationError for recordings that are not annotated
    split = split_for_fitting(marked, plan.recordings)
    if not plan.sound_events:
        return FittedScores(marked, None, split, plan.window), ()
    events = read_annotations(plan.sound_events, durations=durations)
    silent = [name for name in split.evaluated if not events.recordings.get(name)]
    if silent and not plan.allow_missing:
        audible = [name for name in split.evaluated if name not in set(silent)]
        reconcile(split.evaluated, audible, what="events")
    unmarked = [name for name in events.recordings if name not in marked.recordings]
    return FittedScores(marked, events, split, plan.window), (
        *_left_out_note("without events, so heard as silent", silent),
        *_left_out_note("with events and no annotations, not used", unmarked),
    )


def _open_media_source(
    plan: EvaluationPlan, marked: Annotations, durations: Mapping[str, float]
) -> tuple[ScoreSource, tuple[str, ...]]:
    chosen = plan.recordings or tuple(marked.recordings)
    marked.only(chosen)  # raises AnnotationError for recordings that are not annotated
    media = find_media(plan.media, wanted={*chosen, *plan.development})
    unmarked = [] if plan.recordings else [n for n in media if n not in marked.recordings]
    available = [*(name for name in chosen if name in media), *unmarked]
    astray = [n for n in plan.development if n not in media or n not in marked.recordings]
    if astray:
        names = list_few(astray)
        raise AnnotationError(f"--dev names {names}: no media, or no annotations, of that name")
    both = reconcile(chosen, available, allow_missing=plan.allow_missing)
    opened: dict[str, Recording] = {}
    broken: dict[str, str] = {}
    for name in dict.fromkeys([*both, *plan.development]):
        try:
            opened[name] = open_recording(media[name])
        except MediaError as error:
            broken[name] = str(error)
    if broken and not plan.allow_missing:
        reasons = list_few(broken.values(), most=10)
        raise AnnotationError(f"{reasons}: pass --allow-missing to evaluate the others")
    lengths = {**durations, **{name: recording.duration for name, recording in opened.items()}}
    read = read_annotations(plan.spans, durations=lengths)
    here = read.only(reconcile(chosen, opened, allow_missing=True))
    return MediaScores(read, here, opened, plan.frontlines, plan.window, plan.cache), (
        *_left_out_note(
            "annotated but without media, left out", [n for n in chosen if n not in media]
        ),
        *_left_out_note("not annotated, left out", unmarked),
        *_left_out_note("whose media cannot be read, left out", list(broken.values())),
    )


def _left_out_note(why: str, names: Sequence[str]) -> tuple[str, ...]:
    return (
        (f"{counted(len(names), 'recording')} {why}: {list_few(names, most=10)}",) if names else ()
    )


def _settings(plan: EvaluationPlan, source: ScoreSource) -> dict[str, Any]:
    return {
        "experiment": "evaluate",
        **{field.name: getattr(plan, field.name) for field in fields(BenchmarkDesign)},
        "frontlines": source.frontlines,
        "recordings": list(source.evaluated.recordings),
        "annotations": source.annotations.fingerprint,
        **source.settings(),
        "earmark": VERSION,
    }


def _episode_tables(plan: EvaluationPlan, source: ScoreSource) -> list[Table]:
    judged, trials = list(source.evaluated.recordings), {}
    for line in source.frontlines:
        chosen = score_recordings(source, line, plan.development)
        trials[line] = EpisodeTrial(chosen, score_recordings(source, line, judged), plan.window)
    points = {line: trial.measure_points() for line, trial in trials.items()}
    note = f"Chosen on {counted(len(plan.development), 'other recording')}, unchanged on these."
    downsampled = map(trials[source.frontlines[0]].downsample_table, UNITS)
    return [points_table(points, note=note), *downsampled]
