"""`earmark merge`: the shards of an archive, made one run."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from earmark.cli.runs import AsJson
from earmark.ledger.run_merge import merge as merge_runs
from earmark.reporting.console import emit_json, out, warn


def merge(
    runs: Annotated[list[Path], typer.Argument(metavar="RUN...", help="The folders of the runs.")],
    into: Annotated[Path, typer.Option("--into", help="The folder of the one run, new or not.")],
    as_json: AsJson = False,
) -> None:
    """Bring runs of one command together, such as the shards of an archive.

    The runs are only read. Runs of another plan or version, and runs in which one path is two
    recordings, are refused, and nothing is merged. No answer is ever asked for again; to spend one
    budget over all of it, run the command without `--shard` on the merged run.

    For example:

      earmark caption archive/ --shard 1/2 --run runs/part-1

      earmark caption archive/ --shard 2/2 --run runs/part-2

      earmark merge runs/part-1 runs/part-2 --into runs/archive
    """
    merged = merge_runs(runs, into)
    if as_json:
        emit_json({"run": str(into), **asdict(merged)})
        return
    out.print(
        f"{merged.recordings} recordings and {merged.answers} answers of {merged.runs} runs "
        f"are in {into}"
    )
    if merged.missed:
        warn(f"{merged.missed} recordings could not be done: the same command with --retry-failed")
