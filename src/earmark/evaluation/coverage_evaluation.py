"""`evaluate`: compares rules and frontlines on annotated recordings, from files to a report.

spans ──▶ annotations ──▶ score source ──▶ benchmark run ──▶ report ──▶ folder
          media or sound events ──┘
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from earmark.errors import AnnotationError, MediaError
from earmark.evaluation import benchmark
from earmark.evaluation.annotations.actions import Annotations, list_few
from earmark.evaluation.annotations.media_match import find_media, reconcile
from earmark.evaluation.annotations.readers import read_annotations
from earmark.evaluation.annotations.table_readers import parse_time, read_durations
from earmark.evaluation.benchmark import BenchmarkDesign, BenchmarkRow, CaseProgress
from earmark.evaluation.experiment_report import Drawing, ExperimentReport, claim_folder
from earmark.evaluation.paper.operating_points import UNITS, EpisodeTrial, points_table
from earmark.evaluation.score_sources import (
    FittedScores,
    MediaScores,
    ScoreSource,
    score_recordings,
    split_for_fitting,
)
from earmark.evaluation.tables import timeline_strip
from earmark.evaluation.tables.coverage_tables import report_coverage
from earmark.evaluation.tables.table import Table
from earmark.media import Recording, open_recording
from earmark.reporting.text_format import counted
from earmark.timeline import Span
from earmark.version import VERSION

if TYPE_CHECKING:
    from matplotlib.figure import Figure


@dataclass(frozen=True, slots=True, kw_only=True)
class EvaluationPlan(BenchmarkDesign):
    """Every setting of an evaluation: recordings, annotations, frontlines and comparisons.

    Sequences may be lists; a single file needs no list.
    """

    spans: tuple[Path, ...]
    """Annotation files, or folders of them."""
    spans_format: str | None = None
    """A name of `READERS`; None detects the format from the content."""
    durations: Path | None = None
    """A CSV with columns recording and duration."""
    recordings: tuple[str, ...] = ()
    """Recordings to evaluate; all annotated ones if empty."""
    media: tuple[str, ...] = ()
    """Files or folders to listen to."""
    frontlines: tuple[str, ...] = ("auto",)
    sound_events: tuple[Path, ...] = ()
    """Annotated sound events, in place of media."""
    sound_events_format: str | None = None
    allow_missing: bool = False
    """Evaluate recordings that have both media and annotations, and leave out the rest."""
    downsample: bool = False
    """Also test sparse looks where the gate keeps nothing."""
    operating_points: bool = False
    """Also measure the time, recall and calls of each frontline's episodes at six recalls."""
    development: tuple[str, ...] = ()
    """With media, the recordings on which downsampling and operating points are chosen."""
    strip: str | None = None
    """A recording to draw a minute of, `NAME` or `NAME@SECONDS`."""
    cache: Path | None = None

    def __post_init__(self) -> None:
        for name in ("spans", "sound_events", "media"):
            kind = str if name == "media" else Path
            object.__setattr__(self, name, tuple(map(kind, as_list(getattr(self, name)))))
        for name in ("rules", "budgets", "recordings", "frontlines", "development"):
            object.__setattr__(self, name, tuple(as_list(getattr(self, name))))
        for name in ("durations", "cache"):
            given = getattr(self, name)
            object.__setattr__(self, name, None if given is None else Path(given))
        super(EvaluationPlan, self).__post_init__()
        heard = bool(self.media) + bool(self.sound_events)
        if heard > 1 or not (heard or self.answers):
            raise ValueError(
                "an evaluation needs --media to listen to or --sound-events, and not both"
            )
        if self.media and not self.frontlines:
            raise ValueError("an evaluation of media needs at least one frontline")
        if self.placement == "free" and not self.media:
            raise ValueError("--placement free needs --media to listen to: events score windows")

    def to_json(self) -> dict[str, Any]:
        """The plan as JSON values; `EvaluationPlan(**values)` restores it."""
        plain: dict[str, Any] = json.loads(json.dumps(asdict(self), default=str))
        return plain


def as_list(given: Any) -> list[Any]:
    """One value or many, as a list."""
    return [given] if isinstance(given, str | Path) else list(given)


