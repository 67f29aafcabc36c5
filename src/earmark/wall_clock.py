"""The time of day of moments in a recording.

A container stores when it was made, as ISO 8601 text. Text with a zone is an instant. Text without
one is what the camera's clock showed: many cameras write their local time and call it UTC.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta


@dataclass(frozen=True, slots=True)
class ClockCorrection:
    """What a person knows about the clock of the cameras of a run."""

    start: str = ""
    """When the earliest recording began, such as `2026-11-16 13:00 +02:00`; the others keep their
    distance from it. Empty to trust the cameras."""
    offset: str = ""
    """Added to what the cameras wrote: `+02:00`, `-0:03:20` or seconds."""

    def __post_init__(self) -> None:
        self._start()
        self._offset()

    def apply(self, began: Sequence[str]) -> list[str]:
        """Corrected times; empty where nothing is known."""
        times = [_parse(text) for text in began]
        start, offset = self._start(), self._offset()
        known = [time for time in times if time]
        if start is None:
            return [(time + offset).isoformat() if time else "" for time in times]
        if not known:
            return [start.isoformat() if len(times) == 1 else "" for _ in times]
        first = min(_sortable(time) for time in known)
        return [
            (start + (_sortable(time) - first) + offset).isoformat() if time else ""
            for time in times
        ]

    def _start(self) -> datetime | None:
        if not self.start:
            return None
        with suppress(ValueError):
            return datetime.fromisoformat(re.sub(r" (?=[+-]\d)", "", self.start.strip()))
        raise ValueError(f"a clock is such as `2026-11-16 13:00 +02:00`, not {self.start!r}")

    def _offset(self) -> timedelta:
        match = re.fullmatch(r"([+-]?)(?:(\d+(?:\.\d+)?)|(\d+):(\d\d)(?::(\d\d))?)?", self.offset)
        if not match:
            raise ValueError(f"a clock offset is such as +02:00 or -90, not {self.offset!r}")
        sign, seconds, hours, minutes, rest = match.groups(default="0")
        size = timedelta(hours=int(hours), minutes=int(minutes), seconds=int(rest) + float(seconds))
        return -size if sign == "-" else size


def time_of_day(began: str, seconds: float, *, date: bool = False) -> str:
    """`seconds` after `began`, in its zone; empty if `began` is.

    UTC, in which containers store instants, becomes the zone of this computer.

    >>> time_of_day("2026-11-16T13:00:00+02:00", 130.4)
    '13:02:10'
    >>> time_of_day("2026-11-16T23:59:58", 3.0, date=True)
    '2026-11-17 00:00:01'
    """
    with suppress(OverflowError):
        if time := _parse(began):
            moment = time + timedelta(seconds=seconds)
            return moment.strftime("%Y-%m-%d %H:%M:%S" if date else "%H:%M:%S")
    return ""


def in_local_zone(began: str) -> str:
    """`began`, in the zone of this computer if it is in UTC; empty if it cannot be read."""
    time = _parse(began)
    return time.isoformat() if time else ""


def describe_began(began: str) -> str:
    """Date, time and zone.

    >>> describe_began("2026-11-16T13:00:00")
    '2026-11-16 13:00:00 by the camera (zone unknown)'
    """
    time = _parse(began)
    if time is None:
        return ""
    zone = time.isoformat()[-6:] if time.tzinfo else "by the camera (zone unknown)"
    return f"{time_of_day(began, 0.0, date=True)} {zone}"


def _parse(text: str) -> datetime | None:
    with suppress(ValueError, OverflowError):
        time = datetime.fromisoformat(text)
        return time.astimezone() if time.tzinfo is UTC or time.tzname() == "UTC" else time
    return None


def _sortable(time: datetime) -> datetime:
    """Without a zone, as the camera showed it: comparable to the others of the same camera."""
    return time.astimezone(UTC).replace(tzinfo=None) if time.tzinfo else time
