"""Reads annotation files: one reader per format, chosen by name or detected from the content."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Collection, Container, Iterable, Mapping
from functools import partial
from pathlib import Path, PurePosixPath
from typing import Any, Protocol
from xml.etree import ElementTree

from earmark.errors import AnnotationError
from earmark.models.registry import Registry
from earmark_lab.annotations import table_readers
from earmark_lab.annotations.actions import (
    AnnotationFile,
    AnnotationRow,
    Annotations,
    combine_files,
    list_few,
)
from earmark_lab.annotations.table_readers import parse_time, read_errors

_DASH = re.compile(r"-|\u2013|\u2014|\bto\b")


def read_goalstep(path: Path, *, depths: tuple[int, ...] = (0,)) -> AnnotationFile:
    """Ego4D GoalStep: steps (depth 0), substeps (1), or both."""
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
        steps = _segments(video, place)
        substeps = [substep for step in steps for substep in _segments(step, place)]
        for depth in depths:
            for segment in (steps, substeps)[depth]:
                start = _number(segment, "start_time", place)
                at = f"{place} at {start:g} s"
                label = str(segment.get("step_description") or segment.get("step_category") or "")
                rows.append(AnnotationRow(name, start, _number(segment, "end_time", at), label, at))
    return AnnotationFile(tuple(rows), durations, tuple(durations))


def _segments(parent: Any, place: str) -> list[Any]:
    segments = parent.get("segments") if isinstance(parent, dict) else None
    if not isinstance(segments or [], list):
        raise AnnotationError(f"{place}: segments is no list")
    return segments or []


def read_egosound(path: Path) -> AnnotationFile:
    """Each question is an action at the moment it asks about; several may ask about one.

    A timestamp is `00:10 - 00:11`; a single `00:40` lasts one second.
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
    """The verdicts right, reworded and missed are actions; wrong is not."""
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
    times = [parse_time(part.strip(" []s\t")) for part in _DASH.split(text.strip())]
    if len(times) == 1:
        return times[0], times[0] + 1.0
    if len(times) != 2 or any(math.isnan(time) for time in times):
        return math.nan, math.nan
    return times[0], times[1] if times[1] > times[0] else times[1] + float(times[0] == times[1])


def _clip_name(item: Any, place: str) -> str:
    for column in ("video_path", "video", "video_id", "recording"):
        if isinstance(item, dict) and item.get(column):
            return PurePosixPath(str(item[column]).replace("\\", "/")).stem
    raise AnnotationError(f"{place} names no video (video_path)")


def _items(path: Path) -> list[Any]:
    text = path.read_text(encoding="utf-8-sig")
    if path.suffix.lower() == ".jsonl":
        lines = enumerate(text.split("\n"), 1)
        return [_parse(line, f"{path.name} line {n}") for n, line in lines if line.strip()]
    items = _parse(text, path.name)
    if not isinstance(items, list):
        raise AnnotationError(f"{path.name} holds no list of questions, so it is not EgoSound")
    return items


def read_elan(path: Path, *, tiers: Collection[str] = ()) -> AnnotationFile:
    """All tiers if `tiers` is empty; annotations that only refer to another one are skipped."""
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
    names = tiers or marked
    chosen = {name: marks for name, marks in marked.items() if marks and name in names}
    slots = {
        slot.get("TIME_SLOT_ID", ""): _number(slot.attrib, "TIME_VALUE", path.name) / 1000
        for slot in document.iter("TIME_SLOT")
        if "TIME_VALUE" in slot.attrib
    }
    entries = [_elan_row(mark, slots, path) for marks in chosen.values() for mark in marks]
    notes: tuple[str, ...] = ()
    if len(chosen) > 1 and not tiers:
        read = list_few((f"{name} {len(marks)}" for name, marks in chosen.items()), most=9)
        notes = (f"{path.name}: all tiers were read ({read}); name some with elan:TIER,TIER",)
    rows = tuple(entry for entry in entries if not math.isnan(entry.start + entry.end))
    unreadable = len(entries) - len(rows)
    return AnnotationFile(rows, recordings=(path.stem,), unreadable=unreadable, notes=notes)


def _elan_row(mark: ElementTree.Element, slots: Mapping[str, float], path: Path) -> AnnotationRow:
    key = mark.get("ANNOTATION_ID", "")
    start, end = (slots.get(mark.get(f"TIME_SLOT_REF{n}", ""), math.nan) for n in (1, 2))
    label = (mark.findtext("ANNOTATION_VALUE") or "").strip()
    return AnnotationRow(path.stem, start, end, label, f"{path.name} {key}", key)