@dataclass(frozen=True, slots=True)
class EvaluationResult:
    """The rows of an evaluation, and the report made from them."""

    plan: EvaluationPlan
    rows: tuple[BenchmarkRow, ...]
    """One for each recording, frontline, rule and budget."""
    report: ExperimentReport

    def __repr__(self) -> str:
        recordings = counted(len({row.recording for row in self.rows}), "recording")
        return f"<EvaluationResult: {len(self.rows)} rows on {recordings}>"

    def to_json(self) -> dict[str, Any]:
        """Settings, notes and tables as plain values."""
        return self.report.to_json()

    def to_csv(self) -> str:
        """The rows in the format of `per_recording.csv`."""
        return benchmark.rows_to_csv(BenchmarkRow, self.rows)

    def _repr_html_(self) -> str:
        return "".join(table.to_html() for table in self.report.tables)


def evaluate(
    spans: EvaluationPlan | str | Path | Sequence[str | Path],
    *,
    out: str | Path | None = None,
    fresh: bool = False,
    progress: CaseProgress | None = None,
    **choices: Any,
) -> EvaluationResult:
    """Compare rules and frontlines on annotated recordings, in coverage and calls.

        evaluate("spans.csv", media="videos/", budgets=[0.1, 0.25], out="results/")

    Args:
        spans: Annotation files or folders, or a whole plan.
        out: A folder for tables, figures and one page; a stopped run is resumed from it.
        fresh: Replace what another run left in `out`.
        progress: Called before each recording.
        **choices: Fields of `EvaluationPlan`.

    Raises:
        AnnotationError: the annotations contradict themselves or the media.
        LedgerError: `out` holds another run.
        ValueError: neither media nor sound events are given, or both are.
    """
    plan = (
        replace(spans, **choices)
        if isinstance(spans, EvaluationPlan)
        else EvaluationPlan(spans=spans, **choices)  # type: ignore[arg-type]
    )
    folder = None if out is None else Path(out)
    source, left_out = open_score_source(plan)
    chooses = plan.downsample or plan.operating_points
    development = _development_recordings(plan, source) if chooses else []
    minute = _parse_strip(plan.strip, source.evaluated) if plan.strip else None
    settings = _settings(plan, source)
    if folder:
        claim_folder(folder, settings, fresh=fresh, rows=benchmark.ROWS)
    ran = benchmark.run(source.tasks(), plan, folder=folder, progress=progress)
    about = f"scores from {source.describe()}", f"earmark {VERSION}, windows of {plan.window:g} s"
    notes = (*about, *left_out)
    errors = source.forecast_errors if isinstance(source, MediaScores) else {}
    report = report_coverage(
        ran, source.evaluated, plan, settings=settings, notes=notes, errors=errors
    )
    more = _episode_tables(plan, source, development) if chooses else []
    drawn = _strip_figure(plan, source, *minute) if minute else ()
    report = replace(report, tables=(*report.tables, *more), figures=(*report.figures, *drawn))
    if folder:
        report.write(folder)
    return EvaluationResult(plan, tuple(ran.rows), report)


def open_score_source(plan: EvaluationPlan) -> tuple[ScoreSource, tuple[str, ...]]:
    """The source of the scores, and one line for every reason that recordings were left out."""
    durations = read_durations(plan.durations) if plan.durations else {}
    marked = read_annotations(plan.spans, format=plan.spans_format, durations=durations)
    if plan.media:
        return _open_media_source(plan, marked, durations)
    split = split_for_fitting(marked, plan.recordings)
    if not plan.sound_events:
        return FittedScores(marked, None, split, plan.window), ()
    events = read_annotations(
        plan.sound_events, format=plan.sound_events_format, durations=durations
    )
    silent = [name for name in split.evaluated if not events.recordings.get(name)]
    if silent and not plan.allow_missing:
        heard = [name for name in split.evaluated if name not in set(silent)]
        reconcile(split.evaluated, heard, what="events")
    unmarked = [name for name in events.recordings if name not in marked.recordings]
    return FittedScores(marked, events, split, plan.window), (
        *_left_out_note("without events, so heard as silent", silent),
        *_left_out_note("with events and no annotations, not used", unmarked),
    )


