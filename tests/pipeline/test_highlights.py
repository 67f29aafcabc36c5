"""The picks of a run are one video: as long as they are, with chapters and subtitles."""

from __future__ import annotations

import json
import shutil
import subprocess
import zipfile
from pathlib import Path

import av
import pytest
from typer.testing import CliRunner

from earmark import Pick, Span, open_recording
from earmark.cli.app import app
from earmark.errors import MediaError
from earmark.media import Source
from earmark.pipeline.clips import bundle, cut_kept, highlights
from earmark.run.records import RecordingRow
from earmark.run.run import Run
from making import chapters_of, make_video
from shared_runs import SECRETS, tell_shared


def look(path: Path) -> tuple[float, list[tuple[float, float, str]], list[tuple[float, str]]]:
    """Seconds, chapters and subtitles of a video."""
    with av.open(str(path)) as video:
        chapters = chapters_of(video)
        packets = [
            (float(packet.pts * packet.time_base), bytes(packet)[2:].decode())
            for packet in video.demux(video.streams.subtitles[0])
            if packet.size > 2
        ]
        return video.duration / 1e6, chapters, packets


def decoded(path: Path) -> list[float]:
    """When each picture is shown; every one can be decoded."""
    with av.open(str(path)) as video:
        return [frame.time for frame in video.decode(video=0)]


def test_picks_of_several_recordings_are_one_video(tmp_path):
    run = tell_shared(tmp_path)
    said = CliRunner().invoke(
        app, ["export", "--to", "highlights", str(run), "--out", str(tmp_path / "day.mp4")]
    )
    assert said.exit_code == 0, said.output
    assert "4 picks" in said.output
    seconds, chapters, texts = look(tmp_path / "day.mp4")
    assert 15.5 <= seconds <= 21.0  # four picks of four seconds, each from a key frame on
    assert [title[:13] for _, _, title in chapters] == ["0:04.0 A hand", "0:12.0 A hand"] * 2
    assert [text[:18] for _, text in texts] == ["A hand turns tap 1", "A hand turns tap 3"] * 2
    for (start, end, _), (shown, _) in zip(chapters, texts, strict=True):
        assert abs(start - shown) < 0.05 and 3.9 <= end - start <= 5.2  # up to the next
    content = (tmp_path / "day.mp4").read_bytes()
    assert not [word for word in (*SECRETS, str(tmp_path)) if word.encode() in content]
    times = decoded(tmp_path / "day.mp4")
    assert times == sorted(times) and len(times) >= 75


@pytest.fixture
def seam(tmp_path) -> Path:
    """A run of two chapters of ten seconds, with picks at 4 to 8, over the seam, and 12 to 16."""
    names = ("GX010042.mp4", "GX020042.mp4")
    paths = [make_video(tmp_path / name, duration=10.0, fps=5, group=5) for name in names]
    recording = open_recording(Source(tuple(map(str, paths))))
    with Run(tmp_path / "run", {}) as run:
        run.add(RecordingRow.of(recording))
        spans = {window: Span(window * 4.0, window * 4.0 + 4) for window in (1, 2, 3)}
        run.choose(
            recording.key,
            [Pick(n, s.start, s.end, s.start + 2, 0.5, 0.5, 0.5, "why") for n, s in spans.items()],
        )
    return tmp_path / "run"


def test_picks_on_both_sides_of_a_seam_and_over_it_are_shown_whole(seam, tmp_path):
    made = highlights(seam, tmp_path / "day.mp4")
    assert made.picks == 3 and made.is_copied
    seconds, chapters, _ = look(tmp_path / "day.mp4")
    assert len(chapters) == 3 and seconds == pytest.approx(12.0, abs=0.3)
    assert len(decoded(tmp_path / "day.mp4")) >= 59


def test_a_window_over_a_seam_is_one_clip_of_a_bundle_and_of_the_server(seam, tmp_path):
    assert bundle(seam, tmp_path / "day.zip").picks == 3
    with zipfile.ZipFile(tmp_path / "day.zip") as archive:
        clip = archive.extract("clips/001-0002.mp4", tmp_path)
    assert len(decoded(Path(clip))) >= 19
    with Run(seam) as run:
        cut_kept(run, run.recordings()[0], Span(8.0, 12.0), tmp_path / "cut.mp4")
    assert len(decoded(tmp_path / "cut.mp4")) >= 19


def test_one_recording_is_copied_packet_by_packet(tmp_path):
    run = tell_shared(tmp_path)
    (tmp_path / "hiddenfolder" / "b.mp4").unlink()
    made = highlights(run, tmp_path / "day.mp4")
    assert made.is_copied and made.picks == 2
    assert made.left_out[0].startswith("b.mp4 is left out")
    seconds, chapters, _ = look(tmp_path / "day.mp4")
    assert 7.5 <= seconds <= 11.0 and len(chapters) == 2
    with av.open(str(tmp_path / "hiddenfolder" / "a.mp4")) as source:
        given = {bytes(packet) for packet in source.demux(video=0) if packet.size}
    with av.open(str(tmp_path / "day.mp4")) as video:
        assert all(bytes(packet) in given for packet in video.demux(video=0) if packet.size)
    times = decoded(tmp_path / "day.mp4")
    assert times == sorted(times) and len(times) >= 38


def test_recordings_of_different_sizes_are_encoded_anew(tmp_path):
    run = tell_shared(tmp_path, sizes=((320, 240), (240, 320)))
    made = highlights(run, tmp_path / "day.mp4")
    assert not made.is_copied and made.picks == 4
    seconds, chapters, texts = look(tmp_path / "day.mp4")
    assert 15.5 <= seconds <= 21.0 and len(chapters) == len(texts) == 4
    times = decoded(tmp_path / "day.mp4")
    assert times == sorted(times) and len(times) >= 75
    with av.open(str(tmp_path / "day.mp4")) as video:
        assert (video.streams.video[0].width, video.streams.video[0].height) == (320, 240)
        assert video.streams.audio


@pytest.mark.skipif(not shutil.which("ffprobe"), reason="no ffprobe here")
def test_ffprobe_reads_the_same(tmp_path):
    highlights(tell_shared(tmp_path), tmp_path / "day.mp4")
    words = ["ffprobe", "-v", "error", "-of", "json", "-show_chapters", "-show_streams"]
    said = subprocess.run(
        [*words, str(tmp_path / "day.mp4")], capture_output=True, check=True, text=True
    )
    told = json.loads(said.stdout)
    assert said.stderr == "" and len(told["chapters"]) == 4
    kinds = [stream.get("codec_name") for stream in told["streams"]]
    assert {"h264", "aac", "mov_text"} <= {*kinds}


def test_a_recording_that_has_changed_is_not_shown_in_its_place(tmp_path):
    run = tell_shared(tmp_path)
    shutil.copy(tmp_path / "hiddenfolder" / "a.mp4", tmp_path / "hiddenfolder" / "b.mp4")
    made = highlights(run, tmp_path / "day.mp4")
    assert made.picks == 2 and "b.mp4 has changed since the run" in made.left_out[0]


def test_a_run_with_nothing_to_show_says_so(tmp_path):
    with Run(tmp_path / "run", {}):
        pass
    with pytest.raises(MediaError, match="has no clips to show"):
        highlights(tmp_path / "run", tmp_path / "day.mp4")
    assert not (tmp_path / "day.mp4").exists()
