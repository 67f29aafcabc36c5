"""`earmark evaluate captions`: measures how often captions name actions, for ways of asking."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

import typer

from earmark.cli import options
from earmark.cli.evaluate import words
from earmark.cli.options import argument, option, required
from earmark.errors import EarmarkError
from earmark.evaluation.paper.caption_comparison import TOKENS, CaptionTools
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


FILES = {
    "actions": argument(Path, "CSV of actions: recording, start, end, noun, verb."),
    "media": required(list[str], "Recordings: files or folders.", "--media", "-m"),
    "nouns": required(Path, "CSV of noun classes, with the columns key and instances."),
    "verbs": required(Path, "CSV of verb classes, with the columns key and instances."),
}
COMPARED = {
    "stimuli": (Stimuli, 200),
    "seed": option(int, "Seed of the draw.", default=0),
    "base": option(int, "Visual tokens of the full frame.", default=TOKENS, min=1),
    "tokens": option(str, "Further token counts to compare, with commas: 64,128,256.", default=""),
    "hands": (Hands, False),
    "sounds": (Sounds, False),
}


def plans_of(said: dict[str, Any]) -> tuple[CaptionEvaluationPlan, Plan]:
    """What is compared, and how it is asked, from the values `said` of the options."""
    own = {name: said.pop(name) for name in FILES | COMPARED}
    own |= {"media": tuple(own["media"]), "tokens": tuple(parse_tokens(own["tokens"]))}
    return CaptionEvaluationPlan(**own), options.plan_of(said)


@options.takes("plans", FILES | ASKING | WORDING | COMPARED, plans_of)
def captions(
    plans: tuple[CaptionEvaluationPlan, Plan],
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
    asked, plan = plans
    if not (plan.model_choice.server or plan.model_choice.gguf):
        raise EarmarkError("captions need a model to ask: give --vlm URL or --gguf FILE")
    variants = [variant.name for variant in asked.variants]
    most = max(variant.tokens for variant in asked.variants)
    tools = caption_tools(plan, most, log=CaptionLog.open(keep) if keep else CaptionLog())
    with progress_bar("asked", "listening" if asked.sounds else "") as show:

        def progress(name: str, done: int, total: int) -> None:
            show(variants.index(name) * total + done, len(variants) * total, name)

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


def parse_tokens(text: str) -> list[int]:
    """Numbers of tokens, separated by commas; `ValueError` if one is not a whole number.

    >>> parse_tokens("64, 128")
    [64, 128]
    """
    try:
        return [int(word) for word in words(text)]
    except ValueError:
        raise ValueError(f"{text!r} is no list of numbers: write 64,128,256") from None
