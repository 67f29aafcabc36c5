"""What can be searched: captions, tags and evidence, each found where it stands."""

from __future__ import annotations

import re
import shutil
from contextlib import closing
from pathlib import Path

import pytest

from earmark import Span
from earmark.evidence.evidence_entry import EvidenceEntry
from earmark.run import text_index
from earmark.run.records import PickFrames, RecordingRow
from earmark.run.run import Run
from earmark.run.schema import FILE, connect
from earmark.search.archive_search import search
from small_runs import PLAN, answer, call, cell, fill, open_run, row

SAID = EvidenceEntry(Span(9.0, 11.0), "said", "pass me the mallet", 0.9, "whisper")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Captions in windows 1 and 3, tags in 1, and somebody speaking in between."""
    with open_run(tmp_path, tags={1: ("knocking", "wood")}) as ledger:
        fill(ledger, {1: "a mallet falls on wood", 3: "water runs"})
        ledger.keep_frames("a", PickFrames(cell(1), b"picture", 9, 1, 100))
        ledger.keep_evidence("a", [SAID], kinds={"said"})
    return tmp_path


def test_a_hit_says_what_stands_there(folder: Path):
    with Run(folder) as run:
        caption, said = sorted(run.search("mallet"), key=lambda hit: hit.span)
    assert (caption.kind, caption.recording, caption.path) == ("caption", "a", said.path)
    assert (caption.span, caption.caption, caption.tags, caption.model) == (
        cell(1),
        "a mallet falls on wood",
        ("knocking", "wood"),
        "m1",
    )
    assert (said.kind, said.span, said.text, said.confidence, said.model) == (
        "said",
        SAID.span,
        "pass me the mallet",
        0.9,
        "whisper",
    )
    assert (said.caption, said.tags, said.window) == ("", (), None)


def test_what_has_no_tags_is_found_without_any(folder: Path):
    with Run(folder) as run:
        (hit,) = run.search("water")
    assert (hit.tags, hit.kind) == ((), "caption")


def found_by(folder: Path, *searches: str) -> list[int]:
    with Run(folder) as run:
        return [len(run.search(words)) for words in searches]


SEARCHES = ("knocking", "mallet knocking", "sawing", "mallet sawing", "wood")


def test_tags_that_change_are_found_with_the_caption_and_the_old_ones_are_not(folder: Path):
    assert found_by(folder, *SEARCHES) == [1, 1, 0, 0, 1]
    with open_run(folder, tags={1: ("sawing",)}):
        pass
    assert found_by(folder, *SEARCHES) == [0, 0, 1, 1, 1]
    with open_run(folder, tags={1: ("knocking", "wood")}):
        pass
    assert found_by(folder, *SEARCHES) == [1, 1, 0, 0, 1]


def test_tags_that_changed_before_a_kill_are_found_when_the_run_is_opened_again(folder: Path):
    left = folder / "as a killed process leaves it"
    with open_run(folder, tags={1: ("sawing",)}):
        left.mkdir()
        for name in (FILE, f"{FILE}-wal"):
            shutil.copy(folder / name, left / name)
    with Run(left, PLAN):
        assert found_by(left, *SEARCHES) == [0, 0, 1, 1, 1]


def test_the_index_holds_what_the_tables_hold(folder: Path):
    """What is left after every text is deleted again is what was indexed wrongly."""
    with open_run(folder, tags={1: ("sawing",), 3: ("dripping", 'a "tap"')}) as run:
        fill(run, {2: "wood burns"})
    with closing(connect(folder, to_write=True)) as database:
        database.execute("DROP TRIGGER answer_stays")
        for table in ("corrections", "failures", "answers", "evidence"):
            database.execute(f"DELETE FROM {table}")
        database.execute("UPDATE picks SET tags = NULL")
        database.execute("DELETE FROM tags")
        for index in ("words", "evidence_words"):
            vocabulary = (
                f"CREATE VIRTUAL TABLE temp.left_in_{index} USING fts5vocab(main, {index}, row)"
            )
            database.execute(vocabulary)
            assert database.execute(f"SELECT term FROM left_in_{index}").fetchall() == []


@pytest.mark.parametrize("words", ["mallet\0", "\0mallet", "mallet \0 wood", 'mallet"', "mallet -"])
def test_signs_that_are_no_part_of_a_word_are_passed_over(folder: Path, words: str):
    with Run(folder) as run:
        assert "a mallet falls on wood" in {hit.caption for hit in run.search(words)}


@pytest.mark.parametrize("words", ["\0", "\udcff", "\udcff\udc80d"])
def test_words_that_no_text_can_hold_find_nothing(folder: Path, words: str):
    """A name typed in another encoding than the terminal's is such a word."""
    with Run(folder) as run:
        assert run.search(words) == []
        assert run.recordings_with(words) == set()


