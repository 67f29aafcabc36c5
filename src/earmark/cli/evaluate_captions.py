"""`earmark evaluate captions`: measures how often captions name actions, for ways of asking."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer

from earmark.cli import options
from earmark.cli.evaluate import words
from earmark.errors import EarmarkError
from earmark.evaluation.paper.caption_comparison import TOKENS, CaptionTools, VariantProgress
from earmark.evaluation.paper.caption_evaluation import (
    CaptionEvaluationPlan,
    captions_table,
    evaluate_captions,
)
from earmark.evaluation.paper.captions import CaptionLog
from earmark.pipeline.run_plan import Plan
from earmark.reporting.console import Format, emit_json, err, print_table, progress_bar
from earmark.reporting.text_format import counted

Stimuli = Annotated[int, typer.Option(min=1, help="Number of actions to draw at random.")]
Hands = Annotated[bool, typer.Option("--hands", help="Also ask with a crop around the hands.")]
Sounds = Annotated[
    bool, typer.Option("--sounds", help="Also ask with the named sounds in the prompt.")
]
ASKING = {name: options.MODEL[name] for name in ("vlm", "model", "gguf", "mmproj")}
ASKING |= {"concurrency": options.LIMITS["concurrency"]}
"""Options of a plan: the model to ask, and the concurrency."""

WORDING = {name: options.QUESTION[name] for name in ("prompt", "schema", "blur")}
"""Options of a question that apply to one frame of an action."""


@options.takes_plan(ASKING | WORDING)
def captions(
    actions: Annotated[
        Path, typer.Argument(help="CSV of actions: recording, start, end, noun, verb.")
    ],
    media: Annotated[
        list[str], typer.Option("--media", "-m", help="Recordings: files or folders.")
    ],
    nouns: Annotated[
        Path, typer.Option(help="CSV of noun classes, with the columns key and instances.")
    ],
    verbs: Annotated[
        Path, typer.Option(help="CSV of verb classes, with the columns key and instances.")
    ],
    plan: Plan,
    stimuli: Stimuli = 200,
    seed: Annotated[int, typer.Option(help="Seed of the draw.")] = 0,
    base: Annotated[int, typer.Option(min=1, help="Visual tokens of the full frame.")] = TOKENS,
    tokens: Annotated[
        str, typer.Option(help="Further token counts to compare, with commas: 64,128,256.")
    ] = "",
    hands: Hands = False,
    sounds: Sounds = False,
    keep: Annotated[
        Path | None,
        typer.Option("--out", help="JSONL file of all captions; an existing file is continued."),
    ] = None,
    page: Annotated[
        Path | None, typer.Option(help="HTML page to write, with every picture and its captions.")
    ] = None,
    format: options.OutcomeAs = Format.table,
) -> None:
    """Measure how often captions name annotated actions, for several ways to ask.

    The full frame at the middle of each action is compared with a crop around
    the hands, with a prompt that names the sounds, and with other token counts,
    always on the same actions. With --out every answer is stored as it arrives,
    and the same command asks only what is missing.

    For example:

      earmark evaluate captions marks.csv -m videos/ --nouns n.csv --verbs v.csv --gguf model.gguf

      earmark evaluate captions marks.csv -m videos/ --nouns n.csv --verbs v.csv --vlm URL --hands
    """
    if not (plan.model_choice.server or plan.model_choice.gguf):
        raise EarmarkError("captions need a model to ask: give --vlm URL or --gguf FILE")
    asked = CaptionEvaluationPlan(
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
    most = max(variant.tokens for variant in asked.variants)
    tools = caption_tools(plan, most, log=CaptionLog.open(keep) if keep else CaptionLog())
    with variants_bar(asked) as progress:
        found = evaluate_captions(asked, replace(tools, progress=progress))
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


def caption_tools(plan: Plan, tokens: int, *, log: CaptionLog) -> CaptionTools:
    """What asks the model of `plan`, with at most so many visual `tokens` a call."""
    question, limits = plan.question, plan.limits
    captioner = plan.model_choice.captioner(
        concurrency=limits.concurrency, tokens=tokens, api_key=options.api_key()
    )
    return CaptionTools(captioner, question.prompt, limits, blur=question.blur, log=log)


@contextmanager
def variants_bar(plan: CaptionEvaluationPlan) -> Iterator[VariantProgress]:
    """A progress bar over the calls of all variants; yields the function that updates it."""
    names = [variant.name for variant in plan.variants]
    with progress_bar("asked") as bar:
        task = bar.add_task("listening" if plan.sounds else "")

        def progress(name: str, done: int, total: int) -> None:
            reached = names.index(name) * total + done
            bar.update(task, description=name, completed=reached, total=len(names) * total)

        yield progress


def parse_tokens(text: str) -> list[int]:
    """Numbers of tokens, separated by commas; `ValueError` if one is not a whole number.

    >>> parse_tokens("64, 128")
    [64, 128]
    """
    try:
        return [int(word) for word in words(text)]
    except ValueError:
        raise ValueError(f"{text!r} is no list of numbers: write 64,128,256") from None
