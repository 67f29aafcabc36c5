"""Records of what a run stores."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from earmark.captioning.activity import activity_of
from earmark.captioning.request import Answer, Request
from earmark.evidence.window_sounds import SpokenSentences, WindowSounds, level_words
from earmark.gate.forecast_error import ForecastError, ForecastRange
from earmark.gate.survival import Survival
from earmark.grid import Windows
from earmark.media import Recording, Source
from earmark.media.source import is_remote, name_of
from earmark.selection.pick import Pick
from earmark.timeline import FloatArray, Span, Track


@dataclass(frozen=True, slots=True)
class RecordingRow:
    """A recording of a run; the rest of the run refers to it by `id`."""

    id: str
    path: str
    """Where it was opened: a local path, kept from the root, or a URL without secrets."""
    duration: float
    size_bytes: int
    frame_rate: float = 0.0
    """Frames a second; 0 when there is no video or it is not known."""
    frame_count: int = 0
    """Frames in the file; 0 when there is no video or it is not known."""
    name: str = ""
    """What the user's manifest calls it; empty where none does."""
    chapters: tuple[tuple[str, float], ...] = ()
    """Its files and the second each begins at, where there are several."""
    began: str = ""
    """When its recording began, as its container says it; empty where that does not."""
    marks: tuple[float, ...] = ()
    """Seconds at which somebody marked a highlight on the camera."""
    folder: str = ""
    """What tells it from another of the run whose file has its name; empty where none has."""

    @classmethod
    def of(cls, recording: Recording) -> RecordingRow:
        """The row of a recording as it is described."""
        video, starts = recording.video, [part.start for part in recording.parts]
        return cls(
            id=recording.key,
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
        )

    @property
    def title(self) -> str:
        """Its name in the manifest, or its file name, with folders where names are the same."""
        return self.name or title_of(self.path, self.folder)

    @property
    def files(self) -> tuple[tuple[str, float], ...]:
        """Its files, and the second each begins at."""
        return self.chapters or ((self.path, 0.0),)

    @property
    def source(self) -> Source:
        """Where it was opened, all its files."""
        return Source(tuple(path for path, _ in self.files), self.name)


def spare_recordings(recordings: Iterable[RecordingRow], targets: Iterable[Path]) -> None:
    """A `ValueError` where writing to one of `targets` would replace one of `recordings`."""
    places = (path for row in recordings for path, _ in row.files)
    files = {Path(path).resolve() for path in places if not is_remote(path)}
    for target in targets:
        if target.resolve() in files:
            raise ValueError(f"{target} is a recording of this run: write to another place")


def parts_of(path: str) -> list[str]:
    """The folders of a path or an address, and its file."""
    return path.replace("\\", "/").rstrip("/").split("/")


def title_of(path: str, folder: str = "") -> str:
    """The file name of a path, or of an address without its query, behind a `folder` if given.

    >>> title_of("https://host/mon/a.mp4?***", "mon")
    'mon/a.mp4'
    """
    name = name_of(path) if is_remote(path) else parts_of(path)[-1]
    return f"{folder}/{name}" if folder else name


def folders_apart(paths: Iterable[str]) -> dict[str, str]:
    """The last folders of each of `paths`, as few as tell it apart; none where its file does.

    >>> folders_apart(["/mon/a.mp4", "/tue/a.mp4", "/tue/b.mp4"])
    {'/tue/b.mp4': '', '/mon/a.mp4': 'mon', '/tue/a.mp4': 'tue'}
    """
    left, told, depth = {path: parts_of(path) for path in paths}, dict[str, str](), 1
    while left:
        alike = Counter(tuple(parts[-depth:]) for parts in left.values())
        for path, parts in list(left.items()):
            if depth >= len(parts) or alike[tuple(parts[-depth:])] == 1:
                told[path] = "/".join(parts[-depth:-1])
                del left[path]
        depth += 1
    return told


@dataclass(frozen=True, slots=True)
class FailedRecording:
    """A recording that could not be processed, and why."""

    id: str
    path: str
    reason: str
    name: str = ""
    """What the user's manifest calls it; empty where none does."""


@dataclass(frozen=True, slots=True)
class CallRow:
    """One window to be sent to a vision model, or already sent."""

    identity: str
    """Hash of all that can change the answer; a call with the same identity is the same call."""
    recording: str
    span: Span
    model: str


Call = CallRow | Request
"""A call as the run knows it, or the request that makes it."""


@dataclass(frozen=True, slots=True)
class StoredAnswer:
    """An answer with its cost and time."""

    answer: Answer
    spend: float
    """Money, in the currency of the plan's prices; 0 where nothing was paid."""
    at: str
    """When it was stored, in UTC."""


@dataclass(frozen=True, slots=True)
class PickFrames:
    """What was decoded for one pick."""

    span: Span
    thumbnail: bytes = b""
    """A small JPEG; empty when there is none."""
    frames_decoded: int = 0
    frames_sent: int = 0
    bytes_read: int = 0
    faces_blurred: int = 0


