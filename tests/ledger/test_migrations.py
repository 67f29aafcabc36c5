"""A run of an older version: nothing of it lost, and what was mixed up put apart."""

from __future__ import annotations

import os
import signal
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from earmark.errors import LedgerError
from earmark.ledger.ledger import Ledger
from earmark.ledger.records import CallRow
from earmark.ledger.run_merge import merge
from earmark.ledger.run_reader import Run
from earmark.ledger.schema import VERSION
from earmark.timeline import Span
from ledger_version_2 import OLD, PRESENT, make_version_2

KILLED = """
import os, signal, sqlite3, sys
from pathlib import Path
from earmark.ledger.ledger import Ledger

class Doomed(sqlite3.Connection):
    left = int(sys.argv[2])

    def executescript(self, script):
        self.set_trace_callback(self.count)
        return super().executescript(script)

    def count(self, statement):
        Doomed.left -= 1
        if Doomed.left < 0:
            os.kill(os.getpid(), signal.SIGKILL)

connect = sqlite3.connect
sqlite3.connect = lambda *args, **named: connect(*args, factory=Doomed, **named)
Ledger(Path(sys.argv[1]), {}).close()
"""


@pytest.fixture
def old(tmp_path: Path) -> Path:
    return make_version_2(tmp_path / "old")


def version_of(folder: Path) -> int:
    database = sqlite3.connect(folder / "run.db")
    (version,) = database.execute("PRAGMA user_version").fetchone()
    database.close()
    return version


def told(run: Run) -> list[tuple[Span, str, str | None, tuple[str, ...], bytes]]:
    """Of each pick of the present plan: when, what became of it, its caption, tags and picture."""
    return [
        (
            row.span,
            row.status,
            row.kept.answer.text if row.kept else row.failure,
            row.tags,
            run.thumbnail("a", row.span),
        )
        for row in run.picks("a")
    ]


IN_PRESENT_PLAN = [
    (Span(8.0, 16.0), "answered", "a saw", ("sawing", "wood"), b"of 8-16"),
    (Span(16.0, 24.0), "not asked", None, (), b""),
]
IN_OLD_PLAN = [
    (Span(4.0, 8.0), "answered", "a board", (), b""),
    (Span(12.0, 16.0), "failed", "it said 500", ("water",), b"of 12-16"),
    (Span(20.0, 24.0), "not asked", None, (), b""),
]


def test_a_run_of_version_2_is_read_and_left_as_it_is(old: Path):
    before = (old / "run.db").read_bytes()
    with Run(old) as run:
        assert told(run) == IN_PRESENT_PLAN
        assert (run.plan(), run.choice("a").notes) == (PRESENT, ("a note",))
        assert [failed.reason for failed in run.failed_recordings()] == ["b.mp4 is empty"]
        heard = run.heard("a")
        assert heard is not None
        assert (heard.scores.tolist(), heard.warnings) == ([1.0, 3.0, 2.0], ("odd",))
        totals = run.totals()
        assert (totals.picks, totals.answered, totals.asked) == (2, 1, 6)
        assert (totals.frames_decoded, totals.bytes_read) == (20, 250)
        assert totals.spend == pytest.approx(0.032)
    assert (old / "run.db").read_bytes() == before


def test_every_call_of_version_2_keeps_its_own_time(old: Path):
    with Run(old) as run:
        for words, span in {"board": (4, 8), "saw wood": (8, 16), "apron": (0, 8)}.items():
            assert [hit.span for hit in run.search(words)] == [Span(*span)]
        assert [kept.answer.text for kept in run.answers("a", Span(4.0, 8.0))] == ["a board"]
        (hit,) = run.search("water")
        assert (hit.span, hit.window, hit.thumbnail) == (Span(12.0, 16.0), 3, b"of 12-16")


