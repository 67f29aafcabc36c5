"""`earmark lab reproduce`, and `systems`: the paper's tables and the systems it compares."""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path
from typing import Annotated

import typer

from earmark.gate.frontline import with_checkpoints
from earmark.gate.listener import cache_at
from earmark.models.model_store import checkpoint_folder, model_store
from earmark.report.console import Format, emit_json, err, out, print_table, progress_bar
from earmark_lab.cli.evaluate import Model, Set, names, open_captioner, parse_settings, words
from earmark_lab.experiments.caption_comparison import CaptionTools
from earmark_lab.experiments.captions import CaptionLog
from earmark_lab.experiments.report import Report, claim_folder
from earmark_lab.reproduce.captions import TOKEN_COUNTS
from earmark_lab.reproduce.inputs import PAPER_HEAD, PaperInputs, ReproductionPlan
from earmark_lab.reproduce.reproduction import ARTEFACTS, COLUMNS, check_names
from earmark_lab.reproduce.reproduction import reproduce as run_reproduction

PLAN = ReproductionPlan()
OWN = ("audio_is", "seeds", "stimuli", "threads", "rounding", "judged", "training")
TRAINING = ("steps", "width", "batch", "crop", "learning_rate", "tau")

TableFormat = Annotated[Format, typer.Option("--format", help="Output format.")]


def reproduce(
    tables: Annotated[
        list[str] | None,
        typer.Argument(help="Names from --list.", show_default="all that can be made"),
    ] = None,
    epic: Annotated[
        Path | None, typer.Option(help="Folder of EPIC-KITCHENS-100 annotations and media.")
    ] = None,
    audio: Annotated[
        list[Path] | None, typer.Option(help="More media of it, matched by file name.")
    ] = None,
    marks: Annotated[
        list[Path] | None,
        typer.Option(help="Annotations of your own recordings, to judge in place of EPIC's."),
    ] = None,
    ego4d: Annotated[
        Path | None, typer.Option(help="Folder of EgoSound annotations and clips.")
    ] = None,
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
    ] = ",".join(PLAN.frontlines),
    encoders: Annotated[
        str,
        typer.Option(help="Encoders to train heads over, with commas.", callback=with_checkpoints),
    ] = ",".join(PLAN.encoders),
    settings: Set = None,
    model: Model = None,
    listing: Annotated[
        bool, typer.Option("--list", help="List the tables and what each one needs; make none.")
    ] = False,
    output: Annotated[
        Path, typer.Option("--out", "-o", help="Folder for tables and figures.")
    ] = Path("reproduction"),
    format: TableFormat = Format.table,
) -> None:
    """Make the tables and figures of the paper, beside the paper's own numbers.

    Annotations alone give some of them; sound and a vision model give more. A
    table that cannot be made says what it needs. Every row says which encoder,
    data and weights were used. A stopped run continues. The folder gets
    index.html with everything side by side, CSV, Markdown and PNG.

    With --set: audio_is (what the media are, printed in every row), seeds,
    stimuli, threads, rounding (round or floor), judged and training (names, a
    file of names; or how many to train on), and of the trainings steps, width,
    batch, crop, learning_rate and tau.

    For example:

      earmark lab reproduce --list --epic epic-kitchens-100-annotations

      earmark lab reproduce --epic epic-kitchens-100-annotations --audio EPIC-KITCHENS --out paper/

      earmark lab reproduce paired transfer --epic DIR --audio DIR --encoders beats,panns -f my.gate

      earmark lab reproduce sparse objective --marks made/actions.csv --audio made

      earmark lab reproduce captions --epic DIR --audio DIR --model http://localhost:8000/v1
    """
    chosen = parse_settings(settings, [*OWN, *TRAINING])
    threads = int(chosen.pop("threads", 2))
    for name in {"judged", "training"} & chosen.keys():
        if name == "judged" or not isinstance(chosen[name], int):
            chosen[name] = tuple(names(str(chosen[name])))
    plan = ReproductionPlan(
        epic=epic,
        ego4d=ego4d,
        audio=tuple(audio or ()),
        marks=tuple(marks or ()),
        occupancy=dict(named_folder(word) for word in occupancy or ()),
        frontlines=tuple(words(frontlines)),
        encoders=tuple(words(encoders)),
        settings={name: chosen.pop(name) for name in TRAINING if name in chosen},
        **chosen,
    )
    scores = cache_at(None, False)
    inputs = PaperInputs(plan, output, cache=scores.folder if scores else None)
    if listing:
        show_list(inputs, format)
        return
    asked = check_names(tables or [])
    claim_folder(output, {"experiment": "reproduce", **plan.to_json()})
    if model:
        log = CaptionLog.open(output / "kept" / "captions.jsonl")
        inputs.caption_tools = CaptionTools(open_captioner(model, max(TOKEN_COUNTS)), log=log)
    needs = {need for name in asked for need in ARTEFACTS[name].needs.split()}
    if (PAPER_HEAD in plan.frontlines or "train" in needs) and not inputs.lacks("train"):
        from earmark_lab.training.optimisation import use_threads

        use_threads(threads)
    with progress_bar("recordings", "reproducing") as progress:
        inputs.progress = progress
        report = run_reproduction(asked, inputs, announce=announce)
    show_report(report, format, output, named=tables or ())


