from __future__ import annotations

import secrets
import sys
from pathlib import Path
from typing import Annotated

import typer

from earmark.cli import options
from earmark.pipeline.session import open_session
from earmark.report.console import emit, warn
from earmark.settings import Settings

Folders = Annotated[
    list[str] | None,
    typer.Argument(metavar="FOLDER", help="Folders with runs and recordings.", show_default="."),
]


@options.takes_settings("model", "blur", "max_spend")
def serve(
    settings: Settings,
    paths: Folders = None,
    host: Annotated[str, typer.Option(help="Address to listen on.")] = "127.0.0.1",
    port: Annotated[
        int, typer.Option(help="Port to listen on; 0 takes a free one.", min=0, max=65535)
    ] = 8484,
    token: Annotated[
        str | None, typer.Option(help="Token that clients must send.", show_default="a new one")
    ] = None,
    no_token: Annotated[
        bool, typer.Option("--no-token", help="Accept every client that reaches the address.")
    ] = False,
    allow_host: Annotated[
        list[str] | None, typer.Option(help="Further host name to answer to; may be repeated.")
    ] = None,
) -> None:
    """Show runs in the browser: play, search, correct and ask, and start and follow runs.

    Every run below the folders is listed. The page needs no network. The server
    listens on this machine only and requires the token in the address that it
    prints. If a model is given, the page can call it within the limits given
    here.

    For example:

      earmark serve

      earmark serve archive/ --model http://localhost:8000/v1#Qwen3-VL-8B

      earmark serve runs/ --host 0.0.0.0 --allow-host reviews.example.org
    """
    from earmark.server.web_server import ServeOptions, serve_folders

    if no_token:
        warn("anybody who reaches the address may look, correct and ask")
    secret = None if no_token else token or secrets.token_urlsafe(24)
    served = ServeOptions(host, port, secret, tuple(allow_host or ()))
    folders = [Path(path) for path in paths or ["."]]
    session = open_session(folders, settings)
    serve_folders(folders, session, served, api_key=options.api_key(), on_start=tell)


@options.takes_settings("model", "blur", "max_spend")
def mcp(
    settings: Settings,
    paths: Folders = None,
    allow_calls: Annotated[
        int, typer.Option(help="Calls that agents may spend in total, retries included.", min=0)
    ] = 0,
    http: Annotated[
        int | None,
        typer.Option(
            help="Serve HTTP at this port of this machine; 0 takes a free one.", min=0, max=65535
        ),
    ] = None,
    token: Annotated[
        str | None,
        typer.Option(help="Token that HTTP clients must send.", show_default="a new one"),
    ] = None,
    no_token: Annotated[
        bool, typer.Option("--no-token", help="Accept every program of this machine.")
    ] = False,
) -> None:
    """Let agents list, search and look at runs through the Model Context Protocol.

    The server uses stdin and stdout, or HTTP with --http. Tools reach nothing
    outside the folders. The tools find, ask and caption spend calls only within
    --allow-calls; without it they return what the calls would cost.

    For example:

      earmark mcp archive/

      earmark mcp archive/ --model http://localhost:8000/v1 --allow-calls 50

      earmark mcp archive/ --http 8585
    """
    from earmark.server.web_server import ServeOptions, serve_mcp

    secret = None if no_token else token or secrets.token_urlsafe(24)
    served = None if http is None else ServeOptions(port=http, token=secret)
    if served is not None and no_token:
        warn("any program of this machine may look, and ask within --allow-calls")
    carried = f"  Authorization: Bearer {secret}" if secret else ""
    folders = [Path(path) for path in paths or ["."]]
    serve_mcp(
        folders,
        open_session(folders, settings),
        served,
        calls=allow_calls,
        api_key=options.api_key(),
        on_start=lambda address: tell(f"{address}{carried}"),
    )


def tell(address: str) -> None:
    """Unredacted and at once: the user needs its token or header."""
    emit(f"{address}\n")
    sys.stdout.flush()
