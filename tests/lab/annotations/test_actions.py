"""Rows become actions, and rows that cannot be true are refused in one line."""

from __future__ import annotations

from pathlib import Path

import pytest

from earmark.errors import AnnotationError
from earmark_lab.annotations.actions import AnnotationFile, AnnotationRow, combine_files, reconcile
from earmark_lab.annotations.table_readers import read_durations


def marks(*rows: tuple[float, float], name: str = "a") -> AnnotationFile:
    return AnnotationFile(
        tuple(AnnotationRow(name, *row, "x", f"f.csv line {n}") for n, row in enumerate(rows))
    )


def test_actions_come_in_order_of_time_with_the_length_they_are_given():
    marked = combine_files([marks((5, 6), (1, 2))], durations={"a": 9.0})
    assert [(each.start, each.end) for each in marked.recordings["a"]] == [(1, 2), (5, 6)]
    assert marked.durations == {"a": 9.0}
    assert not marked.guessed


def test_a_recording_of_unknown_length_ends_with_its_last_event_and_says_so():
    marked = combine_files([marks((5, 6), (1, 2))])
    assert marked.durations == {"a": 6.0}
    assert any(
        "1 recording without a given length, taken to end with" in line for line in marked.notes()
    )


def test_an_action_a_moment_past_the_end_is_cut_there():
    marked = combine_files([marks((5, 6.3))], durations={"a": 6.0})
    assert marked.recordings["a"][0].end == 6.0


@pytest.mark.parametrize(
    ("row", "complaint"),
    [
        ((6, 5), r"f.csv line 0 \(a\): ends at 5 s, before it starts at 6 s"),
        ((5, 8), r"ends at 8 s but the recording at 6 s"),
        ((-1, 2), r"starts at -1 s, before the recording"),
        ((float("nan"), 2), r"are not finite"),
    ],
)
def test_a_row_that_cannot_be_true_is_named(row: tuple[float, float], complaint: str):
    with pytest.raises(AnnotationError, match=complaint):
        combine_files([marks(row)], durations={"a": 6.0})


def test_rows_that_last_nothing_are_left_out_and_counted():
    marked = combine_files([marks((1, 1), (2, 3))])
    assert marked.actions == 1
    assert marked.excluded == {"no time between start and end": 1}


def test_overlapping_actions_are_kept_and_counted():
    marked = combine_files([marks((0, 4), (1, 2), (3, 5), (5, 6))])
    assert marked.actions == 4
    assert marked.overlapping == 2


def test_rows_that_say_the_same_are_kept_and_counted():
    marked = combine_files([marks((0, 4), (0, 4), (5, 6))])
    assert (marked.actions, marked.duplicates) == (3, 1)
    assert "1 row saying the same as another; each counts" in marked.notes()


def test_an_id_used_twice_is_refused():
    twice = AnnotationFile(
        tuple(AnnotationRow("a", n, n + 1, "", f"f.csv line {n}", "k7") for n in (1, 2))
    )
    with pytest.raises(AnnotationError, match=r"line 2: the id k7 was used before \(f.csv line 1"):
        combine_files([twice])


def test_only_and_without_split_the_recordings():
    marked = combine_files([marks((1, 2)), marks((1, 2), name="b")])
    assert list(marked.only(["b"]).recordings) == ["b"]
    assert list(marked.without(["b"]).recordings) == ["a"]
    with pytest.raises(AnnotationError, match="c not in the annotations, which know a, b"):
        marked.only(["c"])


def test_recordings_on_one_side_only_are_listed_and_refused():
    with pytest.raises(
        AnnotationError, match=r"no media for b; no annotations for c: pass --allow"
    ):
        reconcile(["a", "b"], ["a", "c"])
    assert reconcile(["a", "b"], ["a", "c"], allow_missing=True) == ["a"]
    with pytest.raises(AnnotationError, match="no recording has both"):
        reconcile(["a"], ["c"], allow_missing=True)


def test_a_table_of_lengths(tmp_path: Path):
    table = tmp_path / "info.csv"
    table.write_text("video_id,duration,fps\na,12.5,60\nb,3,60\n")
    assert read_durations(table) == {"a": 12.5, "b": 3.0}
    table.write_text("Recording;Duration\r\na;12,5\r\nb;01:02:03\r\n")
    assert read_durations(table) == {"a": 12.5, "b": 3723.0}
    with pytest.raises(AnnotationError, match=r"cannot read .*absent.csv: No such file"):
        read_durations(tmp_path / "absent.csv")


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("video_id,fps\na,60\n", "info.csv needs duration among its columns"),
        ("name,duration\na,5\n", r"info.csv line 2: no recording \(or video_id\) is named"),
        ("recording,duration\na,nan\n", "info.csv line 2: 'nan' is no length"),
        ("recording,duration\na,5\na,5\n", "info.csv line 3: a is listed twice"),
        ("recording,duration\na,minus\n", "info.csv line 2: 'minus' is no length"),
        ("recording,duration\na,-4\n", "info.csv line 2: '-4' is no length"),
    ],
)
def test_a_bad_table_of_lengths(tmp_path: Path, text: str, complaint: str):
    table = tmp_path / "info.csv"
    table.write_text(text)
    with pytest.raises(AnnotationError, match=complaint):
        read_durations(table)
