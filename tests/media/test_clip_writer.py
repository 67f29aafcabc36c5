"""Clips are cut without decoding, and have no sound where voices are not to leave."""

from __future__ import annotations

from pathlib import Path

import av
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
    silent = write_clip(recording, Span(4.5, 7.0), tmp_path / "silent.mp4", has_sound=False)
    assert streams(silent)[:2] == (1, 0)


def test_what_cannot_be_cut_says_why_and_leaves_nothing(tmp_path):
    path = make_video(tmp_path / "a.mp4", duration=4.0, clicks=[], fps=5)
    recording = open_recording(path)
    Path(recording.source.paths[0]).write_bytes(b"gone")
    with pytest.raises(MediaError, match=r"no clip can be cut from .*a\.mp4"):
        write_clip(recording, Span(0.0, 2.0), tmp_path / "clip.mp4")
    assert not (tmp_path / "clip.mp4").exists()
