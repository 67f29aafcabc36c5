"""Rows of a recording that is forgotten are gone; what its calls took still counts."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from earmark.errors import RunError
from earmark.evidence.evidence_entry import EvidenceEntry
from earmark.run import schema
from earmark.run.corrections import Correction, correct
from earmark.run.erasure import all_recordings, delete_recordings, files_written, note_written
from earmark.run.records import PickFrames
from earmark.run.run import Run
from earmark.run.schema import FILE
from small_runs import PLAN, CallRow, answer, call, cell, fill, open_run, row


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Recordings a and b, each with an answer; more is known of a."""
    with open_run(tmp_path, tags={1: ("knocking",)}) as ledger:
        fill(ledger, {1: "a mallet falls"})
        ledger.begin(call(3), reserve=(70, 0.5))
        ledger.fail(call(3), "broken", tokens=(5, 6), spend=0.25)
        ledger.keep_frames("a", PickFrames(cell(1), b"picture of a", 9, 1, 100))
        said = EvidenceEntry(cell(2), "said", "pass it on", 0.9, "whisper")
        ledger.keep_evidence("a", [said], kinds={"said"})
        ledger.add(row("b"))
        other = CallRow("other", "b", cell(1), "m1")
        ledger.unanswered([other])
        ledger.begin(other)
        ledger.keep(other, answer("water runs"), spend=0.01)
    correct(tmp_path, Correction("a", cell(1), "reworded", "Ada", "a hammer falls"))
    return tmp_path


def erase(folder: Path, ids: list[str]) -> None:
    with Run.resume(folder) as run:
        delete_recordings(run, ids)


def rows_about(folder: Path, number: int) -> dict[str, int]:
    tables = ("picks", "choices", "calls", "tags", "frames", "heard", "evidence", "corrections")
    with closing(sqlite3.connect(folder / FILE)) as database:
        counts = {
            table: database.execute(
                f"SELECT count(*) FROM {table} WHERE recording = ?", (number,)
            ).fetchone()[0]
            for table in tables
        }
    return {table: count for table, count in counts.items() if count}


def test_nothing_is_left_of_it_and_all_of_the_other(folder: Path):
    assert set(rows_about(folder, 1)) >= {"picks", "calls", "tags", "frames", "evidence"}
    erase(folder, ["a"])
    assert rows_about(folder, 1) == {} and rows_about(folder, 2) == {"calls": 1}
    with Run(folder) as run:
        assert [one.id for one in run.recordings()] == ["b"]
        assert run.search("mallet") == run.search("knocking") == run.search("pass") == []
        assert [hit.recording for hit in run.search("water")] == ["b"]


def test_what_its_calls_took_still_counts(folder: Path):
    with Run(folder, PLAN) as ledger:
        before = ledger.spent()
    assert (before.calls_before, before.tokens_before) == (3, 231)
    assert before.spend_before == pytest.approx(0.27)
    for gone in (["a"], ["b"]):
        erase(folder, gone)
        with Run(folder, PLAN) as ledger:
            after = ledger.spent()
        assert (after.calls_before, after.tokens_before) == (3, 231)
        assert after.spend_before == pytest.approx(before.spend_before)


def test_an_answer_that_is_left_can_still_not_be_deleted(folder: Path):
    erase(folder, ["a"])
    with (
        closing(sqlite3.connect(folder / FILE)) as database,
        pytest.raises(sqlite3.IntegrityError),
    ):
        database.execute("DELETE FROM answers")


def test_while_somebody_reads_it_nothing_is_deleted(folder: Path, monkeypatch):
    monkeypatch.setattr(schema, "BUSY_TIMEOUT", 0.1)  # nobody is going to let go
    with closing(sqlite3.connect(folder / FILE, isolation_level=None)) as reader:
        with Run(folder, PLAN) as ledger:
            reader.execute("BEGIN")
            reader.execute("SELECT count(*) FROM answers").fetchone()
            ledger.set_note("something", "to be in the journal")
        reader.execute("PRAGMA busy_timeout = 0")
        with pytest.raises(RunError, match="another process is reading"):
            erase(folder, ["a"])
        reader.execute("ROLLBACK")
    assert rows_about(folder, 1)


def test_no_byte_of_it_stays(folder: Path):
    texts = (b"mallet", b"pass it on", b"hammer", b"picture of a", b"knocking")
    content = (folder / FILE).read_bytes()
    assert all(text in content for text in texts)
    erase(folder, ["a"])
    content = b"".join(path.read_bytes() for path in folder.glob(f"{FILE}*"))
    assert not any(text in content for text in texts) and b"water runs" in content
    with Run(folder) as run:
        assert [row.id for row in all_recordings(run)] == ["b"]


def test_what_was_exported_is_known_while_it_is_there(folder: Path):
    paths = [folder / "one.csv", folder / "two.csv"]
    for path in paths:
        path.write_text("")
        note_written(folder, [path])
    with Run(folder) as run:
        assert files_written(run) == paths
    paths[0].unlink()
    with Run(folder) as run:
        assert files_written(run) == paths[1:]
