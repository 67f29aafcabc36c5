"""Options that several commands share, each said once."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from earmark.cli.checkpoints import cache_folder, with_checkpoints
from earmark.gate.frontline_registry import AUTO, FRONTLINES
from earmark.gate.score_cache import ScoreCache
from earmark.selection import RULES

Paths = Annotated[
    list[str], typer.Argument(help="Files, folders, globs, http(s):// and s3:// addresses.")
]
BudgetText = Annotated[
    str,
    typer.Option(
        "--budget",
        "-b",
        help="A share of the windows (25% or 0.25), a number of calls (120), or a price in "
        "expected new actions (price=0.4).",
    ),
]
RuleName = Annotated[str, typer.Option("--rule", "-r", help=f"One of {', '.join(RULES)}.")]
FrontlineName = Annotated[
    str,
    typer.Option(
        "--frontline",
        "-f",
        help=f"What listens: {AUTO}, {', '.join(FRONTLINES)}, or a .gate file. Options follow "
        "after colons: beats:threshold=0.5, beats:weights=FILE.",
        callback=with_checkpoints,
    ),
]
WindowLength = Annotated[float, typer.Option("--window", "-w", help="Seconds of one call.")]
Across = Annotated[
    bool, typer.Option("--across", help="One budget over all recordings, at one price.")
]
AudioTrack = Annotated[
    int, typer.Option("--audio-track", help="Which sound track to listen to, from 0.")
]
CacheFolder = Annotated[
    Path | None,
    typer.Option("--cache", help="Where to keep what was heard.", show_default="~/.cache/earmark"),
]
NoCache = Annotated[bool, typer.Option("--no-cache", help="Keep nothing, listen anew.")]


def cache_at(folder: Path | None, no_cache: bool) -> ScoreCache | None:
    """The cache a command uses: the folder given, else the user's own."""
    if no_cache:
        return None
    return ScoreCache(folder or cache_folder())
