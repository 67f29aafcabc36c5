"""`earmark search`: moments found in what runs hold."""

from __future__ import annotations

import base64
from pathlib import Path
from typing import Annotated

import typer

from earmark.cli.options import AsJson, Blurred, face_blur
from earmark.models.sentence_encoder import SentenceEncoder
from earmark.models.user_folders import model_store
from earmark.reporting.console import emit_json, out, progress_bar, warn
from earmark.search.archive_search import FoundMoment
from earmark.search.archive_search import search as find_moments
from earmark.timeline import format_clock


def search(
    folder: Annotated[
        Path, typer.Argument(metavar="RUN", help="The folder of a run, or of an archive of runs.")
    ],
    words: Annotated[str, typer.Argument(help="Words to find; all of them.")],
    most: Annotated[int, typer.Option(help="At most so many moments.", min=1)] = 50,
    meaning: Annotated[
        bool, typer.Option("--meaning", help="Find what means much the same, by MiniLM.")
    ] = False,
    thumbnails: Annotated[
        Path | None, typer.Option(help="Also write the pictures found into this folder.")
    ] = None,
    blur: Blurred = "none",
    as_json: AsJson = False,
) -> None:
    """Find moments by the words of captions and tags, and of what was heard, said, read or seen.

    `drilling` finds the drill, as the search box of the page does. With `--meaning` it finds what
    means much the same; the first time all texts are read, and what they mean is kept.

    For example:

      earmark search runs/tuesday "red hammer"

      earmark search archive/ "someone makes a hole" --meaning

      earmark search runs/tuesday water --thumbnails found/
    """
    encoder = SentenceEncoder(model_store()) if meaning else None
    if encoder is not None:
        encoder.check()
    with progress_bar("texts") as bar:
        task = bar.add_task("reading", total=None)
        found = find_moments(
            folder,
            words,
            most=most,
            meaning=encoder,
            blur=face_blur(blur),
            told=lambda done, total: bar.update(task, completed=done, total=total),
        )
    pictures = _write_pictures(found, thumbnails) if thumbnails else {}
    if as_json:
        emit_json([_plain(each) for each in found])
        return
    for number, each in enumerate(found):
        show(each)
        if number in pictures:
            out.print(f"  {pictures[number]}")
    if not found:
        warn(f"nothing in {folder} matches {words!r}")


def show(found: FoundMoment) -> None:
    """Where it is, and what it says of itself."""
    hit = found.hit
    span = f"{format_clock(hit.span.start)} - {format_clock(hit.span.end)}"
    out.print(f"{hit.path}  {span}", style="bold")
    if hit.kind == "caption":
        out.print(f"  {hit.caption}")
    elif hit.kind == "tags":
        out.print(f"  heard: {', '.join(hit.tags)}")
    else:
        out.print(f"  {hit.kind}: {hit.text} ({hit.confidence:.2f}, {hit.model})")


def _write_pictures(found: list[FoundMoment], folder: Path) -> dict[int, Path]:
    """The thumbnails of what was found as files, numbered best match first."""
    folder.mkdir(parents=True, exist_ok=True)
    written = {}
    for number, each in enumerate(found):
        hit = each.hit
        if hit.thumbnail:
            path = folder / f"{number + 1:03d}-{Path(hit.path).stem}-{hit.span.start:.0f}s.jpg"
            path.write_bytes(hit.thumbnail)
            written[number] = path
    return written


def _plain(found: FoundMoment) -> dict[str, object]:
    return found.to_json() | {"thumbnail": base64.b64encode(found.hit.thumbnail).decode()}
