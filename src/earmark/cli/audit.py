"""`earmark audit`: estimates how much a run has missed, from windows drawn at random."""

from __future__ import annotations

from dataclasses import asdict
from typing import Annotated

import typer

from earmark.captioning.model_choice import ModelChoice
from earmark.cli import options
from earmark.gate.forecast_error import as_share
from earmark.pipeline.audit import AuditResult, forecast_widths
from earmark.pipeline.audit import audit as audit_run
from earmark.pipeline.run_plan import Plan
from earmark.reporting.console import emit_json, out, print_table, warn
from earmark.reporting.progress_display import show_progress
from earmark.reporting.text_format import counted

ASKING = {name: options.MODEL[name] for name in ("vlm", "model", "gguf", "replay")}
ASKING |= {"concurrency": options.LIMITS["concurrency"]} | options.BLURRING
"""Options of a plan that `audit` takes: the model, the concurrency and the blurring."""

LADDER = (10, 20, 40, 80, 160, 320)
"""Numbers of calls for which `--dry-run` prints the width of the interval."""


@options.takes_plan(ASKING)
def audit(
    run: options.RunFolder,
    *,
    calls: Annotated[int, typer.Option("--calls", help="Number of windows to draw.", min=1)] = 40,
    confidence: Annotated[
        float, typer.Option("--confidence", help="Confidence of the interval in per cent.")
    ] = 95,
    seed: Annotated[int, typer.Option("--seed", help="Seed of the draw.")] = 0,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Call no model; print how wide the interval will be.")
    ] = False,
    plan: Plan,
    log: options.Log = "bar",
    as_json: options.AsJson = False,
) -> None:
    """Estimate how much a run has missed, from calls on windows drawn at random.

    Windows are drawn among those that no answered pick touches, each with the
    same probability. So the estimated share of active windows is unbiased; the
    sound only makes its interval narrower. If the command is stopped, the same
    command continues with the same windows. Use the run's model.

    For example:

      earmark audit runs/shift --dry-run

      earmark audit runs/shift --calls 40 --vlm http://localhost:8000/v1
    """
    share = confidence / 100
    if dry_run:
        show_widths(forecast_widths(run, sorted({*LADDER, calls}), confidence=share), as_json)
        return
    if plan.model_choice == ModelChoice():
        raise ValueError("an audit asks a model: give --vlm URL --model NAME, or --gguf FILE")
    with show_progress(log) as progress:
        done = audit_run(
            run,
            calls=calls,
            plan=plan,
            api_key=options.api_key(),
            confidence=share,
            seed=seed,
            progress=progress,
        )
    show_audit(done, as_json)
    if done.answered < done.drawn:
        raise typer.Exit(1)


def show_widths(widths: dict[int, float], as_json: bool) -> None:
    """Print the expected width of the interval, one line per number of calls."""
    if as_json:
        emit_json({str(calls): width for calls, width in widths.items()})
        return
    rows = [(str(calls), f"± {50 * width:.1f} points") for calls, width in widths.items()]
    print_table(("calls", "the share will be known to"), rows)
    out.print("That is if as much is active as the sound lets expect; less well if more is.")


def show_audit(done: AuditResult, as_json: bool) -> None:
    """Print the estimates, and the number of draws they rest on."""
    least, about, most = done.activities
    if as_json:
        counts = {"activities": {"low": least, "estimate": about, "high": most}}
        emit_json(asdict(done) | counts)
        return
    if done.answered < done.drawn:
        missing = counted(done.drawn - done.answered, "draw")
        warn(f"{missing} without an answer that says; the same command asks again")
    if not done.answered:
        return
    share = done.share
    out.print(
        f"{done.active} of {counted(done.answered, 'window')} drawn active: of the {done.windows} "
        f"that no answered pick touches {as_share(share.share)}, with {100 * share.confidence:g} % "
        f"confidence {as_share(share.low)} to {as_share(share.high)}"
    )
    out.print(
        f"activities not seen: about {about:.0f} ({least:.0f} to {most:.0f}), if they last as long "
        f"as the run's gate expects ({done.windows_an_action:.2g} windows each) and do not overlap"
    )
