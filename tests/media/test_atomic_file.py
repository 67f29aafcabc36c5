"""Files that are whole or not there, and files of a cache that are found by their recording."""

from __future__ import annotations

import errno
import os
import time
from pathlib import Path

import pytest

from earmark.media.atomic_file import (
    STALE,
    content_file,
    files_of_recording,
    remove_stale,
    replacing,
)


def test_a_file_appears_when_it_is_whole(tmp_path: Path):
    path = tmp_path / "new" / "deep" / "a.json"
    with replacing(path) as scratch:
        assert scratch.parent == path.parent and scratch.suffix == ".json"
        assert scratch.exists() and scratch.name.startswith(".")
        scratch.write_text("whole")
        assert not path.exists()
    assert path.read_text() == "whole"
    assert list(path.parent.iterdir()) == [path]


def test_what_was_there_stays_where_writing_fails(tmp_path: Path):
    path = tmp_path / "a.json"
    path.write_text("before")
    with pytest.raises(KeyboardInterrupt), replacing(path) as scratch:
        scratch.write_text("half")
        raise KeyboardInterrupt
    assert path.read_text() == "before"
    assert list(tmp_path.iterdir()) == [path]
    with replacing(path) as scratch:
        scratch.write_text("after")
    assert path.read_text() == "after"


def test_an_error_names_the_file_that_was_to_be_written(tmp_path: Path):
    path = tmp_path / "a.json"
    with pytest.raises(OSError, match="No space") as full, replacing(path):
        raise OSError(errno.ENOSPC, "No space left on device")
    assert full.value.filename == str(path)
    with pytest.raises(FileNotFoundError) as gone, replacing(path) as scratch:
        scratch.unlink()
    assert gone.value.filename == str(path)
    with pytest.raises(FileNotFoundError) as other, replacing(path):
        (tmp_path / "input").read_text()
    assert other.value.filename == str(tmp_path / "input"), "what is read keeps its name"


def test_what_killed_processes_left_is_removed_and_nothing_else(tmp_path: Path):
    old, young = tmp_path / ".1.scratch.json", tmp_path / ".2.scratch"
    plain, other = tmp_path / "old.json", tmp_path / ".hidden"
    for path in (old, young, plain, other):
        path.touch()
    long_ago = time.time() - STALE - 60
    for path in (old, plain, other):
        os.utime(path, (long_ago, long_ago))
    os.utime(young, (long_ago + 120, long_ago + 120))
    remove_stale(tmp_path)
    assert sorted(path.name for path in tmp_path.iterdir()) == [".2.scratch", ".hidden", "old.json"]


def test_all_of_one_recording_are_found_by_its_key(tmp_path: Path):
    paths = [content_file(tmp_path, key, f"{key} {by}", ".npz") for key in "ab" for by in "xy"]
    assert len(set(paths)) == 4
    for path in paths:
        assert path.parent.parent == tmp_path and path.parent.name == path.name[:2]
        path.parent.mkdir(exist_ok=True)
        path.touch()
    assert sorted(files_of_recording(tmp_path, "a")) == sorted(paths[:2])
    assert content_file(tmp_path, "a", "a x", ".npz") == paths[0]
