"""Runs `earmark` commands for the acceptance tests.

outcome = earmark("caption", clip, "--budget", "25%", "--model", f"{url}#tiny")
outcome.code, outcome.out, outcome.err, outcome.json

"""

from __future__ import annotations

import io
import json
import os
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from dataclasses import dataclass
from pathlib import Path
from typing import Any


@dataclass(frozen=True)
class Outcome:
    """How a command ended."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        """What it printed, parsed."""
        return json.loads(self.out)

    @property
    def lines(self) -> list[Any]:
        """What it printed, each line parsed by itself."""
        return [json.loads(line) for line in self.out.splitlines()]


def earmark(
    *words: object,
    fresh: bool = False,
    cwd: Path | None = None,
    env: Mapping[str, str] | None = None,
    stdin: str = "",
) -> Outcome:
    """Run a command to its end.

    Args:
        words: What stands after `earmark`.
        fresh: Start a process of its own; otherwise the command runs in this one.
        cwd: The folder to run in.
        env: Environment variables to add.
        stdin: What the command reads.
    """
    if fresh:
        command = fresh_command(*words)
        environment = {**os.environ, **(env or {})}
        done = subprocess.run(
            command,
            cwd=cwd,
            env=environment,
            input=stdin.encode(),
            capture_output=True,
            check=False,
        )
        out, err = (stream.decode(errors="replace") for stream in (done.stdout, done.stderr))
        return Outcome(done.returncode, out, err)
    return _run_here(as_arguments(words), cwd, env or {}, stdin)


def fresh_command(*words: object) -> list[str]:
    """The argument list that starts a command in a process of its own."""
    return [sys.executable, "-m", "earmark", *as_arguments(words)]


def as_arguments(words: tuple[object, ...]) -> list[str]:
    """The words as the arguments of a process."""
    return [os.fspath(word) if isinstance(word, Path) else str(word) for word in words]


def _run_here(
    arguments: list[str], cwd: Path | None, env: Mapping[str, str], stdin: str
) -> Outcome:
    from earmark.cli import main

    out, err = (io.TextIOWrapper(io.BytesIO(), encoding="utf-8") for _ in range(2))
    code: object = 0
    with _surroundings(arguments, cwd, env, stdin), redirect_stdout(out), redirect_stderr(err):
        try:
            main()
        except SystemExit as exit_request:
            code = exit_request.code
    texts = []
    for stream in (out, err):
        stream.flush()
        texts.append(stream.buffer.getvalue().decode(errors="replace"))  # type: ignore[attr-defined]
    return Outcome(code if isinstance(code, int) else int(code is not None), *texts)


@contextmanager
def _surroundings(
    arguments: list[str], cwd: Path | None, env: Mapping[str, str], stdin: str
) -> Iterator[None]:
    """This process as the command finds it, put back afterwards."""
    before = sys.argv, sys.stdin, Path.cwd(), {name: os.environ.get(name) for name in env}
    sys.argv, sys.stdin = ["earmark", *arguments], io.TextIOWrapper(io.BytesIO(stdin.encode()))
    os.environ.update(env)
    if cwd is not None:
        os.chdir(cwd)
    try:
        yield
    finally:
        sys.argv, sys.stdin = before[0], before[1]
        os.chdir(before[2])
        for name, value in before[3].items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value