def test_opening_to_write_migrates_and_asks_nothing_again(old: Path):
    with Ledger(old, OLD) as ledger, Run(ledger.folder) as run:
        assert (ledger.interrupted, told(run)) == (1, IN_OLD_PLAN)
        names = {4.0: "old 1", 12.0: "old 3", 20.0: "old 5"}
        calls = [CallRow(names[row.span.start], "a", row.span, "m1") for row in run.picks("a")]
        assert ledger.unanswered(calls) == calls[1:]
        assert {call.identity: call.span for call in ledger.answered("a")} == {
            "gone 0": Span(0.0, 8.0),
            "old 1": Span(4.0, 8.0),
            "present 1": Span(8.0, 16.0),
        }
    assert version_of(old) == VERSION


def test_a_migrated_run_has_the_tables_of_a_new_one(old: Path, tmp_path: Path):
    for folder in (old, tmp_path / "new"):
        Ledger(folder, PRESENT).close()
    assert list(schema_of(old)) == list(schema_of(tmp_path / "new"))
    database = sqlite3.connect(old / "run.db")
    assert database.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
    assert database.execute("PRAGMA foreign_key_check").fetchall() == []
    database.execute("INSERT INTO words (words) VALUES ('integrity-check')")
    database.close()


def schema_of(folder: Path) -> Iterator[object]:
    """Every table with its columns, keys, references and indexes."""
    database = sqlite3.connect(folder / "run.db")
    names = "SELECT name FROM sqlite_schema WHERE type IN ('table', 'view') ORDER BY name"
    for (table,) in database.execute(names).fetchall():
        yield table, database.execute(f"PRAGMA table_info({table})").fetchall()
        yield sorted(row[2:] for row in database.execute(f"PRAGMA foreign_key_list({table})"))
        indexes = database.execute(f"PRAGMA index_list({table})").fetchall()
        yield sorted(
            (*row[1:], database.execute(f"PRAGMA index_info({row[1]})").fetchall())
            for row in indexes
        )
    database.close()


@pytest.mark.parametrize("statements", [1, 4, 9, 14, 19, 24])
def test_killed_half_way_it_is_still_version_2(old: Path, statements: int):
    command = [sys.executable, "-c", KILLED, str(old), str(statements)]
    assert subprocess.run(command, check=False).returncode == -signal.SIGKILL
    assert version_of(old) == 2
    with Ledger(old, PRESENT) as ledger, Run(ledger.folder) as run:
        assert told(run) == IN_PRESENT_PLAN


def test_no_room_to_migrate_is_one_clear_line_and_loses_nothing(small_disk: Path):
    folder = make_version_2(small_disk / "old")
    database = sqlite3.connect(folder / "run.db")
    database.execute("UPDATE looks SET thumbnail = zeroblob(1100000)")
    database.commit()
    database.close()
    with pytest.raises(LedgerError, match="no room left for the run"):
        Ledger(folder, PRESENT)
    assert version_of(folder) == 2


def test_a_run_of_version_2_on_a_medium_that_cannot_be_written(small_disk: Path):
    folder = make_version_2(small_disk / "old")
    subprocess.run(["mount", "-o", "remount,ro", str(small_disk)], check=True)
    assert not os.access(folder, os.W_OK)
    with Run(folder) as run:
        assert told(run) == IN_PRESENT_PLAN
    with pytest.raises(LedgerError):
        Ledger(folder, PRESENT)


def test_runs_of_version_2_are_merged_and_only_read(old: Path, tmp_path: Path):
    before = (old / "run.db").read_bytes()
    merged = merge([old], tmp_path / "all")
    assert (merged.recordings, merged.missed, merged.answers) == (1, 1, 1)
    assert (old / "run.db").read_bytes() == before
    with Run(tmp_path / "all") as run:
        assert told(run) == IN_PRESENT_PLAN
        assert [hit.span for hit in run.search("board")] == [Span(4.0, 8.0)]


def test_a_run_is_merged_into_one_of_version_2(old: Path, tmp_path: Path):
    with Ledger(tmp_path / "new", PRESENT) as ledger:
        ledger.fail_recording("c", "c.mp4", "c.mp4 is empty")
    merge([tmp_path / "new"], old)
    with Run(old) as run:
        assert told(run) == IN_PRESENT_PLAN
        assert [failed.id for failed in run.failed_recordings()] == ["b", "c"]
