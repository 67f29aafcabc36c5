"""Requests and responses of the REST interface; larger views are in the modules that make them."""

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
    """The model it calls; empty if none."""
    why_not: str
    """Why no model can be called; empty if one can."""
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
    """Why it cannot be read; empty if it can."""
    told: str = ""
    """What happened in it, in a line; empty if nothing is known."""


@dataclass(frozen=True, slots=True)
class RunDetail:
    """One run."""

    id: str
    name: str
    is_at_work: bool
    can_continue: bool
    """Whether this server knows its recordings and options."""
    opened: str
    totals: Totals
    agreement: Agreement
    plan: dict[str, Any]
    missed: list[FailedRecording]
    """Recordings that failed; the first hundred."""


@dataclass(frozen=True, slots=True)
class SoundCount:
    """A named sound, and the number of recordings with it."""

    name: str
    recordings: int


@dataclass(frozen=True, slots=True)
class HitView:
    """A moment whose caption, tags or evidence match the search."""

    recording: str
    name: str
    start: float
    end: float
    caption: str
    """The caption; or what was heard, said or read."""
    tags: list[str]
    kinds: list[str]
    """The kinds that match: `caption`, `heard`, `said`, `read`, `seen`; or `tags` alone."""


@dataclass(frozen=True, slots=True)
class NewCorrection:
    """A verdict on one answer, or a moment that was missed."""

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
    """The recordings and options of a new run."""

    sources: list[str]
    """Ids, as listed by `/api/sources`."""
    budget: str = "25%"
    across: bool = False
    name: str = ""
    """Name of the run; empty takes that of its first recording."""


@dataclass(frozen=True, slots=True)
class SourceView:
    """A recording below the folders that are served."""

    id: str
    name: str


@dataclass(frozen=True, slots=True)
class Problem:
    """Why a request was refused."""

    detail: str
