"""`earmark train`: a gate of one's own, from spans one has marked."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from earmark.cli.console import err, out, progress_bar
from earmark.cli.options import with_checkpoints
from earmark.errors import MissingExtra
from earmark.evaluation.annotations.media_match import find_media, reconcile
from earmark.evaluation.annotations.readers import read_annotations
from earmark.features import encoder_named
from earmark.reporting.text_format import as_share

if TYPE_CHECKING:
    from earmark.training.recipe import Step, Trained


def train(
    spans: Annotated[
        Path,
        typer.Argument(help="Marked actions: CSV, EPIC-KITCHENS, Audacity labels, ELAN, a folder."),
    ],
    media: Annotated[Path, typer.Option(help="Folder of the recordings, found by their stems.")],
    out_folder: Annotated[Path, typer.Option("--out", help="Where the run is kept.")] = Path(
        "gate"
    ),
    objective: Annotated[str, typer.Option(help="One of where, rate, span, frame.")] = "where",
    encoder: Annotated[
        str,
        typer.Option(
            help="What the gate listens to, options after colons.", callback=with_checkpoints
        ),
    ] = "floor-mel",
    seeds: Annotated[int, typer.Option(help="Trainings; single ones are unstable.")] = 1,
    folds: Annotated[
        int, typer.Option(help="Parts the people are divided into; one is calibrated on.")
    ] = 3,
    steps: Annotated[
        int | None, typer.Option(help="Steps of one head.", show_default="by encoder")
    ] = None,
    width: Annotated[
        int | None, typer.Option(help="Width of one head.", show_default="by encoder")
    ] = None,
    bands: Annotated[
        int | None,
        typer.Option(help="Bands a head reads; 0 reads the features.", show_default="by encoder"),
    ] = None,
    takes: Annotated[int, typer.Option(help="Times each recording is heard, altered.")] = 1,
    threads: Annotated[int, typer.Option(help="Cores to use.")] = 2,
    data: Annotated[str, typer.Option(help="What the data is, for the gate's card.")] = "",
    licence: Annotated[str, typer.Option(help="Terms of the data, for the gate's card.")] = "",
    allow_missing: Annotated[
        bool, typer.Option("--allow-missing", help="Leave out what lacks media or spans.")
    ] = False,
) -> None:
    """Train, calibrate and export a gate; a stopped training goes on where it was.

    Recordings are split by participant (`P01` of `P01_11`), never by time: heads are trained on
    some people, and the gate they make is calibrated on the others. The folder gets `gate.gate`,
    one gate a seed, `run.json` and `curves.png`.

    For example:

      earmark train marks.csv --media recordings/ --out mygate

      earmark select shift.mp4 --frontline mygate/gate.gate
    """
    try:
        from earmark.training.dataset import gather
        from earmark.training.optimisation import use_threads
        from earmark.training.recipe import Provenance
        from earmark.training.recipe import train as run_training
        from earmark.training.settings import recommended
    except ModuleNotFoundError as error:
        raise MissingExtra("training needs PyTorch: pip install 'earmark[train]'") from error
    use_threads(threads)
    settings = recommended(
        encoder,
        encoder_named(encoder).channels,
        objective=objective,
        seeds=seeds,
        folds=folds,
        steps=steps,
        width=width,
        bands=bands,
        takes=takes,
    )
    marked = read_annotations(spans)
    heard = list(find_media([media]))
    marked = marked.only(reconcile(list(marked.recordings), heard, allow_missing=allow_missing))
    with progress_bar("steps") as bar:
        listening = bar.add_task("listening", total=len(marked.recordings))
        material = gather(
            marked,
            media,
            encoder=encoder,
            takes=takes,
            cache=out_folder / "features",
            watch=lambda _, done, __: bar.update(listening, completed=done + 1),
        )
        training = bar.add_task("training", total=seeds * settings.steps)

        def watch(step: Step) -> None:
            told = f"seed {step.seed}: loss {step.check.loss:.4f}"
            told += f", dev coverage {as_share(step.check.dev)}"
            bar.update(training, completed=step.done, description=told)
            err.print(f"{told} at step {step.check.step}")

        origin = Provenance(data or spans.name, licence or "not stated", _commit())
        trained = run_training(material, settings, folder=out_folder, origin=origin, watch=watch)
    show(trained, out_folder)


def show(trained: Trained, folder: Path) -> None:
    """Dev coverage by budget, as mean and spread over the seeds, and where the gate is."""
    for budget in trained.coverage["all"]:
        mean, spread = trained.spread(budget)
        out.print(
            f"{budget:6.1%} of calls: dev coverage {mean:.1%} ± {spread:.1%} a seed, "
            f"{trained.coverage['all'][budget]:.1%} together"
        )
    out.print(
        f"{folder / 'gate.gate'}: {trained.gate.card.heads} heads, {trained.gate.digest[:12]}"
    )


def _commit() -> str:
    """The commit of the folder one stands in; empty outside a repository."""
    try:
        done = subprocess.run(
            ["git", "rev-parse", "HEAD"],  # noqa: S607 - whichever git the user has
            capture_output=True,
            text=True,
            check=True,
        )
    except (OSError, subprocess.CalledProcessError):
        return ""
    return done.stdout.strip()
