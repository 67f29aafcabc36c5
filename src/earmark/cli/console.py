"""How commands speak: results on stdout, progress and warnings on stderr."""

from __future__ import annotations

import json
import logging
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from enum import StrEnum
from typing import Any

from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    TaskProgressColumn,
    TextColumn,
    TimeRemainingColumn,
)


class Format(StrEnum):
    """How a command prints what it found: for a person, or for a machine."""

    table = "table"
    json = "json"


_WIDE = 240
"""Columns of a table that goes to a file or a pipe: a line a row, nothing folded."""

out = Console(
    soft_wrap=True,
    highlight=False,
    markup=False,
    width=None if sys.stdout.isatty() else _WIDE,
)
"""For results."""

err = Console(stderr=True, soft_wrap=True, highlight=False, markup=False)
"""For everything else."""


def emit_json(value: Any) -> None:
    """Print `value` as JSON, for machines: no colour, no wrapping."""
    sys.stdout.write(json.dumps(value, indent=2, allow_nan=False) + "\n")


def warn(message: str) -> None:
    """One line of warning."""
    err.print(f"warning: {message}", style="yellow")


class LogHandler(logging.Handler):
    """Prints what the library logs on stderr, above the bar where there is one."""

    def emit(self, record: logging.LogRecord) -> None:
        """One line a record, and its traceback where it has one."""
        err.print(self.format(record))


def show_log() -> None:
    """Print all that the library logs from now on."""
    handler = LogHandler()
    handler.setFormatter(logging.Formatter("%(asctime)s %(name)s: %(message)s", "%H:%M:%S"))
    logger = logging.getLogger("earmark")
    logger.handlers = [handler]
    logger.setLevel(logging.DEBUG)


@contextmanager
def progress_bar(unit: str) -> Iterator[Progress]:
    """A bar on stderr, drawn only where a person is looking."""
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        TaskProgressColumn(),
        MofNCompleteColumn(),
        TextColumn(unit),
        TimeRemainingColumn(),
    )
    with Progress(*columns, console=err, transient=True, disable=not err.is_terminal) as bar:
        yield bar
