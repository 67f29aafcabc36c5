"""Readers of annotations with one row per line: CSV, DCASE frames, Audacity labels.

A CSV may be delimited by commas, semicolons or tabs; with the latter two, decimal commas are
allowed. Columns may be in any order and case.
"""

from __future__ import annotations

import csv
import math
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from sys import intern

from earmark.errors import AnnotationError
from earmark_lab.annotations.actions import AnnotationFile, AnnotationRow

FRAME = 0.1
"""Seconds."""

_MAX_FRAME_DIGITS = 9

COLUMNS = {
    "epic": ("video_id", "start_timestamp", "stop_timestamp"),
    "csv": ("recording", "start", "end"),
    "captaincook4d": ("recording_id", "start_time", "end_time", "step_id"),
    "egoexolearn": ("video_id", "start_sec", "end_sec"),
    "factory10k": ("source_file", "start_seconds_from_video_start", "end_seconds_from_video_start"),
}
"""Recording, start and end first."""

_CLOCK = re.compile(r"(?:(\d+):)?(\d+):(\d{1,2}(?:\.\d+)?)")


def parse_time(text: str) -> float:
    """`12.5`, `01:12.5` or `00:01:12.5` in seconds; nan if it is not a time."""
    clock = _CLOCK.fullmatch(text.strip())
    if clock:
        hours, minutes, rest = clock.groups()
        return float(hours or 0) * 3600 + float(minutes) * 60 + float(rest)
    try:
        return float(text)
    except ValueError:
        return math.nan


def detect(path: Path, head: str) -> str:
    lines = [line for line in head.splitlines() if line.strip()]
    if not lines:
        raise AnnotationError(
            f"{path.name} is empty: remove it or, if it marks a recording without events, name "
            f"its format (PATH#FORMAT)"
        )
    columns = set(_columns(next(csv.reader([lines[0]], delimiter=_delimiter(lines[0])))))
    for name, needed in COLUMNS.items():
        if set(needed) <= columns:
            return name
    if re.fullmatch(r"\d+(,-?\d+(\.\d+)?){4,5}", lines[0].strip()):
        return "dcase"
    if _label_times(lines[0]):
        return "audacity"
    raise AnnotationError(
        f"{path.name} is in no format earmark knows (its first line is {lines[0][:60]!r}); "
        f"a CSV needs the columns recording, start, end and label"
    )


def read_table(
    path: Path, *, columns: Sequence[str] = COLUMNS["csv"], note: str = ""
) -> AnnotationFile:
    name, start, end, *_ = columns
    rows = []
    for row in csv_rows(path, (start, end), name=name):
        place = row[PLACE]
        times = _time(row[start], place), _time(row[end], place)
        key = row.get("narration_id") or row.get("annotation_id") or row.get("id") or ""
        # Repeated names and labels share one string.
        rows.append(AnnotationRow(intern(row[name]), *times, intern(_label(row)), place, key))
    return AnnotationFile(tuple(rows), notes=(note,) if note else ())


def read_captaincook4d(path: Path) -> AnnotationFile:
    """Steps that were not carried out have no times and are skipped."""
    file = read_table(path, columns=COLUMNS["captaincook4d"])
    done = tuple(row for row in file.rows if row.end >= 0)
    skipped = len(file.rows) - len(done)
    note = f"{path.name}: skipped steps that were not carried out: {skipped}"
    return replace(file, rows=done, notes=(note,) if skipped else ())


def read_factory10k(path: Path) -> AnnotationFile:
    """In seconds from the start of each video."""
    note = "labels made by a machine: good for lengths and density, not for what happened"
    file = read_table(path, columns=COLUMNS["factory10k"], note=note)
    rows = tuple(replace(row, recording=intern(Path(row.recording).stem)) for row in file.rows)
    return replace(file, rows=rows)


def _label(row: dict[str, str]) -> str:
    verb_and_noun = f"{row.get('verb', '')} {row.get('noun', '')}".strip()
    labels = (row.get(column) for column in ("label", "narration", "class", "activity"))
    return next(filter(None, labels), verb_and_noun or row.get("description", ""))


def read_frames(path: Path) -> AnnotationFile:
    """`frame, class, source, azimuth, elevation[, distance]`, a frame being 100 ms.

    Consecutive frames of one class and source are one event.
    """
    frames: dict[tuple[str, str], set[int]] = {}
    for number, line in _lines(path):
        cells = line.split(",")
        frame = cells[0].strip()
        if len(cells) not in (5, 6) or not frame.isdecimal() or len(frame) > _MAX_FRAME_DIGITS:
            raise AnnotationError(
                f"{path.name} line {number}: a frame is five or six numbers, not {line[:40]!r}"
            )
        frames.setdefault((cells[1].strip(), cells[2].strip()), set()).add(int(frame))
    rows = []
    for (label, _), numbers in frames.items():
        firsts = sorted(numbers - {frame + 1 for frame in numbers})
        lasts = sorted(numbers - {frame - 1 for frame in numbers})
        for first, last in zip(firsts, lasts, strict=True):
            times = first * FRAME, (last + 1) * FRAME
            rows.append(AnnotationRow(path.stem, *times, label, f"{path.name} frame {first}"))
    return AnnotationFile(tuple(rows), recordings=(path.stem,))


