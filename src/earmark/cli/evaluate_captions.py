"""`earmark evaluate captions`: whether captions name what is done, asked in several ways."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.table import Table

from earmark.captioning import Limits, Prompt
from earmark.captioning.hand_crop import HandCrop, HandFinder
from earmark.cli.captioner_options import Wanted
from earmark.cli.checkpoints import model_store
from earmark.cli.console import Format, emit_json, err, out, progress_bar
from earmark.cli.formatting import as_share, counted
from earmark.errors import AnnotationError, EarmarkError
from earmark.evaluation.metrics.caption_naming import Vocabulary
from earmark.evaluation.paper.caption_comparison import (
    TOKENS,
    CaptionTools,
    CaptionVariant,
    VariantScore,
    Watch,
    compare,
    picture_of,
    variants,
)
from earmark.evaluation.paper.caption_log import CaptionLog
from earmark.evaluation.paper.caption_page import Show, captions_page
from earmark.evaluation.paper.caption_stimuli import Stimulus, check_inside, draw, read_stimuli
from earmark.evaluation.score_sources import find_media
from earmark.features import YAMNet
from earmark.media import Recording, open_recording
from earmark.media.atomic_file import replacing


def captions(
    actions: Annotated[
        Path, typer.Argument(help="CSV: recording, start, end, noun, verb; EPIC's.")
    ],
    media: Annotated[list[str], typer.Option("--media", "-m", help="Files or folders.")],
    nouns: Annotated[Path, typer.Option(help="CSV of noun classes: key and instances.")],
    verbs: Annotated[Path, typer.Option(help="CSV of verb classes: key and instances.")],
    vlm: Annotated[str | None, typer.Option(help="Address of an OpenAI-compatible server.")] = None,
    model: Annotated[str | None, typer.Option(help="Name of the model there.")] = None,
    gguf: Annotated[Path | None, typer.Option(help="A model file to run in this process.")] = None,
    mmproj: Annotated[Path | None, typer.Option(help="Its picture encoder.")] = None,
    prompt: Annotated[Path | None, typer.Option(help="A prompt template.")] = None,
    schema: Annotated[Path | None, typer.Option(help="A JSON schema for the answers.")] = None,
    stimuli: Annotated[
        int, typer.Option(min=1, help="Actions to ask about, drawn at random.")
    ] = 200,
    seed: Annotated[int, typer.Option(help="Of the draw.")] = 0,
    base: Annotated[int, typer.Option(min=1, help="Visual tokens of the full frame.")] = TOKENS,
    tokens: Annotated[
        str, typer.Option(help="Other allowances to sweep, with commas, such as 64,128,256.")
    ] = "",
    hands: Annotated[
        bool, typer.Option("--hands", help="Also show only what hands reach.")
    ] = False,
    sounds: Annotated[bool, typer.Option("--sounds", help="Also say what is heard.")] = False,
    concurrency: Annotated[int, typer.Option(min=1, help="Calls at once.")] = 8,
    keep: Annotated[
        Path | None,
        typer.Option("--out", help="JSONL of every caption, as it arrives; goes on where it was."),
    ] = None,
    page: Annotated[
        Path | None, typer.Option(help="HTML page of every moment, as shown and as told.")
    ] = None,
    format: Annotated[Format, typer.Option(help="How to print the comparison.")] = Format.table,
) -> None:
    """Ask about annotated actions in several ways, and score how often captions name them.

    The full frame at the middle of the action is held against a hand-centred crop, against a
    prompt that says what is heard, and against other token allowances, on the same actions. With
    --out every answer is kept as it arrives, and the same command asks only what has none.

    For example:

      earmark evaluate captions EPIC_100_validation.csv -m videos/ --nouns EPIC_100_noun_classes.csv
      --verbs EPIC_100_verb_classes.csv --vlm http://localhost:8000/v1 --hands --sounds
      --tokens 64,256 --out said.jsonl --page captions.html
    """
    if vlm is None and gguf is None:
        raise EarmarkError("captions need a model to ask: give --vlm URL or --gguf FILE")
    classes = {"nouns": Vocabulary.from_epic(nouns), "verbs": Vocabulary.from_epic(verbs)}
    ways = variants(tokens=parse_tokens(tokens), hands=hands, sounds=sounds, base=base)
    recordings = recordings_at(media)
    chosen = draw(known_at(actions, recordings, **classes), stimuli, seed=seed)
    wanted = Wanted(vlm=vlm, model=model, gguf=gguf, mmproj=mmproj)
    with watching(ways) as watch:
        means = CaptionTools(
            wanted.captioner(
                concurrency=concurrency,
                tokens=max(way.tokens for way in ways),
            ),
            prompt=Prompt.load(*([prompt] if prompt else []), schema=schema),
            limits=Limits(concurrency=concurrency),
            crop=HandCrop() if hands else None,
            tags=YAMNet().tags if sounds else None,
            kept=CaptionLog.open(keep) if keep else CaptionLog(),
            watch=watch,
        )
        rows = compare(chosen, recordings, ways, means, **classes)
    if format is Format.json:
        emit_json([as_row(row) for row in rows])
    else:
        show(rows)
    tell_failures(rows)
    if page is not None:
        told = f"{counted(len(chosen), 'action')} of {actions.name}, seed {seed}"
        notes = [told, f"asked of {means.captioner.model}"]
        write_page(
            page,
            captions_page(rows, show=shows(recordings, means), notes=notes, **classes),
        )


@contextmanager
def watching(ways: list[CaptionVariant]) -> Iterator[Watch]:
    """A bar over all the variants."""
    with progress_bar("asked") as bar:
        task = bar.add_task("listening" if any(way.tells_sounds for way in ways) else "")
        names = [way.name for way in ways]

        def watch(name: str, done: int, total: int) -> None:
            reached = names.index(name) * total + done
            bar.update(task, description=name, completed=reached, total=len(ways) * total)

        yield watch


def shows(recordings: dict[str, Recording], means: CaptionTools) -> Show:
    """What a variant showed of a moment, decoded once more for the page."""
    return lambda each, row: picture_of(each, row.variant, recordings, means.crop)[0]


def write_page(path: Path, text: str) -> None:
    """Put the page in its place, whole."""
    with replacing(path) as scratch:
        scratch.write_text(text, encoding="utf-8")


def known_at(
    actions: Path, recordings: dict[str, Recording], *, nouns: Vocabulary, verbs: Vocabulary
) -> list[Stimulus]:
    """The actions whose recording is at hand; every one of them lies inside it."""
    marked = read_stimuli(actions, nouns=nouns, verbs=verbs)
    known = [each for each in marked if each.recording in recordings]
    if not known:
        raise AnnotationError(
            f"{actions.name} marks no action of {', '.join(sorted(recordings)[:3])}; files go by "
            f"the names of their recordings, such as {marked[0].recording}.mp4"
        )
    check_inside(known, recordings)
    return known


def tell_failures(rows: list[VariantScore]) -> None:
    """Why calls failed, each reason once, on stderr."""
    reasons = Counter(reason for row in rows for reason in row.failures)
    for reason, count in reasons.most_common(5):
        err.print(f"earmark: {counted(count, 'call')} failed: {reason}", style="red")


def recordings_at(media: list[str]) -> dict[str, Recording]:
    """The recordings there are, by the stem of their file."""
    return {name: open_recording(source) for name, source in find_media(media).items()}


def parse_tokens(text: str) -> list[int]:
    """Allowances written with commas.

    >>> parse_tokens("64, 128")
    [64, 128]
    """
    try:
        numbers = [int(word) for word in text.split(",") if word.strip()]
    except ValueError:
        raise ValueError(f"{text!r} is no list of numbers: write 64,128,256") from None
    if any(number < 1 for number in numbers):
        raise ValueError(f"an allowance is at least 1 token, not {min(numbers)}")
    return numbers


def show(rows: list[VariantScore]) -> None:
    """One line a variant; p is McNemar's, against the first."""
    table = Table(box=None, pad_edge=False)
    for name in ("variant", "n", "noun", "p", "verb", "p", "failed", "whole", "tokens in"):
        table.add_column(name, justify="left" if name == "variant" else "right")
    for row in rows:
        table.add_row(
            row.variant.name,
            str(row.nouns.asked),
            as_share(row.nouns.accuracy if row.nouns.asked else None),
            "–" if row.noun_p is None else f"{row.noun_p:.3f}",
            as_share(row.verbs.accuracy if row.verbs.asked else None),
            "–" if row.verb_p is None else f"{row.verb_p:.3f}",
            str(row.failed),
            str(row.uncropped) if row.variant.crops_hands else "–",
            "–" if row.prompt_tokens is None else f"{row.prompt_tokens:.0f}",
        )
    out.print(table)


def as_row(row: VariantScore) -> dict[str, Any]:
    """One variant as plain values; null where nothing was answered or there is no comparison."""
    asked = row.nouns.asked
    return {
        "variant": row.variant.name,
        "tokens": row.variant.tokens,
        "hand_crop": row.variant.crops_hands,
        "sounds_told": row.variant.tells_sounds,
        "answered": asked,
        "failed": row.failed,
        "uncropped": row.uncropped,
        "nouns_named": row.nouns.named,
        "verbs_named": row.verbs.named,
        "noun_accuracy": row.nouns.accuracy if asked else None,
        "verb_accuracy": row.verbs.accuracy if asked else None,
        "noun_p": row.noun_p,
        "verb_p": row.verb_p,
        "mean_prompt_tokens": row.prompt_tokens,
    }
