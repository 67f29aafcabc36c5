"""What people say of answers: beside them, by many at once, and what it comes to."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from earmark import Span
from earmark.errors import RunError
from earmark.report.export_formats import export
from earmark.run.corrections import (
    MOST_AUTHOR,
    MOST_TEXT,
    Agreement,
    Correction,
    correct,
    read_corrections,
    settle,
    wilson_interval,
    withdraw,
)
from earmark.run.merge import merge
from earmark.run.run import Run
from earmark_lab.annotations.readers import read_annotations
from small_runs import call, cell, fill, open_run


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A run whose windows 1 and 3 are answered."""
    with open_run(tmp_path / "run") as ledger:
        fill(ledger, {1: "a hammer falls", 3: "water runs"})
    return tmp_path / "run"


def of(window: int, verdict: str, author: str = "Ada", text: str = "") -> Correction:
    return Correction("a", cell(window), verdict, author, text)


def said(*words: str) -> list[Correction]:
    """`Ada right 1` is what Ada says of window 1, one a second."""
    made = []
    for second, line in enumerate(words):
        author, verdict, window, *text = line.split(maxsplit=3)
        made.append(
            Correction(
                "a",
                cell(int(window)),
                verdict,
                author,
                "".join(text),
                id=second + 1,
                at=f"2026-01-01T00:00:{second:02d}",
                call="" if verdict == "missed" else f"call {window}",
            )
        )
    return made


def outcome(*words: str) -> list[str]:
    return [f"{one.verdict} {one.span.start / 4:.0f}" for one in settle(said(*words))]


def test_a_correction_is_kept_beside_the_answer_with_who_and_when(folder: Path):
    kept = correct(folder, of(1, "reworded", text=" a mallet falls "))
    assert (kept.call, kept.caption, kept.text) == (
        call(1).identity,
        "a hammer falls",
        "a mallet falls",
    )
    assert kept.at
    assert kept.id == 1
    with Run(folder) as run:
        assert read_corrections(run) == [kept]
        assert read_corrections(run, "a") == [kept]
        assert read_corrections(run, "b") == []
        first, _ = run.picks("a")
        assert first.answer is not None
        assert first.answer.text == "a hammer falls"


@pytest.mark.parametrize(
    ("wrong", "why"),
    [
        (of(2, "right"), "there is no answer from 8 to 12 s to judge"),
        (
            of(1, "perhaps"),
            "a verdict is one of right, partly, wrong, reworded, missed, not 'perhaps'",
        ),
        (of(1, "right", author="  "), "say who corrects"),
        (of(1, "reworded"), "say what the better words are"),
        (of(1, "wrong", text="x" * 4001), "at most 4000 characters"),
        (Correction("a", Span(20.0, 30.0), "missed", "Ada"), "no part of a recording of 24 s"),
        (Correction("z", cell(1), "missed", "Ada"), "does not know the recording 'z'"),
    ],
)
def test_what_cannot_be_meant_is_refused_and_not_kept(folder: Path, wrong: Correction, why: str):
    with pytest.raises(ValueError, match=why):
        correct(folder, wrong)
    with Run(folder) as run:
        assert read_corrections(run) == []


def test_a_missed_moment_may_end_where_the_grid_does_a_little_after_the_recording(folder: Path):
    for end in (24.0, 24.5, 25.0):
        correct(folder, Correction("a", Span(0.0, end), "missed", "Ada"))
    with pytest.raises(ValueError, match="no part of a recording of 24 s"):
        correct(folder, Correction("a", Span(20.0, 25.01), "missed", "Ada"))
    with Run(folder) as run:
        assert [one.span.end for one in read_corrections(run)] == [24.0, 24.5, 25.0]


@pytest.mark.parametrize(
    ("right", "judged", "low", "high"),
    [(8, 10, 0.490, 0.943), (0, 5, 0.0, 0.434), (5, 5, 0.566, 1.0), (50, 100, 0.404, 0.596)],
)
def test_the_interval_is_wilsons(right: int, judged: int, low: float, high: float):
    """As tables of it have them."""
    assert wilson_interval(right, judged) == pytest.approx((low, high), abs=0.001)


def test_where_nothing_is_judged_nothing_is_known():
    found = Agreement.of(said("Bo missed 2"))
    assert (found.share, found.low, found.high) == (None, None, None)


def test_who_corrects_has_a_name_of_bounded_length(folder: Path):
    assert correct(folder, of(1, "right", author="A" * MOST_AUTHOR)).id == 1
    with pytest.raises(ValueError, match="say who corrects"):
        correct(folder, of(1, "right", author="A" * (MOST_AUTHOR + 1)))
    assert correct(folder, of(1, "wrong", text="x" * MOST_TEXT)).id == 2


