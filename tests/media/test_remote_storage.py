"""Recordings behind real servers, each in a process of its own."""

from __future__ import annotations

import itertools
import shutil
import socket
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from earmark import open_recording
from earmark.errors import RemoteError, UnreadableFile
from earmark.media import Meter, Source, find, remote_storage
from earmark.media import remote_storage as remote_module
from earmark.media.recording import inspect
from making import AudioPlan, click_times, make_video, read_number, whole_sound
from servers import HOST, range_server, s3_bucket

CLICKS = (0.5, 10.25, 18.0)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """20 s of dense video with little sound, index last, first, and none."""
    folder = tmp_path_factory.mktemp("served")
    rng = np.random.default_rng(0)
    noise = rng.integers(0, 255, (16, 240, 240, 3), np.uint8)
    places = itertools.count()
    for name, layout in [("last.mp4", "last"), ("first.mp4", "first")]:
        make_video(
            folder / name,
            duration=20.0,
            audio=AudioPlan(CLICKS, noise=0.01),
            layout=layout,
            fps=4,
            size=(240, 240),
            draw=lambda _: noise[next(places) % 16],
        )
    make_video(folder / "a.mkv", duration=20.0, audio=AudioPlan(CLICKS, noise=0.01))
    (folder / "empty.mp4").touch()
    (folder / "text.mp4").write_bytes(b"not media" * 1000)
    return folder


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Backoff shortened; the number of retries is kept."""
    monkeypatch.setattr(remote_module, "BACKOFF", (0.01, 0.02, 0.03))


@pytest.mark.parametrize("name", ["last.mp4", "first.mp4", "a.mkv"])
def test_a_served_recording_is_the_local_one(folder, name):
    local = open_recording(folder / name)
    with range_server(folder) as server:
        served = open_recording(server.url(name))
        np.testing.assert_array_equal(whole_sound(served), whole_sound(local))
        assert (served.duration, served.access, served.audio_tracks, served.video) == (
            local.duration,
            local.access,
            local.audio_tracks,
            local.video,
        )
        (picture,) = local.frames([7.0])
        np.testing.assert_array_equal(served.frames([7.0])[0].rgb, picture.rgb)


def test_little_is_read_and_the_server_agrees(folder):
    with range_server(folder) as server:
        recording = open_recording(server.url("last.mp4"))
        assert server.bytes_sent() == recording.bytes_read
        assert server.stats()["requests"] <= 4
        meter = Meter()
        sound = whole_sound(recording, meter=meter)
        stats = server.stats()
    assert click_times(sound, 16_000) == pytest.approx(CLICKS, abs=0.01)
    assert stats["bytes"] == recording.bytes_read + meter.bytes_read
    assert meter.bytes_read < 0.2 * recording.size_bytes


def test_a_server_that_is_gone_is_reported(folder, quick):
    with range_server(folder) as server:
        recording = open_recording(server.url("last.mp4"))
    for need in (inspect, whole_sound):
        with pytest.raises(RemoteError, match=r"last.mp4: the server failed 4 times"):
            need(recording)


def test_several_requests_are_under_way_at_a_time(folder, monkeypatch):
    monkeypatch.setattr(remote_module.RemoteStorage, "spare_bytes", 0)
    with range_server(folder, fault="slow") as server:
        whole_sound(open_recording(server.url("last.mp4")))
        assert 2 <= server.stats()["most"] <= 8


def test_breaks_are_retried(folder, quick):
    with range_server(folder, fault="flaky") as server:
        recording = open_recording(server.url("last.mp4"))
        assert click_times(whole_sound(recording), 16_000) == pytest.approx(CLICKS, abs=0.01)


@pytest.mark.parametrize("name", ["first.mp4", "a.mkv"])
def test_a_server_that_keeps_breaking_is_reported(folder, quick, name, monkeypatch):
    monkeypatch.setattr(remote_module.RemoteStorage, "read_ahead_bytes", 1 << 13)
    report = pytest.raises(RemoteError, match=rf"{name}: the server failed 4 times.*download")
    with range_server(folder, fault="broken") as server, report:
        whole_sound(open_recording(server.url(name)))


@pytest.mark.parametrize(
    ("fault", "complaint"),
    [
        ("endless", "sent more than requested"),
        ("drip", r"no whole answer within 0 s"),
        ("shifted", "sent other bytes than requested"),
    ],
)
def test_an_answer_that_is_not_what_was_asked_for(folder, quick, fault, complaint, monkeypatch):
    if fault == "drip":
        monkeypatch.setattr(remote_storage, "_DEADLINE", 0.2)
    report = pytest.raises(RemoteError, match=rf"the server failed 4 times \(.*{complaint}")
    with range_server(folder, fault=fault) as server, report:
        open_recording(server.url("last.mp4"))


def test_a_server_that_refuses_ranges_is_told_from_the_first_bytes(folder):
    with range_server(folder, fault="no-ranges") as server:
        with pytest.raises(RemoteError, match=r"refuses byte ranges.*download it first"):
            open_recording(server.url("last.mp4"))
        assert server.stats()["requests"] == 1


def test_what_is_not_there_or_not_media(folder, quick):
    with range_server(folder) as server:
        with pytest.raises(UnreadableFile, match=r"no.mp4 does not exist on the server"):
            open_recording(server.url("no.mp4"))
        with pytest.raises(UnreadableFile, match=r"empty.mp4 is empty"):
            open_recording(server.url("empty.mp4"))
        with pytest.raises(UnreadableFile, match=r"text.mp4 is text, not a media file"):
            open_recording(server.url("text.mp4"))
    report = pytest.raises(RemoteError, match=r"failed 4 times \(503")
    with range_server(folder, fault="error") as server, report:
        open_recording(server.url("last.mp4"))
    with pytest.raises(RemoteError, match=r"failed 4 times"):
        open_recording(server.url("last.mp4"))


def test_keys_follow_the_content(folder, tmp_path):
    shutil.copy2(folder / "a.mkv", tmp_path / "a.mkv")
    shutil.copy2(folder / "a.mkv", tmp_path / "b.mkv")
    for fault in ("", "no-tags"):
        with range_server(tmp_path, fault=fault) as server:
            key = open_recording(server.url("a.mkv")).key
            assert open_recording(server.url("b.mkv")).key == key
            (tmp_path / "b.mkv").write_bytes((folder / "a.mkv").read_bytes()[:-5000] + b"x" * 500)
            assert open_recording(server.url("b.mkv")).key != key
        shutil.copy2(folder / "a.mkv", tmp_path / "b.mkv")


@pytest.mark.parametrize("fault", ["", "unconditional", "no-tags"])
def test_a_file_that_changes_is_not_mixed(folder, tmp_path, fault):
    """By its tag; where the server has none, by its size alone."""
    path = tmp_path / "a.mp4"
    shutil.copy(folder / "first.mp4", path)
    with range_server(tmp_path, fault=fault) as server:
        recording = open_recording(server.url("a.mp4"))
        storage = remote_module.RemoteStorage(server.url("a.mp4"), Meter())
        assert len(storage.read(0, 100)) == 100
        path.write_bytes(path.read_bytes() + bytes(fault == "no-tags"))
        for need in (
            lambda: storage.read_all([range(200_000, 200_100)]),
            lambda: whole_sound(recording),
            lambda: recording.frames([1.0]),
            recording.video_packets,
        ):
            with pytest.raises(UnreadableFile, match=r"a.mp4 changed while it was in use"):
                need()
        storage.close()


def test_an_unknown_kind_of_address():
    with pytest.raises(UnreadableFile, match=r"cannot read gopher://"):
        open_recording("gopher://host/a.mp4")


def test_a_server_that_cannot_be_reached_is_named():
    report = pytest.raises(RemoteError, match=r"ftp://127.0.0.1:\d+/a.mp4: no server answers")
    with socket.socket() as held, report:
        held.bind((HOST, 0))  # taken, so that nobody else listens there
        open_recording(f"ftp://{HOST}:{held.getsockname()[1]}/a.mp4")


def test_a_message_holds_no_secret(folder, quick):
    with range_server(folder) as server, pytest.raises(UnreadableFile) as missing:
        open_recording(server.url("no.mp4?token=secret"))
    address = server.url("last.mp4?token=secret").replace("//", "//me:secret@")
    with pytest.raises(RemoteError) as gone:
        open_recording(address)
    for caught in (missing, gone):
        assert "secret" not in str(caught.value)
        assert server.url() in str(caught.value)


def test_s3_needs_an_extra():
    """In a process of its own: once loaded, fsspec keeps the library whatever is missing."""
    code = (
        "import sys; sys.modules['s3fs'] = None\n"
        "from earmark.errors import MissingExtra\n"
        "from earmark.media import open_recording\n"
        "try: open_recording('s3://bucket/a.mp4')\n"
        "except MissingExtra as error: print(error)"
    )
    said = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert "pip install 'earmark[s3]'" in said.stdout


@pytest.fixture
def bucket(folder: Path):
    """An S3 server that holds the folder in a bucket."""
    with s3_bucket("cards") as client:
        for name in ("last.mp4", "a.mkv"):
            client.upload_file(str(folder / name), "cards", name)
            client.upload_file(str(folder / name), "cards", f"GX0{1 + (name == 'a.mkv')}0001.MP4")
        yield "s3://cards"


def test_s3(bucket, folder, quick):
    import boto3

    for name in ("last.mp4", "a.mkv"):
        served = open_recording(f"{bucket}/{name}")
        np.testing.assert_array_equal(
            whole_sound(served), whole_sound(open_recording(folder / name))
        )
    assert [read_number(frame.rgb) for frame in served.frames([3.0])] == [30]
    key = open_recording(f"{bucket}/last.mp4").key
    assert open_recording(f"{bucket}/GX010001.MP4").key == key
    (source,) = find([f"{bucket}/GX010001.MP4", f"{bucket}/GX020001.MP4"])
    assert open_recording(source).duration == pytest.approx(40.0, abs=0.05)
    assert isinstance(source, Source)
    client = boto3.client("s3")
    client.upload_file(str(folder / "last.mp4"), "cards", "a.mkv")
    client.close()
    with pytest.raises(UnreadableFile, match=r"s3://cards/a.mkv changed while it was in use"):
        whole_sound(served)
    with pytest.raises(UnreadableFile, match=r"s3://cards/no.mp4 does not exist"):
        open_recording(f"{bucket}/no.mp4")
    with pytest.raises(UnreadableFile, match=r"s3://nobody/no.mp4 does not exist"):
        open_recording("s3://nobody/no.mp4")
