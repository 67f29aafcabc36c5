"""`earmark evaluate captions`: whether captions name what is done, asked in several ways."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.table import Table

from earmark.call import Limits
from earmark.call.hands import HandCrop
from earmark.cli.captioners import Wanted
from earmark.cli.console import Format, emit_json, out
from earmark.cli.listing import as_share
from earmark.evaluate.captions import (
    TOKENS,
    Means,
    Row,
    compare,
    draw,
    read_stimuli,
    variants,
)
from earmark.evaluate.naming import Vocabulary
from earmark.hear import YAMNet
from earmark.media import Recording, find, open_recording
from earmark.media.files import replacing


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
    stimuli: Annotated[int, typer.Option(help="Actions to ask about, drawn at random.")] = 200,
    seed: Annotated[int, typer.Option(help="Of the draw.")] = 0,
    base: Annotated[int, typer.Option(help="Visual tokens of the full frame.")] = TOKENS,
    tokens: Annotated[
        str, typer.Option(help="Other allowances to sweep, with commas, such as 64,128,256.")
    ] = "",
    hands: Annotated[
        bool, typer.Option("--hands", help="Also show only what hands reach.")
    ] = False,
    sounds: Annotated[bool, typer.Option("--sounds", help="Also say what is heard.")] = False,
    concurrency: Annotated[int, typer.Option(help="Calls at once.")] = 8,
    keep: Annotated[Path | None, typer.Option("--out", help="JSONL of every caption.")] = None,
    format: Annotated[Format, typer.Option(help="How to print the comparison.")] = Format.table,
) -> None:
    """Ask about annotated actions in several ways, and score how often captions name them.

    The full frame at the middle of the action is held against a hand-centred crop, against a
    prompt that says what is heard, and against other token allowances, on the same actions.

    For example:

      earmark evaluate captions EPIC_100_validation.csv -m videos/ --nouns EPIC_100_noun_classes.csv
      --verbs EPIC_100_verb_classes.csv --vlm http://localhost:8000/v1 --hands --sounds
    """
    classes = {"nouns": Vocabulary.from_epic(nouns), "verbs": Vocabulary.from_epic(verbs)}
    recordings = recordings_at(media)
    known = [each for each in read_stimuli(actions, **classes) if each.recording in recordings]
    wanted = Wanted(vlm=vlm, model=model, gguf=gguf)
    rows = compare(
        draw(known, stimuli, seed=seed),
        recordings,
        variants(tokens=parse_tokens(tokens), hands=hands, sounds=sounds, base=base),
        Means(
            wanted.captioner(concurrency=concurrency),
            limits=Limits(concurrency=concurrency),
            crop=HandCrop() if hands else None,
            tags=YAMNet().tags if sounds else None,
        ),
        **classes,
    )
    if keep is not None:
        write_captions(keep, rows)
    if format is Format.json:
        emit_json([as_row(row) for row in rows])
    else:
        show(rows)


def recordings_at(media: list[str]) -> dict[str, Recording]:
    """The recordings there are, by the stem of their file."""
    return {Path(source.name).stem: open_recording(source) for source in find(media)}


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


def show(rows: list[Row]) -> None:
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


def as_row(row: Row) -> dict[str, Any]:
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


def write_captions(path: Path, rows: list[Row]) -> None:
    """One line a caption: which variant, which action, what was said."""
    with replacing(path) as scratch, scratch.open("w", encoding="utf-8") as file:
        for row in rows:
            for each, text in row.captions.items():
                line = {
                    "variant": row.variant.name,
                    "recording": each.recording,
                    "start": each.span.start,
                    "end": each.span.end,
                    "noun": each.noun,
                    "verb": each.verb,
                    "text": text,
                }
                file.write(json.dumps(line) + "\n")
