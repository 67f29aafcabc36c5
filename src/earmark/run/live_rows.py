"""What a watch stores besides the rows of any run: gaps, and when calls were made."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from earmark.run.database import as_text, number_of
from earmark.run.run import Run
from earmark.timeline import Span

STATE = "watch"
"""Note of the run."""

STREAM = "stream"
"""How the sound of a live source was read."""

_SPENT_SINCE = """
SELECT at, spend, coalesce(prompt_tokens, 0) + coalesce(completion_tokens, 0) FROM (
    SELECT at, spend, prompt_tokens, completion_tokens FROM answers WHERE kind = 'caption'
    UNION ALL SELECT at, spend, prompt_tokens, completion_tokens FROM failures)
WHERE at >= ? ORDER BY at
"""


def clip_folder(run: Path, recording: str) -> Path:
    """Where the clips of a live recording are."""
    return run / "clips" / recording[:16]


def add_gap(run: Run, recording: str, gap: Span, reason: str) -> None:
    """`gap` in seconds of the recording; one that begins at the same time is replaced."""
    with run.writing() as database:
        database.execute(
            "INSERT OR REPLACE INTO gaps VALUES (?, ?, ?, ?)",
            (number_of(database, recording), gap.start, gap.end, as_text(reason)),
        )


def gaps(run: Run, recording: str) -> list[tuple[Span, str]]:
    rows = run.rows(
        'SELECT "start", "end", reason FROM gaps JOIN recordings ON number = recording'
        ' WHERE id = ? ORDER BY "start"',
        recording,
    )
    return [(Span(start, end), reason) for start, end, reason in rows]


def calls_since(run: Run, time: float) -> list[tuple[float, float, int]]:
    """When each call since `time` ended, what it cost, and its tokens."""
    since = datetime.fromtimestamp(time, UTC).isoformat(timespec="milliseconds")
    return [
        (datetime.fromisoformat(at).timestamp(), spend, tokens)
        for at, spend, tokens in run.rows(_SPENT_SINCE, since)
    ]


def store_state_of_watch(run: Run, state: dict[str, Any]) -> None:
    """For whoever shows the run while it grows."""
    run.set_note(STATE, json.dumps(state))


def read_state_of_watch(run: Run) -> dict[str, Any] | None:
    """Sources, calls left and picks that wait; None if the run is no watch."""
    stored = run.note(STATE)
    return dict(json.loads(stored)) if stored else None
