"""A selection as a table for people, or as lines for machines."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Iterator
from dataclasses import asdict

from rich.table import Table

from earmark.reporting.text_format import as_share, as_size
from earmark.selection.result import Chosen, Selection
from earmark.timeline import format_clock

COLUMNS = ("path", "window", "start", "end", "instant", "score", "rate", "expected", "reason")


def summary(chosen: Chosen) -> str:
    """One line: what was heard, what it read, what is expected."""
    read = f"{as_size(chosen.bytes_read)} of {as_size(chosen.bytes_total)} read"
    heard = "not listened to" if chosen.access == "none" else f"heard by {chosen.access}, {read}"
    return (
        f"{chosen.path}: {len(chosen.picks)} of {chosen.windows} windows "
        f"({format_clock(chosen.duration)}, {heard}); "
        f"rule {chosen.rule}, frontline {chosen.frontline}, "
        f"expected coverage {as_share(chosen.forecast)}"
    )


def picks_table(chosen: Chosen) -> Table:
    """The picks of one recording."""
    table = Table(box=None, pad_edge=False)
    for name in ("window", "start", "end", "look at", "score", "rate", "expected"):
        table.add_column(name, justify="right")
    table.add_column("why", overflow="fold")
    for pick in chosen.picks:
        times = (format_clock(time) for time in (pick.start, pick.end, pick.instant))
        numbers = (f"{pick.score:.3g}", f"{pick.rate:.2f}", f"{pick.expected:.2f}")
        table.add_row(str(pick.window), *times, *numbers, pick.reason)
    return table


def left_out_table(chosen: Chosen) -> Table:
    """The best windows that were not chosen, in order of time as the picks are."""
    others = chosen.windows - len(chosen.picks)
    shown = len(chosen.left_out)
    title = "left out" if shown == others else f"left out: the best {shown} of {others}"
    table = Table(box=None, pad_edge=False, title=title, title_justify="left")
    for name in ("window", "start", "end", "score", "rate", "expected"):
        table.add_column(name, justify="right")
    table.add_column("why not", overflow="fold")
    for window in sorted(chosen.left_out, key=lambda window: window.window):
        times = (format_clock(time) for time in (window.start, window.end))
        numbers = (f"{window.score:.3g}", f"{window.rate:.2f}", f"{window.expected:.2f}")
        table.add_row(str(window.window), *times, *numbers, window.reason)
    return table


def as_jsonl(selection: Selection) -> Iterator[str]:
    """One line of JSON a pick, then one a failure."""
    for chosen in selection.recordings:
        for pick in chosen.picks:
            yield json.dumps({"path": chosen.path, **asdict(pick)})
    for failed in selection.failures:
        yield json.dumps(asdict(failed))


def as_csv(selection: Selection) -> str:
    """A header and one row a pick; failures are not rows here but lines on stderr."""
    text = io.StringIO()
    writer = csv.DictWriter(text, COLUMNS, lineterminator="\n")
    writer.writeheader()
    for chosen in selection.recordings:
        for pick in chosen.picks:
            writer.writerow({"path": chosen.path, **asdict(pick)})
    return text.getvalue()
