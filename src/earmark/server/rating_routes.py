"""Blind rating: a person judges captions of all served runs, in an order of their own.

Neither the model, the run, the sounds nor what others said is shown. Ratings are corrections of the
run (`right`, `partly`, `wrong`), so that they are stored, merged and exported as those are.
"""

from __future__ import annotations

import hashlib
from contextlib import suppress
from dataclasses import dataclass
from typing import Annotated

from fastapi import APIRouter, Query

from earmark.errors import RunError
from earmark.run.corrections import MOST_AUTHOR
from earmark.run.run import Run
from earmark.server.api_routes import PROBLEMS, Services

_ANSWERS = """
SELECT r.id, calls."start", calls."end", a.text, EXISTS (
    SELECT 1 FROM corrections c WHERE c.recording = calls.recording AND author = ?1
        AND c."start" = calls."start" AND c."end" = calls."end" AND withdrawn IS NULL
) FROM calls JOIN answers a ON a.call = calls.id JOIN present r ON r.number = calls.recording
WHERE kind = 'caption' ORDER BY EXISTS (
    SELECT 1 FROM picks JOIN notes ON name = 'plan' AND value = plan WHERE picks.call = calls.id
), at
"""
"""The last of a span is the one that a correction of that span judges."""


@dataclass(frozen=True, slots=True)
class BlindCaption:
    run: str
    recording: str
    start: float
    end: float
    caption: str


@dataclass(frozen=True, slots=True)
class BlindRating:
    rated: int
    """By this person, of all captions of all served runs."""
    captions: int
    next: BlindCaption | None
    """None if all are rated."""


ratings = APIRouter(prefix="/api", responses=PROBLEMS)


@ratings.get("/ratings")
def next_caption(
    service: Services, rater: Annotated[str, Query(min_length=1, max_length=MOST_AUTHOR)]
) -> BlindRating:
    """The next caption for this person to rate, without saying which model wrote it."""
    rated, waiting = 0, list[BlindCaption]()
    for served in service.library.runs():
        # A run that cannot be read has nothing to rate; the list of runs says why.
        with suppress(RunError), served.open() as run:
            for caption, is_rated in read_answers(run, served.key, rater.strip()):
                rated += is_rated
                waiting += [] if is_rated else [caption]
    first = min(waiting, key=lambda caption: place(caption, rater), default=None)
    return BlindRating(rated, rated + len(waiting), first)


def read_answers(run: Run, key: str, rater: str) -> list[tuple[BlindCaption, bool]]:
    rows = {tuple(row[:3]): row for row in run.rows(_ANSWERS, rater)}
    return [(BlindCaption(key, *row), bool(is_rated)) for *row, is_rated in rows.values()]


def place(caption: BlindCaption, rater: str) -> bytes:
    """Random, but the same for the same person, so that two people see different orders."""
    about = (rater, caption.run, caption.recording, caption.start, caption.end)
    return hashlib.sha256(repr(about).encode()).digest()
