"""How commands speak: results on stdout, progress and warnings on stderr.

Whatever a server, a model or a file's name put into a message, a terminal is sent no control
characters of theirs, and nothing that is secret in an address.
"""

from __future__ import annotations

import json
import logging
import re
import sys
import textwrap
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager
from enum import StrEnum
from typing import Any

from rich.cells import cell_len
from rich.console import Console, ConsoleOptions, RenderableType
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    TaskProgressColumn,
    TextColumn,
    TimeRemainingColumn,
)
from rich.segment import Segment
from rich.table import Table
from rich.text import Text

from earmark.redaction import redact


class Format(StrEnum):
    """How a command prints what it found: for a person, or for a machine."""

    table = "table"
    json = "json"


_WIDE = 240
"""Columns of a table that goes to a file or a pipe: a line a row, nothing folded."""

BETWEEN_LINES = 60.0
"""Seconds between two lines that say how far something has come, where nobody looks."""

_FOLDED = 10
"""Columns of a terminal that folded words take at least."""

_UNPRINTABLE = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069]"
)
"""Control characters but for tabs and line ends, and what turns the direction of writing."""


def printable(text: str) -> str:
    r"""`text` with what would command a terminal written out.

    >>> printable("\x1b[2J")
    '\\x1b[2J'
    """
    return _UNPRINTABLE.sub(lambda found: ascii(found[0])[1:-1], text)


class _SafeConsole(Console):
    """Prints what is printable and not secret, whoever wrote it."""

    def print(self, *objects: Any, **choices: Any) -> None:
        """Plain text as it is, where nobody looks: rich takes half a millisecond a line."""
        is_plain = all(isinstance(each, str) for each in objects)
        if self.is_terminal or set(choices) - {"style"} or not is_plain:
            super().print(*objects, **choices)
        else:
            self.file.write(printable(redact(" ".join(objects))) + "\n")
            self.file.flush()

    def render_str(self, text: str, **choices: Any) -> Text:
        """A string as it is measured and drawn."""
        return super().render_str(printable(redact(text)), **choices)

    def render(
        self, renderable: RenderableType, options: ConsoleOptions | None = None
    ) -> Iterable[Segment]:
        """What is drawn, whatever it was before: bars and the like are made of no strings."""
        for segment in super().render(renderable, options):
            yield segment if segment.control else segment._replace(text=printable(segment.text))


_PLAIN: dict[str, Any] = {"soft_wrap": True, "highlight": False, "markup": False, "emoji": False}

out = _SafeConsole(**_PLAIN, width=None if sys.stdout.isatty() else _WIDE)
"""For results."""

err = _SafeConsole(**_PLAIN, stderr=True)
"""For everything else."""


def emit_json(value: Any) -> None:
    """Print `value` as JSON, for machines: no colour, no wrapping."""
    emit(json.dumps(value, indent=2, allow_nan=False) + "\n")


def emit(text: str) -> None:
    """Print `text` for a machine, byte for byte; where a person is looking, what is printable."""
    sys.stdout.write(printable(text) if sys.stdout.isatty() else text)


def print_table(
    columns: Sequence[str],
    rows: Iterable[Sequence[str]],
    *,
    words: Collection[str] = (),
    whole: Collection[str] = (),
    title: str | None = None,
) -> None:
    """Print `rows` under `columns`: numbers to the right, and `words` to the left.

    On a narrow terminal words are folded, but for those of the columns in `whole`; where there is
    no room for that either, every row is a block of lines.
    """
    rows = list(rows)
    lines = _align(columns, rows, words)
    if title is None and lines is not None:
        out.print(lines[0], style="bold")
        if rows:
            out.print("\n".join(lines[1:]))
        return
    is_folded = [name in words and name not in whole for name in columns]
    shown = zip(*rows, strict=True) if rows else ((),) * len(columns)
    widths = [
        _least_width(name, cells, is_folded=folded)
        for name, cells, folded in zip(columns, shown, is_folded, strict=True)
    ]
    if sum(widths) + 2 * len(widths) - 2 > out.width:
        _print_blocks(columns, rows, title)
        return
    table = Table(box=None, pad_edge=False, title=title, title_justify="left")
    for name, width, folded in zip(columns, widths, is_folded, strict=True):
        head = name if folded else "\n".join(textwrap.wrap(name, width))
        side = "left" if name in words else "right"
        table.add_column(head, justify=side, overflow="fold", no_wrap=not folded)  # type: ignore[arg-type]
    for row in rows:
        table.add_row(*row)
    out.print(table)


def _least_width(name: str, cells: Sequence[str], *, is_folded: bool) -> int:
    """The columns below which a column cannot be read."""
    if is_folded:
        return min(_FOLDED, max(map(cell_len, (name, *cells))))
    lines = (line for cell in cells for line in printable(redact(cell)).split("\n"))
    return max(map(cell_len, (*name.split(), *lines)))


def _print_blocks(columns: Sequence[str], rows: Iterable[Sequence[str]], title: str | None) -> None:
    """A block of lines a row: its first cell, and beneath it the others, each with its name."""
    if title is not None:
        out.print(title, style="bold")
    width = max(map(len, columns[1:]), default=0)
    for first, *rest in rows:
        out.print(f"{columns[0]} {first}", style="bold")
        for name, cell in zip(columns[1:], rest, strict=True):
            if cell:
                out.print(f"  {name:{width}}  {cell}")


def _align(
    columns: Sequence[str], rows: Sequence[Sequence[str]], words: Collection[str]
) -> list[str] | None:
    """The lines of a table as rich would draw them; None where it has to fold a cell.

    Drawing takes rich 5 ms a table, which a folder of thousands of recordings would feel.
    """
    cells = [[printable(redact(cell)) for cell in row] for row in (columns, *rows)]
    if any("\n" in cell or "\t" in cell for row in cells for cell in row):
        return None
    widths = [max(map(cell_len, column)) for column in zip(*cells, strict=True)]
    if sum(widths) + 2 * len(widths) - 2 > out.width:
        return None
    sides = [name in words for name in columns]

    def pad(cell: str, width: int, is_left: bool) -> str:
        cell = cell if is_left else cell.rstrip(" ")
        room = " " * (width - cell_len(cell))
        return cell + room if is_left else room + cell

    return ["  ".join(map(pad, row, widths, sides)) for row in cells]


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
def watched_steps(first: str) -> Iterator[Callable[[str, int, int], None]]:
    """To be told what is being done, how much of it is and of how much; begins with `first`.

    A bar where a person is looking, and elsewhere a plain line for each thing that is done, and
    one a minute while it lasts.
    """
    if err.is_terminal:
        with progress_bar("steps") as bar:
            task = bar.add_task(first, total=None)
            yield lambda what, done, total: bar.update(
                task, description=what, completed=done, total=total
            )
        return
    said, at = first, time.monotonic()
    err.print(first)

    def say(what: str, done: int, total: int) -> None:
        nonlocal said, at
        if what != said or time.monotonic() - at >= BETWEEN_LINES:
            said, at = what, time.monotonic()
            err.print(f"{what}: {done} of {total}" if total > 1 else what)

    yield say


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