def named_folder(word: str) -> tuple[str, Path]:
    name, sign, path = word.partition("=")
    if not (sign and name and path):
        raise ValueError(f"{word!r} names no folder of annotations: write NAME=DIR")
    return name, Path(path)


def announce(name: str, absent: str) -> None:
    err.print(f"{name}: not made, bring {absent}" if absent else f"{name} …")


def show_list(inputs: PaperInputs, format: Format) -> None:
    rows = [
        (table.name, table.place, table.title, table.missing_inputs(inputs))
        for table in ARTEFACTS.values()
    ]
    if format is Format.json:
        emit_json(
            [dict(zip(("name", "place", "title", "bring"), row, strict=True)) for row in rows]
        )
        return
    columns = ("name", "in the paper", "what it is", "bring")
    print_table(columns, [(*row[:3], row[3] or "ready") for row in rows], words=columns)


def show_report(report: Report, format: Format, folder: Path, *, named: Collection[str]) -> None:
    """The overview of all tables if `named` is empty."""
    if format is Format.json:
        emit_json(report.to_json())
    for table in report.tables if format is Format.table else ():
        is_numbers = table.columns == COLUMNS and table.title.partition(":")[0] in named
        if is_numbers or (not named and table is report.tables[0]):
            columns = [column for column in table.columns if column != "remarks"]
            rows = [tuple(map(table.text, row[: len(columns)])) for row in table.rows]
            err.print(f"\n{table.title}")
            print_table(columns, rows, words=[c for c in columns if c not in COLUMNS[1:4]])
    err.print(f"every number is on the page: open {folder / 'index.html'}")


def systems(format: TableFormat = Format.table) -> None:
    """List every frontline and rule: what it reads and costs, its name in the paper, its state.

    For example:

      earmark lab systems

      EARMARK_CHECKPOINTS=/data/checkpoints earmark lab systems --format json
    """
    from earmark_lab.experiments.paper import list_systems

    rows = list_systems(model_store(), checkpoint_folder())
    if format is Format.json:
        emit_json(rows)
        return
    cells = []
    for row in rows:
        cost = "–" if row["seconds_per_hour"] is None else f"{row['seconds_per_hour']:g}"
        paper = row["paper"] or (f"(for {row['stands_for']})" if row["stands_for"] else "–")
        cells.append((row["name"], paper, row["reads"], cost, row["state"], row["scores"]))
    columns = ("name", "in the paper", "reads", "s/hour", "state", "what it is")
    print_table(columns, cells, words={*columns} - {"s/hour"}, whole=["name"])
    out.print("\nSeconds of processor time for an hour of recording.")
    out.print(
        "(for …): stands for the paper's system, whose weights are unpublished or unlicensed."
    )
    for row in rows:
        if row["cure"]:
            out.print(f"  {row['name']}: {row['cure']}")
