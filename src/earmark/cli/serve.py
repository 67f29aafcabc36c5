"""`earmark serve` and `earmark mcp`: runs in the browser, for programs and for agents."""

from __future__ import annotations

import secrets
import sys
from pathlib import Path
from typing import Annotated

import typer

from earmark.cli.options import LIMITS, LISTENING, MODEL, QUESTION, api_key, takes_plan
from earmark.pipeline.run_plan import Plan
from earmark.reporting.console import emit, warn

Folders = Annotated[
    list[str] | None, typer.Argument(metavar="FOLDER", help="Where the runs and recordings lie.")
]


@takes_plan(MODEL | QUESTION | LISTENING | LIMITS)
def serve(
    plan: Plan,
    paths: Folders = None,
    host: Annotated[str, typer.Option(help="The address to listen at.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(help="0 takes any that is free.", min=0, max=65535)] = 8484,
    token: Annotated[
        str | None, typer.Option(help="Who has it may look and correct.", show_default="a new one")
    ] = None,
    no_token: Annotated[
        bool, typer.Option("--no-token", help="Let anybody in who reaches the address.")
    ] = False,
    allow_host: Annotated[
        list[str] | None, typer.Option(help="Another name the server is called by.")
    ] = None,
    rate: Annotated[float, typer.Option(help="Requests a second of one client.")] = 500.0,
) -> None:
    """Look at runs in the browser: play, search, correct, ask; and follow those at work.

    Every run below the folders is there, in one page that needs no network. It listens on this
    machine only, and opens with the token in the address it prints. A model named here can be
    asked from the page, within the caps given here.

    For example:

      earmark serve

      earmark serve archive/ --vlm http://localhost:8000/v1 --model Qwen3-VL-8B

      earmark serve runs/ --host 0.0.0.0 --allow-host reviews.example.org
    """
    from earmark.server.web_server import ServeOptions, serve_folders

    if no_token:
        warn("anybody who reaches the address may look, correct and ask")
    secret = None if no_token else token or secrets.token_urlsafe(24)
    options = ServeOptions(host, port, secret, tuple(allow_host or ()), rate)
    folders = [Path(path) for path in paths or ["."]]
    serve_folders(folders, plan, options, api_key=api_key(), on_start=tell)


@takes_plan(MODEL | QUESTION | LISTENING | LIMITS)
def mcp(
    plan: Plan,
    paths: Folders = None,
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
    carried = f"  Authorization: Bearer {secret}" if secret else ""
    serve_mcp(
        [Path(path) for path in paths or ["."]],
        plan,
        options,
        calls=allow_calls,
        api_key=api_key(),
        on_start=lambda address: tell(f"{address}{carried}"),
    )


def tell(address: str) -> None:
    """Print the address whole: its token, or what a request has to carry, is what it is for."""
    emit(f"{address}\n")
    sys.stdout.flush()