def test_the_best_come_first_and_no_more_than_are_wanted(folder: Path):
    with Run(folder) as run:
        every = run.search("mallet")
        assert [hit.rank for hit in every] == sorted(hit.rank for hit in every)
        assert run.search("mallet", most=1) == every[:1]
        assert run.search("wood knocking")[0].span == cell(1)
        assert run.search('" "') == run.search("") == run.search("mallet water") == []


def test_a_moment_in_a_window_that_was_shown_has_its_picture(folder: Path):
    read = EvidenceEntry(cell(1), "read", "acme", 0.9, "reader")
    with Run(folder, PLAN) as ledger:
        ledger.keep_evidence("a", [read], kinds={"read"})
    for words, picture in (("acme", b"picture"), ("falls", b"picture"), ("water", b"")):
        assert [moment.thumbnail for moment in search(folder, words)] == [picture]


def test_every_window_with_the_words_is_found(folder: Path):
    with Run(folder, PLAN) as ledger:
        fill(ledger, {2: "wood burns", 4: "wood floats"})
        with Run(ledger.folder) as run:
            assert {hit.span for hit in run.search("wood")} == {cell(1), cell(2), cell(4)}
            assert len(run.search("wood", most=2)) == 2


def test_sounds_are_those_that_were_named(folder: Path):
    with Run(folder) as run:
        assert run.recordings_with("knocking", is_sound=True) == {"a"}
        for words in ("mallet", ""):
            assert run.recordings_with(words, is_sound=True) == set()
        assert run.named_sounds(most=9) == [("knocking", 1), ("wood", 1)]
        assert run.named_sounds(most=1) == [("knocking", 1)]


def test_the_latest_answer_about_a_window_is_found_once(folder: Path):
    with Run(folder, PLAN) as ledger:
        again = call(3, prompt="again")
        ledger.unanswered([again])
        ledger.begin(again)
        ledger.keep(again, answer("water runs over the wood"))
        with Run(ledger.folder) as run:
            assert [hit.span for hit in run.search("water")] == [cell(3)]


def test_recordings_are_found_by_any_of_their_words(folder: Path):
    with Run(folder, PLAN) as ledger:
        ledger.add(row("b"))
        ledger.keep_evidence("b", [SAID], kinds={"said"})
        with Run(ledger.folder) as run:
            assert run.recordings_with("mallet") == {"a", "b"}
            assert run.recordings_with("knocking") == run.recordings_with("water") == {"a"}
            assert run.recordings_with("") == set()


def test_a_recording_that_was_replaced_is_not_found(folder: Path):
    with Run(folder, PLAN) as ledger:
        ledger.add(RecordingRow("new", row("a").path, 24.0, 2_000_000))
        with Run(ledger.folder) as run:
            assert run.search("mallet") == []
            assert run.recordings_with("mallet") == set()
            assert [run.hit_at(text) for text in run.searchable()] == [None] * 4


def test_every_text_leads_back_to_where_it_stands(folder: Path):
    with Run(folder) as run:
        found = {text.text: run.hit_at(text, rank=-2.0) for text in run.searchable()}
    assert {words: hit.span for words, hit in found.items()} == {
        "a mallet falls on wood": cell(1),
        "water runs": cell(3),
        "knocking, wood": cell(1),
        "pass me the mallet": SAID.span,
    }
    assert {hit.rank for hit in found.values()} == {-2.0}


def test_a_hit_is_looked_up_and_not_searched_for_among_all_picks(folder: Path):
    """Which would take as long for each of hundreds of hits as there are picks in the archive."""
    with Run(folder) as run:
        for query in (text_index._HIT, text_index._INDEXED, text_index._CAPTIONS_OF):
            values = range(1, 1 + max(int(place) for place in re.findall(r"\?(\d)", query)))
            steps = [row[3] for row in run.rows(f"EXPLAIN QUERY PLAN {query}", *values)]
            scanned = {step.split()[1] for step in steps if step.startswith("SCAN")}
            assert steps and scanned <= {"plans"}, "of which there are a few"
