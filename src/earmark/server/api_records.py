"""What the server tells and is told, as dataclasses: those of the library, and views of them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from earmark.ledger.corrections import Agreement
from earmark.ledger.records import (
    ChoiceRow,
    Correction,
    FailedRecording,
    RecordingRow,
    Totals,
)
from earmark.selection.pick import Pick


@dataclass(frozen=True, slots=True)
class SessionView:
    """What this server can do."""

    version: str
    model: str
    """Whom it asks; empty where nobody."""
    why_not: str
    """Why nobody can be asked; empty where somebody can."""
    input_price: float
    output_price: float
    max_spend: float | None


@dataclass(frozen=True, slots=True)
class RunListing:
    """One run in a list of them."""

    id: str
    name: str
    opened: str
    is_at_work: bool
    totals: Totals
    failure: str = ""
    """Why it cannot be read; empty where it can."""


@dataclass(frozen=True, slots=True)
class RunDetail:
    """One run."""

    id: str
    name: str
    is_at_work: bool
    can_continue: bool
    """Whether this server knows what it was started on."""
    opened: str
    totals: Totals
    agreement: Agreement
    plan: dict[str, Any]
    missed: list[FailedRecording]
    """Recordings that could not be worked on; the first hundred."""


@dataclass(frozen=True, slots=True)
class ArchiveRow:
    """One recording of an archive, and what it is sorted by."""

    id: str
    name: str
    path: str
    began: str
    duration: float
    windows: int
    picks: int
    answered: int
    failed: int
    activity: float | None
    """Actions expected an hour; None before it was heard."""
    doubt: float | None
    """Actions expected that no pick touches; None before it was heard."""
    score: float | None
    """Of the best pick."""
    said: int
    sounds: int
    corrections: int


@dataclass(frozen=True, slots=True)
class StripRow:
    """A recording of an archive with its strip."""

    row: ArchiveRow
    scores: list[int]
    """From 0 to 100 along the recording."""
    marks: str
    """Along the recording: `.` nothing, `p` picked, `a` answered, `f` failed, `c` corrected."""


@dataclass(frozen=True, slots=True)
class ArchivePage:
    """Some rows of an archive, as sorted and filtered."""

    total: int
    found: int
    offset: int
    rows: list[StripRow]


@dataclass(frozen=True, slots=True)
class MediaPart:
    """A file of a recording."""

    part: int
    start: float
    """The second of the recording that it begins at."""
    name: str
    why_not: str = ""
    """Why it cannot be played from here; empty where it can."""


@dataclass(frozen=True, slots=True)
class RecordingDetail:
    """One recording."""

    recording: RecordingRow
    name: str
    window: float
    windows: int
    expected: float
    """Actions that it is expected to hold."""
    coverage: dict[str, Any]
    """The forecast in numbers and words: share, range, sure, words, actions."""
    choice: ChoiceRow
    warnings: list[str]
    parts: list[MediaPart]


@dataclass(frozen=True, slots=True)
class PickView:
    """A pick, and what became of it."""

    pick: Pick
    status: str
    tags: list[str]
    caption: str | None
    model: str
    failure: str | None
    note: str
    has_picture: bool
    verdicts: list[Correction]
    """What people say of its answer, the latest last."""


@dataclass(frozen=True, slots=True)
class PickPage:
    """Some picks of a recording, in order of time."""

    total: int
    offset: int
    picks: list[PickView]


@dataclass(frozen=True, slots=True)
class LaneEntry:
    """Something that lasts from one second to another."""

    start: float
    end: float
    text: str
    kind: str


@dataclass(frozen=True, slots=True)
class TimelineView:
    """A stretch of a recording, as fine as a screen can show it."""

    start: float
    end: float
    level: list[int]
    """From 0 to 100, as many as were asked for; empty where the level is not known."""
    score: list[int]
    picks: list[LaneEntry]
    sounds: list[LaneEntry]
    speech: list[LaneEntry]
    corrections: list[Correction]
    is_whole: bool
    """False where there is more than can be shown: every so many are left out."""


@dataclass(frozen=True, slots=True)
class SoundCount:
    """A named sound, and in how many recordings it is."""

    name: str
    recordings: int


@dataclass(frozen=True, slots=True)
class HitView:
    """A window or a piece of evidence that holds the words looked for."""

    recording: str
    name: str
    start: float
    end: float
    caption: str
    """What was answered; or what was heard, said or read."""
    tags: list[str]


@dataclass(frozen=True, slots=True)
class NewCorrection:
    """What somebody says of one answer, or of a moment that was missed."""

    start: float
    end: float
    verdict: str
    author: str
    text: str = ""


@dataclass(frozen=True, slots=True)
class AskedMoment:
    """A moment of a recording."""

    time: float


@dataclass(frozen=True, slots=True)
class NewRun:
    """What a new run is to work on."""

    sources: list[str]
    """As `/api/sources` names them."""
    budget: str = "25%"
    across: bool = False
    name: str = ""
    """Of the run; after its first recording if not given."""


@dataclass(frozen=True, slots=True)
class SourceView:
    """A recording below the folders that are served."""

    id: str
    name: str


@dataclass(frozen=True, slots=True)
class JobView:
    """Something that takes a while."""

    id: str
    kind: str
    """`forecast` or `run`."""
    state: str
    """`at work`, `done`, `stopped` or `failed`."""
    run: str
    """The id of the run it works on; empty for a forecast."""
    progress: dict[str, Any]
    result: dict[str, Any] | None
    failure: str


@dataclass(frozen=True, slots=True)
class Problem:
    """Why a request was refused."""

    detail: str