@dataclass(frozen=True, slots=True)
class PickRow:
    """A pick with its tags and its answer or failure."""

    recording: str
    pick: Pick
    tags: tuple[str, ...]
    """What is heard (or seen) in words; not a caption."""
    status: str
    """`answered`, `failed`, `in flight` or `not asked`."""
    kept: StoredAnswer | None = None
    """A model's answer; tags are not one."""
    failure: str | None = None
    """Why the last attempt failed, where it did."""
    heard: tuple[str, ...] = ()
    """Those of the tags that were heard: names first, then words for the level."""
    is_settled: bool = False
    """Whether its call has come to an answer, tags included: it is not asked again."""
    round: int = 1
    """The round it was asked in."""

    @property
    def answer(self) -> Answer | None:
        """What a model answered; None where none did."""
        return self.kept.answer if self.kept else None

    @property
    def caption(self) -> str | None:
        """The text of that answer."""
        return self.kept.answer.text if self.kept else None

    @property
    def activity(self) -> str | None:
        """What the answer says is being done: empty for nothing, None where it does not say."""
        return activity_of(self.kept.answer.data) if self.kept else None

    @property
    def span(self) -> Span:
        """The time of the window, which identifies the pick within its recording."""
        return self.pick.span

    def sounds(self, level: Track | None, said: SpokenSentences) -> WindowSounds:
        """What is heard in it, as it was when it was picked, so that the question is the same."""
        words = level_words(level, self.span) if level else ()
        names = self.heard[: len(self.heard) - len(words)]
        return WindowSounds(names, words, said.within(self.span))


@dataclass(frozen=True, slots=True)
class ChoiceRow:
    """How the picks of one recording were chosen."""

    rule: str = ""
    """The rule that chose."""
    forecast: float | None = None
    """Share of all actions the picks are expected to touch; None where none are expected."""
    notes: tuple[str, ...] = ()
    """What a reader should know: swaps, warnings."""
    forecast_range: ForecastRange | None = None
    """The range of the forecast; None if that is not measured."""


@dataclass(frozen=True, slots=True, eq=False)
class HeardRow:
    """The result of listening to one recording, enough to draw its time line; empty by default."""

    recording: str
    window: float = 0.0
    """Seconds of one window."""
    scores: FloatArray = field(default_factory=lambda: np.zeros(0))
    """One a step; on the grid a step is a window."""
    rates: FloatArray = field(default_factory=lambda: np.zeros(0))
    """Expected action starts, one a step."""
    instants: FloatArray = field(default_factory=lambda: np.zeros(0))
    """When the largest score of each window occurs."""
    duration: float = 0.0
    """Seconds heard: where the last window ends."""
    level: Track | None = None
    """Sound level in decibels, as coarse as the eye needs."""
    sound_bytes: int = 0
    """Bytes read to listen."""
    access: str = ""
    """How the sound was reached, in words."""
    warnings: tuple[str, ...] = ()
    """What was odd about the recording or its sound, a line each."""
    per_call: int = 1
    """Steps in a window: more than 1 where windows are placed freely."""
    key: str = ""
    """Names all that can change it: encoder, gate, grid."""
    audio_track: int = 0
    """The audio track that was listened to, from 0."""

    def windows(self, survival: Survival, *, owned: tuple[int, ...] = ()) -> Windows:
        """The windows to choose from; the survival curve and the paid windows are not stored."""
        measured = (self.scores, self.instants, self.rates)
        return Windows(self.window, self.duration, *measured, survival, owned, self.per_call)


Expected = tuple[float | None, ForecastRange | None]
"""What is expected, and its range; None where no action is, and where no range was measured."""


@dataclass(frozen=True, slots=True)
class Totals:
    """Counts of a run under its present plan; never shares."""

    recordings: int = 0
    duration: float = 0.0
    windows: int = 0
    """Calls possible."""
    picks: int = 0
    answered: int = 0
    """Picks with an answer."""
    cut: int = 0
    """Picks whose answer was cut off at the longest allowed."""
    failed: int = 0
    """Picks whose last attempt failed."""
    asked: int = 0
    """Calls ever sent in this run, under any plan, repeats counted."""
    interrupted: int = 0
    """Calls in flight when a process died: these may have been asked twice."""
    bytes_read: int = 0
    size_bytes: int = 0
    frames_decoded: int = 0
    frames_sent: int = 0
    faces_blurred: int = 0
    """In the frames that were sent."""
    frame_count: int = 0
    prompt_tokens: int = 0
    completion_tokens: int = 0
    spend: float = 0.0
    """Of every answer in this run, under any plan, used or not; so are the tokens."""
    expected: float = 0.0
    """Actions expected in the recordings."""
    touched: float = 0.0
    """Actions the picks are expected to touch."""

    def forecast(self, error: ForecastError | None) -> tuple[Expected, Expected]:
        """The share of actions that the picks are expected to touch, and the number of actions.

        `error` is how far forecasts may be off; without it there are no ranges.
        """
        if not self.expected:
            return (None, None), (None, None)
        share = self.touched / self.expected
        if error is None:
            return (share, None), (self.expected, None)
        told = error.range(share, actions=self.expected, duration=self.duration)
        return (told.expected, told), (self.expected, error.count(self.expected, self.duration))
