"""`earmark highlights`: the picks of a run as one video."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from earmark.cli.bundle import Voices
from earmark.cli.options import Blurred, face_blur
from earmark.cli.runs import RunFolder
from earmark.models.user_folders import model_store
from earmark.pipeline.highlights import highlights as write_highlights
from earmark.reporting.console import out, warn
from earmark.reporting.text_format import counted


def highlights(
    folder: RunFolder,
    to: Annotated[Path, typer.Option("--out", "-o", help="The video to write, an MP4.")],
    voices: Voices = True,
    blur: Blurred = "none",
) -> None:
    """Write the picks of a run as one video, with captions and chapters.

    Captions are subtitles that a player can turn off. Picks of one recording are copied as they
    were recorded, each from the key frame before it; those of several are encoded anew,
    and so is what is blurred.

    For example:

      earmark highlights runs/tuesday --out day.mp4

      earmark highlights runs/tuesday --out day.mp4 --blur faces
    """
    hidden = face_blur(blur)
    made = write_highlights(folder, to, voices=voices, blur=hidden, store=model_store())
    for line in made.left_out:
        warn(line)
    how = "copied as recorded" if made.is_copied else "encoded anew"
    out.print(f"{made.path}: {counted(made.picks, 'pick')}, {how}")
