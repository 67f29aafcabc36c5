"""Files that are whole or not there, and files of a cache that are found by their recording."""

from __future__ import annotations

import errno
import os
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from earmark.media.atomic_file import (
    content_file,
    files_of_recording,
    remove_stale,
    replacing,
    scratch_folder,
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
    for name in (".1.scratch.json", ".2.scratch", "old.json", ".hidden"):
        (tmp_path / name).touch()
    (tmp_path / ".3.scratch").mkdir()
    (tmp_path / ".3.scratch" / "clip.mp4").touch()
    (tmp_path / ".4.scratch").symlink_to(tmp_path / "old.json")
    with replacing(tmp_path / "new.json") as alive, scratch_folder(tmp_path / "a.zip") as folder:
        remove_stale(tmp_path)
        left = {path.name for path in tmp_path.iterdir()}
        assert left == {alive.name, folder.name, "old.json", ".hidden", ".4.scratch"}


KILLED = """
import os, signal
from pathlib import Path
from earmark.media.atomic_file import replacing, scratch_folder
with scratch_folder(Path("a.zip")) as folder, replacing(Path("b.mp4")):
    (folder / "clip.mp4").touch()
    os.kill(os.getpid(), signal.SIGKILL)
"""


def test_scratch_is_private_lies_beside_its_target_and_goes_at_the_next_start(tmp_path: Path):
    subprocess.run([sys.executable, "-c", KILLED], cwd=tmp_path, check=False)
    assert len(list(tmp_path.iterdir())) == 2
    with scratch_folder(tmp_path / "c.zip") as folder:
        assert list(tmp_path.iterdir()) == [folder]
        assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    assert list(tmp_path.iterdir()) == []


def test_a_file_is_on_the_disk_before_it_has_its_name(tmp_path: Path, monkeypatch):
    path, synced = tmp_path / "a.json", []
    monkeypatch.setattr(os, "fsync", lambda _: synced.append(path.exists()))
    with replacing(path) as scratch:
        scratch.write_text("whole")
    assert synced == [False]


def test_all_of_one_recording_are_found_by_its_key(tmp_path: Path):
    paths = [content_file(tmp_path, key, f"{key} {by}", ".npz") for key in "ab" for by in "xy"]
    assert len(set(paths)) == 4
    for path in paths:
        assert path.parent.parent == tmp_path and path.parent.name == path.name[:2]
        path.parent.mkdir(exist_ok=True)
        path.touch()
    assert sorted(files_of_recording(tmp_path, "a")) == sorted(paths[:2])
    assert content_file(tmp_path, "a", "a x", ".npz") == paths[0]
