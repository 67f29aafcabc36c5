"""`earmark evaluate`, `occupancy` and `cost`: whether triage pays, on anyone's recordings."""

from __future__ import annotations

import csv
import sys
from collections.abc import Sequence
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from earmark.cli import options
from earmark.cli.checkpoints import with_checkpoints
from earmark.cli.console import emit_json, err, out, progress_bar, warn
from earmark.errors import AnnotationError
from earmark.evaluate import cost as costs
from earmark.evaluate import occupancy as occupancies
from earmark.evaluate import study
from earmark.evaluate.bench import BUDGETS, RULES, read_rows
from earmark.evaluate.figures import can_draw
from earmark.evaluate.formats import FORMATS, read_annotations
from earmark.evaluate.outcome import Outcome
from earmark.evaluate.published import RECORDINGS
from earmark.evaluate.results import Results
from earmark.evaluate.run import Design
from earmark.evaluate.sheets import read_durations
from earmark.gate.registry import FRONTLINES

BUDGET_WORDS = ",".join(f"{100 * share:g}" for share in BUDGETS)
WINDOW_WORDS = ",".join(f"{seconds:g}" for seconds in occupancies.WINDOWS)


class Format(StrEnum):
    """How results are printed."""

    markdown = "markdown"
    json = "json"
    csv = "csv"


class Shown(StrEnum):
    """How tables are printed."""

    markdown = "markdown"
    json = "json"


Spans = Annotated[list[Path], typer.Argument(help="Annotation files, or folders of them.")]
Lengths = Annotated[
    Path | None, typer.Option("--durations", help="CSV with columns recording and duration.")
]
SpansFormat = Annotated[
    str | None,
    typer.Option("--spans-format", help=f"If not found by itself: {', '.join(FORMATS)}."),
]
Evidence = Annotated[
    list[Path] | None,
    typer.Option("--evidence", help="Annotated sound events, in place of audio scores."),
]
EvidenceFormat = Annotated[
    str | None, typer.Option("--evidence-format", help="As --spans-format, for --evidence.")
]
Chosen = Annotated[
    str | None,
    typer.Option(
        "--recordings",
        help=f"Evaluate these alone: names, a file of names, or {', '.join(RECORDINGS)}.",
    ),
]
Out = Annotated[Path | None, typer.Option("--out", "-o", help="Folder for tables and figures.")]
Fresh = Annotated[bool, typer.Option("--fresh", help="Replace what another run left in --out.")]


