"""Rows as CSV that a spreadsheet shows and does not run.

A cell that begins with one of `= + - @`, a tab or a carriage return is a formula to a spreadsheet,
and a caption or a file name can hold any text. Such a cell gets an apostrophe in front, as a
spreadsheet itself writes text; numbers stay numbers.
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
    """`value` as it can stand in a cell.

    >>> as_cell("=1+1"), as_cell("-1.5"), as_cell(-1.5), as_cell("a = b")
    ("'=1+1", '-1.5', -1.5, 'a = b')
    """
    if not isinstance(value, str) or not value.startswith(FORMULA) or _is_number(value):
        return value
    return f"'{value}"


def from_cell(text: str) -> str:
    """The text that `as_cell` was given.

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
