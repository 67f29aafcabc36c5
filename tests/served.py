"""A real `earmark serve` in a process of its own, for the tests of what it answers."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import urlsplit

import httpx

from server_process import server_process

TOKEN = "a-token-of-the-tests"
SECRET = "a secret outside the folders"
"""Of a file that no server may send."""


@contextmanager
def serving(*folders: Path, options: tuple[str, ...] = ()) -> Iterator[httpx.Client]:
    """A client of a server of `folders` that carries the token; the server ends with the block."""
    words = ["serve", *map(str, folders), "--port", "0", "--token", TOKEN, *options]
    with server_process([sys.executable, "-m", "earmark", *words]) as address:
        base = f"http://{urlsplit(address).netloc}"
        headers = {"Authorization": f"Bearer {TOKEN}"}
        with httpx.Client(base_url=base, headers=headers, timeout=600) as client:
            yield client


def run_named(client: httpx.Client, name: str) -> str:
    """The id of the run called `name`, once the server lists it: a list may be some seconds old."""
    for _ in range(600):
        for run in client.get("/api/runs").json():
            if run["name"] == name:
                return str(run["id"])
        time.sleep(0.1)
    raise AssertionError(f"no run {name!r} is listed")
