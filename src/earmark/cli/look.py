"""`earmark show`, `search`, `ask` and `export`: what runs hold."""

from __future__ import annotations

import base64
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Literal

import typer

from earmark.cli import options
from earmark.evidence.sound_query import describe_matches
from earmark.evidence.sound_taste import SoundTaste
from earmark.media.atomic_file import scratch_folder
from earmark.media.source_listing import SUFFIXES
from earmark.models.model_store import model_store
from earmark.models.sentence_encoder import SentenceEncoder
from earmark.pipeline.answer import ask as ask_run
from earmark.pipeline.batch import export_batch
from earmark.pipeline.clips import bundle, highlights
from earmark.pipeline.sounds import sounds as list_sounds
from earmark.report.console import (
    Format,
    emit,
    emit_json,
    err,
    out,
    print_lines,
    progress_bar,
    warn,
)
from earmark.report.day import read_day
from earmark.report.export_formats import EXPORTERS
from earmark.report.export_formats import export as write_export
from earmark.report.moments import Moment
from earmark.report.run_report import write_report
from earmark.run.erasure import note_written
from earmark.run.run import Run
from earmark.search.archive_search import Archive
from earmark.settings import InvalidSetting, Settings
from earmark.text_format import counted, format_length

FoundAs = Literal["table", "json", "csv", "labels"]
"""Output formats; `csv` and `labels`, a label track for Audacity, are for sounds only."""

BLURRING = 1.4
"""Seconds of CPU time to blur a second of 1080p at 30 pictures a second."""

FURTHER = ("bundle", "highlights", "batch")
"""Formats that need more than the rows of a run."""


@options.takes_settings("blur")
def show(
    folder: options.RunFolder,
    settings: Settings,
    page: Annotated[
        bool, typer.Option("--page", help="Write the report instead: one page.")
    ] = False,
    to: Annotated[
        Path | None,
        typer.Option("--out", "-o", help="Page to write.", show_default="RUN/report.html"),
    ] = None,
    title: Annotated[
        str | None, typer.Option(help="Title of the page.", show_default="name of the folder")
    ] = None,
    date: Annotated[
        str, typer.Option(help="Only this day, such as 2026-11-16.", show_default="all")
    ] = "",
    format: options.ResultFormat = Format.table,
) -> None:
    """Print the day: when work went on, what it was, what is worth a look, cost and gaps.

    The time of work is estimated from the sound. Sounds are ranked by how sure
    their name is, how long they last and how far they stand out; they have names
    if mn04 or YAMNet was installed when `earmark caption` ran. The page of
    --page opens from disk without a network; larger runs have a folder of
    pictures, or a page for each recording.

    For example:

      earmark show runs/tuesday

      earmark show runs/tuesday --date 2026-11-16 --format json

      earmark show runs/tuesday --page --out tuesday.html --title "Tuesday, early shift"
    """
    with Run(folder, blur=options.face_blur(settings)) as run:
        if page:
            written = write_report(run, to or folder / "report.html", title=title)
            if to is not None:
                note_written(folder, [written])
            out.print(str(written))
            return
        day, missed = read_day(run, date=date, taste=_taste(settings)), run.failed_recordings()
    if format is Format.json:
        emit_json(day.to_json())
        return
    print_lines(day.text())
    if not day.recordings:
        warn(f"{folder} has no recordings")
    for failed in missed:
        warn(f"{failed.path} could not be processed: {failed.reason}")


def _taste(settings: Settings) -> SoundTaste | None:
    """None, for that of the run, unless the settings say something."""
    return SoundTaste(settings.sounds.ignore, settings.sounds.favour) or None


