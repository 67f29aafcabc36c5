"""The run's memory: every recording, pick, call and answer, in one SQLite database."""

from earmark.ledger.ledger import Ledger
from earmark.ledger.records import (
    CallRow,
    ChoiceRow,
    FailedRecording,
    HeardRow,
    PickFrames,
    PickRow,
    RecordingRow,
    RecordingSummary,
    SearchHit,
    StoredAnswer,
    Totals,
)
from earmark.ledger.run_merge import MergeResult, merge
from earmark.ledger.run_reader import Run, find_runs

__all__ = [
    "CallRow",
    "ChoiceRow",
    "FailedRecording",
    "HeardRow",
    "Ledger",
    "MergeResult",
    "PickFrames",
    "PickRow",
    "RecordingRow",
    "RecordingSummary",
    "Run",
    "SearchHit",
    "StoredAnswer",
    "Totals",
    "find_runs",
    "merge",
]
