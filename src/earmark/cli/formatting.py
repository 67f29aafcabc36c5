"""A selection as a table for people, or as lines for machines."""

from __future__ import annotations

import csv
import io
import json
import math
from collections.abc import Iterable, Iterator
from dataclasses import asdict

from rich.table import Table

from earmark.selection.result import Chosen, Selection

COLUMNS = ("path", "window", "start", "end", "instant", "score", "rate", "expected", "reason")


def as_clock(seconds: float) -> str:
    """Seconds as a person reads them.

    >>> as_clock(3725.5)
    '1:02:05.5'
    """
    whole, tenths = divmod(round(seconds * 10), 10)
    minutes, second = divmod(whole, 60)
    hours, minute = divmod(minutes, 60)
    head = f"{hours}:{minute:02d}" if hours else f"{minute}"
    return f"{head}:{second:02d}.{tenths}"


def as_size(size_bytes: int) -> str:
    """Bytes as a person reads them.

    >>> as_size(1_500_000)
    '1.5 MB'
    """
    size = float(size_bytes)
    for unit in ("B", "kB", "MB", "GB"):
        if size < 1000:
            return f"{size:.0f} {unit}" if unit == "B" else f"{size:.1f} {unit}"
        size /= 1000
    return f"{size:.1f} TB"


def counted(number: int, thing: str) -> str:
    """A number of things, as a person says it.

    >>> counted(1, "recording"), counted(2, "recording")
    ('1 recording', '2 recordings')
    """
    return f"{number} {thing}" if number == 1 else f"{number} {thing}s"


def noted(notes: Iterable[tuple[str, str]]) -> list[str]:
    """A line a note on a path; one that is the same of many recordings is said once.

    >>> noted([("a.mp4", "silent"), ("b.mp4", "silent"), ("b.mp4", "cut off")])
    ['2 recordings (a.mp4, …): silent', 'b.mp4: cut off']
    """
    paths: dict[str, list[str]] = {}
    for path, note in notes:
        paths.setdefault(note, []).append(path)
    return [
        f"{own[0]}: {note}" if len(own) == 1 else f"{len(own)} recordings ({own[0]}, …): {note}"
        for note, own in paths.items()
    ]


def as_share(share: float | None) -> str:
    """A share in per cent; a dash where there is none.

    >>> as_share(0.25), as_share(float("nan"))
    ('25.0 %', '–')
    """
    return "–" if share is None or math.isnan(share) else f"{100 * share:.1f} %"


def summary(chosen: Chosen) -> str:
    """One line: what was heard, what it read, what is expected."""
    read = f"{as_size(chosen.bytes_read)} of {as_size(chosen.bytes_total)} read"
    heard = "not listened to" if chosen.access == "none" else f"heard by {chosen.access}, {read}"
    return (
        f"{chosen.path}: {len(chosen.picks)} of {chosen.windows} windows "
        f"({as_clock(chosen.duration)}, {heard}); "
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
        times = (as_clock(time) for time in (pick.start, pick.end, pick.instant))
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
        times = (as_clock(time) for time in (window.start, window.end))
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