@options.takes_settings("blur", "workers")
def search(
    places: Annotated[
        list[str],
        typer.Argument(
            metavar="RUN WORDS",
            help="Folder of a run, or of several runs, and the words to find; all must match. "
            "With --sounds: recordings, and then words if you like.",
        ),
    ],
    settings: Settings,
    most: Annotated[int, typer.Option(help="Largest number of results.", min=1)] = 50,
    meaning: Annotated[
        bool, typer.Option("--meaning", help="Also find text of similar meaning, with MiniLM.")
    ] = False,
    thumbnails: Annotated[
        Path | None, typer.Option(help="Also write the pictures of the results into this folder.")
    ] = None,
    sounds: Annotated[
        bool, typer.Option("--sounds", help="List the named sounds of recordings instead.")
    ] = False,
    words: Annotated[
        str | None, typer.Option("--words", help="Words to find, if the last argument is a path.")
    ] = None,
    format: Annotated[FoundAs, typer.Option(help="Output format.")] = "table",
) -> None:
    """Find moments in runs by words in captions and in what was heard, said, read or seen.

    Everything found about one moment is one result, with every kind of evidence
    that matches. `drilling` also finds `drill`; the search box of the report
    works the same way. --meaning also finds text of similar meaning. --sounds
    needs no run: it listens to recordings and names their sounds with mn04
    (`earmark models get mn04`) or YAMNet; `drill` also finds power tools.

    For example:

      earmark search runs/tuesday "red hammer"

      earmark search archive/ "someone makes a hole" --meaning

      earmark search --sounds shift.mp4 "running water" --format labels > labels.txt
    """
    if sounds:
        _search_sounds(places, settings, words, format)
        return
    arguments = [*places, words] if words is not None else places
    if len(arguments) != 2:
        raise ValueError("search takes the folder of a run and the words to find, in quotes")
    if format not in ("table", "json"):
        raise ValueError(f"--format {format} is for --sounds")
    folder, text = Path(arguments[0]), arguments[1]
    encoder = SentenceEncoder(model_store(settings.folders.models)) if meaning else None
    if encoder:
        encoder.check()
    blur = options.face_blur(settings)
    with progress_bar("texts", "reading") as progress, Archive(folder, blur=blur) as archive:
        moments = archive.search(text, most=most + 1, meaning=encoder, told=progress)
    for line in archive.skipped:
        warn(line)
    if len(moments) > most:
        warn(f"more moments match: --most {most} shows the best")
    _show_moments(moments[:most], thumbnails, format)
    if not moments and format == "table":
        warn(f"nothing in {folder} matches {text!r}")


def _show_moments(moments: Sequence[Moment], thumbnails: Path | None, format: str) -> None:
    """Print moments, the best first; write their pictures, so numbered, into `thumbnails`."""
    rows = []
    for number, moment in enumerate(moments, start=1):
        picture = None
        if thumbnails and moment.thumbnail:
            thumbnails.mkdir(parents=True, exist_ok=True)
            name = f"{number:03d}-{Path(moment.path).stem}-{moment.span.start:.0f}s.jpg"
            picture = thumbnails / name
            picture.write_bytes(moment.thumbnail)
        if format == "table":
            print_lines([*moment.lines(), *([f"  {picture}"] if picture else [])])
        rows.append(moment.to_json() | {"thumbnail": base64.b64encode(moment.thumbnail).decode()})
    if format == "json":
        emit_json(rows)


def _search_sounds(places: list[str], settings: Settings, words: str | None, format: str) -> None:
    if words is None:
        places, words = split_words(places)
    with options.progress_of(settings) as progress:
        sources = options.sources_at(places)
        listing = list_sounds(sources, words=words, settings=settings, progress=progress)
    errors = [failed.error for failed in listing.failures]
    if format == "labels":
        emit(listing.labels())
        options.end_with(errors, listing.warnings())
        return
    if words and format == "table":
        if listing.matches:
            err.print(f"listening for {describe_matches(listing.matches)}")
        else:
            warn(f"no sound that has a name means {words!r}; without words all are listed")
    options.show(listing, format, warnings=listing.warnings(), errors=errors)


def split_words(arguments: list[str]) -> tuple[list[str], str]:
    """The paths and the words: the last of several arguments is the words if it is no path.

    What has the suffix of a media file is a path, though there may be no such file.
    """
    last = arguments[-1]
    is_path = (
        any(sign in last for sign in "*?[/\\")
        or Path(last).exists()
        or Path(last).suffix.lower() in SUFFIXES
    )
    return (arguments, "") if len(arguments) == 1 or is_path else (arguments[:-1], last)


@options.takes_settings("model", "blur")
def ask(
    folder: options.RunFolder,
    question: Annotated[str, typer.Argument(help="The question.")],
    settings: Settings,
    calls: Annotated[
        int, typer.Option(help="First look for it in the recordings with this many calls.", min=0)
    ] = 0,
    format: options.ResultFormat = Format.table,
) -> None:
    """Answer a question about a run; every sentence of the answer quotes its source.

    The model (a text model or the vision model) receives captions and evidence
    of the run. Sentences without a valid quote are left out. What was said or
    written in a recording is passed as data, not as instructions. Without a
    model the matching entries are listed, and no answer is written.

    For example:

      earmark ask runs/tuesday "When was the drill used?"

      earmark ask runs/tuesday "When was the drill used?" --model http://localhost:8000/v1

      earmark ask runs/tuesday "Who wore gloves?" --model http://localhost:8000/v1 --calls 20
    """
    answer = ask_run(folder, question, calls=calls, settings=settings, api_key=options.api_key())
    options.show(answer, format)
    if answer.likeliest and not answer.is_asked and format is Format.table:
        err.print(
            "No model was asked; these entries of the run match best. For an answer in sentences, "
            "name a server with the OpenAI API: --model http://HOST/v1"
        )


