from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

from earmark.captioning.answer_schema import activity_of, is_seen
from earmark.captioning.request import Answer
from earmark.evidence.evidence_entry import EvidenceTimeline
from earmark.evidence.sound_names import WindowSounds, level_words
from earmark.gate.forecast_error import ForecastError, ForecastRange
from earmark.gate.listener import Listened
from earmark.grid import Windows
from earmark.media import Recording, Source
from earmark.media.source import is_remote, name_of
from earmark.selection.pick import Pick
from earmark.timeline import Span, Track
from earmark.wall_clock import time_of_day


@dataclass(frozen=True, slots=True)
class RecordingRow:
    id: str
    path: str
    duration: float
    size_bytes: int
    frame_rate: float = 0.0
    """0 if there is no video or it is not known."""
    frame_count: int = 0
    name: str = ""
    chapters: tuple[tuple[str, float], ...] = ()
    """Its files and the second each begins at, if there are several."""
    began: str = ""
    """ISO 8601, with a zone if it is known; empty if it is not known."""
    marks: tuple[float, ...] = ()
    """Seconds at which somebody marked a highlight on the camera."""
    clock_origin: str = ""
    """How the time of day is known; empty if the file says it all."""
    content: str = ""
    """The key of its content; not the id if it has grown."""
    versions: tuple[str, ...] = ()
    """Of its files."""
    folder: str = ""
    """Tells it from another of the run with the same file name."""

    @classmethod
    def of(cls, recording: Recording) -> RecordingRow:
        video, starts = recording.video, [part.start for part in recording.parts]
        return cls(
            id=recording.id,
            path=recording.source.path,
            duration=recording.duration,
            size_bytes=recording.size_bytes,
            frame_rate=video.mean_fps if video else 0.0,
            frame_count=round(video.mean_fps * recording.duration) if video else 0,
            name=recording.source.id,
            chapters=tuple(zip(recording.source.paths, starts, strict=True))
            if len(starts) > 1
            else (),
            began=recording.began,
            marks=recording.marks,
            content=recording.key,
            versions=recording.versions,
        )

    @property
    def title(self) -> str:
        return self.name or title_of(self.path, self.folder)

    def clock(self, seconds: float, **parts: bool) -> str:
        """Time of day, with `date` and `zone` if wanted; empty if it is not known."""
        return time_of_day(self.began, seconds, **parts)

    @property
    def files(self) -> tuple[tuple[str, float], ...]:
        return self.chapters or ((self.path, 0.0),)

    @property
    def source(self) -> Source:
        return Source(tuple(path for path, _ in self.files), self.name)


def read_chapters(stored: str) -> tuple[tuple[str, float], ...]:
    return tuple((path, start) for path, start in json.loads(stored))


def spare_recordings(recordings: Iterable[RecordingRow], targets: Iterable[Path]) -> None:
    """`ValueError` if writing to one of `targets` would replace one of `recordings`."""
    paths = (path for row in recordings for path, _ in row.files)
    files = {Path(path).resolve() for path in paths if not is_remote(path) and "\0" not in path}
    for target in targets:
        if target.resolve() in files:
            raise ValueError(f"{target} is a recording of this run: write to another place")


def parts_of(path: str) -> list[str]:
    return path.replace("\\", "/").rstrip("/").split("/")


def title_of(path: str, folder: str = "") -> str:
    """The file name of a path, or of an address without its query.

    >>> title_of("https://host/mon/a.mp4?***", "mon")
    'mon/a.mp4'
    """
    name = name_of(path) if is_remote(path) else parts_of(path)[-1]
    return f"{folder}/{name}" if folder else name


def folders_apart(paths: Iterable[str]) -> dict[str, str]:
    """The last folders of each path, as few as tell it apart.

    >>> folders_apart(["/mon/a.mp4", "/tue/a.mp4", "/tue/b.mp4"])
    {'/tue/b.mp4': '', '/mon/a.mp4': 'mon', '/tue/a.mp4': 'tue'}
    """
    ambiguous, folders, depth = {path: parts_of(path) for path in paths}, dict[str, str](), 1
    while ambiguous:
        counts = Counter(tuple(parts[-depth:]) for parts in ambiguous.values())
        for path, parts in list(ambiguous.items()):
            if depth >= len(parts) or counts[tuple(parts[-depth:])] == 1:
                folders[path] = "/".join(parts[-depth:-1])
                del ambiguous[path]
        depth += 1
    return folders


