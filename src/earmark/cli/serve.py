"""`earmark serve`: runs in the browser, and for programs."""

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
def serve(
    plan: Plan,
    paths: Annotated[
        list[str] | None,
        typer.Argument(metavar="FOLDER", help="Where the runs and recordings lie."),
    ] = None,
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

    def tell(address: str) -> None:
        """Print the address whole: its token is what it is printed for."""
        emit(f"{address}\n")
        sys.stdout.flush()

    key = os.environ.get("OPENAI_API_KEY")
    serve_folders(folders, plan, options, api_key=key, on_start=tell)
