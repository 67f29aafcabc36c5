"""Numbers as a person reads them: sizes, shares, counts, notes."""

from __future__ import annotations

import math
from collections.abc import Iterable

from earmark.gate.forecast_error import CoverageRange

UNLIKE = "too few recordings like this have been met"
"""Why a forecast says nothing."""


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


def as_range(share: float | None, told: CoverageRange | None) -> str:
    """A forecast of coverage and between what it is to lie.

    >>> as_range(0.5, CoverageRange(0.4, 0.5, 0.6, 0.8))
    '50.0 % (40–60 % in 80 % of recordings)'
    """
    if share is None or math.isnan(share) or (told and told.low == told.high):
        return as_share(share)
    if told is None:
        return f"{as_share(share)} (how sure that is was not measured)"
    if told.is_unlike:
        return f"{as_share(share)} (0–100 %: {UNLIKE})"
    between = f"{100 * told.low:.0f}–{100 * told.high:.0f} %"
    return f"{as_share(share)} ({between} in {100 * told.confidence:.0f} % of recordings)"


def as_share(share: float | None) -> str:
    """A share in per cent; a dash where there is none.

    >>> as_share(0.25), as_share(float("nan"))
    ('25.0 %', '–')
    """
    return "–" if share is None or math.isnan(share) else f"{100 * share:.1f} %"
