"""`earmark find`: finds the moments that a question describes, with a given number of calls."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from earmark.cli import options
from earmark.cli.caption import run_folder
from earmark.evidence.sound_query import describe_matches
from earmark.pipeline.find import FindResult
from earmark.pipeline.find import find as find_moments
from earmark.pipeline.run_plan import Plan
from earmark.reporting.console import Format, emit_json, err, out, warn
from earmark.reporting.progress_display import show_progress
from earmark.reporting.text_format import counted
from earmark.timeline import format_clock

LOOKING = {"frames": options.QUESTION["frames"], "blur": options.QUESTION["blur"]}
"""Options of a question that apply to `find`, which has its own prompt."""

FINDING = options.MODEL | LOOKING | options.VOICES | options.LISTENING
FINDING |= options.LIMITS | options.BACKEND


@options.takes_plan(FINDING)
def find(
    question: Annotated[str, typer.Argument(help="What to look for, as a sentence.")],
    plan: Plan,
    paths: options.Paths,
    calls: Annotated[int, typer.Option(help="Number of calls over all recordings.", min=1)] = 30,
    clips: Annotated[
        Path | None, typer.Option(help="Also write clips of what was found into this folder.")
    ] = None,
    run: options.NewRunFolder = None,
    format: options.OutcomeAs = Format.table,
) -> None:
    """Find the moments that a question describes; the model answers yes or no for each window.

    Windows with matching sounds are asked first (named by YAMNet; compared by
    meaning with MiniLM), one call per moment, and answers decide what is asked
    next. The output ends with an estimate of the moments missed. The same
    command asks for no stored answer again; a larger --calls continues.

    For example:

      earmark find "someone uses a drill" shift.mp4 --vlm http://localhost:8000/v1

      earmark find "water runs" archive/ --calls 100 --gguf Qwen3-VL-8B.gguf
    """
    with show_progress() as progress:
        found = find_moments(
            question,
            run=run or run_folder(paths, plan),
            calls=calls,
            clips=clips,
            plan=plan,
            api_key=options.api_key(),
            progress=progress,
        )
    if format is Format.json:
        emit_json(found.to_json())
    else:
        show(found)
    if found.failures:
        raise typer.Exit(1)


def show(found: FindResult) -> None:
    """Print the moments, and how many were probably missed; matched sounds and notes to stderr."""
    if found.matches:
        err.print(f"listened for {describe_matches(found.matches)}")
    for note in found.notes:
        warn(note)
    for failure in found.failures:
        err.print(f"earmark: {failure}", style="red")
    for one in found.recordings:
        out.print(one.path, style="bold")
        for place, (span, what) in enumerate(zip(one.spans, one.what, strict=True)):
            times = f"{format_clock(span.start)} - {format_clock(span.end)}"
            out.print(f"  {times}  {what}")
            if place < len(one.clips):
                out.print(f"    {one.clips[place]}")
    moments = sum(len(one.spans) for one in found.recordings)
    missed = found.missed
    out.print(
        f"{counted(moments, 'moment')} found with {counted(found.calls, 'call')} of "
        f"{found.windows:,} windows; probably missed: about {missed.expected:.1f} "
        f"({missed.low:.0f} to {missed.high:.0f})"
    )
    out.print(f"report: {found.page}")
