"""`earmark reproduce`: makes the paper's tables and figures, next to the paper's numbers."""

from __future__ import annotations

import os
from collections.abc import Collection
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from earmark.captioning.limits import Limits
from earmark.captioning.model_choice import ModelChoice
from earmark.cli import options
from earmark.cli.evaluate import Fresh, recordings_bar, words
from earmark.evaluation.experiment_report import claim_folder
from earmark.evaluation.paper.caption_comparison import CaptionTools
from earmark.evaluation.paper.captions import CaptionLog
from earmark.gate.frontline_registry import with_checkpoints
from earmark.gate.score_cache import cache_at
from earmark.reporting.console import Format, emit_json, err, print_table
from earmark.reproduction.comparison import COLUMNS
from earmark.reproduction.coverage_comparisons import PAPER_HEAD
from earmark.reproduction.paper_artefacts import ARTEFACTS
from earmark.reproduction.paper_inputs import PaperInputs, ReproductionPlan
from earmark.reproduction.reproduction_run import check_names, list_artefacts
from earmark.reproduction.reproduction_run import reproduce as run_reproduction

if TYPE_CHECKING:
    from earmark.evaluation.experiment_report import ExperimentReport

TRAINING = ("steps", "width", "batch", "crop", "learning_rate", "tau")
"""Options that are fields of the paper's training settings."""


def reproduce(
    tables: Annotated[
        list[str] | None,
        typer.Argument(help="Names from --list.", show_default="all that can be made"),
    ] = None,
    epic: Annotated[
        Path | None, typer.Option(help="Folder of EPIC-KITCHENS-100 annotations and media.")
    ] = None,
    ego4d: Annotated[
        Path | None, typer.Option(help="Folder of EgoSound annotations and clips.")
    ] = None,
    audio: Annotated[
        list[Path] | None,
        typer.Option(help="Further media of EPIC-KITCHENS-100, matched by file name."),
    ] = None,
    audio_is: Annotated[
        str, typer.Option(help="What the media are, printed in every row; such as `composites`.")
    ] = ReproductionPlan().audio_is,
    occupancy: Annotated[
        list[str] | None,
        typer.Option(help="NAME=DIR of frame-wise annotations, such as 'TAU-NIGENS 2020=DIR'."),
    ] = None,
    frontlines: Annotated[
        str,
        typer.Option(
            "--frontlines",
            "-f",
            help="Frontlines, with commas. The first is the gate; `paper` trains one.",
            callback=with_checkpoints,
        ),
    ] = ",".join(ReproductionPlan().frontlines),
    encoders: Annotated[
        str,
        typer.Option(help="Encoders to train heads over, with commas.", callback=with_checkpoints),
    ] = ",".join(ReproductionPlan().encoders),
    seeds: Annotated[int, typer.Option(min=1, help="Number of trainings per head.")] = 5,
    steps: Annotated[int | None, typer.Option(help="Steps per head.", show_default="3000")] = None,
    width: Annotated[
        int | None, typer.Option(help="Width of one head.", show_default="192")
    ] = None,
    batch: Annotated[int | None, typer.Option(help="Crops per step.", show_default="16")] = None,
    crop: Annotated[
        float | None, typer.Option(help="Length of a crop in seconds.", show_default="20")
    ] = None,
    learning_rate: Annotated[
        float | None, typer.Option(help="Learning rate of AdamW.", show_default="3e-4")
    ] = None,
    tau: Annotated[
        float | None, typer.Option(help="Sharpness of `span`.", show_default="4")
    ] = None,
    threads: Annotated[int, typer.Option(min=1, help="Threads to use.")] = 2,
    vlm: Annotated[str | None, typer.Option(help=options.VLM_HELP)] = None,
    model: Annotated[str | None, typer.Option(help=options.MODEL_HELP)] = None,
    gguf: Annotated[Path | None, typer.Option(help=options.GGUF_HELP)] = None,
    mmproj: Annotated[Path | None, typer.Option(help=options.MMPROJ_HELP)] = None,
    hands: Annotated[
        bool, typer.Option("--hands", help="Also ask with a crop around the hands.")
    ] = False,
    sounds: Annotated[
        bool, typer.Option("--sounds", help="Also ask with the named sounds in the prompt.")
    ] = False,
    stimuli: Annotated[int, typer.Option(min=1, help="Number of actions to draw at random.")] = 200,
    concurrency: Annotated[int, typer.Option(min=1, help=options.CONCURRENCY_HELP)] = 8,
    listing: Annotated[
        bool, typer.Option("--list", help="List the tables and what each one needs; make none.")
    ] = False,
    output: Annotated[
        Path, typer.Option("--out", "-o", help="Folder for tables and figures.")
    ] = Path("reproduction"),
    fresh: Fresh = False,
    format: Annotated[Format, typer.Option(help="Output format.")] = Format.table,
    cache: options.CacheFolder = None,
    no_cache: options.NoCache = False,
) -> None:
    """Make the tables and figures of the paper, beside the paper's own numbers.

    Annotations alone give some of them; sound and a vision model give more. A
    table that cannot be made says what it needs. Every row says which encoder,
    data and weights were used. A stopped run continues. The folder gets
    index.html with everything side by side, CSV, Markdown and PNG.

    For example:

      earmark reproduce --list --epic epic-kitchens-100-annotations

      earmark reproduce --epic epic-kitchens-100-annotations --audio EPIC-KITCHENS --out paper/

      earmark reproduce paired transfer --epic DIR --audio DIR --encoders beats,panns -f my.gate

      earmark reproduce captions --epic DIR --audio DIR --vlm http://localhost:8000/v1 --hands
    """
    values = locals()
    settings = {name: values[name] for name in TRAINING if values[name] is not None}
    plan = ReproductionPlan(
        epic=epic,
        ego4d=ego4d,
        audio=tuple(audio or ()),
        audio_is=audio_is,
        occupancy=dict(named_folder(word) for word in occupancy or ()),
        frontlines=tuple(words(frontlines)),
        encoders=tuple(words(encoders)),
        seeds=seeds,
        settings=settings,
        stimuli=stimuli,
    )
    heard = cache_at(cache, no_cache)
    inputs = PaperInputs(plan, output, cache=heard.folder if heard else None)
    if listing:
        show_list(inputs, format)
        return
    chosen = check_names(tables or [])
    claim_folder(output, {"experiment": "reproduce", **plan.to_json()}, fresh=fresh)
    if vlm or gguf:
        choice = ModelChoice(server=vlm, model=model, gguf=gguf, mmproj=mmproj)
        inputs.caption_tools = CaptionTools(
            choice.captioner(
                concurrency=concurrency, tokens=2048, api_key=os.environ.get("OPENAI_API_KEY")
            ),
            limits=Limits(concurrency=concurrency),
            log=CaptionLog.open(output / "kept" / "captions.jsonl"),
            has_hands=hands,
            has_sounds=sounds,
        )
    trains = PAPER_HEAD in plan.frontlines or any("train" in ARTEFACTS[n].needs for n in chosen)
    if trains and not inputs.lacks("train"):
        from earmark.training.optimisation import use_threads

        use_threads(threads)
    with recordings_bar("reproducing") as progress:
        inputs.progress = progress
        report = run_reproduction(chosen, inputs, announce=announce)
    show_report(report, format, output, named=tables or ())


