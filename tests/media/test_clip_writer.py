"""Clips are cut without decoding; with speech muted nothing of it is in them."""

from __future__ import annotations

from pathlib import Path

import av
import numpy as np
import pytest

from earmark.errors import MediaError
from earmark.media import open_recording
from earmark.media.clip_writer import write_clip
from earmark.timeline import Span
from making import make_video


def streams(path: Path) -> tuple[int, int, float]:
    with av.open(str(path)) as clip:
        return len(clip.streams.video), len(clip.streams.audio), clip.duration / 1e6


def test_a_clip_holds_the_span_from_the_key_frame_before(tmp_path):
    recording = open_recording(
        make_video(tmp_path / "a.mp4", duration=12.0, clicks=[5.0], fps=5, group=5)
    )
    video, audio, seconds = streams(write_clip(recording, Span(4.5, 7.0), tmp_path / "clip.mp4"))
    assert (video, audio) == (1, 1)
    assert 2.0 <= seconds <= 4.5


def test_what_cannot_be_cut_says_why_and_leaves_nothing(tmp_path):
    path = make_video(tmp_path / "a.mp4", duration=4.0, clicks=[], fps=5)
    recording = open_recording(path)
    Path(recording.source.paths[0]).write_bytes(b"gone")
    with pytest.raises(MediaError, match=r"no clip can be cut from .*a\.mp4"):
        write_clip(recording, Span(0.0, 2.0), tmp_path / "clip.mp4")
    assert not (tmp_path / "clip.mp4").exists()


def loud_times(path) -> list[float]:
    """The seconds of a clip in which something is heard."""
    with av.open(str(path)) as file:
        if not file.streams.audio:
            return []
        frames = [(frame.time, frame.to_ndarray()) for frame in file.decode(audio=0)]
    return [time for time, samples in frames if np.abs(samples).max() > 0.05]


@pytest.fixture
def recording(tmp_path):
    path = tmp_path / "shift.mp4"
    make_video(path, duration=12.0, clicks=[3.0, 6.0, 9.0], fps=10, group=10)
    return open_recording(path)


def test_the_sound_in_muted_spans_is_left_out_and_the_rest_stays(recording, tmp_path):
    whole = loud_times(write_clip(recording, Span(0.0, 12.0), tmp_path / "whole.mp4"))
    assert {round(time) for time in whole} == {3, 6, 9}
    path = write_clip(recording, Span(0.0, 12.0), tmp_path / "muted.mp4", muted=[Span(5.5, 6.5)])
    assert {round(time) for time in loud_times(path)} == {3, 9}
    with av.open(str(path)) as file:
        assert len(list(file.decode(video=0))) == 120, "no picture is lost"


def test_no_sound_at_all_where_nobody_can_tell_what_is_speech(recording, tmp_path):
    path = write_clip(recording, Span(0.0, 12.0), tmp_path / "silent.mp4", muted=None)
    with av.open(str(path)) as file:
        assert not file.streams.audio and file.streams.video
