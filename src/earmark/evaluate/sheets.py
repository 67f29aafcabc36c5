"""Annotations kept one row a line: EPIC and generic CSV, DCASE frames, Audacity labels."""

from __future__ import annotations

import csv
import math
import re
from collections.abc import Iterator
from pathlib import Path

from earmark.errors import AnnotationError
from earmark.evaluate.annotations import Entry, Listing

FRAME = 0.1
"""Seconds of one row of a STARSS or DCASE file; the label resolution of those data sets."""

_CLOCK = re.compile(r"(?:(\d+):)?(\d{1,2}):(\d{1,2}(?:\.\d+)?)")


def seconds(text: str) -> float:
    """A time written as `12.5`, `01:12.5` or `00:01:12.5`, in seconds; nan if it is none."""
    clock = _CLOCK.fullmatch(text.strip())
    if clock:
        hours, minutes, rest = clock.groups()
        return int(hours or 0) * 3600 + int(minutes) * 60 + float(rest)
    try:
        return float(text)
    except ValueError:
        return math.nan


def detect(path: Path, head: str) -> str:
    """Which of these formats the beginning of a file, `head`, looks like.

    Raises:
        AnnotationError: none of them.
    """
    lines = [line for line in head.splitlines() if line.strip()]
    if not lines:
        raise AnnotationError(f"{path.name} is empty: there is nothing annotated in it")
    columns = {column.strip() for column in lines[0].split(",")}
    if {"video_id", "start_timestamp", "stop_timestamp"} <= columns:
        return "epic"
    if {"recording", "start", "end"} <= columns:
        return "csv"
    if re.fullmatch(r"\d+(,-?\d+(\.\d+)?){4,5}", lines[0].strip()):
        return "dcase"
    if _label_times(lines[0]):
        return "audacity"
    raise AnnotationError(
        f"{path.name} is in no format earmark knows (its first line is {lines[0][:60]!r}); "
        f"a CSV needs the columns recording, start, end and label"
    )


def read_epic(path: Path) -> Listing:
    """EPIC-KITCHENS-100 actions, EPIC-SOUNDS events, or the train-split file."""
    entries = []
    for place, row in _rows(path, ("video_id", "start_timestamp", "stop_timestamp")):
        entries.append(
            Entry(
                recording=row["video_id"],
                start=_time(row["start_timestamp"], place),
                end=_time(row["stop_timestamp"], place),
                label=_epic_label(row),
                place=place,
                key=row.get("narration_id") or row.get("annotation_id") or "",
            )
        )
    return Listing(tuple(entries))


def _epic_label(row: dict[str, str]) -> str:
    """The narration, the sound class, or verb and noun, whichever the file has."""
    verb_and_noun = f"{row.get('verb') or ''} {row.get('noun') or ''}".strip()
    return row.get("narration") or row.get("class") or verb_and_noun or row.get("description") or ""


def read_generic(path: Path) -> Listing:
    """A CSV with the columns recording, start, end and, if it likes, label and id."""
    entries = [
        Entry(
            recording=row["recording"],
            start=_time(row["start"], place),
            end=_time(row["end"], place),
            label=row.get("label") or "",
            place=place,
            key=row.get("id") or "",
        )
        for place, row in _rows(path, ("recording", "start", "end"))
    ]
    return Listing(tuple(entries))


def read_frames(path: Path) -> Listing:
    """STARSS and DCASE frames: `frame, class, source, azimuth, elevation[, distance]`.

    A frame is 100 ms. Frames of one class and source that follow one another are one event. The
    recording is named after the file; the file does not say how long it is.
    """
    frames: dict[tuple[str, str], set[int]] = {}
    for number, line in enumerate(_lines(path), start=1):
        cells = line.split(",")
        if len(cells) not in (5, 6) or not cells[0].strip().isdigit():
            raise AnnotationError(
                f"{path.name} line {number}: a frame is five or six numbers, not {line[:40]!r}"
            )
        frames.setdefault((cells[1].strip(), cells[2].strip()), set()).add(int(cells[0]))
    entries = [
        Entry(path.stem, first * FRAME, (last + 1) * FRAME, label, f"{path.name} frame {first}")
        for (label, _), shown in frames.items()
        for first, last in _runs(sorted(shown))
    ]
    return Listing(tuple(entries), recordings=(path.stem,))


def _runs(frames: list[int]) -> Iterator[tuple[int, int]]:
    """First and last of every unbroken run of `frames`, which increase."""
    first = previous = frames[0]
    for frame in frames[1:]:
        if frame != previous + 1:
            yield first, previous
            first = frame
        previous = frame
    yield first, previous


def read_audacity(path: Path) -> Listing:
    """Audacity labels: `start TAB end TAB label`, one recording a file, named after the file.

    Lines that begin with a backslash hold a frequency range and are passed over.
    """
    entries = []
    for number, line in enumerate(_lines(path), start=1):
        if line.startswith("\\"):
            continue
        place, times = f"{path.name} line {number}", _label_times(line)
        if times is None:
            raise AnnotationError(f"{place}: a label is start, tab, end, tab, text: {line[:40]!r}")
        label = line.split("\t", 2)[2] if line.count("\t") > 1 else ""
        entries.append(Entry(path.stem, *times, label.strip(), place))
    return Listing(tuple(entries), recordings=(path.stem,))


def _label_times(line: str) -> tuple[float, float] | None:
    """Start and end of an Audacity line (a decimal comma is a point), or None."""
    cells = [cell.replace(",", ".") for cell in line.split("\t")[:2]]
    times = [seconds(cell) for cell in cells]
    return (times[0], times[1]) if len(times) == 2 and not any(map(math.isnan, times)) else None


def _lines(path: Path) -> list[str]:
    """The lines of a file that hold something."""
    text = path.read_text(encoding="utf-8-sig")
    return [line for line in text.splitlines() if line.strip()]


def _rows(path: Path, needed: tuple[str, ...]) -> Iterator[tuple[str, dict[str, str]]]:
    """Every row of a CSV with the place it stands at, for messages."""
    with path.open(encoding="utf-8-sig", newline="") as file:
        reader = csv.DictReader(file, skipinitialspace=True)
        absent = [column for column in needed if column not in (reader.fieldnames or ())]
        if absent:
            raise AnnotationError(f"{path.name} has no column {' or '.join(absent)}")
        for row in reader:
            place = f"{path.name} line {reader.line_num}"
            if any(not row[column] for column in needed):
                raise AnnotationError(f"{place}: a row needs {', '.join(needed)}")
            yield place, row


def _time(text: str, place: str) -> float:
    """`text` in seconds, or an error that names the row."""
    time = seconds(text)
    if math.isnan(time):
        raise AnnotationError(f"{place}: {text!r} is no time; write seconds or hh:mm:ss.sss")
    return time
