"""The run's memory: every recording, pick, call and answer, in one SQLite database."""

from earmark.ledger.ledger import Ledger
from earmark.ledger.records import (
    CallRow,
    ChoiceRow,
    HeardRow,
    Hit,
    Kept,
    Look,
    PickRow,
    RecordingRow,
    Summary,
    Totals,
)
from earmark.ledger.run_merge import Merged, merge
from earmark.ledger.run_reader import Missed, Run, find_runs

__all__ = [
    "CallRow",
    "ChoiceRow",
    "HeardRow",
    "Hit",
    "Kept",
    "Ledger",
    "Look",
    "Merged",
    "Missed",
    "PickRow",
    "RecordingRow",
    "Run",
    "Summary",
    "Totals",
    "find_runs",
    "merge",
]
