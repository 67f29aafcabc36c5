"""`earmark caption`: listens, chooses windows, captions them and writes a report."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from earmark.captioning.limits import CURRENCY
from earmark.captioning.model_choice import ModelChoice
from earmark.cli import options
from earmark.evidence.picture_evidence import REQUIREMENTS, available_kinds
from earmark.gate.forecast_error import as_count, as_range
from earmark.ledger.run_reader import Run
from earmark.media.source import folder_name, name_of
from earmark.models.user_folders import model_store
from earmark.pipeline.caption import caption as caption_windows
from earmark.pipeline.run_plan import Plan
from earmark.reporting.console import Format, emit_json, err, out, warn
from earmark.reporting.run_result import CaptionResult
from earmark.reporting.text_format import counted, format_bytes_read, format_notes

if TYPE_CHECKING:
    from earmark.pipeline.preview import Preview
    from earmark.selection.stopping import Sightings

NO_EVIDENCE = (
    "no model here says what is {kinds}: "
    "pip install 'earmark[yamnet,vision]' and run `earmark models get evidence`"
)
ADD_A_MODEL = (
    "no model was asked, so there are no captions; to add them run {command} "
    "with --gguf MODEL.gguf (the shortest way), or --vlm URL --model NAME"
)

RetryFailed = Annotated[
    bool,
    typer.Option(
        "--retry-failed",
        help="Work only on recordings that failed or have failed calls, with the options of "
        "the run. With --across, on all recordings.",
        rich_help_panel=options.ARCHIVES,
    ),
]


@options.shows_progress
@options.takes_plan(options.CAPTIONING)
def caption(
    plan: Plan,
    paths: options.Paths,
    run: options.NewRunFolder = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Call no model; print the cost.")
    ] = False,
    format: options.OutcomeAs = Format.table,
    retry_failed: RetryFailed = False,
    *,
    watch: options.Watch,
) -> None:
    """Listen to recordings, choose windows, caption each with one call, and write a report.

    Every answer is stored as it arrives. If the command is stopped at any
    moment, the same command continues and asks for no stored answer again. A
    larger budget adds only the new windows. Without a model the report shows
    the picks and what small models found. The line `report:` says where it is.

    For example:

      earmark caption shift.mp4 --vlm http://localhost:8000/v1 --model Qwen3-VL-8B

      earmark caption archive/ --budget 2000 --across --gguf Qwen3-VL-8B.gguf

      earmark caption shift.mp4 --rounds auto --vlm http://localhost:8000/v1

      earmark caption shift.mp4 --speech

      earmark caption shift.mp4 --dry-run --input-price 0.15 --output-price 0.6

      earmark caption s3://bucket/cams/ --across --engine ray --address auto
    """
    folder = run or run_folder(paths, plan)
    if retry_failed:
        with Run(folder) as kept:
            if not kept.failed_paths():
                err.print(f"nothing failed in {folder}")
    key = options.api_key()
    how: dict[str, Any] = {"retry_failed": retry_failed, "plan": plan, "api_key": key}
    with watch() as progress:
        if dry_run:
            from earmark.pipeline.preview import preview

            cost = preview(run=folder, progress=progress, **how)
            show_preview(cost, format)
            options.end_with(failed.error for failed in cost.failures)
            return
        done = caption_windows(run=folder, progress=progress, **how)
    if plan.rounds != 1 and plan.model_choice == ModelChoice():
        warn("--rounds plans by answers, and nobody was asked: none steers this run")
    show(done, format)
    if plan.backend.batch and format is Format.table:
        tell_batch(done, plan.backend.batch, plan.model_choice.model or "NAME")
    if done.missed or done.tally.failed or done.tally.stopped:
        raise typer.Exit(1)


def run_folder(paths: Sequence[str], plan: Plan) -> Path:
    """The default folder of a run: named by the first of `paths`, and the shard if there is one.

    It depends on the arguments, not on the files they match, so that a folder that gains a file is
    still the same run.
    """
    stem = Path(name_of(paths[0].rstrip("/"))).stem or Path(paths[0]).resolve().name
    shard = f"-{plan.shard.number}-of-{plan.shard.of}" if plan.shard else ""
    return Path("runs") / f"{folder_name(stem)}{shard}"


def show_preview(cost: Preview, format: Format) -> None:
    """Print how many calls the command would make, and the most they can cost."""
    if format is Format.json:
        emit_json(asdict(cost))
        return
    most = f"at most {cost.tokens:,} tokens{as_spend(cost.money)}"
    out.print(
        f"{counted(cost.calls, 'call')} to make ({counted(cost.kept, 'answer')} kept already) "
        f"of {counted(cost.windows, 'window')}; {most}"
    )


def show(done: CaptionResult, format: Format, *, command: str = "the same command") -> None:
    """Print the results of the run; `command` is what the user would type to continue it.

    Warnings and failures go to stderr in every format.
    """
    totals, tally = done.totals, done.tally
    if format is Format.json:
        plain = {"run": str(done.folder), "report": str(done.page), "missed": done.missed}
        seen = {"sightings": asdict(done.sightings)} if done.sightings else {}
        share, span = done.coverage
        plain |= {"coverage": share, "coverage_range": asdict(span) if span else None}
        emit_json(plain | {"totals": asdict(totals), "this_run": asdict(tally)} | seen)
        tell_trouble(done)
        return
    if totals.recordings:
        tell_totals(done)
    elif not done.missed:
        warn("there is no recording to work on")
    if done.sightings and totals.answered:
        tell_sightings(done.sightings)
    tell_trouble(done)
    if totals.recordings:
        out.print(f"report: {done.page}")
    is_asked = totals.answered or totals.failed or tally.stopped or tally.written
    if totals.picks and not is_asked:
        here = available_kinds(model_store())
        if missing := [kind for kind in REQUIREMENTS if kind not in here]:
            out.print(NO_EVIDENCE.format(kinds=" or ".join(missing)))
        out.print(ADD_A_MODEL.format(command=command))


def as_spend(spend: float) -> str:
    """The spend as text to append to other figures; empty if it is 0."""
    return f", {spend:.4g} {CURRENCY}" if spend else ""


def tell_totals(done: CaptionResult) -> None:
    """Print what was asked, decoded and read so far, the expected coverage, and the cost."""
    totals = done.totals
    decoded = f"{totals.frames_decoded} of {totals.frame_count} frames decoded"
    if (
        totals.frames_decoded > totals.frame_count
    ):  # windows after the same key frame all decode from it
        decoded = (
            f"{totals.frames_decoded} frames decoded (some of {totals.frame_count} more than once)"
        )
    out.print(
        f"{totals.answered} of {totals.picks} picks captioned, of {totals.windows} windows; "
        f"{totals.failed} failed; {decoded}, "
        f"{format_bytes_read(totals.bytes_read, totals.size_bytes)}"
    )
    if totals.faces_blurred:
        out.print(f"{counted(totals.faces_blurred, 'face')} blurred in what was sent")
    if totals.expected:
        is_asked = totals.answered or totals.failed or done.tally.stopped or done.tally.written
        waits = is_asked and totals.answered < totals.picks
        once = f" once all {totals.picks} are answered" if waits else ""
        by = " by the sound alone" if done.sightings else ""
        expected = as_range(*done.coverage)
        out.print(f"expected coverage{once}{by} {expected}; {as_count(*done.actions)}")
    if totals.prompt_tokens:
        spent = as_spend(totals.spend)
        out.print(f"{totals.prompt_tokens:,} tokens in, {totals.completion_tokens:,} out{spent}")


def tell_batch(done: CaptionResult, batch: Path, model: str) -> None:
    """Print the files of requests of this round, and the command that imports their results."""
    tally = done.tally
    tell_requests(done.folder, batch, files=tally.files, count=tally.written, model=model)


def tell_requests(
    folder: Path, batch: Path, *, files: Iterable[str | Path], count: int, model: str
) -> None:
    """Print the files of requests, and the command that imports their results.

    If there are no requests, print that `batch` was not written.
    """
    if not count:
        stale = ": the one there is of an earlier round" if batch.exists() else ""
        warn(f"nothing is left to ask, so {batch} was not written{stale}")
        return
    for path in files:
        out.print(str(path))
    err.print(
        f"{counted(count, 'request')}; when their results are back: "
        f"earmark import {folder} RESULTS.jsonl --model {model}"
    )


def tell_sightings(seen: Sightings) -> None:
    """Print the number of activities seen so far, and of those probably missed.

    Nothing is printed where no answer says what is done.
    """
    if not (seen.expected or seen.unheard):
        return
    low, about, high = seen.missed_range()
    found = f"new activities seen so far: {seen.seen}"
    if seen.expected:
        found += (
            f"; probably missed: about {about:.0f}, 8 times of 10 between {low:.0f} and "
            f"{high:.0f}, if the sound is right about where"
        )
    if seen.unheard:
        silent = counted(seen.unheard, "recording")
        found += f"; how many are missed in {silent} in which nothing was heard is not known"
    out.print(found)


def tell_trouble(done: CaptionResult) -> None:
    """Print warnings and failures to stderr, one line each."""
    tally = done.tally
    if done.interrupted and done.totals.interrupted:  # without a model, nothing is paid twice
        calls = counted(done.interrupted, "call")
        warn(f"{calls} in flight when the last run ended may have been asked twice")
    tell_recordings(done)
    if tally.failed:
        is_told = tally.last_reason in (tally.stopped or "")
        last = "" if is_told else f", the last: {tally.last_reason}"
        warn(f"{counted(tally.failed, 'call')} failed{last}")
    if done.totals.cut:
        cut = counted(done.totals.cut, "answer")
        longer = "--answer-tokens allows longer ones, and asks every window again"
        warn(f"{cut} cut off at the longest allowed; {longer}")
    if tally.stopped:
        # Caps include what earlier commands of the run have spent, so only a higher cap helps.
        again = " with a higher cap" if tally.stopped.startswith("the cap o") else ""
        warn(f"stopped: {tally.stopped}; the same command goes on{again}")
    if tally.guessed:
        warn(
            f"{counted(tally.guessed, 'attempt')} came without a count of tokens: "
            "the most they can have taken is counted"
        )


MOST_TOLD = 20
"""Most failed recordings, and most notes, printed on the terminal; the report lists all."""


def tell_recordings(done: CaptionResult) -> None:
    """Print why recordings failed, and the notes on the others, as `select` does, a line each."""
    with done.open() as run:
        rows, failed = run.recordings(), run.failed_recordings() if done.missed else []
        notes = format_notes((row.path, note) for row in rows for note in run.choice(row.id).notes)
    for missed in failed[:MOST_TOLD]:
        err.print(f"earmark: {missed.reason}", style="red")
    if len(failed) > MOST_TOLD:
        warn(f"{len(failed) - MOST_TOLD} more recordings could not be done; see the report")
    for line in notes[:MOST_TOLD]:
        warn(line)
    if len(notes) > MOST_TOLD:
        warn(f"{len(notes) - MOST_TOLD} more notes on recordings; see the report")
