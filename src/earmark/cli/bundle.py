"""`earmark bundle`: a run as one archive that may leave the machine."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from earmark.cli.options import Blurred, face_blur
from earmark.cli.runs import RunFolder
from earmark.models.user_folders import model_store
from earmark.pipeline.bundle import bundle as write_bundle
from earmark.reporting.console import out, warn
from earmark.reporting.text_format import counted

Voices = Annotated[
    bool, typer.Option(" /--no-voices", help="Leave out what is said, and mute it in clips.")
]


def bundle(
    folder: RunFolder,
    to: Annotated[Path, typer.Option("--out", "-o", help="The archive to write, a .zip.")],
    voices: Voices = True,
    blur: Blurred = "none",
) -> None:
    """Write a run as one archive: its page with short clips, and its captions.

    It opens on any machine: unpack it and open `index.html`. It names recordings by their files
    and says nothing of where they lay, whom a model was asked of, or any key. Pictures and clips
    show whatever and whoever was filmed, faces too unless they are blurred.

    For example:

      earmark bundle runs/tuesday --out tuesday.zip

      earmark bundle runs/tuesday --out tuesday.zip --no-voices --blur faces
    """
    made = write_bundle(folder, to, voices=voices, blur=face_blur(blur), store=model_store())
    for line in made.uncut:
        warn(line)
    out.print(f"{made.path}: the page, captions and {counted(made.clips, 'clip')}")
