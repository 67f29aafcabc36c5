"""`earmark search` and `ask`: find moments in runs by words, and answer questions about a run."""

from __future__ import annotations

import base64
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from earmark.cli.options import (
    BLURRING,
    MODEL,
    AsJson,
    Blurred,
    RunFolder,
    api_key,
    face_blur,
    takes_plan,
)
from earmark.ledger.text_index import SearchHit
from earmark.media.source import name_of, place_of
from earmark.models.sentence_encoder import SentenceEncoder
from earmark.models.user_folders import model_store
from earmark.pipeline.answer import RunAnswer
from earmark.pipeline.answer import ask as ask_run
from earmark.pipeline.run_plan import Plan
from earmark.reporting.console import emit_json, err, out, progress_bar, warn
from earmark.reporting.text_format import counted
from earmark.search.archive_search import Archive, FoundMoment
from earmark.timeline import format_clock

MORE_CALLS = 20
"""Calls to suggest to the user if the run does not answer the question."""

MOST_SAID = 4
"""Most texts printed for each kind of evidence of a moment."""


def search(
    folder: Annotated[
        Path, typer.Argument(metavar="RUN", help="Folder of a run, or of several runs.")
    ],
    words: Annotated[str, typer.Argument(help="Words to find; all must match.")],
    most: Annotated[int, typer.Option(help="Largest number of results.", min=1)] = 50,
    meaning: Annotated[
        bool, typer.Option("--meaning", help="Also find text of similar meaning, with MiniLM.")
    ] = False,
    thumbnails: Annotated[
        Path | None, typer.Option(help="Also write the pictures of the results into this folder.")
    ] = None,
    blur: Blurred = "none",
    as_json: AsJson = False,
) -> None:
    """Find moments in runs by words in captions and in what was heard, said, read or seen.

    Everything found about one moment is one result, with every kind of evidence
    that matches. `drilling` also finds `drill`; the search box of the report
    works the same way. --meaning also finds text of similar meaning; the first
    search reads all texts and stores what it computes.

    For example:

      earmark search runs/tuesday "red hammer"

      earmark search archive/ "someone makes a hole" --meaning

      earmark search runs/tuesday water --thumbnails found/
    """
    encoder = SentenceEncoder(model_store()) if meaning else None
    if encoder is not None:
        encoder.check()
    with progress_bar("texts", "reading") as told, Archive(folder) as archive:
        more = archive.search(
            words, most=most + 1, meaning=encoder, blur=face_blur(blur), told=told
        )
    found = more[:most]
    for line in archive.skipped:
        warn(line)
    if len(more) > most:
        warn(f"more moments match: --most {most} shows the best")
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
    """Print the recording and time of a moment, and the matching texts by kind of evidence."""
    span = f"{format_clock(found.span.start)} - {format_clock(found.span.end)}"
    out.print(f"{place_of(found.hit.path)}  {span}", style="bold")
    if found.chapters:
        clip = found.clip
        times = f"{format_clock(clip.start)} - {format_clock(clip.end)}"
        out.print(f"  in {place_of(name_of(clip.path))}: {times}")
    for kind in found.kinds:
        texts = list(dict.fromkeys(_text(hit) for hit in found.telling if hit.kind == kind))
        more = [f"… and {len(texts) - MOST_SAID} more"] if len(texts) > MOST_SAID else []
        line = "; ".join(texts[:MOST_SAID] + more)
        out.print(f"  {'heard' if kind == 'tags' else kind}: {line}")


def _text(hit: SearchHit) -> str:
    """The text of one entry; for evidence with its confidence and model."""
    model = hit.model.removesuffix(" track")  # marks sounds of the whole recording, not of a window
    return f"{hit.text} ({hit.confidence:.2f}, {model})" if hit.text else hit.told


def _write_pictures(found: list[FoundMoment], folder: Path) -> dict[int, Path]:
    """Write the thumbnails there are, numbered from the best match; returns the path by index."""
    folder.mkdir(parents=True, exist_ok=True)
    written = {}
    for number, each in enumerate(found):
        if each.thumbnail:
            name = f"{number + 1:03d}-{Path(each.hit.path).stem}-{each.span.start:.0f}s.jpg"
            path = folder / name
            path.write_bytes(each.thumbnail)
            written[number] = path
    return written


def _plain(found: FoundMoment) -> dict[str, object]:
    return found.to_json() | {"thumbnail": base64.b64encode(found.thumbnail).decode()}


@takes_plan({name: MODEL[name] for name in ("vlm", "model")} | BLURRING)
def ask(
    folder: RunFolder,
    question: Annotated[str, typer.Argument(help="The question.")],
    plan: Plan,
    calls: Annotated[
        int, typer.Option(help="First look for it in the recordings with this many calls.", min=0)
    ] = 0,
    as_json: AsJson = False,
) -> None:
    """Answer a question about a run; every sentence of the answer quotes its source.

    The model (a text model or the vision model) receives captions and evidence
    of the run. Sentences without a valid quote are left out. What was said or
    written in a recording is passed as data, not as instructions. Without --vlm
    the matching entries are listed, and no answer is written.

    For example:

      earmark ask runs/tuesday "When was the drill used?"

      earmark ask runs/tuesday "When was the drill used?" --vlm http://localhost:8000/v1

      earmark ask runs/tuesday "Who wore gloves?" --vlm http://localhost:8000/v1 --calls 20
    """
    answer = ask_run(folder, question, calls=calls, plan=plan, api_key=api_key())
    if as_json:
        emit_json(asdict(answer))
        return
    show_answer(answer)


def show_answer(told: RunAnswer) -> None:
    """Print the answer with its sources, or the likeliest entries if no model was asked."""
    answer = told.answer
    for entry in told.likeliest:
        out.print(f"{entry.place}, {entry.kind}: “{entry.text}”")
    if told.likeliest:
        err.print(
            "No model was asked: this is what the run holds that may tell. For an answer in "
            "sentences name a server that speaks the OpenAI API with --vlm URL"
        )
        return
    for sentence in answer.sentences:
        out.print(sentence.text, style="bold")
        for each in sentence.citations:
            out.print(f"  {each.entry.place}, {each.entry.kind}: “{each.quote}”")
    if not answer.sentences:
        out.print("The run does not say.")
    if answer.unknown:
        out.print(f"Not known: {answer.unknown}")
    if answer.left_out:
        left = counted(answer.left_out, "sentence")
        out.print(f"{left} left out that quoted nothing in the run")
    if told.unasked and (answer.unknown or not answer.sentences):
        calls = min(MORE_CALLS, told.unasked)
        out.print(
            f"No model has looked at {counted(told.unasked, 'window')}: --vlm URL --calls {calls} "
            f"looks at {calls} of them, for at most {calls * told.tokens_a_call:,} tokens"
        )
