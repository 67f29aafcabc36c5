"""`earmark plan` and `earmark select`: which windows are worth a call, and what calls cost."""

from __future__ import annotations

from typing import Annotated, Literal

import typer

from earmark.cli import options
from earmark.media import Source
from earmark.pipeline.select import list_episodes
from earmark.pipeline.select import plan as make_forecast
from earmark.pipeline.select import select as select_windows
from earmark.report.console import Format, emit, emit_json, err
from earmark.selection.result import CallCost, selection_schema
from earmark.settings import Settings

PicksAs = Literal["table", "json", "jsonl", "csv", "edl"]
"""Output formats of `select`."""


@options.takes_settings(
    "budget", "across", "frontline", "window", "action_length", "frames", "input_price",
    "output_price", "currency", "workers", "shard",
)  # fmt: skip
def plan(
    paths: options.Paths,
    settings: Settings,
    coverage: Annotated[
        str | None, typer.Option(help="Also print how many calls this coverage takes, such as 90%.")
    ] = None,
    gpu_seconds: Annotated[
        float, typer.Option(help="GPU-seconds per call; the default is the paper's.")
    ] = CallCost().gpu_seconds,
    format: options.ResultFormat = Format.table,
) -> None:
    """Print the expected coverage, GPU-hours and cost of several budgets.

    Recordings are listened to; no model is called. Budgets are spent as
    `earmark caption` with the same options would spend them. The time that listening took
    is compared with the GPU time of a full scan: the last line says up to which
    share of the calls triage pays.

    For example:

      earmark plan shift.mp4

      earmark plan archive/ --coverage 90% --input-price 0.15 --output-price 0.6 --currency EUR
    """
    with options.progress_of(settings) as progress:
        forecast = make_forecast(
            options.sources_at(paths),
            settings=settings,
            coverage=None if coverage is None else parse_share(coverage, "--coverage"),
            gpu_seconds=gpu_seconds,
            progress=progress,
        )
    errors = [failed.error for failed in forecast.failures]
    options.show(forecast, format, warnings=forecast.warnings(), errors=errors)


def parse_share(text: str, option: str) -> float:
    """A share written as `90%` or `0.9`; `ValueError` if it is not above 0 and at most 1.

    >>> parse_share("90%", "--recall")
    0.9
    """
    try:
        number = float(text.strip().removesuffix("%"))
    except ValueError:
        raise ValueError(f"{option}: {text!r} is not a share; write 90% or 0.9") from None
    share = number / 100 if text.strip().endswith("%") else number
    if not 0 < share <= 1:
        raise ValueError(f"{option}: should be above 0% and at most 100%, not {text}")
    return share


@options.takes_settings(
    "budget", "across", "rule", "frontline", "window", "action_length", "workers", "shard"
)
def select(
    settings: Settings,
    paths: Annotated[
        list[str] | None,
        typer.Argument(
            help="Files, folders, globs, http(s):// or s3:// addresses.", show_default="."
        ),
    ] = None,
    explain: Annotated[
        bool,
        typer.Option("--explain", help="Also list the best windows that were not picked, and why."),
    ] = False,
    episodes: Annotated[
        bool,
        typer.Option("--episodes", help="List the stretches that the gate keeps open instead."),
    ] = False,
    recall: Annotated[
        str, typer.Option(help="Share of actions that episodes reached on development recordings.")
    ] = "95%",
    guarantee: Annotated[
        str | None,
        typer.Option(help="Recall of episodes to guarantee, with 95% confidence."),
    ] = None,
    schema: Annotated[
        bool, typer.Option("--schema", help="Print the JSON Schema of the output instead.")
    ] = False,
    format: Annotated[PicksAs, typer.Option(help="Output format.")] = "table",
) -> None:
    """Print the windows of recordings that are worth a call.

    Only the sound is read; no video frame is decoded and no model is called.
    Picks go to stdout, progress and warnings to stderr. The exit code is 1 if a
    recording failed.

    For example:

      earmark select shift.mp4 --budget 25%

      earmark select archive/ --budget 500 --across --format json

      earmark select s3://bucket/cam1.mp4 --rule separated --explain

      earmark select shift.mp4 --episodes --recall 95%
    """
    if schema:
        emit_json(selection_schema())
        return
    sources = options.sources_at(paths or ["."])
    if episodes:
        _show_episodes(sources, settings, recall, guarantee, format)
        return
    with options.progress_of(settings) as progress:
        selection = select_windows(
            sources, settings=settings, explain=10 if explain else 0, progress=progress
        )
    errors = [failed.error for failed in selection.failures]
    if format in ("jsonl", "edl"):
        from earmark.report.editing_formats import selection_edl  # opens runs too

        emit(selection.to_jsonl() if format == "jsonl" else selection_edl(selection))
        options.end_with(errors, selection.warnings())
    else:
        options.show(selection, format, warnings=selection.warnings(), errors=errors)


def _show_episodes(
    sources: list[Source], settings: Settings, recall: str, guarantee: str | None, format: PicksAs
) -> None:
    if format in ("jsonl", "edl"):
        raise ValueError(f"episodes are printed as a table, json or csv, not as {format}")
    with options.progress_of(settings) as progress:
        listing = list_episodes(
            sources,
            settings=settings,
            recall=parse_share(recall, "--recall"),
            guarantee=None if guarantee is None else parse_share(guarantee, "--guarantee"),
            progress=progress,
        )
    if listing.promise:
        err.print(listing.promise)
    options.show(listing, format, warnings=listing.notes, errors=listing.failures)
