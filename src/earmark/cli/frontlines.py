"""`earmark frontlines`: every system that can be compared, and what it takes to run it."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from earmark.cli.models import Folder
from earmark.evaluation.paper.compared_systems import System, systems
from earmark.models.user_folders import checkpoint_folder, model_store
from earmark.reporting.console import Format, emit_json, out, print_table


def frontlines(
    format: Annotated[Format, typer.Option(help="How to print the systems.")] = Format.table,
    models: Folder = None,
) -> None:
    """List every system: what it is, reads and costs, its name in the paper, and if it is ready.

    For example:

      earmark frontlines

      earmark frontlines --format json

      EARMARK_CHECKPOINTS=/data/checkpoints earmark frontlines
    """
    store, folder = model_store(models), checkpoint_folder()
    states = {system: system.state(store, folder) for system in systems()}
    if format is Format.json:
        emit_json([as_row(system, state) for system, state in states.items()])
        return
    rows = []
    for system, state in states.items():
        cost = "–" if system.seconds_per_hour is None else f"{system.seconds_per_hour:g}"
        absent = system.stands_for and f"(for {system.stands_for})"
        paper, here = system.paper or absent or "–", state.partition(": ")[0]
        rows.append((system.name, paper, system.reads, cost, here, system.scores))
    columns = ("name", "in the paper", "reads", "s/hour", "state", "what it is")
    print_table(columns, rows, words={*columns} - {"s/hour"}, whole=columns)
    out.print("\nSeconds of processor time for an hour of recording.")
    out.print(
        "(for …): stands for the paper's system, whose weights are unpublished or unlicensed."
    )
    cures = {system.name: state.partition(": ")[2] for system, state in states.items()}
    if any(cures.values()):
        out.print("To make the others ready:")
    for name, cure in cures.items():
        if cure:
            out.print(f"  {name}: {cure}")


def as_row(system: System, state: str) -> dict[str, Any]:
    """One system as plain values; null where the paper has no name or the cost is not known."""
    return {
        "name": system.name,
        "kind": system.kind,
        "paper": system.paper or None,
        "stands_for": system.stands_for or None,
        "scores": system.scores,
        "reads": system.reads,
        "seconds_per_hour": system.seconds_per_hour,
        "state": state.partition(":")[0],
        "cure": state.partition(": ")[2] or None,
    }