def _open_media_source(
    plan: EvaluationPlan, marked: Annotations, durations: Mapping[str, float]
) -> tuple[ScoreSource, tuple[str, ...]]:
    """Scores from listening to media; the lengths of the media override all others."""
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
    read = read_annotations(plan.spans, format=plan.spans_format, durations=lengths)
    here = read.only(reconcile(chosen, opened, allow_missing=True))
    heard = (opened, plan.frontlines, plan.window, plan.cache)
    return MediaScores(read, here, *heard, placement=plan.placement), (
        *_left_out_note(
            "annotated but without media, left out", [n for n in chosen if n not in media]
        ),
        *_left_out_note("not annotated, left out", unmarked),
        *_left_out_note("whose media cannot be read, left out", list(broken.values())),
    )


def _left_out_note(why: str, names: Sequence[str]) -> tuple[str, ...]:
    """One line about the recordings left out; empty if there are none."""
    return (
        (f"{counted(len(names), 'recording')} {why}: {list_few(names, most=10)}",) if names else ()
    )


def _settings(plan: EvaluationPlan, source: ScoreSource) -> dict[str, Any]:
    """Every setting of the run and a hash of its data; runs with equal settings share rows."""
    return {
        "experiment": "evaluate",
        **{each.name: getattr(plan, each.name) for each in fields(BenchmarkDesign)},
        "frontlines": source.frontlines,
        "recordings": list(source.evaluated.recordings),
        "annotations": source.annotations.fingerprint,
        **source.settings(),
        "earmark": VERSION,
    }


def _development_recordings(plan: EvaluationPlan, source: ScoreSource) -> list[str]:
    """The recordings on which episodes are chosen; none of them is evaluated."""
    others = list(plan.development)
    if plan.sound_events:
        others = [n for n in source.annotations.recordings if n not in source.evaluated.recordings]
    if not others:
        asked = "--operating-points" if plan.operating_points else "--downsample"
        raise ValueError(f"{asked} needs recordings to choose on that are not evaluated: --dev")
    shared = [name for name in others if name in source.evaluated.recordings]
    if shared:
        raise AnnotationError(f"{shared[0]} is both evaluated and chosen on (--dev)")
    return others


def _episode_tables(
    plan: EvaluationPlan, source: ScoreSource, development: Sequence[str]
) -> list[Table]:
    """Tables of operating points and of downsampling for time and for calls, as requested."""
    judged, trials = list(source.evaluated.recordings), {}
    for line in source.frontlines:
        sets = score_recordings(source, line, development), score_recordings(source, line, judged)
        trials[line] = EpisodeTrial(*sets, plan.window)
    tables: list[Table] = []
    if plan.operating_points:
        points = {line: trial.measure_points() for line, trial in trials.items()}
        note = f"Chosen on {counted(len(development), 'other recording')}, unchanged on these."
        tables.append(points_table(points, note=note))
    if plan.downsample:
        tables += map(trials[source.frontlines[0]].downsample_table, UNITS)
    return tables


def _strip_figure(
    plan: EvaluationPlan, source: ScoreSource, name: str, span: Span
) -> tuple[Drawing]:
    """The figure of the requested minute, with sound and pictures where there are media."""

    def draw() -> Figure:
        case = source.tasks()[source.frontlines[0], name]()
        strip = timeline_strip.make_strip(case, plan, span=span, scores=source.track(name))
        recordings = source.recordings if isinstance(source, MediaScores) else {}
        strip = timeline_strip.add_media(strip, recordings[name]) if recordings else strip
        return timeline_strip.draw_strip(strip)

    return (Drawing("strip", "One minute of the stream and the calls spent on it.", draw),)


def _parse_strip(words: str, marked: Annotations) -> tuple[str, Span]:
    """The recording and the sixty seconds that `NAME` or `NAME@SECONDS` refer to."""
    name, at = (words, "") if words in marked.recordings else words.rpartition("@")[::2]
    name, at = (name, at) if name else (words, "")
    marked.only([name])
    duration = marked.durations[name]
    if not at:
        return name, timeline_strip.middle_minute(duration)
    start = parse_time(at)
    if not 0 <= start < duration:
        raise ValueError(f"--strip {words}: {at!r} is no time within the {duration:g} s of {name}")
    return name, Span(start, min(duration, start + timeline_strip.LENGTH))
