"""A file on disk, read at any place, counted, and never mixed with another version of itself."""

from __future__ import annotations

import os
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

import fsspec
import numpy as np
import pytest

from earmark.errors import UnreadableFile
from earmark.media import storage as module
from earmark.media.audio_decoder import _read_pieces
from earmark.media.container import _ByteFile
from earmark.media.remote_storage import FileInfo, RemoteStorage
from earmark.media.source import absolute_path, place_of, stored_path
from earmark.media.storage import LocalStorage, Meter

DATA = bytes(range(200))


@pytest.fixture
def path(tmp_path: Path) -> Path:
    (tmp_path / "a.bin").write_bytes(DATA)
    return tmp_path / "a.bin"


def opened(path: Path) -> tuple[LocalStorage, Meter]:
    meter = Meter()
    return LocalStorage(str(path), meter), meter


def test_bytes_are_read_where_they_are_asked_for_and_counted(path: Path):
    storage, meter = opened(path)
    assert storage.size_bytes == 200
    assert storage.read(0, 3) == b"\0\1\2"
    assert storage.read_all([range(5, 7), range(1)]) == [b"\5\6", b"\0"]
    assert storage.read(198, 999) == DATA[198:]
    assert storage.read(3, 3) == storage.read(9, 4) == storage.read(500, 600) == b""
    assert meter.bytes_read == 3 + 2 + 1 + 2


def test_a_stretch_that_is_held_is_read_once(path: Path):
    storage, meter = opened(path)
    storage.hold(range(10, 20))
    assert meter.bytes_read == 10
    assert storage.read(10, 20) == DATA[10:20] and storage.read(12, 15) == DATA[12:15]
    assert meter.bytes_read == 10
    assert storage.read(9, 12) == DATA[9:12] and storage.read(18, 21) == DATA[18:21]
    assert meter.bytes_read == 16


