"""`earmark reproduce`: makes the paper's tables and figures, next to the paper's numbers."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from earmark.cli.evaluate import Fresh, words
from earmark.cli.evaluate_captions import ASKING, Hands, Sounds, Stimuli, caption_tools
from earmark.cli.options import CacheFolder, NoCache, OutcomeAs, option, plan_of, takes
from earmark.evaluation.experiment_report import claim_folder
from earmark.evaluation.paper.captions import CaptionLog
from earmark.gate.frontline_registry import with_checkpoints
from earmark.gate.score_cache import cache_at
from earmark.pipeline.run_plan import Plan
from earmark.reporting.console import Format, emit_json, err, print_table, progress_bar
from earmark.reproduction.caption_comparisons import TOKEN_COUNTS
from earmark.reproduction.comparison import COLUMNS
from earmark.reproduction.paper_artefacts import ARTEFACTS
from earmark.reproduction.paper_inputs import PaperInputs, ReproductionPlan
from earmark.reproduction.paper_scores import PAPER_HEAD
from earmark.reproduction.reproduction_run import check_names, list_artefacts
from earmark.reproduction.reproduction_run import reproduce as run_reproduction

if TYPE_CHECKING:
    from earmark.evaluation.experiment_report import ExperimentReport

PLAN = ReproductionPlan()

TRAINING = {
    "steps": option(int | None, "Steps per head.", show_default="3000"),
    "width": option(int | None, "Width of one head.", show_default="192"),
    "batch": option(int | None, "Crops per step.", show_default="16"),
    "crop": option(float | None, "Length of a crop in seconds.", show_default="20"),
    "learning_rate": option(float | None, "Learning rate of AdamW.", show_default="3e-4"),
    "tau": option(float | None, "Sharpness of `span`.", show_default="4"),
}
"""Options that are fields of the paper's training settings."""

INPUTS = {
    "epic": option(Path | None, "Folder of EPIC-KITCHENS-100 annotations and media."),
    "ego4d": option(Path | None, "Folder of EgoSound annotations and clips."),
    "audio": option(list[Path] | None, "Further media of EPIC-KITCHENS-100, matched by file name."),
    "audio_is": option(
        str,
        "What the media are, printed in every row; such as `composites`.",
        default=PLAN.audio_is,
    ),
    "occupancy": option(
        list[str] | None, "NAME=DIR of frame-wise annotations, such as 'TAU-NIGENS 2020=DIR'."
    ),
    "frontlines": option(
        str,
        "Frontlines, with commas. The first is the gate; `paper` trains one.",
        "--frontlines",
        "-f",
        default=",".join(PLAN.frontlines),
        callback=with_checkpoints,
    ),
    "encoders": option(
        str,
        "Encoders to train heads over, with commas.",
        default=",".join(PLAN.encoders),
        callback=with_checkpoints,
    ),
    "seeds": option(int, "Number of trainings per head.", default=5, min=1),
    "stimuli": (Stimuli, PLAN.stimuli),
}


def reproduction_plan(said: dict[str, Any]) -> ReproductionPlan:
    """The plan from the values `said` of the options, which are modified in place."""
    trained = {name: said.pop(name) for name in TRAINING}
    read = {
        "audio": tuple(said["audio"] or ()),
        "occupancy": dict(named_folder(word) for word in said["occupancy"] or ()),
        "frontlines": tuple(words(said["frontlines"])),
        "encoders": tuple(words(said["encoders"])),
        "settings": {name: value for name, value in trained.items() if value is not None},
    }
    return ReproductionPlan(**said | read)


@takes("plan", INPUTS | TRAINING, reproduction_plan)
@takes("asking", ASKING, plan_of)
def reproduce(
    tables: Annotated[
        list[str] | None,
        typer.Argument(help="Names from --list.", show_default="all that can be made"),
    ] = None,
    *,
    plan: ReproductionPlan,
    threads: Annotated[int, typer.Option(min=1, help="Threads to use.")] = 2,
    asking: Plan,
    hands: Hands = False,
    sounds: Sounds = False,
    listing: Annotated[
        bool, typer.Option("--list", help="List the tables and what each one needs; make none.")
    ] = False,
    output: Annotated[
        Path, typer.Option("--out", "-o", help="Folder for tables and figures.")
    ] = Path("reproduction"),
    fresh: Fresh = False,
    format: OutcomeAs = Format.table,
    cache: CacheFolder = None,
    no_cache: NoCache = False,
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
    heard = cache_at(cache, no_cache)
    inputs = PaperInputs(plan, output, cache=heard.folder if heard else None)
    if listing:
        show_list(inputs, format)
        return
    chosen = check_names(tables or [])
    claim_folder(output, {"experiment": "reproduce", **plan.to_json()}, fresh=fresh)
    if asking.model_choice.server or asking.model_choice.gguf:
        log = CaptionLog.open(output / "kept" / "captions.jsonl")
        tools = caption_tools(asking, max(TOKEN_COUNTS), log=log)
        inputs.caption_tools = replace(tools, has_hands=hands, has_sounds=sounds)
    trains = PAPER_HEAD in plan.frontlines or any("train" in ARTEFACTS[n].needs for n in chosen)
    if trains and not inputs.lacks("train"):
        from earmark.training.optimisation import use_threads

        use_threads(threads)
    with progress_bar("recordings", "reproducing") as progress:
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