@options.takes_settings("model", "blur", "voices")
def export(
    folder: options.RunFolder,
    settings: Settings,
    format: Annotated[
        str, typer.Option("--to", help=f"Format: {', '.join((*EXPORTERS, *FURTHER))}.")
    ] = "jsonl",
    to: Annotated[
        Path | None,
        typer.Option(
            "--out", "-o", help="File to write; a folder for formats with one file per recording."
        ),
    ] = None,
) -> None:
    """Write the picks and captions of a run in a format for other tools.

    The output goes to stdout unless --out is given. A `bundle` is a ZIP archive
    to give away: the report with short clips, and the captions, without paths,
    addresses and keys; it shows whoever was filmed unless faces are blurred.
    `highlights` are the picks as one video with subtitles and chapters. A
    `batch` holds the requests that have no answer yet.

    For example:

      earmark export runs/tuesday --to csv > tuesday.csv

      earmark export runs/tuesday --to srt --out subtitles/

      earmark export runs/tuesday --to bundle --out tuesday.zip --no-voices --blur faces

      earmark export runs/tuesday --to highlights --out day.mp4

      earmark export runs/tuesday --to batch --model gpt-5-mini --out requests.jsonl
    """
    if format in FURTHER:
        if to is None:
            raise ValueError(f"--to {format} needs a file to write: add --out FILE")
        (_export_batch if format == "batch" else _export_clips)(folder, to, settings, format)
        return
    if format not in EXPORTERS:
        formats = ", ".join((*EXPORTERS, *FURTHER))
        raise ValueError(f"there is no export format {format!r}; the formats are {formats}")
    with Run(folder, blur=options.face_blur(settings)) as run:
        for missed in run.failed_recordings():
            warn(f"left out {missed.path}: {missed.reason}")
        if to is None:
            emit(_as_text(run, format))
            return
        with options.progress_of(settings) as progress:
            progress.enter("writing")
            paths = write_export(run, to, format=format)
    note_written(folder, paths)
    print_lines(map(str, paths))


def _export_clips(folder: Path, to: Path, settings: Settings, format: str) -> None:
    write_clips = bundle if format == "bundle" else highlights
    with Run(folder) as run:
        spans = [pick.span for row in run.recordings() for pick in run.picks(row.id)]
        is_blurred = run.is_blurred or settings.blur == "faces"
    if spans and is_blurred:
        length = sum(span.duration for span in spans)
        err.print(
            f"blurring faces in {format_length(length)} of clips: on one core, 1080p takes about "
            f"{format_length(BLURRING * length)}"
        )
    with options.progress_of(settings) as progress:
        result = write_clips(folder, to, settings, progress=progress)
    for line in result.left_out:
        warn(line)
    if format == "bundle":
        out.print(f"{to}: the page, captions and {counted(result.picks, 'clip')}")
    else:
        how = "copied as recorded" if result.is_copied else "re-encoded"
        out.print(f"{to}: {counted(result.picks, 'pick')}, {how}")


def _export_batch(folder: Path, to: Path, settings: Settings, _: str) -> None:
    if settings.model is None:
        raise InvalidSetting("model", "name the model that the batch is for")
    model = settings.model.rpartition("#")[2]
    export = export_batch(folder, to, model=model, settings=settings)
    print_lines(map(str, export.paths))
    for line in export.left_out:
        warn(line)
    if not export.requests:
        warn("every pick has an answer, so no file was written")
        return
    requests = counted(export.requests, "request")
    command = f"earmark run import {folder} RESULTS.jsonl --model {model}"
    err.print(f"{requests}; import their results with: {command}")


def _as_text(run: Run, format: str) -> str:
    """The file that `export` would write, as text; `ValueError` if it is not one text file."""
    exporter = EXPORTERS.named(format)
    if not exporter.is_text:
        raise ValueError(f"--to {format} needs a file to write: add --out FILE")
    if exporter.is_per_recording and len(run.recordings()) != 1:
        raise ValueError(
            f"{run.folder} has {len(run.recordings())} recordings, and {format} takes one file "
            f"for each: add --out FOLDER"
        )
    with scratch_folder() as scratch:
        (path,) = write_export(run, scratch / f"run.{format}", format=format)
        with path.open(encoding="utf-8", newline="") as file:
            return file.read()
