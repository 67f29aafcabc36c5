from __future__ import annotations

import csv
import html
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TextIO

from earmark.errors import MissingExtra

DataFrame = Any

MAX_HTML_ROWS = 50

CURRENCY = "(in the currency of your prices)"
"""Printed after an amount if the currency has no name."""


class Heading(str):
    """A line that is printed bold."""

    __slots__ = ()


@dataclass(frozen=True, slots=True)
class Table:
    columns: Sequence[str]
    rows: Sequence[Sequence[Any]]
    words: Collection[str] = ()
    """Columns aligned left; the others hold numbers and are aligned right."""
    title: str | None = None


TextLine = str | Table
"""What a result prints, in order."""

FORMULA = ("=", "+", "-", "@", "\t", "\r")
"""A spreadsheet takes a cell that begins with one of these for a formula."""


def format_bytes(size_bytes: int) -> str:
    """A size with a unit.

    >>> format_bytes(1_500_000)
    '1.5 MB'
    """
    size = float(size_bytes)
    for unit in ("B", "kB", "MB", "GB"):
        if size < 1000:
            return f"{size:.0f} {unit}" if unit == "B" else f"{size:.1f} {unit}"
        size /= 1000
    return f"{size:.1f} TB"


def format_bytes_read(bytes_read: int, size_bytes: int) -> str:
    """Bytes that are read twice count twice.

    >>> format_bytes_read(2_000_000, 47_000_000)
    '2.0 MB of 47.0 MB read'
    >>> format_bytes_read(50_000_000, 47_000_000)
    '50.0 MB read, some of 47.0 MB more than once'
    """
    if bytes_read > size_bytes:
        return f"{format_bytes(bytes_read)} read, some of {format_bytes(size_bytes)} more than once"
    return f"{format_bytes(bytes_read)} of {format_bytes(size_bytes)} read"


def counted(number: int, thing: str) -> str:
    """A number and a noun, in the plural unless the number is 1.

    >>> counted(1, "recording"), counted(2, "recording")
    ('1 recording', '2 recordings')
    """
    return f"{number} {thing}" if number == 1 else f"{number} {thing}s"


def format_money(amount: float, currency: str = "") -> str:
    """To the hundredth, with the name of the currency.

    >>> format_money(4.2e-05, "EUR"), format_money(1234.5, "EUR")
    ('less than 0.01 EUR', '1,234.50 EUR')
    """
    number = "less than 0.01" if 0 < amount < 0.005 else f"{amount:,.2f}"
    return f"{number} {currency or CURRENCY}"


def format_spend(spend: float, currency: str = "") -> str:
    """A cost as text to append to other figures; empty if it is 0."""
    return f", {format_money(spend, currency)}" if spend else ""


def format_length(seconds: float) -> str:
    """A length of time in words.

    >>> [format_length(seconds) for seconds in (40, 90, 600, 7_200, 7_260)]
    ['40 s', '1 min 30 s', '10 min', '2 h', '2 h 1 min']
    """
    if seconds < 59.5:
        return f"{seconds:.0f} s"
    if seconds < 599.5:
        minutes, rest = divmod(round(seconds), 60)
        return f"{minutes} min {rest} s" if rest else f"{minutes} min"
    minutes = round(seconds / 60)
    if minutes < 60:
        return f"{minutes} min"
    return f"{minutes // 60} h {minutes % 60} min" if minutes % 60 else f"{minutes // 60} h"


def format_notes(notes: Iterable[tuple[str, str]]) -> list[str]:
    """A note that several recordings share is one line that counts them.

    >>> format_notes([("a.mp4", "silent"), ("b.mp4", "silent"), ("b.mp4", "cut off")])
    ['2 recordings (a.mp4, …): silent', 'b.mp4: cut off']
    """
    paths: dict[str, list[str]] = {}
    for path, note in notes:
        paths.setdefault(note, []).append(path)
    return [
        f"{same[0]}: {note}" if len(same) == 1 else f"{len(same)} recordings ({same[0]}, …): {note}"
        for note, same in paths.items()
    ]


def write_csv(
    file: TextIO, header: Sequence[str], rows: Iterable[Iterable[object]], *, end: str = "\n"
) -> None:
    writer = csv.writer(file, lineterminator=end)
    writer.writerow(header)
    writer.writerows([as_cell(value) for value in row] for row in rows)


def as_cell(value: object) -> object:
    """Text that looks like a formula gets an apostrophe in front; numbers stay numbers.

    >>> as_cell("=1+1"), as_cell("-1.5"), as_cell(-1.5), as_cell("a = b")
    ("'=1+1", '-1.5', -1.5, 'a = b')
    """
    if not isinstance(value, str) or not value.startswith(FORMULA) or _is_number(value):
        return value
    return f"'{value}"


def from_cell(text: str) -> str:
    """The text that was given to `as_cell`.

    >>> from_cell("'=1+1"), from_cell("'tis")
    ('=1+1', "'tis")
    """
    return text[1:] if text.startswith("'") and text[1:].startswith(FORMULA) else text


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return text.isprintable()


def to_data_frame(rows: Iterable[Mapping[str, object]], columns: Sequence[str]) -> DataFrame:
    try:
        import pandas
    except ImportError as error:
        message = "a data frame needs pandas: pip install 'earmark[notebook]'"
        raise MissingExtra(message) from error
    return pandas.DataFrame.from_records(list(rows), columns=list(columns))


def html_table(rows: Iterable[Mapping[str, object]]) -> str:
    """The first of `rows` under the names they have; nothing if there are none.

    >>> html_table([{"why": "<loud>"}])
    '<table><tr><th>why</th></tr><tr><td>&lt;loud&gt;</td></tr></table>'
    """
    table = list(rows)
    if not table:
        return ""
    head = "".join(f"<th>{escape(name)}</th>" for name in table[0])
    lines = (
        "".join(f"<td>{_html_cell(value)}</td>" for value in row.values())
        for row in table[:MAX_HTML_ROWS]
    )
    body = "".join(f"<tr>{line}</tr>" for line in lines)
    rest = f"<p>… and {len(table) - MAX_HTML_ROWS} more</p>" if len(table) > MAX_HTML_ROWS else ""
    return f"<table><tr>{head}</tr>{body}</table>{rest}"


def _html_cell(value: object) -> str:
    return escape(f"{value:.3g}" if isinstance(value, float) else str(value))


def escape(text: str) -> str:
    """`text` escaped for an HTML body or a quoted attribute; what UTF-8 cannot encode becomes `?`.

    >>> escape("<b>'&'</b>")
    '&lt;b&gt;&#x27;&amp;&#x27;&lt;/b&gt;'
    """
    return html.escape(text.encode("utf-8", "replace").decode())
