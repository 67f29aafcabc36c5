"""`earmark sounds`: lists the named sounds of whole recordings."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

import typer

from earmark.cli import options
from earmark.evidence.sound_query import describe_matches
from earmark.media.source import place_of
from earmark.media.source_listing import SUFFIXES
from earmark.models.user_folders import model_store
from earmark.pipeline.run_plan import Plan, make_plan
from earmark.pipeline.sounds import RecordingSounds, SoundListing
from earmark.pipeline.sounds import sounds as list_sounds
from earmark.reporting.console import emit, emit_csv, emit_json, err, out, print_table, warn
from earmark.reporting.progress_display import show_progress
from earmark.reporting.text_format import counted, format_length, format_notes
from earmark.timeline import format_clock

SoundsAs = Literal["table", "json", "csv", "labels"]
"""Output formats of `sounds`; `labels` is a label track for Audacity."""

PathsAndWords = Annotated[
    list[str],
    typer.Argument(
        metavar="PATH... [WORDS]",
        help="Files, folders, globs, http(s):// or s3:// addresses. The last argument may be "
        "the words to look for, if it names no file.",
    ),
]

WORKERS = {"workers": options.BACKEND["workers"]}


@options.takes("plan", options.HEARING | WORKERS, options.plan_of)
def sounds(
    paths: PathsAndWords,
    words: Annotated[str | None, typer.Option("--words", help="Words to look for.")] = None,
    format: Annotated[SoundsAs, typer.Option(help="Output format.")] = "table",
    *,
    plan: Plan,
) -> None:
    """List the named sounds of recordings with their times, or only those that match some words.

    `drill` also finds power tools; the output says which sound it was. This
    needs YAMNet (`earmark models get yamnet`). With MiniLM (`minilm` and
    `minilm-tokenizer`), words also find sounds of similar meaning. No video
    frame is decoded. Results are cached.

    For example:

      earmark sounds shift.mp4

      earmark sounds archive/ drill

      earmark sounds shift.mp4 "running water" --format labels > labels.txt
    """
    if words is None:
        paths, words = split_words(paths)
    plan = make_plan(options.sources_at(paths), plan, store=model_store())
    with show_progress() as progress:
        found = list_sounds(words=words, plan=plan, progress=progress)
    show(found, format)
    for line in format_notes((one.path, note) for one in found.recordings for note in one.notes):
        warn(line)
    options.end_with(missed.error for missed in found.failures)


def split_words(said: list[str]) -> tuple[list[str], str]:
    """The paths and the words: the last of several arguments is the words if it is no path.

    What has the suffix of a media file is a path, though there may be no such file.
    """
    last = said[-1]
    is_path = "://" in last or any(sign in last for sign in "*?[/\\") or Path(last).exists()
    is_path = is_path or Path(last).suffix.lower() in SUFFIXES
    return (said, "") if len(said) == 1 or is_path else (said[:-1], last)


def show(found: SoundListing, format: SoundsAs) -> None:
    """Print the sounds in `format`; the sounds that the words match go to stderr."""
    if format == "json":
        emit_json(found.to_json())
        return
    if format == "labels" and len(found.recordings) > 1:
        raise ValueError("a label track is of one recording: give one, or use --format csv")
    every = [(one.path, event) for one in found.recordings for event in one.events]
    if format == "labels":
        lines = (f"{one.span.start:.3f}\t{one.span.end:.3f}\t{one.name}\n" for _, one in every)
        emit("".join(lines))
        return
    if format == "csv":
        cells = (
            (
                path,
                f"{one.span.start:.2f}",
                f"{one.span.end:.2f}",
                one.name,
                f"{one.confidence:.3f}",
            )
            for path, one in every
        )
        emit_csv(["recording", "start", "end", "sound", "confidence"], cells)
        return
    if found.words and not found.matches:
        warn(f"no sound that has a name means {found.words!r}; `earmark sounds PATH` lists all")
    elif found.words:
        err.print(f"listening for {describe_matches(found.matches)}")
    for each in found.recordings:
        show_table(each, found)


def show_table(one: RecordingSounds, found: SoundListing) -> None:
    """Print the sounds of one recording as a table."""
    none = "no such sound" if found.words else "no sound with a name"
    what = counted(len(one.events), "sound") if one.events else none
    out.print(f"{place_of(one.path)}: {what} in {format_length(one.duration)}", style="bold")
    if not one.events:
        return
    columns = ("start", "end", "sound", "confidence", *(("why",) if found.words else ()))
    rows = []
    for event in one.events:
        reason = (found.matches[event.name].reason or "its name",) if found.words else ()
        times = format_clock(event.span.start), format_clock(event.span.end)
        rows.append((*times, event.name, f"{event.confidence:.2f}", *reason))
    print_table(columns, rows, words=("sound", "why"))
