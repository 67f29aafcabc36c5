"""Readers of annotation documents: GoalStep, EgoSound and earmark's own JSON, ELAN XML."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Collection, Iterator, Mapping
from pathlib import Path, PurePosixPath
from typing import Any
from xml.etree import ElementTree

from earmark.errors import AnnotationError
from earmark.evaluation.annotations.actions import AnnotationFile, AnnotationRow, list_few
from earmark.evaluation.annotations.table_readers import parse_time

_DASH = re.compile(r"\s*(?:-|\u2013|\u2014|\bto\b)\s*")


def detect(path: Path, head: str) -> str:
    """The JSON format of a file that begins with `head`; `AnnotationError` if unknown."""
    if '"video_uid"' in head or '"segments"' in head:
        return "goalstep"
    if '"verdict"' in head and '"label"' in head:
        return "corrections"
    if '"timestamp"' in head and '"question"' in head:
        return "egosound"
    raise AnnotationError(
        f"{path.name} is JSON but neither GoalStep (videos with segments), EgoSound (questions "
        f"with timestamps) nor corrections (verdicts with labels)"
    )


def read_goalstep(path: Path, *, depths: tuple[int, ...] = (0,)) -> AnnotationFile:
    """An Ego4D GoalStep file: its steps (depth 0), its substeps (1), or both.

    Times are those of the video file, and a video lasts until its `end_time`. A step without
    substeps contributes no substep.
    """
    document = _parse(path.read_text(encoding="utf-8-sig"), path.name)
    videos = document.get("videos") if isinstance(document, dict) else document
    if not isinstance(videos, list):
        raise AnnotationError(f"{path.name} holds no list of videos, so it is not GoalStep")
    durations: dict[str, float] = {}
    rows: list[AnnotationRow] = []
    for number, video in enumerate(videos):
        name = str(_field(video, "video_uid", f"{path.name} video {number}"))
        if name in durations:
            raise AnnotationError(f"{path.name} video {number}: {name} is listed twice")
        place = f"{path.name} video {name}"
        durations[name] = _number(video, "end_time", place)
        for depth, segment in _segments(video, place, 0):
            if depth in depths:
                start = _number(segment, "start_time", place)
                at = f"{place} at {start:g} s"
                label = str(segment.get("step_description") or segment.get("step_category") or "")
                rows.append(AnnotationRow(name, start, _number(segment, "end_time", at), label, at))
    return AnnotationFile(tuple(rows), durations, tuple(durations))


def _segments(parent: Any, where: str, depth: int) -> Iterator[tuple[int, Any]]:
    """Every segment below `parent` with its depth, parents first."""
    segments = parent.get("segments") if isinstance(parent, dict) else None
    if not isinstance(segments or [], list):
        raise AnnotationError(f"{where}: segments is no list")
    for segment in segments or ():
        yield depth, segment
        if depth == 0:  # substeps have none of their own
            yield from _segments(segment, where, depth + 1)


def read_egosound(path: Path) -> AnnotationFile:
    """EgoSound questions, each as an action at the moment it asks about.

    A timestamp is `00:10 - 00:11`; a single `00:40` lasts one second. Several questions about one
    moment are several actions, as in the paper; a question with an unreadable timestamp is left
    out and counted.
    """
    rows, unreadable = [], 0
    names: dict[str, None] = {}
    for number, item in enumerate(_items(path)):
        place = f"{path.name} item {number}"
        name = _clip_name(item, place)
        names[name] = None
        start, end = _parse_timestamp(str(item.get("timestamp", "")))
        if math.isnan(start) or end < start:
            unreadable += 1
            continue
        label, key = (str(item.get(column, "")) for column in ("question", "question_id"))
        rows.append(AnnotationRow(name, start, end, label, place, key))
    return AnnotationFile(tuple(rows), recordings=tuple(names), unreadable=unreadable)


def read_corrections(path: Path) -> AnnotationFile:
    """The corrections of a run, as `earmark export --format corrections` writes them.

    The verdicts right, reworded and missed are actions; wrong is not, but its recording is
    included.
    """
    rows: list[AnnotationRow] = []
    durations: dict[str, float] = {}
    for number, item in enumerate(_items(path), 1):
        place = f"{path.name} line {number}"
        name = str(_field(item, "recording", place))
        durations[name] = _number(item, "duration", place)
        if _field(item, "verdict", place) != "wrong":
            start, end = _number(item, "start", place), _number(item, "end", place)
            rows.append(AnnotationRow(name, start, end, str(item.get("label", "")), place))
    return AnnotationFile(tuple(rows), durations, tuple(durations))


def _parse_timestamp(text: str) -> tuple[float, float]:
    """Start and end of an EgoSound timestamp in seconds; nan where it cannot be read."""
    times = [parse_time(part.strip(" []s")) for part in _DASH.split(text.strip())]
    if len(times) == 1:
        return times[0], times[0] + 1.0
    if len(times) != 2 or any(math.isnan(time) for time in times):
        return math.nan, math.nan
    return times[0], times[1] if times[1] > times[0] else times[1] + float(times[0] == times[1])


def _clip_name(item: Any, place: str) -> str:
    """The recording a question is about: the stem of its video's path."""
    for column in ("video_path", "video", "video_id", "recording"):
        if isinstance(item, dict) and item.get(column):
            return PurePosixPath(str(item[column]).replace("\\", "/")).stem
    raise AnnotationError(f"{place} names no video (video_path)")


