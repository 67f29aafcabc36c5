"""The time of day of moments in a recording.

A container stores when it was made, as ISO 8601 text. Text with a zone is an instant. Text without
one is what the camera's clock showed: many cameras write their local time and call it UTC.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta, timezone

_NAME_TIME = re.compile(r"(?<!\d)(20\d{6})[_T-]?([0-2]\d[0-5]\d[0-5]\d)(?!\d)")
_SAME_TIME = 90.0
"""Seconds by which the name and the container of one file may differ."""


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


def time_of_day(began: str, seconds: float, *, date: bool = False, zone: bool = False) -> str:
    """`seconds` after `began`, in its zone; empty if `began` is.

    UTC, in which containers store instants, becomes the zone of this computer. The zone is added
    if it is known.

    >>> time_of_day("2026-11-16T13:00:00+02:00", 130.4, zone=True)
    '13:02:10 +02:00'
    >>> time_of_day("2026-11-16T23:59:58", 3.0, date=True, zone=True)
    '2026-11-17 00:00:01'
    """
    with suppress(OverflowError):
        if time := _parse(began):
            moment = time + timedelta(seconds=seconds)
            text = moment.strftime("%Y-%m-%d %H:%M:%S" if date else "%H:%M:%S")
            return f"{text} {moment.isoformat()[-6:]}" if zone and moment.tzinfo else text
    return ""


def iso_time(time: float) -> str:
    """Of seconds since 1970, in UTC.

    >>> iso_time(0.0)
    '1970-01-01T00:00:00.000+00:00'
    """
    return datetime.fromtimestamp(time, UTC).isoformat(timespec="milliseconds")


def in_local_zone(began: str) -> str:
    """`began`, in the zone of this computer if it is in UTC; empty if it cannot be read."""
    time = _parse(began)
    return time.isoformat() if time else ""


def describe_began(began: str, origin: str = "") -> str:
    """Date, time and zone, and how they are known.

    >>> describe_began("2026-11-16T13:00:00", clock_origin("2026-11-16T13:00:00"))
    '2026-11-16 13:00:00 (as the camera showed it; --clock sets the zone)'
    """
    text = time_of_day(began, 0.0, date=True, zone=True)
    return f"{text} ({origin})" if text and origin else text


def clock_origin(began: str, correction: str = "") -> str:
    """How the time of day is known: what was guessed, or nothing if the file says it all."""
    if correction:
        return "corrected"
    with suppress(ValueError):
        zone = datetime.fromisoformat(began).tzinfo
        if zone is None:
            return "as the camera showed it; --clock sets the zone"
        return "UTC in the file, in the zone of this computer" if zone == UTC else ""
    return ""


def camera_time(created: str, name: str, *, writes_local: bool = False) -> str:
    """ISO 8601 from the time in a container, by what is known about its camera.

    Many cameras write what their clock shows and call it UTC. A time in the file name, which is
    what the clock showed, tells: the same time says so, and one some quarters of an hour away is
    the zone.

    >>> camera_time("2026-11-16T11:00:05+00:00", "VID_20261116_130004.mp4")
    '2026-11-16T13:00:05+02:00'
    >>> camera_time("2026-11-16T13:00:05+00:00", "DJI_20261116130004_0001_D.MP4")
    '2026-11-16T13:00:05'
    """
    time = datetime.fromisoformat(created)
    if time.tzinfo != UTC:
        return time.isoformat(timespec="seconds")
    shown = _time_in_name(name)
    if shown and not writes_local:
        ahead = (shown - time.replace(tzinfo=None)).total_seconds()
        quarters = round(ahead / 900)
        if abs(ahead - quarters * 900) <= _SAME_TIME and -48 <= quarters <= 56:
            writes_local = quarters == 0
            if quarters:
                time = time.astimezone(timezone(timedelta(seconds=quarters * 900)))
    time = time.replace(tzinfo=None) if writes_local else time
    return time.isoformat(timespec="seconds")


def _time_in_name(name: str) -> datetime | None:
    match = None if name.startswith("PXL_") else _NAME_TIME.search(name)  # Pixel phones: UTC
    with suppress(ValueError):
        return datetime.strptime("".join(match.groups()), "%Y%m%d%H%M%S") if match else None
    return None


def _parse(text: str) -> datetime | None:
    with suppress(ValueError, OverflowError):
        time = datetime.fromisoformat(text)
        return time.astimezone() if time.tzinfo is UTC or time.tzname() == "UTC" else time
    return None


def _sortable(time: datetime) -> datetime:
    """Without a zone, as the camera showed it: comparable to the others of the same camera."""
    return time.astimezone(UTC).replace(tzinfo=None) if time.tzinfo else time
