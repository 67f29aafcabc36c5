"""Recordings with something wrong: each is a row with a reason, and the others are done."""

from __future__ import annotations

from pathlib import Path

import pytest

from acceptance.command_line import earmark
from acceptance.recordings import make_recording
from acceptance.run_rows import rows

BROKEN = ["missing.mp4", "empty.mp4", "cut.mp4", "text.mp4"]


@pytest.fixture(scope="module")
def broken(tmp_path_factory: pytest.TempPathFactory, clip: Path) -> Path:
    """A folder with files that cannot be read: empty, cut off, and no media at all."""
    folder = tmp_path_factory.mktemp("broken")
    content = clip.read_bytes()
    (folder / "cut.mp4").write_bytes(content[: len(content) // 2])
    (folder / "empty.mp4").write_bytes(b"")
    (folder / "text.mp4").write_text("not a video", encoding="utf-8")
    return folder


@pytest.fixture(scope="module")
def odd(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder of recordings that lack something: a sound track, sound, pictures."""
    folder = tmp_path_factory.mktemp("odd")
    make_recording(folder / "mute.mp4", has_audio=False)
    make_recording(folder / "silent.mp4", silent=True)
    make_recording(folder / "sound.wav", has_video=False)
    return folder


@pytest.mark.parametrize("name", BROKEN)
@pytest.mark.parametrize("command", ["select", "doctor", "plan"])
def test_a_file_that_cannot_be_read_is_one_line_and_exit_code_1(broken, name, command):
    outcome = earmark(command, broken / name)
    assert outcome.code == 1
    assert name in outcome.err
    assert len(outcome.err.strip().splitlines()) == 1
    assert "Traceback" not in outcome.err


@pytest.mark.parametrize("name", BROKEN)
def test_a_file_that_cannot_be_read_is_a_row_in_json(broken, name):
    result = earmark("select", broken / name, "--format", "json").json
    assert result["recordings"] == []
    (failure,) = result["failures"]
    assert failure["path"] == str(broken / name)
    assert name in failure["error"]


def test_the_good_recordings_of_a_folder_are_done(broken, clip, tmp_path, server):
    paths = [broken / "cut.mp4", clip, broken / "empty.mp4"]
    selection = earmark("select", *paths, "--workers", "1", "--format", "json")
    assert selection.code == 1
    assert [recording["path"] for recording in selection.json["recordings"]] == [str(clip)]
    assert len(selection.json["failures"]) == 2
    run = tmp_path / "run"
    words = ["--budget", "2", "--model", server.model, "--run", run, "--workers", "1"]
    outcome = earmark("caption", *paths, *words, "--format", "json")
    assert outcome.code == 1
    assert (outcome.json["missed"], outcome.json["totals"]["answered"]) == (2, 2)
    assert "cut.mp4" in outcome.err
    assert "empty.mp4" in outcome.err
    page = (run / "report.html").read_text(encoding="utf-8")
    assert "cut.mp4" in page
    assert {row["path"] for row in rows(run)} == {str(clip)}


def test_a_mended_recording_is_done_by_retrying(clip, tmp_path, server):
    footage, run = tmp_path / "footage", tmp_path / "run"
    footage.mkdir()
    (footage / "a.mp4").write_bytes(clip.read_bytes())
    (footage / "b.mp4").write_bytes(b"")
    words = ["--budget", "2", "--model", server.model, "--run", run, "--workers", "1"]
    assert earmark("caption", footage, *words).code == 1
    make_recording(footage / "b.mp4", duration=16.0, work=[(4.0, 8.0)], seed=5)
    outcome = earmark("caption", footage, *words, "--retry-failed", "--format", "json")
    assert outcome.code == 0, outcome.err
    assert outcome.json["missed"] == 0
    assert {Path(row["path"]).name for row in rows(run)} == {"a.mp4", "b.mp4"}
    assert server.count == 4


@pytest.mark.parametrize("name", ["mute.mp4", "silent.mp4"])
def test_without_sound_the_windows_are_spread_out_and_a_warning_says_why(odd, name):
    outcome = earmark("select", odd / name, "--budget", "2", "--format", "json")
    assert outcome.code == 0, outcome.err
    (recording,) = outcome.json["recordings"]
    assert [pick["window"] for pick in recording["picks"]] == [2, 7]
    assert recording["rule"] == "strata"
    assert recording["forecast"] is None
    assert recording["notes"]
    assert name in outcome.err


def test_a_silent_recording_is_captioned(odd, tmp_path, server):
    words = ["--budget", "2", "--model", server.model, "--run", tmp_path / "run"]
    outcome = earmark("caption", odd / "silent.mp4", *words, "--format", "json")
    assert outcome.code == 0, outcome.err
    assert outcome.json["totals"]["answered"] == 2
    assert outcome.json["coverage"] is None


def test_sound_without_pictures_is_selected_and_not_captioned(odd, tmp_path, server):
    selection = earmark("select", odd / "sound.wav", "--format", "json")
    assert selection.code == 0, selection.err
    assert len(selection.json["recordings"][0]["picks"]) == 2
    words = ["--model", server.model, "--run", tmp_path / "run"]
    outcome = earmark("caption", odd / "sound.wav", *words, "--format", "json")
    assert outcome.code == 1
    assert "sound.wav" in outcome.err
    assert outcome.json["missed"] == 1
    assert server.count == 0


def test_an_audio_track_that_is_not_there_is_named(clip):
    outcome = earmark("select", clip, "--audio-track", "3")
    assert outcome.code == 1
    assert clip.name in outcome.err
    assert "3" in outcome.err


def test_a_folder_without_recordings_is_one_line(tmp_path):
    outcome = earmark("select", tmp_path)
    assert outcome.code == 1
    assert tmp_path.name in outcome.err


def test_doctor_describes_a_recording(clip, odd):
    outcome = earmark("doctor", clip, odd / "mute.mp4", "--format", "json")
    assert outcome.code == 0, outcome.err
    described, mute = outcome.json["recordings"]
    assert (described["path"], described["duration"]) == (str(clip), 40.0)
    assert described["size_bytes"] == clip.stat().st_size
    video, (audio,) = described["video"], described["audio_tracks"]
    assert (video["codec"], video["width_pixels"], video["height_pixels"]) == ("h264", 160, 120)
    assert video["mean_fps"] == pytest.approx(2.0)
    assert (audio["codec"], audio["sample_rate"], audio["channels"]) == ("aac", 16000, 1)
    assert 0 < described["audio_pass_bytes"] <= described["size_bytes"]
    assert mute["audio_tracks"] == []
    assert mute["warnings"]


def test_doctor_prints_length_and_streams(clip):
    outcome = earmark("doctor", clip)
    assert outcome.code == 0, outcome.err
    assert all(word in outcome.out for word in (str(clip), "0:40", "h264", "160x120", "aac"))


def test_doctor_checks_a_model_server(server):
    outcome = earmark("doctor", "--model", server.url, "--format", "json")
    assert outcome.code == 0, outcome.err
    assert server.url in outcome.out
    assert "tiny" in outcome.out
