"""`earmark forget`: deletes all that is stored about a recording, and verifies it."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from earmark.cli.options import CacheFolder
from earmark.ledger.run_reader import find_runs
from earmark.models.user_folders import cache_folder
from earmark.pipeline.forget import ForgetResult, find_recording
from earmark.pipeline.forget import forget as forget_recording
from earmark.reporting.console import out, warn
from earmark.reporting.text_format import counted


def forget(
    recording: Annotated[
        str, typer.Argument(help="Path, name in a manifest, id or file name of the recording.")
    ],
    folders: Annotated[
        list[Path] | None,
        typer.Argument(metavar="[FOLDER...]", help="Folders to search for runs.", show_default="."),
    ] = None,
    cache: CacheFolder = None,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask for confirmation.")] = False,
) -> None:
    """Delete everything that runs and the cache hold about a recording, and verify it.

    This deletes scores, picks, calls, answers, corrections, clips and pictures,
    and rewrites every index and report. The recording itself is not touched.
    Then all files below the folders and in the cache are searched for its
    names, texts and pictures. If a file still contains any of them, such as an
    export, it is listed and the command fails.

    For example:

      earmark forget archive/tuesday.mp4

      earmark forget tuesday.mp4 runs/ exports/ --yes
    """
    places = folders or [Path()]
    meant = find_recording(recording, [run for place in places for run in find_runs(place)])
    paths = sorted({one.path for rows in meant.values() for one in rows})
    if not yes:
        for path in paths:
            out.print(path)
        runs = counted(len(meant), "run")
        typer.confirm(f"Delete all that {runs} and the cache keep of it, for good?", abort=True)
    done = forget_recording(recording, places, cache=cache or cache_folder())
    show(done)
    if done.search.found or done.search.unread:
        raise typer.Exit(1)


def show(done: ForgetResult) -> None:
    """Print what was deleted, what was searched for afterwards, and the files with traces left."""
    out.print(
        f"forgotten in {counted(len(done.runs), 'run')}: "
        f"{', '.join(done.recordings)} ({counted(done.cached, 'file')} of the cache and "
        f"{counted(done.clips, 'clip')} deleted; the recording itself is not touched)"
    )
    looked = ", ".join(f"{number} {kind}" for kind, number in done.search.looked_for.items())
    size = f"{done.search.size_bytes / 1e6:.1f} MB"
    left = sorted({path for path, _ in done.search.found})
    out.print(
        f"looked for {looked} in {counted(done.search.files, 'file')} ({size}): "
        f"{'found in ' + counted(len(left), 'file') if left else 'nothing is left'}"
    )
    for path, kind in done.search.found:
        warn(f"{path} still holds {kind} of it and is not earmark's to change: delete or edit it")
    for path in done.search.unread:
        warn(f"{path} cannot be searched (damaged, encrypted or locked): look into it yourself")
    for run in done.empty:
        warn(f"{run} holds no recording any more: delete the folder, whose name may tell of it")
