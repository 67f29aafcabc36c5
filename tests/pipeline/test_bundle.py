"""An archive of a run opens anywhere, and says nothing that must not leave the machine."""

from __future__ import annotations

import json
import zipfile
from pathlib import Path

import av
import pytest
from typer.testing import CliRunner

from earmark import Span, caption, open_recording
from earmark.cli.app import app
from earmark.pipeline.clips import cut_kept
from earmark.run.run import Run
from earmark.run.shareable_copy import hide_places
from making import AudioPlan, click_times, make_video, whole_sound
from shared_runs import SECRETS, SPOKEN, tell_shared


@pytest.fixture(scope="module")
def run(tmp_path_factory) -> Path:
    return tell_shared(tmp_path_factory.mktemp("shared"))


def pack(run: Path, to: Path, *words: str) -> dict[str, bytes]:
    said = CliRunner().invoke(app, ["export", "--to", "bundle", str(run), "--out", str(to), *words])
    assert said.exit_code == 0, said.output
    with zipfile.ZipFile(to) as archive:
        assert archive.testzip() is None
        return {name: archive.read(name) for name in archive.namelist()}


def test_it_holds_page_clips_and_captions_without_secrets_or_paths(run, tmp_path):
    files = pack(run, tmp_path / "share.zip")
    clips = sorted(name for name in files if name.startswith("clips/"))
    assert clips == [f"clips/00{n}-000{m}.mp4" for n in (1, 2) for m in (1, 2)]
    assert {"index.html", "captions.csv", "captions.jsonl"} < {*files}
    assert {"subtitles/a.srt", "subtitles/b.srt"} < {*files}
    hidden = [*SECRETS, str(run.parent)]
    for name, content in files.items():
        assert [word for word in hidden if word.encode() in content] == [], name
    rows = [json.loads(line) for line in files["captions.jsonl"].splitlines()]
    assert [row["path"] for row in rows] == ["a.mp4", "a.mp4", "b.mp4", "b.mp4"]
    assert rows[0]["caption"] == "A hand turns tap 1; see a.mp4 and ***"
    assert SPOKEN in files["subtitles/a.srt"].decode()
    with Run(run) as kept:  # the run itself is as it was
        assert all(row.path.startswith(str(run.parent)) for row in kept.recordings())


def test_the_page_plays_each_pick_from_its_clip(run, tmp_path):
    files = pack(run, tmp_path / "share.zip")
    data = files["index.html"].decode().split('id="data"', 1)[1].split(">", 1)[1]
    told = json.loads(data.split("</script>", 1)[0])
    for recording in told["recordings"]:
        links = recording["files"]
        assert [link.partition("/")[0] for link, _ in links] == ["clips", "clips"]
        for (link, start), pick in zip(links, recording["picks"], strict=True):
            assert pick["start"] - 1.5 <= start <= pick["start"]
            path = tmp_path / "clip.mp4"
            path.write_bytes(files[link])
            with av.open(str(path)) as clip:
                assert abs(clip.start_time) < 200_000
                assert clip.duration / 1e6 >= pick["end"] - start - 0.3
                assert clip.streams.audio and clip.metadata.get("comment") is None


def test_without_voices_nothing_said_and_no_speech_is_in_it(run, tmp_path, monkeypatch):
    monkeypatch.setenv("EARMARK_CACHE", str(tmp_path / "nothing"))  # so nothing can tell speech
    files = pack(run, tmp_path / "share.zip", "--no-voices")
    assert not [name for name, content in files.items() if SPOKEN.encode() in content]
    path = tmp_path / "clip.mp4"
    path.write_bytes(files["clips/001-0001.mp4"])
    with av.open(str(path)) as clip:
        assert not clip.streams.audio and clip.streams.video


def test_a_recording_that_is_gone_has_no_clips_and_the_rest_is_written(tmp_path):
    run = tell_shared(tmp_path)
    (tmp_path / "hiddenfolder" / "b.mp4").unlink()
    said = CliRunner().invoke(
        app, ["export", "--to", "bundle", str(run), "--out", str(tmp_path / "share.zip")]
    )
    assert said.exit_code == 0 and "captions and 2 clips" in said.output
    assert (
        "b.mp4 has no clips" in said.output and "hiddenfolder" not in said.output.split("share")[0]
    )


@pytest.mark.parametrize("track", [0, 1])
def test_clips_sound_as_the_track_that_was_listened_to(tmp_path, track):
    sounds = [AudioPlan(), AudioPlan([2.0], noise=0.001)]  # the first is silent
    path = make_video(tmp_path / "a.mp4", duration=4.0, audio=sounds)
    caption([path], run=tmp_path / "run", budget=1, audio_track=track)
    with Run(tmp_path / "run") as run:
        (row,) = run.recordings()
        cut_kept(run, row, Span(0.0, 4.0), tmp_path / "clip.mp4")
    heard = click_times(whole_sound(open_recording(tmp_path / "clip.mp4")), 16_000)
    assert heard == pytest.approx([2.0], abs=0.05)


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("either/or, 24 km/h and 1/2 full", "either/or, 24 km/h and 1/2 full"),
        (r"C:\Users\ada\a.mp4 is gone", "a.mp4 is gone"),
        ("~/cams/day/a.mp4: no sound", "a.mp4: no sound"),
        ("asked localhost:8000 and 192.168.0.7", "asked *** and ***"),
        ("s3://bucket/a.mp4 with hf_abc123456789", "*** with ***"),
    ],
)
def test_places_become_names_and_other_text_stays(text, shown):
    assert hide_places(text) == shown
