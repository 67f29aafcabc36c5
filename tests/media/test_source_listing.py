"""Folders, globs, addresses and chapters become recordings."""

from __future__ import annotations

import glob
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from earmark.errors import UnreadableFile
from earmark.media import Source, find
from earmark.media.source import is_remote, name_of, place_of
from earmark.media.source_listing import join_chapters, missing_chapters


@pytest.fixture
def card(tmp_path: Path) -> Path:
    """A memory card: two recordings in chapters, a single one, and what is no recording."""
    names = [
        "GX010042.MP4",
        "GX020042.MP4",
        "GX010043.MP4",
        "GOPR0007.MP4",
        "GP010007.MP4",
        "GP020007.MP4",
        "talk.wav",
        "GX010042.THM",
        ".hidden.mp4",
        "sub/GX020043.MP4",
    ]
    for name in names:
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_bytes(b"x")
    return tmp_path


def names(sources: list[Source]) -> list[list[str]]:
    return [[Path(uri).name for uri in source.uris] for source in sources]


def test_chapters_of_one_recording_in_one_folder_are_one_source(card):
    assert names(find([str(card)])) == [
        ["GOPR0007.MP4", "GP010007.MP4", "GP020007.MP4"],
        ["GX010042.MP4", "GX020042.MP4"],
        ["GX010043.MP4"],
        ["GX020043.MP4"],
        ["talk.wav"],
    ]


def test_the_place_of_a_chapter_is_in_its_name():
    given = ["GP010007.MP4", "GX020042.MP4", "a.mp4", "GOPR0007.MP4", "GX010042.MP4"]
    assert names(join_chapters(given)[0]) == [
        ["GOPR0007.MP4", "GP010007.MP4"],
        ["GX010042.MP4", "GX020042.MP4"],
        ["a.mp4"],
    ]


def test_chapters_that_are_not_there_are_known_by_the_names_of_the_others():
    assert missing_chapters(["GX010042.MP4", "GX030042.MP4"]) == [2]
    assert missing_chapters(["GP020007.MP4", "GP030007.MP4"]) == [0, 1]
    assert missing_chapters(["GOPR0007.MP4", "GP010007.MP4"]) == []
    assert missing_chapters(["GX010042.MP4"]) == missing_chapters(["a.mp4", "b.mp4"]) == []


def test_chapters_are_in_order_whatever_the_order_given(card):
    paths = [str(card / "GX020042.MP4"), str(card / "GX010042.MP4")]
    assert names(find(paths)) == [["GX010042.MP4", "GX020042.MP4"]]


def test_a_glob_gives_what_it_matches_and_each_file_once(card):
    pattern = f"{glob.escape(str(card))}/*.wav"  # wherever the card lies
    assert names(find([pattern, str(card / "talk.wav")])) == [["talk.wav"]]


@pytest.mark.parametrize(
    ("full", "copies"),
    [
        (["GX010042.MP4", "GX020042.MP4"], ["GL010042.LRV", "GL020042.LRV"]),
        (["GH010001.MP4"], ["GL010001.LRV", "GH010001.THM"]),
        (["GOPR0007.MP4"], ["GOPR0007.LRV", "GOPR0007.THM"]),
        (["VID_20240101_120000_00_001.insv"], ["LRV_20240101_120000_11_001.insv"]),
        (["VID_20240101_120000_00_001.insv"], ["LRV_20240101_120000_01_001.lrv"]),
        (["DJI_20240101120000_0001_D.MP4"], ["DJI_20240101120000_0001_D.LRF"]),
    ],
)
def test_the_small_copies_a_camera_makes_are_no_recordings(tmp_path, full, copies):
    for name in (*full, *copies):
        (tmp_path / name).write_bytes(b"x")
    told: list[str] = []
    assert names(find(sorted(tmp_path.iterdir()), on_copies=told.extend)) == [full]
    assert sorted(Path(uri).name for uri in told) == sorted(copies)
    assert names(find([tmp_path])) == [full]


def test_a_small_copy_without_its_recording_is_all_there_is(tmp_path):
    (tmp_path / "GL010042.LRV").write_bytes(b"x")
    (tmp_path / "sub").mkdir()
    (tmp_path / "sub" / "GX010042.MP4").write_bytes(b"x")
    told: list[str] = []
    found = find([tmp_path], on_copies=told.extend)
    assert names(found) == [["GL010042.LRV"], ["GX010042.MP4"]]
    assert told == []


