"""`earmark caption` and `earmark find`: ask a vision model about windows of recordings."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer

from earmark.cli import options
from earmark.media.source import folder_name, name_of
from earmark.pipeline.caption import Preview, preview
from earmark.pipeline.caption import caption as caption_windows
from earmark.report.console import Format, err, warn
from earmark.run.run import Run
from earmark.settings import Settings


@options.takes_settings(
    "budget", "across", "rule", "frontline", "rounds", "model", "frames", "prompt",
    "blur", "speech", "clock", "clock_offset", "max_calls", "max_spend", "workers",
)  # fmt: skip
def caption(
    paths: options.Paths,
    settings: Settings,
    run: options.NewRunFolder = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Call no model; print the cost.")
    ] = False,
    retry_failed: Annotated[
        bool, typer.Option("--retry-failed", help="Work only on what failed.")
    ] = False,
    format: options.ResultFormat = Format.table,
) -> None:
    """Listen to recordings, choose windows, caption each with one call, and write a report.

    Every answer is stored as it arrives. If the command is stopped at any
    moment, the same command continues and asks for no stored answer again. A
    larger budget adds only the new windows. Without a model the report shows
    the picks and what small models found. The line `report:` says where it is.

    For example:

      earmark caption shift.mp4 --model http://localhost:8000/v1#Qwen3-VL-8B

      earmark caption archive/ -b 2000 --across --model gguf:Qwen3-VL-8B.gguf

      earmark caption shift.mp4 --dry-run --input-price 0.15 --output-price 0.6
    """
    folder = run or run_folder(paths, settings)
    if retry_failed:
        with Run(folder) as stored:
            if not stored.failed_paths():
                err.print(f"nothing failed in {folder}")
    sources = options.sources_at(paths)
    if any(source.weight != 1 for source in sources) and not settings.across:
        warn("the weights of the manifest have no effect without --across")
    verb = preview if dry_run else caption_windows
    with options.progress_of(settings) as progress:
        result = verb(
            sources,
            run=folder,
            settings=settings,
            retry_failed=retry_failed,
            api_key=options.api_key(),
            progress=progress,
        )
    if isinstance(result, Preview):
        options.show(result, format, errors=(failed.error for failed in result.failures))
        return
    if settings.rounds != "1" and settings.model is None:
        warn("--rounds has no effect without a model: there are no answers to plan by")
    options.show(result, format, warnings=result.warnings(), errors=result.errors())
    if not result.is_complete:
        raise typer.Exit(1)


def run_folder(paths: Sequence[str], settings: Settings) -> Path:
    """The default folder of a run: named by the first of `paths`, and the shard if there is one.

    It depends on the arguments, not on the files they match, so that a folder that gains a file is
    still the same run.
    """
    stem = Path(name_of(paths[0].rstrip("/"))).stem or Path(paths[0]).resolve().name
    part = settings.backend.shard
    shard = f"-{part.replace('/', '-of-')}" if part else ""
    return Path("runs") / f"{folder_name(stem)}{shard}"


@options.takes_settings("model", "frames", "blur", "max_calls", "max_spend", "workers")
def find(
    question: Annotated[str, typer.Argument(help="What to look for, as a sentence.")],
    paths: options.Paths,
    settings: Settings,
    calls: Annotated[int, typer.Option(help="Number of calls over all recordings.", min=1)] = 30,
    clips: Annotated[
        Path | None, typer.Option(help="Also write clips of what was found into this folder.")
    ] = None,
    run: options.NewRunFolder = None,
    format: options.ResultFormat = Format.table,
) -> None:
    """Find the moments that a question describes; the model answers yes or no for each window.

    Windows with matching sounds are asked first (named by mn04 or YAMNet; compared by
    meaning with MiniLM), one call per moment, and answers decide what is asked
    next. The output ends with an estimate of the moments missed. The same
    command asks for no stored answer again; a larger --calls continues.

    For example:

      earmark find "someone uses a drill" shift.mp4 --model http://localhost:8000/v1

      earmark find "water runs" archive/ --calls 100 --model gguf:Qwen3-VL-8B.gguf
    """
    from earmark.evidence.sound_query import describe_matches
    from earmark.pipeline.find import find as find_moments

    with options.progress_of(settings) as progress:
        result = find_moments(
            question,
            options.sources_at(paths),
            run=run or run_folder(paths, settings),
            calls=calls,
            clips=clips,
            settings=settings,
            api_key=options.api_key(),
            progress=progress,
        )
    if result.matches and format is Format.table:
        err.print(f"listened for {describe_matches(result.matches)}")
    options.show(result, format, warnings=result.notes, errors=result.failures)
