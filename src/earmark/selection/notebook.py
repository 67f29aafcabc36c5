"""Shows results in a notebook: time lines, tables and data frames.

The HTML is self-contained and runs no script; all text from outside is escaped.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from html import escape as escape_markup
from typing import Any

from earmark.errors import MissingExtra
from earmark.timeline import Span, format_clock

DataFrame = Any
"""A `pandas.DataFrame`, where pandas is installed."""

MAX_RECORDINGS, MAX_ROWS = 10, 50
"""Most recordings of a result and rows of a table shown; a line says how many more there are."""

_PICK_COLOUR = "#c2410c"


class Markup(str):
    """Text that is already HTML; any other text is escaped."""

    __slots__ = ()


def draw_strip(duration: float, spans: Iterable[Span], *, has_clock: bool = True) -> Markup:
    """A time line of `duration` seconds with `spans` marked on it.

    >>> "0:04.0" in draw_strip(8.0, [Span(4.0, 8.0)])
    True
    """
    length = max(duration, 1e-9)
    marks = "".join(
        f'<rect x="{1000 * span.start / length:.2f}" width="{1000 * span.duration / length:.2f}" '
        f'height="20" fill="{_PICK_COLOUR}">'
        f"<title>{format_clock(span.start)} – {format_clock(span.end)}</title></rect>"
        for span in spans
    )
    ends = f"<small>0:00 – {format_clock(duration)}</small>" if has_clock else ""
    return Markup(
        '<svg viewBox="0 0 1000 20" preserveAspectRatio="none" role="img" '
        'style="width:100%;min-width:8em;height:1.4em">'
        '<rect width="1000" height="20" fill="#888" fill-opacity="0.25"/>'
        f"{marks}</svg>{ends}"
    )


def write_table(rows: Sequence[Mapping[str, object]]) -> Markup:
    """The first of `rows` under the names they have; nothing where there are none.

    >>> write_table([{"why": "<loud>"}])
    '<table><tr><th>why</th></tr><tr><td>&lt;loud&gt;</td></tr></table>'
    """
    if not rows:
        return Markup("")
    head = "".join(f"<th>{_cell(name)}</th>" for name in rows[0])
    body = "".join(
        f"<tr>{''.join(f'<td>{_cell(value)}</td>' for value in row.values())}</tr>"
        for row in rows[:MAX_ROWS]
    )
    more = len(rows) - MAX_ROWS
    rest = f"<p>… and {more} more</p>" if more > 0 else ""
    return Markup(f"<table><tr>{head}</tr>{body}</table>{rest}")


def write_section(title: str, *parts: str) -> Markup:
    """`parts` below a title; parts that are not `Markup` become paragraphs."""
    body = (part if isinstance(part, Markup) else f"<p>{escape(part)}</p>" for part in parts)
    return Markup(f"<div><b>{escape(title)}</b>{''.join(body)}</div>")


def to_data_frame(rows: Iterable[Mapping[str, object]], columns: Sequence[str]) -> DataFrame:
    """`rows` as a data frame with `columns`, also where there are no rows.

    Raises:
        MissingExtra: pandas is not installed.
    """
    try:
        import pandas
    except ImportError as error:
        message = "a data frame needs pandas: pip install 'earmark[notebook]'"
        raise MissingExtra(message) from error
    return pandas.DataFrame.from_records(list(rows), columns=list(columns))


def escape(text: str) -> str:
    """`text` escaped for an HTML body or a quoted attribute; what UTF-8 cannot encode becomes `?`.

    >>> escape("<b>'&'</b>")
    '&lt;b&gt;&#x27;&amp;&#x27;&lt;/b&gt;'
    """
    return escape_markup(text.encode("utf-8", "replace").decode())


def _cell(value: object) -> str:
    if isinstance(value, Markup):
        return value
    return escape(f"{value:.3g}" if isinstance(value, float) else str(value))