def test_one_file_under_two_names_is_one_recording(tmp_path, monkeypatch):
    (tmp_path / "a.mp4").write_bytes(b"x")
    (tmp_path / "b.mp4").symlink_to("a.mp4")
    (tmp_path / "round").symlink_to(tmp_path)
    monkeypatch.chdir(tmp_path)
    assert names(find([".", "a.mp4", "./a.mp4", str(tmp_path / "a.mp4")])) == [["a.mp4"]]


def test_a_name_that_looks_like_a_glob_is_a_name_where_there_is_one(tmp_path):
    for name in ("a[1].mp4", "a1.mp4", "sub/deep/b.mp4"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_bytes(b"x")
    root = glob.escape(str(tmp_path))
    assert names(find([str(tmp_path / "a[1].mp4")])) == [["a[1].mp4"]]
    assert names(find([f"{root}/a[1-9].mp4"])) == [["a1.mp4"]]
    assert names(find([f"{root}/**/*.mp4"])) == [["a1.mp4"], ["a[1].mp4"], ["b.mp4"]]
    assert names(find([f"{root}/s*"])) == [["s*"]], "folders are none of what a glob gives"


def test_addresses_that_differ_in_secrets_alone_cannot_be_told_apart_later():
    one, other = (f"https://host/a.mp4?token={secret}" for secret in ("abc123", "def456"))
    assert len(find([one, one])) == 1
    with pytest.raises(UnreadableFile, match=r"two addresses are both https://host/a\.mp4"):
        find([one, other])


def test_an_empty_path_names_nothing():
    with pytest.raises(UnreadableFile, match="an empty path"):
        find([" "])


def test_what_is_missing_is_kept_to_be_reported_when_opened(tmp_path):
    sources = find([str(tmp_path / "no.mp4"), str(tmp_path / "*.mkv"), str(tmp_path)])
    assert [len(source.uris) for source in sources] == [1, 1, 1]


def test_addresses_are_taken_as_they_are():
    address = "https://host/a/*.mp4?x=[1]"
    assert find([address]) == [Source((address,))]


def test_addresses_of_chapters_are_one_source_too():
    paths = ["s3://bucket/GX010001.MP4", "s3://bucket/GX020001.MP4", "s3://other/GX030001.MP4"]
    assert [len(source.uris) for source in find(paths)] == [2, 1]


def test_names_for_messages():
    assert Source(("a/b.mp4",)).name == "a/b.mp4"
    assert Source(("a/GX010001.MP4", "a/GX020001.MP4")).name == "a/GX010001.MP4 and 1 more"
    assert name_of("https://host/") == "host"
    assert (name_of("a/b.mp4"), name_of("/")) == ("b.mp4", "/")
    assert place_of("a\nb.mp4") == "'a\\nb.mp4'"
    assert place_of("s3://bucket/a?b.mp4") == "s3://bucket/a?b.mp4"
    assert is_remote("S3://bucket/a") and not is_remote("a/b://c")


def test_a_source_needs_a_file():
    with pytest.raises(ValueError, match="at least one file"):
        Source(())


def test_what_may_not_be_read_and_links_that_lead_nowhere_are_not_passed_over(tmp_path):
    """A row each, and the others are done."""
    folder = tmp_path / "card"
    shut = folder / "shut"
    shut.mkdir(parents=True)
    (folder / "a.mp4").write_bytes(b"x")
    (shut / "b.mp4").write_bytes(b"x")
    (folder / "gone.mp4").symlink_to(tmp_path / "unplugged.mp4")
    script = (
        "import sys; from earmark.media import find; "
        "print([source.name for source in find(sys.argv[1:])])"
    )
    shut.chmod(0)
    # Root reads everything unless it gives that up, for good: in a process of its own.
    drop = (
        ["setpriv", "--bounding-set", "-dac_override,-dac_read_search"] if not os.getuid() else []
    )
    command = [*drop, sys.executable, "-c", script, str(folder), str(shut / "b.mp4")]
    try:
        if drop and not shutil.which("setpriv"):
            pytest.skip("root, and no way to be refused anything")
        said = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    finally:
        shut.chmod(0o700)
    there = ["a.mp4", "gone.mp4", "shut", "shut/b.mp4"]
    assert said.strip() == str([str(folder / name) for name in there])