def test_where_there_is_no_run_none_is_made(tmp_path: Path):
    with pytest.raises(RunError, match="no run in"):
        correct(tmp_path, of(1, "right"))
    assert list(tmp_path.iterdir()) == []


WRITE = """
import sys
from pathlib import Path
from earmark.run.corrections import Correction, correct, read_corrections
from earmark.timeline import Span
for place in range(20):
    correct(Path(sys.argv[1]), Correction("a", Span(place, place + 1.0), "missed", sys.argv[2]))
"""


def test_several_processes_correct_a_run_that_another_is_at_work_on(tmp_path: Path):
    with open_run(tmp_path / "run") as ledger:
        writers = [
            subprocess.Popen([sys.executable, "-c", WRITE, str(tmp_path / "run"), author])
            for author in ("Ada", "Bo")
        ]
        for turn in range(200):  # the run writes meanwhile
            ledger.begin(call(3, prompt=str(turn)))
        assert [writer.wait(600) for writer in writers] == [0, 0]
        fill(ledger, {1: "a hammer falls"})
    with Run(tmp_path / "run") as run:
        authors = [one.author for one in read_corrections(run)]
        assert (authors.count("Ada"), authors.count("Bo")) == (20, 20)
        assert run.totals().answered == 1


def test_what_is_withdrawn_stays_and_counts_no_longer(folder: Path):
    kept = correct(folder, of(1, "right"))
    withdraw(folder, kept.id)
    with Run(folder) as run:
        (found,) = read_corrections(run)
        assert found == replace(kept, withdrawn=found.withdrawn)
        assert found.withdrawn
        assert settle([found]) == []
    with pytest.raises(ValueError, match="no correction 9"):
        withdraw(folder, 9)


def test_of_one_person_the_latest_word_counts_and_of_several_that_of_most():
    assert outcome("Ada right 1", "Ada wrong 1") == ["wrong 1"]
    assert outcome("Ada right 1", "Bo wrong 1") == []
    assert outcome("Ada right 1", "Bo wrong 1", "Cy right 1") == ["right 1"]
    assert outcome("Ada missed 5 tap", "Bo missed 5 Tap", "Bo missed 2") == ["missed 2", "missed 5"]


def test_how_often_the_model_was_right_has_an_interval():
    """The interval is that of statsmodels' `proportion_confint(8, 10, method="wilson")`."""
    found = Agreement.of(
        said(
            *(f"Ada right {n}" for n in range(8)), "Ada wrong 8", "Ada reworded 9 x", "Bo missed 2"
        )
    )
    assert (found.right, found.judged, found.reworded, found.missed) == (8, 10, 1, 1)
    assert found.share == 0.8
    assert (found.low, found.high) == pytest.approx((0.4901625, 0.9433178), abs=1e-6)


def test_merging_brings_corrections_together_once(folder: Path, tmp_path: Path):
    correct(folder, of(1, "right"))
    gone = correct(folder, of(3, "missed", text="a door"))
    merge([folder], tmp_path / "all")
    withdraw(folder, gone.id)
    for _ in range(2):
        merge([folder], tmp_path / "all")
    with Run(tmp_path / "all") as run, Run(folder) as theirs:
        assert read_corrections(run) == read_corrections(theirs)
        assert [bool(one.withdrawn) for one in read_corrections(run)] == [False, True]


def test_what_people_agree_on_is_read_as_annotations(folder: Path, tmp_path: Path):
    correct(folder, of(1, "right"))
    correct(folder, of(3, "wrong"))
    correct(folder, Correction("a", Span(18.5, 20.0), "missed", "Bo", "a door shuts"))
    with Run(folder) as run:
        (path,) = export(run, tmp_path / "spans.jsonl", format="corrections")
    assert [json.loads(line)["verdict"] for line in path.read_text().splitlines()] == [
        "right",
        "wrong",
        "missed",
    ]
    read = read_annotations(path)
    (actions,) = read.recordings.values()
    assert [(one.start, one.end, one.label) for one in actions] == [
        (4.0, 8.0, "a hammer falls"),
        (18.5, 20.0, "a door shuts"),
    ]
    assert (list(read.recordings), read.durations) == (["a"], {"a": 24.0})


def test_the_share_of_those_who_agree_lies_between_nothing_and_all():
    for judged in range(1, 300):
        low, high = wilson_interval(0, judged)
        assert low == pytest.approx(0, abs=1e-12) and 0 <= low < high < 1
        low, high = wilson_interval(judged, judged)
        assert high == pytest.approx(1) and 0 < low < high <= 1
