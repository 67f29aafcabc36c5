"""What the server tells of runs, and is told; views of more lie beside what makes them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from earmark.ledger.corrections import Agreement
from earmark.ledger.records import FailedRecording, Totals


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
    told: str = ""
    """What happened in it, in a line; empty where nothing is known of that."""


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
class SoundCount:
    """A named sound, and in how many recordings it is."""

    name: str
    recordings: int


@dataclass(frozen=True, slots=True)
class HitView:
    """A moment of which a caption, tags or evidence hold the words looked for."""

    recording: str
    name: str
    start: float
    end: float
    caption: str
    """What was answered; or what was heard, said or read."""
    tags: list[str]
    kinds: list[str]
    """What agrees on it: `caption`, `heard`, `said`, `read`, `seen`; or `tags` alone."""


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
class Problem:
    """Why a request was refused."""

    detail: str
