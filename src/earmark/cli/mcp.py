"""`earmark mcp`: runs and recordings for agents."""

from __future__ import annotations

import os
import secrets
import sys
from pathlib import Path
from typing import Annotated

import typer

from earmark.cli.options import LIMITS, LISTENING, MODEL, QUESTION, takes_plan
from earmark.pipeline.run_plan import Plan
from earmark.reporting.console import emit, warn


@takes_plan(MODEL, QUESTION, LISTENING, LIMITS)
def mcp(
    plan: Plan,
    paths: Annotated[
        list[str] | None,
        typer.Argument(metavar="FOLDER", help="Where the runs and recordings lie."),
    ] = None,
    allow_calls: Annotated[
        int, typer.Option(help="Calls that agents may spend in all, retries too.", min=0)
    ] = 0,
    http: Annotated[
        int | None,
        typer.Option(help="Serve HTTP on this machine at this port; 0: any.", min=0, max=65535),
    ] = None,
    token: Annotated[
        str | None, typer.Option(help="What HTTP requests carry.", show_default="a new one")
    ] = None,
    no_token: Annotated[
        bool, typer.Option("--no-token", help="Let any program of this machine in.")
    ] = False,
) -> None:
    """Let agents list, search and look at runs, by the Model Context Protocol.

    It speaks over stdin and stdout, as agents start it, or over HTTP. Tools reach nothing outside
    the folders. find, ask and caption spend calls only where `--allow-calls` grants them; without
    it they say what they would cost.

    For example:

      earmark mcp archive/

      earmark mcp archive/ --vlm http://localhost:8000/v1 --allow-calls 50

      earmark mcp archive/ --http 8585
    """
    from earmark.server.mcp_server import serve_mcp
    from earmark.server.web_server import ServeOptions

    secret = None if no_token else token or secrets.token_urlsafe(24)
    options = None if http is None else ServeOptions(port=http, token=secret)
    if options is not None and no_token:
        warn("any program of this machine may look, and ask within --allow-calls")

    def tell(address: str) -> None:
        """Print the address and what a request has to carry: that is what it is printed for."""
        carried = f"  Authorization: Bearer {secret}" if secret else ""
        emit(f"{address}{carried}\n")
        sys.stdout.flush()

    key = os.environ.get("OPENAI_API_KEY")
    folders = [Path(path) for path in paths or ["."]]
    serve_mcp(folders, plan, options, calls=allow_calls, api_key=key, on_start=tell)