@dataclass(frozen=True, slots=True)
class FailedRecording:
    id: str
    path: str
    reason: str
    name: str = ""


@dataclass(frozen=True, slots=True)
class PickFrames:
    span: Span
    thumbnail: bytes = b""
    frames_decoded: int = 0
    frames_sent: int = 0
    bytes_read: int = 0
    faces_blurred: int = 0


@dataclass(frozen=True, slots=True)
class RunPick(Pick):
    recording: str
    tags: tuple[str, ...]
    status: str
    """`answered`, `failed`, `in flight` or `not asked`."""
    answer: Answer | None = None
    spend: float | None = None
    failure: str | None = None
    round: int = 1
    heard: tuple[str, ...] = ()
    is_settled: bool = False
    """Answered, tags included: it is not asked again."""

    evidence: str = ""

    @property
    def caption(self) -> str | None:
        return self.answer.text if self.answer else None

    @property
    def activity(self) -> str | None:
        return activity_of(self.answer.data) if self.answer else None

    @property
    def seen(self) -> bool | None:
        """What `find` looked for; None if it did not ask about this window."""
        return is_seen(self.answer)

    @property
    def description(self) -> str:
        return self.caption or ", ".join(self.tags) or self.reason

    def to_json(self) -> dict[str, Any]:
        """As files, pages, REST and agents get it; a score that is not finite is None."""
        names = ("model", "form", "finish", "prompt_tokens", "completion_tokens", "latency")
        return {
            "recording": self.recording,
            **{field.name: getattr(self, field.name) for field in fields(Pick)},
            "score": self.score if math.isfinite(self.score) else None,
            "round": self.round,
            "tags": list(self.tags),
            "status": self.status,
            "caption": self.caption,
            "activity": self.activity,
            **{name: getattr(self.answer, name, None) for name in names},
            "spend": self.spend,
            "note": self.answer.note if self.answer else "",
            "failure": self.failure,
            "evidence": self.evidence,
            "seen": self.seen,
        }

    def sounds(self, level: Track | None, said: EvidenceTimeline) -> WindowSounds:
        words = level_words(level, self.span) if level else ()
        names = self.heard[: len(self.heard) - len(words)]
        sentences = tuple(entry.text for entry in said.overlapping(self.span))
        return WindowSounds(names, words, sentences)


@dataclass(frozen=True, slots=True)
class ChoiceRow:
    rule: str = ""
    forecast: float | None = None
    """Share of all actions the picks are expected to touch; None if none are expected."""
    notes: tuple[str, ...] = ()
    forecast_range: ForecastRange | None = None


@dataclass(frozen=True, slots=True, eq=False)
class HeardRow(Windows, Listened):
    """The windows of a recording and how they were heard; no windows if they were not."""

    recording: str = ""
    level: Track | None = None
    """Decibels, as coarse as the eye needs."""
    sound_bytes: int = 0
    access: str = ""
    warnings: tuple[str, ...] = ()
    key: str = ""
    """Names all that can change it: encoder, gate, grid."""
    audio_track: int = 0


Expected = tuple[float | None, ForecastRange | None]


@dataclass(frozen=True, slots=True)
class Totals:
    recordings: int = 0
    duration: float = 0.0
    windows: int = 0
    picks: int = 0
    answered: int = 0
    cut: int = 0
    failed: int = 0
    asked: int = 0
    """Calls ever sent in this run, under any plan, repeats counted."""
    interrupted: int = 0
    """In flight when a process died: these may have been asked twice."""
    bytes_read: int = 0
    size_bytes: int = 0
    frames_decoded: int = 0
    frames_sent: int = 0
    faces_blurred: int = 0
    frame_count: int = 0
    prompt_tokens: int = 0
    completion_tokens: int = 0
    spend: float = 0.0
    """Of every answer in this run, under any plan, used or not; so are the tokens."""
    expected: float = 0.0
    touched: float = 0.0

    def forecast(self, error: ForecastError | None) -> tuple[Expected, Expected]:
        if not self.expected:
            return (None, None), (None, None)
        share = self.touched / self.expected
        if error is None:
            return (share, None), (self.expected, None)
        bounds = error.range(share, actions=self.expected, duration=self.duration)
        count = error.count(self.expected, self.duration)
        return (bounds.expected, bounds), (self.expected, count)


def differences(plan: Mapping[str, Any], other: Mapping[str, Any]) -> Iterator[str]:
    names = sorted({*plan, *other})
    return (name for name in names if plan.get(name) != other.get(name))
