"""A run as it may be shared: no place, address or key in it, and the run as it was."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from earmark.evidence.evidence_entry import EvidenceEntry
from earmark.run.run import Run
from earmark.run.shareable_copy import hide_places, shareable_copy
from small_runs import call, cell, fill, open_run, row


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("cannot read /mnt/cams/a.mp4", "cannot read a.mp4"),
        ("C:\\cams\\a.mp4 is cut off", "a.mp4 is cut off"),
        ("http://10.0.0.2:8000/v1 is busy", "*** is busy"),
        ("10.0.0.2:8000 and localhost:99", "*** and ***"),
        ("the key sk-abc123456789", "the key ***"),
        ("two and/or three at 3/4", "two and/or three at 3/4"),
    ],
)
def test_places_addresses_and_keys_are_hidden(text: str, shown: str):
    assert hide_places(text) == shown


def test_a_longer_place_is_hidden_before_one_it_begins_with():
    places = ["cams/a.mp4", "cams/a.mp4.old/b.mp4"]
    assert hide_places("cams/a.mp4.old/b.mp4 and cams/a.mp4", places) == "b.mp4 and a.mp4"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    with open_run(tmp_path) as ledger:
        chapters = (("/mnt/cams/a-1.mp4", 0.0), ("/mnt/cams/a-2.mp4", 12.0))
        ledger.add(replace(row("a"), path="/mnt/cams/a-1.mp4", chapters=chapters, name="Tuesday"))
        fill(ledger, {1: "[as on /mnt/cams/a-1.mp4] a mallet falls"})
        ledger.begin(call(3))
        ledger.fail(call(3), "http://10.0.0.2/v1 answered 500")
        said = EvidenceEntry(cell(2), "said", "pass it on", 0.9, "whisper", {"at": "/mnt/x/y.wav"})
        read = EvidenceEntry(cell(2), "read", "EXIT", 0.9, "text")
        ledger.keep_evidence("a", [said, read], kinds={"said", "read"})
        ledger.fail_recording("/mnt/cams/b.mp4", "/mnt/cams/b.mp4", "/mnt/cams/b.mp4 is cut off")
    return tmp_path


def test_a_copy_tells_the_same_and_not_where(folder: Path):
    with shareable_copy(folder, folder) as run:
        (recording,) = run.recordings()
        first, second = run.picks("a")
        (failed,) = run.failed_recordings()
        evidence = {one.text: one.data for one in run.evidence("a")}
    assert (recording.path, recording.name) == ("a-1.mp4", "Tuesday")
    assert recording.chapters == (("a-1.mp4", 0.0), ("a-2.mp4", 12.0))
    assert first.answer.text == "[as on a-1.mp4] a mallet falls"
    assert second.failure == "*** answered 500"
    assert (failed.path, failed.reason) == ("b.mp4", "b.mp4 is cut off")
    assert "/mnt" not in failed.id
    assert evidence == {"pass it on": {"at": "y.wav"}, "EXIT": None}


def test_what_was_said_can_be_left_out(folder: Path):
    with shareable_copy(folder, folder, voices=False) as run:
        assert [one.text for one in run.evidence("a")] == ["EXIT"]
        assert run.search("pass") == []


def test_the_run_itself_stays_as_it_is(folder: Path):
    with shareable_copy(folder, folder):
        pass
    with Run(folder) as run:
        assert run.recordings()[0].path == "/mnt/cams/a-1.mp4"
        assert len(list(run.evidence("a"))) == 2


def test_words_that_could_be_json_stay_as_they_are_and_json_is_read_as_such(tmp_path: Path):
    """A quotation mark in a path is escaped in JSON, and the path found all the same."""
    odd = '/mnt/the "old" cams/b.mp4'
    with open_run(tmp_path) as ledger:
        ledger.add(replace(row("a"), path="/mnt/cams/a.mp4", chapters=((odd, 0.0),)))
        fill(ledger, {1: "1.50", 3: '{"a'})
    with shareable_copy(tmp_path, tmp_path) as run:
        assert [pick.answer.text for pick in run.picks("a")] == ["1.50", '{"a']
        assert run.recordings()[0].chapters == (("b.mp4", 0.0),)