def read_audacity(path: Path) -> AnnotationFile:
    """`start TAB end TAB label`; lines that begin with a backslash are skipped."""
    rows = []
    for number, line in _lines(path):
        if line.startswith("\\"):
            continue
        place, times = f"{path.name} line {number}", _label_times(line)
        if times is None:
            raise AnnotationError(f"{place}: a label is start, tab, end, tab, text: {line[:40]!r}")
        label = line.split("\t", 2)[2] if line.count("\t") > 1 else ""
        rows.append(AnnotationRow(path.stem, *times, label.strip(), place))
    return AnnotationFile(tuple(rows), recordings=(path.stem,))


def _label_times(line: str) -> tuple[float, float] | None:
    cells = [cell.replace(",", ".") for cell in line.split("\t")[:2]]
    times = [parse_time(cell) for cell in cells]
    return (times[0], times[1]) if len(times) == 2 and not any(map(math.isnan, times)) else None


def _lines(path: Path) -> list[tuple[int, str]]:
    text = path.read_text(encoding="utf-8-sig")
    return [(number, line) for number, line in enumerate(text.split("\n"), 1) if line.strip()]


def read_durations(path: Path) -> dict[str, float]:
    """Columns `duration` and `recording`, or `video_id` as in EPIC's `EPIC_100_video_info.csv`."""
    durations: dict[str, float] = {}
    with read_errors(path):
        for row in csv_rows(path, ("duration",)):
            name = row.get("recording") or row.get("video_id")
            if not name:
                raise AnnotationError(f"{row[PLACE]}: no recording (or video_id) is named")
            if name in durations:
                raise AnnotationError(f"{row[PLACE]}: {name} is listed twice")
            length = parse_time(row["duration"])
            if not (math.isfinite(length) and length > 0):
                raise AnnotationError(f"{row[PLACE]}: {row['duration']!r} is no length in seconds")
            durations[name] = length
    return durations


@contextmanager
def read_errors(path: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise AnnotationError(f"cannot read {path}: {error.strerror or error}") from error
    except UnicodeDecodeError as error:
        raise AnnotationError(
            f"{path.name} is not UTF-8 text (byte {error.start}); save it as UTF-8"
        ) from error
    except csv.Error as error:
        raise AnnotationError(f"{path.name} is no CSV: {error}") from error


PLACE = " place"
"""`file.csv line 12`."""


def csv_rows(path: Path, times: Sequence[str], *, name: str = "") -> Iterator[dict[str, str]]:
    """Each row has its `PLACE`; the columns of `times` and `name` must exist once."""
    needed = (name, *times) if name else times
    with path.open(encoding="utf-8-sig", newline="") as file:
        mark = _delimiter(next((line for line in file if line.strip()), ""))
        file.seek(0)
        reader = csv.reader(file, delimiter=mark, skipinitialspace=True)
        columns = _columns(next((cells for cells in reader if any(cells)), []))
        if any(columns.count(column) != 1 for column in needed):
            listed = " and ".join(needed)
            raise AnnotationError(f"{path.name} needs {listed} among its columns, each once")
        for cells in reader:
            filled = zip(columns, map(str.strip, cells), strict=False)
            row = dict.fromkeys(columns, "") | dict(filled)
            row[PLACE] = f"{path.name} line {reader.line_num}"
            if any(cell.strip() for cell in cells[len(columns) :]):
                raise AnnotationError(
                    f"{row[PLACE]}: {len(cells)} cells under {len(columns)} columns; put quotes "
                    f"around a cell that holds {mark!r}"
                )
            if not any(map(str.strip, cells)):
                continue
            if not all(row[column] for column in needed):
                raise AnnotationError(f"{row[PLACE]}: a row needs {', '.join(needed)}")
            if mark != ",":
                row |= {column: row[column].replace(",", ".") for column in times}
            yield row


def _delimiter(header: str) -> str:
    return max(",;\t", key=header.count)


def _columns(cells: Sequence[str]) -> list[str]:
    """In lower case; unnamed columns are numbered."""
    names = [cell.strip().lower() for cell in cells]
    return [name or f" {index}" for index, name in enumerate(names)]


def _time(text: str, place: str) -> float:
    time = parse_time(text)
    if math.isnan(time):
        raise AnnotationError(f"{place}: {text!r} is no time; write seconds or hh:mm:ss.sss")
    return time