def _parse(text: str, place: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        raise AnnotationError(f"{place} is not JSON: {error}") from error


def _field(item: Any, name: str, where: str) -> Any:
    if not isinstance(item, dict) or item.get(name) is None:
        raise AnnotationError(f"{where} has no {name}")
    return item[name]


def _number(item: Any, name: str, where: str) -> float:
    value = _field(item, name, where)
    try:
        number = float(value)
    except (TypeError, ValueError, OverflowError):
        number = math.nan
    if not math.isfinite(number):
        raise AnnotationError(f"{where}: {name} is {str(value)[:40]!r}, which is no number")
    return number


class Reader(Protocol):
    """Reads annotation files of one format.

    Returns the rows as they stand in the file, each with its place for messages; `combine_files`
    checks the times. Raises `AnnotationError` for a file that is not of this format. The caller
    reports files that cannot be opened or decoded.
    """

    def __call__(self, path: Path, /) -> AnnotationFile: ...


READERS: Registry[Reader] = Registry(
    "earmark.readers",
    {
        "epic": partial(table_readers.read_table, columns=table_readers.COLUMNS["epic"]),
        "captaincook4d": table_readers.read_captaincook4d,
        "egoexolearn": partial(  # verbs and nouns are the numbers of their classes
            table_readers.read_table,
            columns=table_readers.COLUMNS["egoexolearn"],
            note="a file lists one split of the actions: more goes on than is marked",
        ),
        "factory10k": table_readers.read_factory10k,
        "csv": table_readers.read_table,
        "dcase": table_readers.read_frames,
        "audacity": table_readers.read_audacity,
        "goalstep": read_goalstep,
        "goalstep-substeps": partial(read_goalstep, depths=(1,)),
        "goalstep-all": partial(read_goalstep, depths=(0, 1)),
        "egosound": read_egosound,
        "elan": read_elan,
        "corrections": read_corrections,
    },
    kind="annotation format",
)
"""`epic` reads EPIC-KITCHENS-100, EPIC-SOUNDS and the train-split file. Only built-in formats are
detected from the content."""

SUFFIXES = {".csv", ".txt", ".tsv", ".json", ".jsonl", ".eaf"}


def read_annotations(
    paths: Path | Iterable[Path],
    *,
    format: str | None = None,  # noqa: A002 - the word the command line uses
    durations: Mapping[str, float] | None = None,
) -> Annotations:
    """The actions annotated in `paths`: files, or folders searched for annotation files.

    A path may end with its format, `marks.eaf#elan:TIER,TIER`; `format` is that of all others.
    Without one it is detected for each file: GoalStep files give steps, ELAN files all tiers.
    `durations`, seconds by recording, override those in the files.
    """
    named = [paths] if isinstance(paths, Path) else list(paths)
    forms = [split_suffix(str(path), "#", READERS) for path in named]
    formats = {
        file.resolve(): (file, form or format)
        for path, form in forms
        for file in _files(Path(path))
    }
    files = [file for file, _ in formats.values()]
    read = [read_file(file, format=form) for file, form in formats.values()]
    _refuse_repeated_stems(files, read)
    if not any(file.rows or file.recordings for file in read):
        raise AnnotationError(
            f"{list_few(file.name for file in files)}: no row, so nothing is annotated"
            if files
            else "no annotation file was given"
        )
    return combine_files(read, durations=durations)


def split_suffix(word: str, sign: str, names: Container[str]) -> tuple[str, str | None]:
    """`word` without a known name after `sign`, and that name; paths may contain the sign."""
    head, separator, tail = word.rpartition(sign)
    return (head, tail) if separator and tail.partition(":")[0] in names else (word, None)


def read_file(path: Path, *, format: str | None = None) -> AnnotationFile:  # noqa: A002
    with read_errors(path):
        name, _, tiers = (format or detect(path)).partition(":")
        if not tiers:
            return READERS.named(name)(path)
        if name != "elan":
            raise ValueError(f"no annotation format {format!r}: only elan:TIER,TIER has parts")
        return read_elan(path, tiers=tiers.split(","))


def detect(path: Path) -> str:
    """From suffix and first lines; `AnnotationError` if unknown."""
    with read_errors(path), path.open(encoding="utf-8-sig") as file:
        head = file.read(4096)
    suffix = path.suffix.lower()
    if suffix == ".eaf" or "<ANNOTATION_DOCUMENT" in head:
        return "elan"
    if suffix not in {".json", ".jsonl"} and head.lstrip()[:1] not in {"[", "{"}:
        return table_readers.detect(path, head)
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


def _files(path: Path) -> list[Path]:
    if not path.is_dir():
        return [path]
    inside = sorted(file for file in path.rglob("*") if file.suffix.lower() in SUFFIXES)
    if not inside:
        suffixes = ", ".join(sorted(SUFFIXES))
        raise AnnotationError(f"{path} holds no annotation file ({suffixes})")
    return inside


def _refuse_repeated_stems(files: list[Path], read: list[AnnotationFile]) -> None:
    owner: dict[str, Path] = {}
    for file, content in zip(files, read, strict=True):
        for name in content.recordings:
            if name == file.stem and name in owner:
                raise AnnotationError(
                    f"two files annotate the recording {name}: {owner[name]} and {file}; "
                    f"rename one ({list_few([f.name for f in files])} were read)"
                )
            owner[name] = file
