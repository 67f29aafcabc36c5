"""`earmark serve` and `earmark mcp` as real processes, and their clients."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
import time
from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any
from urllib.parse import urlsplit

import httpx

from acceptance.command_line import fresh_command

TOKEN = "a-token-of-the-tests"
PATIENCE = 60.0


@contextmanager
def serving(*words: object, env: Mapping[str, str] | None = None) -> Iterator[httpx.Client]:
    """A client, with the token, of `earmark serve` with these words; the server ends afterwards."""
    command = fresh_command("serve", *words, "--port", "0", "--token", TOKEN)
    environment = {**os.environ, **(env or {})}
    with subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            address = process.stdout.readline().strip()
            assert address, f"the server ended at once with code {process.wait()}"
            headers = {"Authorization": f"Bearer {TOKEN}"}
            base = f"http://{urlsplit(address).netloc}"
            with httpx.Client(base_url=base, headers=headers, timeout=PATIENCE) as client:
                yield client
        finally:
            process.terminate()


def wait_for(look: Callable[[], Any]) -> Any:
    """The first true value that `look` gives."""
    until = time.monotonic() + PATIENCE
    while time.monotonic() < until:
        if value := look():
            return value
        time.sleep(0.05)
    raise AssertionError("it did not happen in time")


def converse(
    talk: Callable[[Any], Awaitable[Any]], *words: object, env: Mapping[str, str] | None = None
) -> Any:
    """What `talk` returns, given a client of `earmark mcp` with these words over stdio."""
    from mcp import Client, StdioServerParameters

    _, *arguments = fresh_command("mcp", *words)
    environment = {**os.environ, **(env or {})}
    server = StdioServerParameters(command=sys.executable, args=arguments, env=environment)

    async def session() -> Any:
        async with Client(server) as client:
            return await talk(client)

    return asyncio.run(session())


def call_tools(
    *calls: tuple[str, dict[str, Any]], words: tuple[object, ...], **settings: Any
) -> list[Any]:
    """The results of these tool calls, in one session."""

    async def talk(client: Any) -> list[Any]:
        return [await client.call_tool(name, arguments) for name, arguments in calls]

    return list(converse(talk, *words, **settings))


def values_of(result: Any) -> Any:
    """The values in a result that is no error."""
    assert not result.is_error, result.content
    return json.loads(result.content[-1].text)
