"""Moments are found in captions and evidence, by words and by meaning, in one run or many."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner

from earmark import Span
from earmark.cli.app import app
from earmark.errors import RunError
from earmark.evidence.evidence_entry import EvidenceEntry
from earmark.models.sentence_encoder import WIDTH
from earmark.run.run import Run
from earmark.search.archive_search import VECTORS, Archive, MeaningIndex, as_moments, search
from quiet_shift import require_minilm
from small_runs import PLAN, fill, open_run, row

EVIDENCE = (
    EvidenceEntry(Span(0.0, 3.0), "heard", "Drill", 0.8, "mn04 track"),
    EvidenceEntry(Span(4.0, 8.0), "heard", "Drill", 0.7, "yamnet"),
    EvidenceEntry(Span(9.0, 11.0), "said", "Hand me the spanner, please.", 0.9, "whisper"),
    EvidenceEntry(Span(20.0, 22.0), "read", "DANGER high voltage", 0.6, "ocr"),
)


def make_run(folder: Path, **answers: str) -> Path:
    ledger = open_run(folder, tags={1: ["water", "hiss"]})
    with ledger:
        fill(ledger, {int(name[1:]): text for name, text in answers.items()})
        ledger.keep_evidence("a", EVIDENCE, kinds=["heard", "said", "read"])
    return folder


@pytest.fixture
def run(tmp_path) -> Path:
    return make_run(tmp_path / "run", w1="A hand drills a board.", w3="Nothing happens.")


def texts(found) -> set[tuple[str, str]]:
    return {(reason.kind, reason.text) for each in found for reason in each.reasons}


def test_words_find_captions_and_every_kind_of_evidence(run):
    assert texts(search(run, "drilling")) == {
        ("caption", "A hand drills a board."),
        ("heard", "Drill"),
    }
    assert texts(search(run, "spanners")) == {("said", "Hand me the spanner, please.")}
    assert texts(search(run, "volt")) == {("read", "DANGER high voltage")}
    assert texts(search(run, "water")) == {("tags", "water, hiss")}, (
        "its caption says nothing of it"
    )
    (split,) = search(run, "board hiss")  # one word in each
    assert (split.kinds, split.text) == (("caption",), "A hand drills a board.")


def test_a_moment_of_a_later_file_is_told_in_the_time_of_that_file(run):
    chapters = (("/cams/GX010042.MP4", 0.0), ("/cams/GX020042.MP4", 9.5))
    with Run(run, PLAN) as ledger:
        ledger.add(replace(row("a"), path=chapters[0][0], chapters=chapters))
    (found,) = search(run, "voltage")
    plain = found.to_json()
    assert (plain["path"], plain["start"]) == ("/cams/GX010042.MP4", 20.0)
    assert (plain["file"], plain["file_start"]) == ("/cams/GX020042.MP4", 10.5)
    lines = CliRunner().invoke(app, ["search", str(run), "voltage"]).stdout.splitlines()
    assert lines[:2] == [
        "GX010042.MP4 0:20.0 - 0:22.0",
        "  in GX020042.MP4: 0:10.5 - 0:12.5",
    ]


def test_all_words_must_stand_in_one_place_and_none_find_nothing(run):
    assert search(run, "spanner voltage") == search(run, "") == search(run, "violin") == []


def test_a_sound_of_a_window_is_not_told_beside_its_track(run):
    every = [reason for each in search(run, "drill") for reason in each.reasons]
    assert [each.model for each in every if each.kind == "heard"] == ["mn04 track"]


def test_what_tells_of_one_moment_is_one_result_that_says_what_agrees(tmp_path):
    """
    0   4   8   12  16  20  24
    ·   ├cap┤   ├tag┤               windows 1 and 3
      ├──────┤     ├─┤              a drill is heard
    """
    with open_run(tmp_path, tags={1: ["Drill", "loud"], 3: ["Drill"]}) as ledger:
        fill(ledger, {1: "A hand drills a board."})
        spans = Span(2.0, 9.0), Span(15.5, 17.0)
        tracks = [EvidenceEntry(span, "heard", "Drill", 0.8, "mn04 track") for span in spans]
        ledger.keep_evidence("a", tracks, kinds=["heard"])
    with Run(tmp_path) as run:
        hits = run.search("drilling")
        first, second = sorted(as_moments(run, hits), key=lambda each: each.span)
    assert (first.span, first.kinds) == (Span(2.0, 9.0), ("caption", "heard"))
    assert (second.span, second.kinds) == (Span(15.5, 17.0), ("heard",))
    assert [reason.kind for reason in second.reasons] == ["heard", "tags"]
    (lone,) = search(tmp_path, "loud")
    assert (lone.span, lone.kinds) == (Span(4.0, 8.0), ("tags",))  # the window's
    plain = second.to_json()
    assert (plain["start"], len(plain["reasons"])) == (15.5, 2)
    said = CliRunner().invoke(app, ["search", str(tmp_path), "drilling"]).stdout
    assert said.count("a.mp4") == 2, "they say different things first"
    assert "0:02.0 - 0:09.0\n  caption: A hand drills a board.\n  heard: Drill (0.80" in said


def test_the_same_of_windows_side_by_side_is_one_moment(tmp_path):
    with open_run(tmp_path) as ledger:
        spans = [Span(0.0, 4.0), Span(4.0, 8.0), Span(12.0, 16.0), Span(16.0, 20.0)]
        texts = ["car", "car", "car", "red car"]
        seen = [
            EvidenceEntry(span, "seen", text, 0.8, "d")
            for span, text in zip(spans, texts, strict=True)
        ]
        ledger.keep_evidence("a", seen, kinds=["seen"])
    found = sorted(each.span for each in search(tmp_path, "car"))
    assert found == [Span(0.0, 16.0), Span(16.0, 20.0)], "neighbours that say the same are one"


def test_evidence_that_was_replaced_is_not_found(run):
    with Run(run, {"another": "plan"}) as ledger:
        ledger.keep_evidence("a", (), kinds=["said"])
    assert search(run, "spanner") == []
    assert texts(search(run, "voltage")) == {("read", "DANGER high voltage")}


def test_an_archive_is_every_run_below_a_folder(tmp_path):
    for name in ("one", "two"):
        make_run(tmp_path / "archive" / name, w1=f"The {name} board is drilled.")
    (tmp_path / "archive" / "broken").mkdir()
    (tmp_path / "archive" / "broken" / "run.db").write_bytes(b"not a database")
    with Archive(tmp_path / "archive") as archive:
        found = archive.search("board")
        assert len(archive.skipped) == 1
    assert {Path(each.run).name for each in found} == {"one", "two"}
    with pytest.raises(RunError, match="no run in"):
        search(tmp_path / "nowhere", "board")
    said = CliRunner().invoke(app, ["search", str(tmp_path / "archive"), "board"])
    assert said.stdout.count("board is drilled") == 2
    assert "broken" in said.stderr


def test_a_run_that_cannot_be_read_is_no_run_without_matches(tmp_path):
    (tmp_path / "run.db").write_bytes(b"not a database")
    said = CliRunner().invoke(app, ["search", str(tmp_path), "board"])
    assert said.exit_code == 1
    assert "run.db" in str(said.exception)
    assert "matches" not in said.stderr


def test_no_more_than_asked_for_and_the_best_first(run):
    assert len(search(run, "drill", most=1)) == 1
    ranks = [each.rank for each in search(run, "drill")]
    assert ranks == sorted(ranks)


def first_letters(texts: Sequence[str]) -> np.ndarray:
    """Vectors that are the same for texts that begin with the same letter: in place of a model."""
    return np.eye(WIDTH, dtype=np.float32)[[ord(text[0].lower()) for text in texts]]


UNCLOSED = b"\x93NUMPY\x01\x00\x02\x00{\n"  # a header that cannot be parsed


@pytest.mark.parametrize("damaged", [b"", b"PK\3\4", b"\x93NUMPY cut off", UNCLOSED, None])
def test_what_was_kept_of_meanings_and_cannot_be_read_is_made_anew(run, damaged):
    encoder: Any = first_letters
    first = search(run, "a", meaning=encoder)
    assert ("caption", "A hand drills a board.") in texts(first)
    (run / VECTORS).unlink()
    if damaged is None:
        (run / VECTORS).mkdir()  # nor can it be written
    else:
        (run / VECTORS).write_bytes(damaged)
    assert search(run, "a", meaning=encoder) == first


def test_a_text_that_a_replaced_recording_has_too_is_found(tmp_path):
    heard = EvidenceEntry(Span(0.0, 4.0), "heard", "Saw", 0.5, "yamnet")
    with Run(tmp_path, PLAN) as ledger:
        for key in ("old", "new"):  # at one path
            ledger.add(replace(row("a"), id=key))
            ledger.keep_evidence(key, [heard], kinds={"heard"})
    encoder: Any = first_letters
    with Run(tmp_path) as kept:
        similar = MeaningIndex.of(kept, encoder).search(kept, "saw", most=1)
        assert [(hit.recording, hit.text) for hit in similar] == [("new", "Saw")]
        assert [(hit.recording, hit.text) for hit in kept.search("saw", most=1)] == [("new", "Saw")]


@pytest.mark.slow
def test_meaning_finds_other_words_and_nothing_where_there_is_nothing(run):
    encoder = require_minilm()
    found = search(run, "drilling into wood", meaning=encoder)
    assert ("caption", "A hand drills a board.") in texts(found)
    assert search(run, "a violin concerto by Brahms", meaning=encoder) == []
    assert (run / VECTORS).is_file()


@pytest.mark.slow
def test_what_texts_mean_is_read_once_and_a_damaged_file_is_made_anew(run):
    encoder, told = require_minilm(), []
    first = search(run, "drill", meaning=encoder, told=lambda *counts: told.append(counts))
    assert told == [(6, 6)]
    assert search(run, "drill", meaning=encoder, told=lambda *counts: told.append(counts)) == first
    assert len(told) == 1
    (run / VECTORS).write_bytes(b"\x93NUMPY cut off")
    assert search(run, "drill", meaning=encoder, told=lambda *counts: told.append(counts)) == first
    assert len(told) == 2


def test_the_command_prints_moments_and_json(run):
    said = CliRunner().invoke(app, ["search", str(run), "drilling"])
    assert said.exit_code == 0
    assert "A hand drills a board." in said.stdout and "heard: Drill (0.80" in said.stdout
    plain = json.loads(
        CliRunner().invoke(app, ["search", str(run), "volt", "--format", "json"]).stdout
    )
    assert [(each["kinds"][0], each["start"], each["reasons"][0]["text"]) for each in plain] == [
        ("read", 20.0, "DANGER high voltage")
    ]
    none = CliRunner().invoke(app, ["search", str(run), "violin"])
    assert none.stdout == "" and "matches 'violin'" in none.stderr
