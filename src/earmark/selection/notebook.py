from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from html import escape as escape_markup
from itertools import islice
from typing import Any

from earmark.errors import MissingExtra

DataFrame = Any

MAX_ROWS = 50


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
    cells = ("".join(f"<td>{_cell(value)}</td>" for value in row.values()) for row in table)
    body = "".join(f"<tr>{line}</tr>" for line in islice(cells, MAX_ROWS))
    rest = f"<p>… and {len(table) - MAX_ROWS} more</p>" if len(table) > MAX_ROWS else ""
    return f"<table><tr>{head}</tr>{body}</table>{rest}"


def _cell(value: object) -> str:
    return escape(f"{value:.3g}" if isinstance(value, float) else str(value))


def escape(text: str) -> str:
    """`text` escaped for an HTML body or a quoted attribute; what UTF-8 cannot encode becomes `?`.

    >>> escape("<b>'&'</b>")
    '&lt;b&gt;&#x27;&amp;&#x27;&lt;/b&gt;'
    """
    return escape_markup(text.encode("utf-8", "replace").decode())