def test_a_large_stretch_is_not_held(path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(module, "_MOST_HELD_BYTES", 20)
    storage, meter = opened(path)
    storage.hold(range(21))
    assert meter.bytes_read == 0
    storage.hold(range(20))
    assert meter.bytes_read == 20


def test_a_key_depends_on_samples_of_the_whole_file(path: Path, monkeypatch: pytest.MonkeyPatch):
    """Files of one length and one time of change that differ at one place."""
    monkeypatch.setattr(module, "_SAMPLE_BYTES", 10)
    monkeypatch.setattr(module, "_PIECE_BYTES", 10)
    monkeypatch.setattr(module, "_SAMPLES", 3)

    def key(place: int | None, *, at: int = 7) -> str:
        data = bytearray(DATA)
        if place is not None:
            data[place] ^= 1
        path.write_bytes(data)
        os.utime(path, ns=(at, at))
        return opened(path)[0].key()

    same = key(None)
    changed = [key(place) for place in (0, 9, 95, 104, 190, 199)]
    assert len({same, *changed, key(None, at=8)}) == 8
    assert key(10) == key(94) == key(105) == key(189) == same, "between the samples"
    path.write_bytes(b"abc")
    assert len(opened(path)[0].key()) == 64
    monkeypatch.setattr(module, "_SAMPLES", 20)
    assert len({key(None), *map(key, range(0, 200, 7))}) == 30, "a small file is read whole"


def test_a_file_that_grows_while_it_is_open_is_read_as_it_was(path: Path):
    storage, _ = opened(path)
    with path.open("ab") as file:
        file.write(b"more")
    assert storage.read(0, len(DATA) + 4) == DATA
    later, _ = opened(path)
    assert later.version != storage.version and later.size_bytes == len(DATA) + 4
    assert later.go_back_to(storage.version) and later.read(0, len(DATA) + 4) == DATA
    path.write_bytes(bytes(len(DATA) + 9))
    assert not opened(path)[0].go_back_to(storage.version)


def test_a_file_that_changes_while_it_is_open_is_an_error(path: Path):
    storage, _ = opened(path)
    assert storage.read(0, 1) == b"\0"
    path.write_bytes(bytes(len(DATA) + 4))
    with pytest.raises(UnreadableFile, match=r"a\.bin changed while it was in use"):
        storage.read(0, 1)


def held_beneath(folder: Path) -> list[str]:
    """Files of a folder that this process has open, where the system tells."""
    held = []
    for entry in Path("/proc/self/fd").glob("*"):
        with suppress(OSError):
            held.append(str(entry.readlink()))
    return [name for name in held if name.startswith(str(folder))]


def test_what_is_no_file_is_said_and_let_go(tmp_path: Path):
    os.mkfifo(tmp_path / "pipe.mp4")
    for name, words in (
        ("none.mp4", "does not exist"),
        (".", "is a directory"),
        ("pipe.mp4", "is not a regular file"),
    ):
        with pytest.raises(UnreadableFile, match=words):
            LocalStorage(str(tmp_path / name), Meter())
    assert held_beneath(tmp_path) == []


def test_a_file_is_closed_once(path: Path):
    storage, _ = opened(path)
    storage.close()
    other = os.open(path, os.O_RDONLY)  # takes the number that was let go
    storage.close()
    os.fstat(other)
    os.close(other)


@pytest.mark.parametrize(
    ("facts", "version"),
    [
        (FileInfo(9, "tag", "Monday"), "9:tag"),
        (FileInfo(9, None, "Monday"), "9:Monday"),
        (FileInfo(None, "", None), "None:None"),
    ],
)
def test_the_version_of_a_served_file_is_its_tag_or_its_time(facts: FileInfo, version: str):
    assert facts.version == version


@pytest.mark.parametrize(
    ("path", "found"),
    [
        ("a.mp4", "{here}/a.mp4"),
        ("/b/a.mp4", "/b/a.mp4"),
        ("https://host/a.mp4", "https://host/a.mp4"),
        ("s3://bucket/a.mp4", "s3://bucket/a.mp4"),
    ],
)
def test_a_path_is_found_again_from_any_folder(path: str, found: str):
    assert absolute_path(path) == found.format(here=Path.cwd())
    assert stored_path(path) == absolute_path(path)


@pytest.mark.parametrize(
    ("uri", "place"),
    [
        ("https://me:hunter22@host/a.mp4?token=hunter22", "https://host/a.mp4?***"),
        ("/a/token=hunter22.mp4", "/a/token=hunter22.mp4"),
    ],
)
def test_a_place_in_a_message_has_no_secret(uri: str, place: str):
    assert place_of(uri) == place


@dataclass
class Reads:
    """A storage that says what it was asked for."""

    data: bytes
    spare_bytes: int = 4
    asked: list[list[tuple[int, int]]] = field(default_factory=list)

    def read_all(self, ranges: Sequence[range]) -> list[bytes]:
        self.asked.append([(one.start, one.stop) for one in ranges])
        return [self.data[one.start : one.stop] for one in ranges]


@pytest.mark.parametrize(
    ("positions", "asked"),
    [
        ([0, 5, 10], [(0, 15)]),  # they touch
        ([0, 9, 18], [(0, 23)]),  # as far apart as is worth reading
        ([0, 10, 19], [(0, 5), (10, 24)]),
        ([20, 0, 5], [(20, 25), (0, 10)]),  # back in the file
        ([0, 3, 8], [(0, 5), (3, 13)]),  # on one another
    ],
)
def test_pieces_close_together_come_in_one_read(positions: list[int], asked: list):
    storage = Reads(bytes(range(40)))
    sizes = np.full(len(positions), 5, np.int32)
    found = [bytes(one) for one in _read_pieces(storage, np.array(positions), sizes)]
    assert found == [storage.data[start : start + 5] for start in positions]
    assert storage.asked == [asked]


def test_a_file_in_a_store_is_read_and_counted():
    """In fsspec's store in memory, as in any other."""
    files = fsspec.filesystem("memory")
    files.pipe("/earmark-test/a.bin", bytes(range(200)))
    meter = Meter()
    storage = RemoteStorage("memory://earmark-test/a.bin", meter)
    ranges = [range(10), range(150, 999)]
    assert storage.read_all(ranges) == [bytes(range(10)), bytes(range(150, 200))]
    assert (storage.size_bytes, meter.bytes_read) == (200, 60)
    assert storage.read(0, 200) == storage.read(0, 300) == bytes(range(200))
    assert meter.bytes_read == 260, "a small file is held whole"
    files.pipe("/earmark-test/a.bin", bytes(100))
    with pytest.raises(UnreadableFile, match=r"a\.bin changed while it was in use"):
        storage.read_all(ranges)
    with pytest.raises(UnreadableFile, match=r"is a folder"):
        RemoteStorage("memory://earmark-test", Meter())
    files.rm("/earmark-test", recursive=True)


@pytest.mark.parametrize("ahead", [0, 64])
def test_libav_reads_a_storage_like_a_file(path: Path, ahead: int):
    storage, meter = opened(path)
    storage.read_ahead_bytes = ahead
    file = _ByteFile(storage)
    assert (file.read(10), file.seek(-20, os.SEEK_CUR), file.read(3)) == (DATA[:10], 0, DATA[:3])
    assert meter.bytes_read == max(10, ahead), "what was read is not read again"
    assert (file.seek(-5, os.SEEK_END), file.read(99), file.read(99)) == (195, DATA[195:], b"")
    assert (file.seek(300), file.read(1), file.tell()) == (300, b"", 300)
    file.seek(150)
    assert file.read() + file.read() == DATA[150:]
