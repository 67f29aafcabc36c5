"""Serves the application over HTTP."""

from __future__ import annotations

import socket
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import quote

from earmark.errors import EarmarkError, MissingExtra
from earmark.pipeline.run_plan import Plan
from earmark.server.run_library import RunLibrary


@dataclass(frozen=True, slots=True)
class ServeOptions:
    """Address, access and rate limit of the server."""

    host: str = "127.0.0.1"
    port: int = 8484
    token: str | None = None
    """Required of every request; None requires nothing."""
    hosts: tuple[str, ...] = ()
    """Further host names of the server, beside its address and those of this machine."""
    rate: float = 500.0
    """Requests a second of one client."""


def serve_folders(
    folders: Sequence[Path],
    plan: Plan,
    options: ServeOptions,
    *,
    api_key: str | None = None,
    on_start: Callable[[str], None] = lambda _: None,
) -> None:
    """Serve the runs and recordings below `folders` until a signal ends it.

    `plan` gives the model, prices, listening options and the paths for new runs. `on_start` is
    called with the address to open. Raises `EarmarkError` if a folder is missing, the port is
    taken, or the server's libraries are not installed.
    """
    try:
        import uvicorn  # noqa: F401 - fails before the socket is open

        from earmark.server.access_control import LOOPBACK, cookie_name
        from earmark.server.application import make_app
        from earmark.server.service import Service
    except ImportError as error:
        raise MissingExtra(
            "serving needs FastAPI and uvicorn: pip install 'earmark[server]'"
        ) from error
    check_folders(folders)
    listening = open_socket(options)
    port = listening.getsockname()[1]
    shown = url_host(options)
    blur, is_local = plan.question.blur, shown in LOOPBACK and not options.hosts
    if blur:
        blur.check()
    app = make_app(
        Service(RunLibrary(folders, blur=blur, is_local=is_local), plan, api_key),
        token=options.token,
        hosts=(*LOOPBACK, shown, *(name.lower() for name in options.hosts)),
        rate=options.rate,
        cookie=cookie_name(port),
    )
    query = f"?token={quote(options.token, safe='')}" if options.token else ""
    on_start(f"http://{shown}:{port}/{query}")
    serve_app(app, listening)


def serve_app(app: Any, listening: socket.socket) -> None:
    """Run `app` on the socket `listening` until a signal ends it."""
    import uvicorn

    config = uvicorn.Config(
        app, log_level="warning", access_log=False, server_header=False, timeout_graceful_shutdown=3
    )
    with suppress(KeyboardInterrupt):  # it has shut down by then
        uvicorn.Server(config).run(sockets=[listening])


def check_folders(folders: Sequence[Path]) -> None:
    """Raises `EarmarkError` if one of `folders` does not exist."""
    for folder in folders:
        if not folder.is_dir():
            raise EarmarkError(f"{folder} is no folder, so there is nothing to serve in it")


def url_host(options: ServeOptions) -> str:
    """The host as written in a URL, IPv6 in brackets."""
    host = options.host.lower()
    return f"[{host}]" if ":" in host else host


def open_socket(options: ServeOptions) -> socket.socket:
    """The listening socket; raises `EarmarkError` if the port is taken."""
    family = socket.AF_INET6 if ":" in options.host else socket.AF_INET
    listening = socket.socket(family, socket.SOCK_STREAM)
    listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listening.bind((options.host, options.port))
        listening.listen(512)
    except OSError as error:
        listening.close()
        raise EarmarkError(
            f"cannot listen at {options.host} port {options.port}: {error.strerror}; "
            "choose another with --port"
        ) from error
    return listening
