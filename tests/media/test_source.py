"""Folders, globs, addresses and chapters become recordings."""

from __future__ import annotations

from pathlib import Path

import pytest

from earmark.media import Source, find
from earmark.media.source import is_remote, name_of


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


def test_chapters_are_in_order_whatever_the_order_given(card):
    paths = [str(card / "GX020042.MP4"), str(card / "GX010042.MP4")]
    assert names(find(paths)) == [["GX010042.MP4", "GX020042.MP4"]]


def test_a_glob_gives_what_it_matches_and_each_file_once(card):
    assert names(find([str(card / "*.wav"), str(card / "talk.wav")])) == [["talk.wav"]]


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
    assert Source(("a/b.mp4",)).name == "b.mp4"
    assert Source(("a/GX010001.MP4", "a/GX020001.MP4")).name == "GX010001.MP4 and 1 more"
    assert name_of("https://host/") == "host"
    assert is_remote("S3://bucket/a") and not is_remote("a/b://c")


def test_a_source_needs_a_file():
    with pytest.raises(ValueError, match="at least one file"):
        Source(())
