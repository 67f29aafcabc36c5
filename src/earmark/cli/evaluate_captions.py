"""`earmark evaluate captions`: whether captions name what is done, asked in several ways."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated

import typer

from earmark.captioning.limits import Limits
from earmark.captioning.model_choice import ModelChoice
from earmark.captioning.prompt import Prompt
from earmark.cli.evaluate import words
from earmark.cli.options import Blurred, face_blur
from earmark.errors import EarmarkError
from earmark.evaluation.paper.caption_comparison import TOKENS, CaptionTools, VariantProgress
from earmark.evaluation.paper.caption_evaluation import (
    CaptionEvaluationPlan,
    captions_table,
    evaluate_captions,
)
from earmark.evaluation.paper.captions import CaptionLog
from earmark.reporting.console import Format, emit_json, err, print_table, progress_bar
from earmark.reporting.text_format import counted


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
        Path | None, typer.Option(help="HTML page of every moment, as shown and captioned.")
    ] = None,
    blur: Blurred = "none",
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
    plan = CaptionEvaluationPlan(
        actions=actions,
        media=tuple(media),
        nouns=nouns,
        verbs=verbs,
        stimuli=stimuli,
        seed=seed,
        base=base,
        tokens=tuple(parse_tokens(tokens)),
        hands=hands,
        sounds=sounds,
    )
    choice = ModelChoice(server=vlm, model=model, gguf=gguf, mmproj=mmproj)
    captioner = choice.captioner(
        concurrency=concurrency,
        tokens=max(variant.tokens for variant in plan.variants),
        api_key=os.environ.get("OPENAI_API_KEY"),
    )
    with variants_bar(plan) as progress:
        tools = CaptionTools(
            captioner,
            prompt=Prompt.load(prompt, schema=schema),
            limits=Limits(concurrency=concurrency),
            log=CaptionLog.open(keep) if keep else CaptionLog(),
            blur=face_blur(blur),
            progress=progress,
        )
        found = evaluate_captions(plan, tools)
    if format is Format.json:
        emit_json(found.to_json())
    else:
        table = captions_table(found.scores)
        rows = [[*map(table.text, row)] for row in table.rows]
        print_table(table.columns, rows, words=table.columns[:1])
    for reason, count in found.failures.most_common(5):
        err.print(f"earmark: {counted(count, 'call')} failed: {reason}", style="red")
    if page is not None:
        found.write_page(page)


@contextmanager
def variants_bar(plan: CaptionEvaluationPlan) -> Iterator[VariantProgress]:
    """A bar over all the variants."""
    names = [variant.name for variant in plan.variants]
    with progress_bar("asked") as bar:
        task = bar.add_task("listening" if plan.sounds else "")

        def progress(name: str, done: int, total: int) -> None:
            reached = names.index(name) * total + done
            bar.update(task, description=name, completed=reached, total=len(names) * total)

        yield progress


def parse_tokens(text: str) -> list[int]:
    """Allowances written with commas.

    >>> parse_tokens("64, 128")
    [64, 128]
    """
    try:
        return [int(word) for word in words(text)]
    except ValueError:
        raise ValueError(f"{text!r} is no list of numbers: write 64,128,256") from None