def _items(path: Path) -> list[Any]:
    """The questions of a JSON list or of a file with one JSON object a line."""
    text = path.read_text(encoding="utf-8-sig")
    if path.suffix.lower() == ".jsonl":
        lines = enumerate(text.split("\n"), 1)
        return [_parse(line, f"{path.name} line {n}") for n, line in lines if line.strip()]
    items = _parse(text, path.name)
    if not isinstance(items, list):
        raise AnnotationError(f"{path.name} holds no list of questions, so it is not EgoSound")
    return items


def read_elan(path: Path, *, tiers: Collection[str] = ()) -> AnnotationFile:
    """Time-aligned ELAN annotations; the recording is named after the file.

    Annotations that only refer to another one have no times and are skipped; those with unset time
    slots are left out and counted.

    Args:
        path: an `.eaf` file.
        tiers: names of the tiers to read; all if empty, and then a note says so.
    """
    try:
        document = ElementTree.parse(path).getroot()  # noqa: S314 - the user's own file
    except (ElementTree.ParseError, LookupError, ValueError) as error:  # or an unknown encoding
        raise AnnotationError(f"{path.name} is not XML: {error}") from error
    marked = {
        tier.get("TIER_ID", ""): list(tier.iter("ALIGNABLE_ANNOTATION"))
        for tier in document.iter("TIER")
    }
    unknown = [name for name in tiers if name not in marked]
    if unknown:
        raise AnnotationError(
            f"{path.name} has no tier {list_few(unknown)}; it has {list_few(marked, most=9)}"
        )
    wanted = tiers or marked
    chosen = {name: marks for name, marks in marked.items() if marks and name in wanted}
    slots = {
        slot.get("TIME_SLOT_ID", ""): _number(slot.attrib, "TIME_VALUE", path.name) / 1000
        for slot in document.iter("TIME_SLOT")
        if "TIME_VALUE" in slot.attrib
    }
    found = [_elan_row(mark, slots, path) for marks in chosen.values() for mark in marks]
    notes: tuple[str, ...] = ()
    if len(chosen) > 1 and not tiers:
        read = list_few((f"{name} {len(marks)}" for name, marks in chosen.items()), most=9)
        notes = (f"{path.name}: all tiers were read ({read}); name some with elan:TIER,TIER",)
    rows = tuple(entry for entry in found if not math.isnan(entry.start + entry.end))
    unreadable = len(found) - len(rows)
    return AnnotationFile(rows, recordings=(path.stem,), unreadable=unreadable, notes=notes)


def _elan_row(mark: ElementTree.Element, slots: Mapping[str, float], path: Path) -> AnnotationRow:
    """The row of one annotation; nan for an unset time slot."""
    key = mark.get("ANNOTATION_ID", "")
    start, end = (slots.get(mark.get(f"TIME_SLOT_REF{n}", ""), math.nan) for n in (1, 2))
    label = (mark.findtext("ANNOTATION_VALUE") or "").strip()
    return AnnotationRow(path.stem, start, end, label, f"{path.name} {key}", key)


def _parse(text: str, place: str) -> Any:
    """`text` parsed as JSON; errors name the place."""
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        raise AnnotationError(f"{place} is not JSON: {error}") from error


def _field(item: Any, name: str, where: str) -> Any:
    """A required field; `AnnotationError` if it is missing."""
    if not isinstance(item, dict) or item.get(name) is None:
        raise AnnotationError(f"{where} has no {name}")
    return item[name]


def _number(item: Any, name: str, where: str) -> float:
    """A required field as a finite number; `AnnotationError` otherwise."""
    found = _field(item, name, where)
    try:
        number = float(found)
    except (TypeError, ValueError, OverflowError):
        number = math.nan
    if not math.isfinite(number):
        raise AnnotationError(f"{where}: {name} is {str(found)[:40]!r}, which is no number")
    return number
