"""Where recordings come from: chapters, lists, manifests and web addresses."""

from __future__ import annotations

from pathlib import Path

import pytest

import earmark as earmark_library
from acceptance.command_line import earmark
from acceptance.file_server import file_server
from acceptance.recordings import make_recording
from acceptance.run_rows import rows
from earmark.errors import MediaError


@pytest.fixture(scope="module")
def card(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The memory card of a camera that splits one recording into two chapters of 20 seconds."""
    folder = tmp_path_factory.mktemp("card")
    make_recording(folder / "GH010007.MP4", duration=20.0, work=[(4.0, 8.0)], seed=1)
    make_recording(folder / "GH020007.MP4", duration=20.0, work=[(8.0, 12.0)], seed=2)
    return folder


def selected(*words: object) -> list[dict]:
    outcome = earmark("select", *words, "--workers", "1", "--format", "json")
    assert outcome.code == 0, outcome.err
    return outcome.json["recordings"]


def test_the_chapters_of_a_camera_are_one_recording(card):
    (recording,) = selected(card, "--budget", "2")
    assert (recording["duration"], recording["windows"]) == (40.0, 10)
    assert [Path(path).name for path in recording["chapters"]] == ["GH010007.MP4", "GH020007.MP4"]
    assert recording["chapter_starts"] == pytest.approx([0.0, 20.0])
    (described,) = earmark("doctor", card, "--format", "json").json["recordings"]
    assert (described["duration"], len(described["chapters"])) == (40.0, 2)


def test_the_windows_of_every_chapter_are_captioned(card, tmp_path, server):
    words = ["--budget", "10", "--model", server.model, "--run", tmp_path / "run"]
    outcome = earmark("caption", card, *words, "--format", "json")
    assert outcome.code == 0, outcome.err
    assert outcome.json["totals"]["recordings"] == 1
    assert outcome.json["totals"]["answered"] == server.count == 10
    assert len({request.pictures[0] for request in server.requests}) == 10


def test_an_edit_list_names_the_chapter_and_the_time_within_it(card):
    text = earmark("select", card, "--rule", "full", "--format", "edl").out
    events = [line for line in text.splitlines() if line[:3].isdigit()]
    assert text.count("GH010007.MP4") == text.count("GH020007.MP4") == 5
    assert "00:00:00:00 00:00:04:00" in events[5], "the second chapter starts anew"


def test_a_list_of_paths_beside_the_recordings(archive, tmp_path):
    for name in ("busy.mp4", "quiet.mp4"):
        (tmp_path / name).write_bytes((archive / name).read_bytes())
    (tmp_path / "list.txt").write_text("quiet.mp4\nbusy.mp4\n", encoding="utf-8")
    names = [Path(recording["path"]).name for recording in selected(tmp_path / "list.txt")]
    assert sorted(names) == ["busy.mp4", "quiet.mp4"]


def test_a_manifest_gives_names_and_weights(archive, tmp_path, server):
    manifest = tmp_path / "manifest.csv"
    lines = [f"{archive / 'busy.mp4'},first,1", f"{archive / 'sparse.mp4'},second,50"]
    manifest.write_text("\n".join(["path,id,weight", *lines, ""]), encoding="utf-8")
    run = tmp_path / "run"
    words = ["--budget", "3", "--across", "--workers", "1", "--model", server.model, "--run", run]
    outcome = earmark("caption", manifest, *words)
    assert outcome.code == 0, outcome.err
    names = [row["id"] for row in rows(run)]
    assert set(names) <= {"first", "second"}
    assert names.count("second") > names.count("first"), "its actions are worth fifty times more"


def test_a_manifest_without_paths_is_one_line(tmp_path):
    (tmp_path / "manifest.csv").write_text("name,weight\na,1\n", encoding="utf-8")
    outcome = earmark("select", tmp_path / "manifest.csv")
    assert outcome.code == 1
    assert "manifest.csv" in outcome.err
    assert "path" in outcome.err


def test_a_recording_on_a_web_server_is_read_by_ranges(tmp_path):
    recording = tmp_path / "site" / "shift.mp4"
    recording.parent.mkdir()
    # enough picture that leaving it out shows
    make_recording(recording, duration=60.0, work=[(8.0, 16.0), (40.0, 44.0)], noisy_pictures=True)
    size = recording.stat().st_size
    local = selected(recording, "--budget", "3", "--no-cache")[0]
    with file_server(recording.parent) as server:
        cache = ["--cache", tmp_path / "cache"]
        (remote,) = selected(server.url("shift.mp4"), "--budget", "3", *cache)
        assert server.ranges
        assert server.bytes_sent < size / 2
        sent = server.bytes_sent
        (again,) = selected(server.url("shift.mp4"), "--budget", "3", *cache)
        assert server.bytes_sent - sent < sent / 4, "the scores come from the cache"
    assert remote["picks"] == local["picks"] == again["picks"]
    assert remote["bytes_total"] == size


def test_a_recording_on_a_web_server_is_captioned(clip, tmp_path, server):
    with file_server(clip.parent) as files:
        url = files.url("shift.mp4?token=secret123")
        words = ["--budget", "2", "--model", server.model, "--run", tmp_path / "run"]
        outcome = earmark("caption", url, *words, "--format", "json")
    assert outcome.code == 0, outcome.err
    assert server.count == 2
    (path,) = {row["path"] for row in rows(tmp_path / "run")}
    assert path.startswith(files.url("shift.mp4"))
    assert "secret123" not in path + outcome.out + outcome.err


@pytest.mark.parametrize("name", ["gone.mp4", "shift.mp4"])
def test_an_address_that_is_gone_or_serves_no_ranges_is_one_line(clip, name):
    with file_server(clip.parent, has_ranges=False) as files:
        outcome = earmark("select", files.url(name), "--no-cache")
    assert outcome.code == 1
    assert name in outcome.err
    assert "Traceback" not in outcome.err


def test_addresses_that_all_fail_leave_no_run(tmp_path):
    with file_server(tmp_path) as files:
        for name in ("gone.mp4", "list.m3u8"):
            outcome = earmark("caption", files.url(name), "--run", tmp_path / "run")
            assert outcome.code == 1 and len(outcome.err.splitlines()) == 1
            assert not (tmp_path / "run").exists()
    assert "playlists are not followed" in outcome.err


def test_a_path_given_alone_to_the_library_raises():
    for verb in (earmark_library.select, earmark_library.plan):
        with pytest.raises(MediaError, match=r"/nope\.mp4 does not exist"):
            verb("/nope.mp4")
    assert earmark_library.select(["/nope.mp4"]).failures
