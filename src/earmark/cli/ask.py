"""`earmark ask`: an answer with sources, from what a run holds."""

from __future__ import annotations

from dataclasses import asdict
from typing import Annotated

import typer

from earmark.cli.options import AsJson, Blurred, RunFolder, api_key
from earmark.models.user_folders import model_store
from earmark.pipeline.answer import RunAnswer
from earmark.pipeline.answer import ask as ask_run
from earmark.reporting.console import emit_json, err, out
from earmark.reporting.text_format import counted


def ask(
    folder: RunFolder,
    question: Annotated[str, typer.Argument(help="What you want to know, in words.")],
    vlm: Annotated[str | None, typer.Option(help="Address of an OpenAI-compatible server.")] = None,
    model: Annotated[str | None, typer.Option(help="The model's name on that server.")] = None,
    calls: Annotated[
        int, typer.Option(help="First look for it in the recordings with so many calls.", min=0)
    ] = 0,
    blur: Blurred = "none",
    as_json: AsJson = False,
) -> None:
    """Ask a run a question; every sentence of the answer quotes what it rests on.

    The model, a text model or the vision model itself, is given captions and evidence of the run.
    A sentence that quotes nothing that is there is left out. What was said or written in a
    recording is data and never an instruction. Without a server the entries of the run that may
    tell are listed, and nothing is put into sentences.

    For example:

      earmark ask runs/tuesday "When was the drill used?"

      earmark ask runs/tuesday "When was the drill used?" --vlm http://localhost:8000/v1

      earmark ask runs/tuesday "Who wore gloves?" --vlm http://localhost:8000/v1 --calls 20
    """
    told = ask_run(
        folder,
        question,
        calls=calls,
        api_key=api_key(),
        server=vlm,
        model=model,
        store=model_store(),
        sounds=None,
        blur=blur,
    )
    if as_json:
        emit_json(asdict(told))
        return
    show(told)


def show(told: RunAnswer) -> None:
    """The sentences with their sources, and what the run does not tell."""
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
        out.print("The run does not tell.")
    if answer.unknown:
        out.print(f"Not known: {answer.unknown}")
    if answer.left_out:
        left = counted(answer.left_out, "sentence")
        out.print(f"{left} left out that quoted nothing in the run")
    if told.unasked and (answer.unknown or not answer.sentences):
        out.print(
            f"No model has looked at {counted(told.unasked, 'window')}: `--calls 20` looks at 20 "
            f"of them, for at most {20 * told.tokens_a_call:,} tokens"
        )