def evaluate(
    spans: Spans,
    media: Annotated[
        list[str] | None, typer.Option("--media", "-m", help="Files or folders to listen to.")
    ] = None,
    evidence: Evidence = None,
    durations: Lengths = None,
    spans_format: SpansFormat = None,
    evidence_format: EvidenceFormat = None,
    recordings: Chosen = None,
    frontlines: Annotated[
        str,
        typer.Option(
            "--frontlines",
            "-f",
            help=f"With commas: {', '.join(FRONTLINES)}.",
            callback=with_checkpoints,
        ),
    ] = "auto",
    rules: Annotated[
        str, typer.Option("--rules", "-r", help=f"With commas: {', '.join(RULES)}.")
    ] = ",".join(RULES),
    budgets: Annotated[
        str, typer.Option("--budgets", "-b", help="Per cent of the windows, with commas.")
    ] = BUDGET_WORDS,
    window: options.WindowLength = 4.0,
    subject: Annotated[str, typer.Option(help="The rule compared with all others.")] = "coverage",
    baseline: Annotated[str, typer.Option(help="The rule savings are measured by.")] = "uniform",
    floor: Annotated[
        bool, typer.Option("--floor", help="Round calls down, not to the nearest number.")
    ] = False,
    downsample: Annotated[
        bool, typer.Option("--downsample", help="Also try looks where a gate keeps nothing.")
    ] = False,
    dev: Annotated[
        str | None, typer.Option("--dev", help="With --downsample and --media: names to choose on.")
    ] = None,
    strip: Annotated[
        str | None, typer.Option("--strip", help="Recording to draw, or NAME@SECONDS.")
    ] = None,
    allow_missing: Annotated[
        bool, typer.Option("--allow-missing", help="Evaluate what has both media and spans.")
    ] = False,
    output: Out = None,
    fresh: Fresh = False,
    format: Annotated[Format, typer.Option(help="How to print the results.")] = Format.markdown,
    cache: options.CacheFolder = None,
    no_cache: options.NoCache = False,
) -> None:
    """Compare rules and frontlines on annotated recordings, in coverage and calls.

    Give --media to listen, or --evidence to let annotated sound events stand in for the ear: a
    small regression fitted on recordings that are not evaluated. With --out a run that was stopped
    goes on where it was, and leaves CSV, Markdown, PNG and one HTML page.

    For example:

      earmark evaluate spans.csv --media videos/ --budgets 10,25,50 --out results/

      earmark evaluate EPIC_100_validation.csv --durations EPIC_100_video_info.csv
      --evidence EPIC_Sounds_validation.csv --recordings paper --out results/
    """
    design = Design(
        rules=tuple(_words(rules)),
        budgets=tuple(_share(word) for word in _words(budgets)),
        window=window,
        subject=subject,
        baseline=baseline,
        rounding="floor" if floor else "round",
    )
    heard = options.cache_at(cache, no_cache)
    question = study.Question(
        spans=tuple(spans),
        spans_format=spans_format,
        durations=durations,
        recordings=tuple(_names(recordings)),
        media=tuple(media or ()),
        frontlines=tuple(_words(frontlines)),
        evidence=tuple(evidence or ()),
        evidence_format=evidence_format,
        allow_missing=allow_missing,
        downsample=downsample,
        development=tuple(_names(dev)),
        strip=strip,
        cache=heard.folder if heard else None,
    )
    with progress_bar("recordings") as bar:
        task = bar.add_task("evaluating", total=None)

        def watch(done: int, total: int, name: str) -> None:
            bar.update(task, completed=done, total=total, description=name)

        answer = study.answer(question, design, folder=output, fresh=fresh, watch=watch)
    if format is Format.csv:
        sys.stdout.write(answer.rows_as_csv())
    else:
        _show(answer.outcome, Shown(format.value), output)


def occupancy(
    sets: Annotated[
        list[str],
        typer.Argument(help="[NAME=]PATH[#FORMAT][@SET] of annotations, one a data set."),
    ],
    durations: Lengths = None,
    window: options.WindowLength = 4.0,
    windows: Annotated[
        str, typer.Option("--windows", help="Seconds of a window to try, with commas.")
    ] = WINDOW_WORDS,
    results: Annotated[
        Path | None,
        typer.Option("--results", help="per_recording.csv of the first set, for its gains."),
    ] = None,
    evidence: Evidence = None,
    evidence_format: EvidenceFormat = None,
    recordings: Chosen = None,
    output: Out = None,
    format: Annotated[Shown, typer.Option(help="How to print the tables.")] = Shown.markdown,
) -> None:
    """Say how full recordings are: the room a frontline has before one is chosen.

    With --evidence the window sweep also says what rules gain at each length, on the first set.

    For example:

      earmark occupancy spans.csv labels/ --durations lengths.csv

      earmark occupancy EPIC=EPIC_100_validation.csv@paper goalstep_valid.json --out occupancy/
    """
    lengths = read_durations(durations) if durations else None
    found = occupancies.read_data_sets(sets, durations=lengths)
    tried = [float(word) for word in _words(windows)]
    more = []
    if evidence:
        everything = study.whole_of(sets[0], durations=lengths)
        events = read_annotations(evidence, format=evidence_format, durations=lengths)
        names = _names(recordings) or list(found[0].annotations.recordings)
        evaluated = names if len(names) < len(everything.recordings) else []
        gains = occupancies.gain_sweep(everything, events, evaluated=evaluated, windows=tried)
        more.append(gains)
    rows = read_rows(results) if results else []
    outcome = occupancies.report(found, window=window, windows=tried, rows=rows, more=more)
    if output:
        outcome.write(output)
    _show(outcome, format, output)


