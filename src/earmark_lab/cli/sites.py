"""`earmark lab sites`: make recordings of work sites whose actions are known."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from earmark.report.console import out, watched_steps
from earmark.text_format import counted
from earmark_lab.cli.evaluate import names
from earmark_lab.sites.site import AMBIENCES, FORMATS, SOUNDS, SiteGenerator, write_sites
from earmark_lab.sites.timing import TIMINGS


def sites(
    folder: Annotated[Path, typer.Option("--out", help="Folder to write.")] = Path("sites"),
    hours: Annotated[float, typer.Option(help="Hours of sound.")] = 2.0,
    seed: Annotated[int, typer.Option(help="The same seed makes the same recordings.")] = 1,
    data: Annotated[
        Path | None,
        typer.Option(help="Folder with `open_sounds/` and annotated timings (docs/sites.md)."),
    ] = None,
    part: Annotated[
        str, typer.Option(help="Authors and timings to use: `train`, `dev` or `test`.")
    ] = "train",
    timings: Annotated[
        str | None, typer.Option(help=f"Timing families, of: {', '.join(TIMINGS)}.")
    ] = None,
    sounds: Annotated[
        str | None, typer.Option(help=f"Groups of work sounds, of: {', '.join(SOUNDS)}.")
    ] = None,
    ambiences: Annotated[
        str | None, typer.Option(help=f"Ambiences, of: {', '.join(AMBIENCES)}.")
    ] = None,
    kind: Annotated[str, typer.Option("--format", help=f"{' or '.join(FORMATS)}.")] = "opus",
) -> None:
    """Make recordings of work sites whose actions are known.

    Every recording is a site of its own: when actions happen, how many can be
    heard, what they sound like, the ambience, the room, the microphone and its
    codec are drawn from --seed. Without --data all sounds come from physical
    models and all timings from simulated workers. The folder gets the
    recordings, `actions.csv` and `sites.json`, which lists what was drawn.

    For example:

      earmark lab sites --out made --hours 2 --seed 1

      earmark lab evaluate made/actions.csv --media made --frontlines energy,gate
    """
    chosen = {"timings": timings, "sounds": sounds, "ambiences": ambiences}
    generator = SiteGenerator(
        data, part, **{name: names(text) for name, text in chosen.items() if text}
    )
    seconds, actions, recordings, total = 0.0, 0, 0, round(hours * 3600)
    with watched_steps("making recordings") as watch:
        for made in write_sites(generator, folder, hours=hours, seed=seed, format=kind):
            seconds, actions = seconds + made.duration, actions + len(made.actions)
            recordings += 1
            watch("making recordings", round(seconds), total)
    out.print(
        f"{folder}: {counted(recordings, 'recording')}, {seconds / 3600:.1f} h, "
        f"{counted(actions, 'action')}"
    )
