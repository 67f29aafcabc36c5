"""Rows as CSV in which a spreadsheet finds no formulas.

A spreadsheet takes a cell that begins with one of `= + - @`, a tab or a carriage return for a
formula, and a caption or a file name can contain any text. Such a cell gets an apostrophe in front,
as spreadsheets themselves mark text; numbers stay numbers.
"""

from __future__ import annotations

import csv
from collections.abc import Iterable, Sequence
from typing import TextIO

FORMULA = ("=", "+", "-", "@", "\t", "\r")


def write_csv(
    file: TextIO, header: Sequence[str], rows: Iterable[Iterable[object]], *, end: str = "\n"
) -> None:
    """Write a header and `rows` to `file`, lines ending in `end`; None is an empty cell."""
    writer = csv.writer(file, lineterminator=end)
    writer.writerow(header)
    writer.writerows([as_cell(value) for value in row] for row in rows)


def as_cell(value: object) -> object:
    """`value` as a cell: text that looks like a formula gets an apostrophe in front.

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