def cost(
    hours: Annotated[float, typer.Option(help="Hours of recordings.")] = 1000.0,
    window: options.WindowLength = 4.0,
    call: Annotated[float, typer.Option(help="GPU-seconds of one call.")] = 0.74,
    tokens: Annotated[int, typer.Option(help="Visual tokens of that call.")] = 1024,
    overhead: Annotated[float, typer.Option(help="GPU-seconds of it that stay.")] = 0.0,
    audio_speed: Annotated[float, typer.Option(help="Times real time, listening.")] = 178.0,
    visual_speed: Annotated[float, typer.Option(help="Times real time, looking.")] = 8.6,
    visual_share: Annotated[float, typer.Option(help="Calls after looking, %.")] = 50.0,
    gpu_hour: Annotated[float, typer.Option(help="Money for a GPU-hour.")] = 2.0,
    results: Annotated[
        Path | None, typer.Option("--results", help="per_recording.csv, for coverage.")
    ] = None,
    naming: Annotated[
        Path | None, typer.Option("--naming", help="CSV: tokens, and accuracy in %.")
    ] = None,
    output: Out = None,
    format: Annotated[Shown, typer.Option(help="How to print the tables.")] = Shown.markdown,
) -> None:
    """Say what a full scan, triage and a visual frontline cost, in GPU-hours and money.

    The defaults are the paper's, measured on a V100; put in your own.

    For example:

      earmark cost --hours 5000 --call 0.4 --gpu-hour 1.8 --results results/per_recording.csv
    """
    prices = costs.Prices(
        hours=hours,
        window=window,
        call=call,
        tokens=tokens,
        overhead=overhead,
        audio_speed=audio_speed,
        visual_speed=visual_speed,
        visual_share=visual_share / 100,
        gpu_hour=gpu_hour,
    )
    reached = Results.of_rows(read_rows(results)) if results else None
    outcome = costs.report(prices, reached, _naming(naming) if naming else None)
    if output:
        outcome.write(output)
    _show(outcome, format, output)


def _show(outcome: Outcome, format: Shown, folder: Path | None) -> None:
    """Print an outcome, and where it was written."""
    if format is Shown.json:
        emit_json(outcome.to_json())
    else:
        out.print(outcome.to_markdown())
    if not can_draw():
        warn("figures are left out, they need Matplotlib: pip install 'earmark[evaluate]'")
    if folder:
        err.print(f"written to {folder}: open {folder / 'index.html'}")


def _words(text: str) -> list[str]:
    """The words between commas."""
    return [word.strip() for word in text.split(",") if word.strip()]


def _share(word: str) -> float:
    """A per cent as a share."""
    try:
        return round(float(word.removesuffix("%")) / 100, 9)
    except ValueError:
        raise ValueError(
            f"{word!r} is no budget: write per cent of the windows, as 5,10,25"
        ) from None


def _names(text: str | None) -> Sequence[str]:
    """Recordings by name: a named set, a file with one a line, or words between commas."""
    if text is None:
        return []
    if text in RECORDINGS:
        return RECORDINGS[text]
    path = Path(text)
    return path.read_text(encoding="utf-8").split() if path.is_file() else _words(text)


def _naming(path: Path) -> dict[int, float]:
    """Naming accuracy in per cent by visual tokens."""
    try:
        with path.open(encoding="utf-8-sig", newline="") as file:
            return {int(row["tokens"]): float(row["accuracy"]) for row in csv.DictReader(file)}
    except (OSError, KeyError, ValueError) as error:
        raise AnnotationError(f"{path} needs the columns tokens and accuracy: {error}") from error
