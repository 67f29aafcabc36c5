"""`earmark lab evaluate`, `captions`, `occupancy` and `cost`; and values that commands share."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Sequence
from contextlib import suppress
from dataclasses import fields
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from earmark.captioning.captioner import make_captioner
from earmark.cli.options import api_key
from earmark.gate.frontline import FRONTLINES, with_checkpoints
from earmark.gate.listener import cache_at
from earmark.report.console import (
    Format,
    emit,
    emit_json,
    err,
    out,
    print_table,
    progress_bar,
    warn,
)
from earmark.text_format import counted
from earmark_lab.experiments.benchmark import BUDGETS, COMPARED
from earmark_lab.experiments.occupancy_and_cost import WINDOWS, measure_occupancy
from earmark_lab.experiments.paper import RECORDINGS
from earmark_lab.experiments.report import Report, can_draw

if TYPE_CHECKING:
    from earmark.captioning.captioner import Captioner

Out = Annotated[Path | None, typer.Option("--out", "-o", help="Folder for tables and figures.")]
TableFormat = Annotated[
    Literal["markdown", "json"], typer.Option("--format", help="Output format.")
]
Budgets = Annotated[
    str, typer.Option("--budgets", "-b", help="Budgets in per cent of the windows, with commas.")
]
WINDOW_WORDS = ",".join(f"{seconds:g}" for seconds in WINDOWS)
BUDGET_WORDS = ",".join(f"{100 * share:g}" for share in BUDGETS)
Durations = Annotated[
    Path | None, typer.Option(help="CSV of lengths, with the columns recording and duration.")
]
Media = Annotated[
    list[str] | None, typer.Option("--media", "-m", help="Recordings: files or folders.")
]
WindowLength = Annotated[
    float, typer.Option("--window", "-w", help="Length of a window in seconds.")
]
CacheFolder = Annotated[
    Path | None,
    typer.Option(
        "--cache", help="Folder that caches what was heard.", show_default="~/.cache/earmark"
    ),
]
Set = Annotated[
    list[str] | None,
    typer.Option("--set", metavar="NAME=VALUE", help="Change one setting; repeat for several."),
]
Model = Annotated[
    str | None, typer.Option(help="Vision model to ask: http://HOST/v1#NAME or gguf:FILE.")
]


def evaluate(
    spans: Annotated[
        list[Path], typer.Argument(help="Annotation files or folders: PATH or PATH#FORMAT.")
    ],
    media: Media = None,
    sound_events: Annotated[
        list[Path] | None, typer.Option(help="Annotated sound events to use in place of audio.")
    ] = None,
    durations: Durations = None,
    recordings: Annotated[
        str | None,
        typer.Option(help=f"Only these: names, a file of names, or {', '.join(RECORDINGS)}."),
    ] = None,
    frontlines: Annotated[
        str,
        typer.Option(
            "--frontlines",
            "-f",
            help=f"Frontlines, with commas: {', '.join(FRONTLINES)}.",
            callback=with_checkpoints,
        ),
    ] = "auto",
    rules: Annotated[
        str, typer.Option("--rules", "-r", help=f"Rules, with commas: {', '.join(COMPARED)}.")
    ] = ",".join(COMPARED),
    budgets: Budgets = BUDGET_WORDS,
    window: WindowLength = 4.0,
    answers: Annotated[
        str | None,
        typer.Option(
            help="Simulate the model from the annotations and ask in rounds: perfect, noisy, or "
            "noisy:missed=0.2,invented=0.05,renamed=0.3,seed=0."
        ),
    ] = None,
    dev: Annotated[
        str | None,
        typer.Option(help="Other recordings, to choose episodes on; evaluates episodes too."),
    ] = None,
    allow_missing: Annotated[
        bool, typer.Option("--allow-missing", help="Skip recordings without media or annotations.")
    ] = False,
    output: Out = None,
    format: Annotated[
        Literal["markdown", "json", "csv"], typer.Option(help="Output format.")
    ] = "markdown",
    cache: CacheFolder = None,
) -> None:
    """Compare rules and frontlines on annotated recordings: coverage against calls.

    Give --media to score the sound. Or give --sound-events to score by annotated
    sound events, with a small regression fitted on recordings that are not
    evaluated. With --answers the model is simulated from the annotations and
    rounds are measured; no sound is needed then. With --out a stopped run
    continues, and the folder gets CSV, Markdown, PNG and one HTML page.

    For example:

      earmark lab evaluate spans.csv --media videos/ --budgets 10,25,50 --out results/

      earmark lab evaluate spans.csv --media videos/ -f my.gate,energy --dev dev.txt

      earmark lab evaluate goalstep_valid.json#goalstep-substeps --answers noisy

      earmark lab evaluate EPIC_100_validation.csv --sound-events EPIC_Sounds_validation.csv
    """
    from earmark_lab.experiments.coverage_evaluation import EvaluationPlan
    from earmark_lab.experiments.coverage_evaluation import evaluate as compare

    scores = cache_at(cache, False)
    plan = EvaluationPlan(
        spans=tuple(spans),
        media=tuple(media or ()),
        sound_events=tuple(sound_events or ()),
        durations=durations,
        recordings=tuple(names(recordings)),
        frontlines=tuple(words(frontlines)),
        rules=tuple(words(rules)),
        budgets=tuple(shares(budgets)),
        window=window,
        answers=answers,
        development=tuple(names(dev)),
        allow_missing=allow_missing,
        cache=scores.folder if scores else None,
    )
    with progress_bar("recordings", "evaluating") as progress:
        result = compare(plan, out=output, progress=progress)
    if format == "csv":
        emit(result.to_csv())
    else:
        show(result.report, format, output)


def captions(
    actions: Annotated[
        Path, typer.Argument(help="CSV of actions: recording, start, end, noun, verb.")
    ],
    media: Annotated[
        list[str], typer.Option("--media", "-m", help="Recordings: files or folders.")
    ],
    nouns: Annotated[Path, typer.Option(help="CSV of noun classes: key and instances.")],
    verbs: Annotated[Path, typer.Option(help="CSV of verb classes: key and instances.")],
    model: Annotated[
        list[str] | None,
        typer.Option(help="Vision model to ask: http://HOST/v1#NAME or gguf:FILE. Repeat it."),
    ] = None,
    variants: Annotated[
        str, typer.Option(help="Other ways to ask, with commas: hands, sounds, or visual tokens.")
    ] = "",
    stimuli: Annotated[int, typer.Option(min=1, help="Actions to draw at random.")] = 200,
    log: Annotated[
        Path | None,
        typer.Option("--out", help="JSONL file of all captions; an existing file is continued."),
    ] = None,
    format: Annotated[Format, typer.Option(help="Output format.")] = Format.table,
) -> None:
    """Measure how often captions name annotated actions, for several ways to ask.

    The full frame at the middle of each action is compared with a crop around
    the hands, with a prompt that names the sounds, and with other token counts,
    always on the same actions. Several models are asked about the same actions
    and compared: naming, agreement, and the cost of a correct caption. With
    --out every answer is stored as it arrives, and the same command asks only
    what is missing.

    For example:

      earmark lab captions marks.csv -m videos/ --nouns n.csv --verbs v.csv --model gguf:model.gguf
    """
    from earmark_lab.experiments import caption_comparison
    from earmark_lab.experiments.caption_comparison import captions_table
    from earmark_lab.experiments.captions import CaptionLog

    chosen = caption_comparison.list_variants(words(variants))
    most = max(variant.tokens for variant in chosen)
    captioners = [open_captioner(name, most) for name in model or [""]]
    with progress_bar("asked", "listening" if "sounds" in words(variants) else "") as advance:
        order = [variant.name for variant in chosen]
        answers = CaptionLog.open(log) if log else CaptionLog()

        def progress(asked: int, name: str, done: int, total: int) -> None:
            place = asked * len(order) + order.index(name)
            advance(place * total + done, len(captioners) * len(order) * total, name)

        tools = [
            caption_comparison.CaptionTools(each, log=answers, progress=partial(progress, number))
            for number, each in enumerate(captioners)
        ]
        scores = caption_comparison.evaluate_captions(
            actions, media, tools, nouns=nouns, verbs=verbs, variants=chosen, stimuli=stimuli
        )
    if format is Format.json:
        emit_json([score.to_json() for score in scores])
    else:
        tables = (f(scores) for f in (captions_table, caption_comparison.agreement_table))
        for table in filter(None, tables):
            rows = [[*map(table.text, row)] for row in table.rows]
            print_table(table.columns, rows, words=table.columns[:2])
    failures = Counter(reason for score in scores for reason in score.failures)
    for reason, count in failures.most_common(5):
        err.print(f"earmark: {counted(count, 'call')} failed: {reason}", style="red")


def ratings(
    runs: Annotated[list[Path], typer.Argument(help="Runs, or folders of runs.")],
    output: Out = None,
    format: TableFormat = "markdown",
) -> None:
    """Show what people said about captions: shares by model, and how far raters agree.

    Two people rate the captions of one or several runs in `earmark serve`, at
    /rate, without seeing which model wrote them. This prints the share of
    captions that are right, partly right and wrong, and Cohen's kappa with an
    interval.

    For example:

      earmark lab ratings runs/ --out ratings/
    """
    from earmark_lab.experiments.ratings import report_ratings

    report = report_ratings(runs)
    if output:
        report.write(output)
    show(report, format, output)


def occupancy(
    sets: Annotated[
        list[str],
        typer.Argument(help="Annotations of one data set each: [NAME=]PATH[#FORMAT][@SET]."),
    ],
    durations: Durations = None,
    windows: Annotated[
        str, typer.Option(help="Window lengths to compare in seconds, with commas.")
    ] = WINDOW_WORDS,
    output: Out = None,
    format: TableFormat = "markdown",
) -> None:
    """Measure how many windows touch an action: the room that any frontline has.

    For example:

      earmark lab occupancy spans.csv labels/ --durations lengths.csv

      earmark lab occupancy EPIC=EPIC_100_validation.csv@paper goalstep_valid.json --out occupancy/
    """
    lengths = numbers(windows, what="length of a window: write seconds, as 2,4,8")
    report = measure_occupancy(sets, durations=durations, windows=lengths, out=output)
    show(report, format, output)


def cost(
    hours: Annotated[float, typer.Option(help="Hours of recordings.")] = 1000.0,
    call: Annotated[float, typer.Option(help="GPU-seconds per call.")] = 0.74,
    gpu_hour: Annotated[float, typer.Option(help="Price of a GPU-hour, in any currency.")] = 2.0,
    settings: Set = None,
    budgets: Budgets = BUDGET_WORDS,
    results: Annotated[
        Path | None, typer.Option(help="per_recording.csv of `evaluate`, to add coverage.")
    ] = None,
    naming: Annotated[
        Path | None, typer.Option(help="CSV with the columns tokens, and accuracy in per cent.")
    ] = None,
    output: Out = None,
    format: TableFormat = "markdown",
) -> None:
    """Compute the GPU-hours and money of a full scan, of triage and of a visual frontline.

    The defaults are the paper's, measured on a V100; give your own. With --set:
    window, tokens, overhead, audio_speed, visual_speed, visual_share. Nothing is
    measured here: the result is a formula of the options.

    For example:

      earmark lab cost --hours 5000 --call 0.4 --gpu-hour 1.8 --results results/per_recording.csv
    """
    from earmark_lab.experiments.occupancy_and_cost import CostModel, estimate_cost

    chosen = parse_settings(settings, [field.name for field in fields(CostModel)])
    prices = CostModel(**{"hours": hours, "call": call, "gpu_hour": gpu_hour, **chosen})
    report = estimate_cost(
        prices, shares=shares(budgets), results=results, naming=naming, out=output
    )
    show(report, format, output)


def show(report: Report, format: str, folder: Path | None) -> None:
    if format == "json":
        emit_json(report.to_json())
    else:
        out.print(report.to_markdown())
    if not can_draw():
        warn("figures are left out, they need Matplotlib: pip install earmark-lab")
    if folder:
        err.print(f"written to {folder}: open {folder / 'index.html'}")


def open_captioner(model: str | None, tokens: int) -> Captioner:
    if not model:
        raise ValueError("captions need a model to ask: --model http://HOST/v1#NAME or gguf:FILE")
    return make_captioner(model, concurrency=4, tokens=tokens, api_key=api_key())


def parse_settings(settings: Sequence[str] | None, allowed: Collection[str]) -> dict[str, Any]:
    """A number if it is one, else text."""
    values: dict[str, Any] = {}
    for word in settings or ():
        name, sign, value = word.partition("=")
        if not sign or name not in allowed:
            raise ValueError(f"--set {word}: write NAME=VALUE, with one of {', '.join(allowed)}")
        values[name] = value
        for kind in (float, int):
            with suppress(ValueError):
                values[name] = kind(value)
    return values


def words(text: str) -> list[str]:
    return [word.strip() for word in text.split(",") if word.strip()]


def numbers(text: str, *, what: str, unit: str = "") -> list[float]:
    """With or without their `unit`; `ValueError` for what is no `what`."""
    values = []
    for word in words(text):
        try:
            values.append(float(word.removesuffix(unit)))
        except ValueError:
            raise ValueError(f"{word!r} is no {what}") from None
    return values


def shares(text: str) -> list[float]:
    """`10,25%` as 0.1 and 0.25."""
    what = "budget: write per cent of the windows, as 5,10,25"
    return [round(number / 100, 9) for number in numbers(text, what=what, unit="%")]


def names(text: str | None) -> Sequence[str]:
    """Of a named set, from a file, or separated by commas; empty for None."""
    if text is None:
        return []
    if text in RECORDINGS:
        return RECORDINGS[text]
    path = Path(text)
    return path.read_text(encoding="utf-8-sig").split() if path.is_file() else words(text)
