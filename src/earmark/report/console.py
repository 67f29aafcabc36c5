"""Output of commands: results on stdout, progress and warnings on stderr.

Messages may contain text from a server, a model or a file name. A terminal never receives control
characters from them, nor secrets that are part of an address.
"""

from __future__ import annotations

import io
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
from rich.table import Table as RichTable
from rich.text import Text

from earmark.redaction import redact
from earmark.text_format import Heading, Table, TextLine, write_csv


class Format(StrEnum):
    table = "table"
    json = "json"


_FILE_WIDTH = 240

BETWEEN_LINES = 60.0
"""Seconds between lines of progress if stderr is no terminal."""

_MIN_WRAPPED = 10

_UNPRINTABLE = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069]"
)
"""Control characters except tab and line feed, and those that change the writing direction."""


def printable(text: str) -> str:
    r"""`text` with control characters replaced by escape sequences.

    >>> printable("\x1b[2J")
    '\\x1b[2J'
    """
    return _UNPRINTABLE.sub(lambda match: ascii(match[0])[1:-1], text)


class _SafeConsole(Console):
    """Removes control characters and secrets from everything it prints."""

    def print(self, *objects: Any, **choices: Any) -> None:
        """Plain text that goes to no terminal bypasses rich (0.5 ms per line)."""
        is_plain = all(isinstance(each, str) for each in objects)
        if self.is_terminal or set(choices) - {"style"} or not is_plain:
            super().print(*objects, **choices)
        else:
            self.file.write(printable(redact(" ".join(objects))) + "\n")
            self.file.flush()

    def render_str(self, text: str, **choices: Any) -> Text:
        return super().render_str(printable(redact(text)), **choices)

    def render(
        self, renderable: RenderableType, options: ConsoleOptions | None = None
    ) -> Iterable[Segment]:
        for segment in super().render(renderable, options):
            yield segment if segment.control else segment._replace(text=printable(segment.text))


_PLAIN: dict[str, Any] = {"soft_wrap": True, "highlight": False, "markup": False, "emoji": False}

out = _SafeConsole(**_PLAIN, width=None if sys.stdout.isatty() else _FILE_WIDTH)

err = _SafeConsole(**_PLAIN, stderr=True)


def emit_json(value: Any) -> None:
    emit(json.dumps(value, indent=2, allow_nan=False) + "\n")


def emit(text: str) -> None:
    sys.stdout.write(printable(text) if sys.stdout.isatty() else text)


def emit_csv(table: Table) -> None:
    text = io.StringIO()
    write_csv(text, table.columns, table.rows)
    emit(text.getvalue())


def print_table(
    columns: Sequence[str],
    rows: Iterable[Sequence[str]],
    *,
    words: Collection[str] = (),
    whole: Collection[str] = (),
    title: str | None = None,
) -> None:
    """Columns in `words` are aligned left, the others (numbers) right.

    On a narrow terminal the columns in `words` are wrapped, except those in `whole`. If even that
    does not fit, each row is printed as a block of lines.
    """
    rows = list(rows)
    lines = _align(columns, rows, words)
    if title is None and lines is not None:
        out.print(lines[0], style="bold")
        if rows:
            out.print("\n".join(lines[1:]))
        return
    is_folded = [name in words and name not in whole for name in columns]
    cells = list(zip(*rows, strict=True)) if rows else [()] * len(columns)
    widths = list(map(_least_width, columns, cells, is_folded))
    full_widths = (max(map(cell_len, pair)) for pair in zip(columns, *rows, strict=True))
    has_room = sum(full_widths) + 2 * len(widths) - 2 <= out.width
    if sum(widths) + 2 * len(widths) - 2 > out.width:
        _print_blocks(columns, rows, title)
        return
    table = RichTable(box=None, pad_edge=False, title=title, title_justify="left")
    for name, width, folded in zip(columns, widths, is_folded, strict=True):
        head = name if folded or has_room else "\n".join(textwrap.wrap(name, width))
        side = "left" if name in words else "right"
        table.add_column(head, justify=side, overflow="fold", no_wrap=not folded)  # type: ignore[arg-type]
    for row in rows:
        table.add_row(*row)
    out.print(table)


def _least_width(name: str, cells: Sequence[str], is_folded: bool) -> int:
    if is_folded:
        return min(_MIN_WRAPPED, max(map(cell_len, (name, *cells))))
    lines = (line for cell in cells for line in printable(redact(cell)).split("\n"))
    return max(map(cell_len, (*name.split(), *lines)))


def _print_blocks(columns: Sequence[str], rows: Iterable[Sequence[str]], title: str | None) -> None:
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
    """As rich would draw it, which takes 5 ms per table; None if a cell has to be wrapped."""
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


def print_lines(lines: Iterable[TextLine]) -> None:
    for line in lines:
        if isinstance(line, Table):
            print_table(line.columns, line.rows, words=line.words, title=line.title)
        else:
            out.print(str(line), style="bold" if isinstance(line, Heading) else None)


def warn(message: str) -> None:
    err.print(f"warning: {message}", style="yellow")


class LogHandler(logging.Handler):
    def emit(self, record: logging.LogRecord) -> None:
        err.print(self.format(record))


def show_log() -> None:
    handler = LogHandler()
    handler.setFormatter(logging.Formatter("%(asctime)s %(name)s: %(message)s", "%H:%M:%S"))
    logger = logging.getLogger("earmark")
    logger.handlers = [handler]
    logger.setLevel(logging.DEBUG)


@contextmanager
def watched_steps(first: str) -> Iterator[Callable[[str, int, int], None]]:
    """A function that shows the current step, the part done and the total.

    On a terminal it draws a bar. Elsewhere it prints one line per step, and one every
    `BETWEEN_LINES` seconds while a step lasts.
    """
    if err.is_terminal:
        with progress_bar("steps", first) as show_bar:
            yield lambda what, done, total: show_bar(done, total, what)
        return
    current, printed_at = first, time.monotonic()
    err.print(first)

    def show(what: str, done: int, total: int) -> None:
        nonlocal current, printed_at
        if what != current or time.monotonic() - printed_at >= BETWEEN_LINES:
            current, printed_at = what, time.monotonic()
            err.print(f"{what}: {done} of {total}" if total > 1 else what)

    yield show


@contextmanager
def progress_bar(unit: str, first: str) -> Iterator[Callable[..., None]]:
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        TaskProgressColumn(),
        MofNCompleteColumn(),
        TextColumn(unit),
        TimeRemainingColumn(),
    )
    with Progress(*columns, console=err, transient=True, disable=not err.is_terminal) as bar:
        task = bar.add_task(first, total=None)

        def show(done: int, total: int | None, what: str = first) -> None:
            bar.update(task, completed=done, total=total, description=what)

        yield show