def named_folder(word: str) -> tuple[str, Path]:
    """Name and folder of a data set written as NAME=DIR; `ValueError` for another form."""
    name, sign, path = word.partition("=")
    if not (sign and name and path):
        raise ValueError(f"{word!r} names no folder of annotations: write NAME=DIR")
    return name, Path(path)


def announce(name: str, absent: str) -> None:
    """Print that a table is started, or which input it lacks."""
    err.print(f"{name}: not made, bring {absent}" if absent else f"{name} …")


def show_list(inputs: PaperInputs, format: Format) -> None:
    """Print every table and figure with the input it lacks."""
    rows: list[dict[str, Any]] = list(list_artefacts(inputs))
    if format is Format.json:
        emit_json(rows)
        return
    columns = ("name", "in the paper", "what it is", "bring")
    cells = [(row["name"], row["place"], row["title"], row["bring"] or "ready") for row in rows]
    print_table(columns, cells, words=columns)


def show_report(
    report: ExperimentReport, format: Format, folder: Path, *, named: Collection[str]
) -> None:
    """Print the tables in `named`; if it is empty, the overview of all tables."""
    if format is Format.json:
        emit_json(report.to_json())
    for table in report.tables if format is Format.table else ():
        is_numbers = table.columns == COLUMNS and table.title.partition(":")[0] in named
        if is_numbers or (not named and table is report.tables[0]):
            shown = [column for column in table.columns if column != "remarks"]
            rows = [tuple(map(table.text, row[: len(shown)])) for row in table.rows]
            err.print(f"\n{table.title}")
            print_table(shown, rows, words=[c for c in shown if c not in COLUMNS[1:4]])
    err.print(f"every number is on the page: open {folder / 'index.html'}")
