"""`earmark summary`: what happened in a run, in a few lines."""

from __future__ import annotations

from dataclasses import asdict

from earmark.cli.runs import AsJson, RunFolder
from earmark.ledger.run_reader import Run
from earmark.reporting.console import emit_json, out, warn
from earmark.reporting.run_overview import overview


def summary(folder: RunFolder, as_json: AsJson = False) -> None:
    """Say what happened: how much was active, what was heard when, and what captions tell.

    Recordings in which something happened come first. Sounds have names where `earmark caption`
    ran with YAMNet at hand.

    For example:

      earmark summary runs/tuesday

      earmark summary runs/tuesday --json
    """
    with Run.open(folder) as run:
        told = overview(run)
        missed = run.failed_recordings()
    if as_json:
        emit_json([asdict(each) for each in told])
        return
    for number, each in enumerate(told):
        out.print(f"{'' if number == 0 else chr(10)}{each.name}", style="bold")
        for heading, said in each.lines():
            out.print(f"  {heading:<11}{said[0]}")
            for line in said[1:]:
                out.print(f"  {'':<11}{line}")
    if not told:
        warn(f"there is no recording in {folder} to tell of")
    for one in missed:
        warn(f"{one.path} could not be done: {one.reason}")
