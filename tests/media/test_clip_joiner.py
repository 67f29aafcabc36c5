"""Clips joined to one video: what each shows, sounds like and says comes at its time."""

from __future__ import annotations

from pathlib import Path

import av
import numpy as np
import pytest

from earmark import Span, open_recording
from earmark.errors import MediaError
from earmark.media.clip_writer import (
    CaptionedClip,
    ClipCue,
    _add_subtitles,
    _chapters,
    _subtitles,
    cut_clip,
    join_clips,
)
from making import (
    AudioPlan,
    chapters_of,
    click_times,
    make_video,
    read_number,
    whole_sound,
)


def clip(path: Path, *cues: ClipCue, kind: str = ".mp4", **plan) -> CaptionedClip:
    """Two seconds with a click at 0.5 s, cut as others are, and what is said of it."""
    whole = path.with_name(f"{path.stem} whole{kind}")
    make_video(whole, **{"duration": 2.0, "clicks": [0.5], **plan})
    cut_clip(open_recording(whole), Span(0.0, 2.0), path)
    whole.unlink()
    return CaptionedClip(path, cues)


CUE = ClipCue(0.25, 1.5, "First", "A hand stirs.")
OTHERS = (ClipCue(0.0, 1.0, "Second", "Ein Löffel fällt."), ClipCue(1.0, 2.0, "Third", "é" * 3000))


def told(path: Path) -> tuple[list[tuple[float, float, str]], list[tuple[float, float, str]]]:
    """The chapters and the subtitles of a video: when each begins and ends, and its words.

    In an MP4 a chapter lasts until the next, and the first begins with the video.
    """
    with av.open(str(path)) as video:
        chapters = chapters_of(video)
        said = [
            (float(one.pts * one.time_base), float((one.pts + one.duration) * one.time_base),
             bytes(one)[2:].decode())
            for one in video.demux(video.streams.subtitles[0])
            if one.pts is not None and one.size > 2
        ]  # fmt: skip
    return chapters, said


def test_clips_that_are_alike_are_copied_one_after_the_other(tmp_path):
    clips = [clip(tmp_path / "a.mp4", CUE), clip(tmp_path / "b.mp4", *OTHERS)]
    assert join_clips(clips, tmp_path / "both.mp4") is True
    joined = open_recording(tmp_path / "both.mp4")
    start = joined.duration - 2.0
    assert start == pytest.approx(2.0, abs=0.1)
    frames = joined.frames([0.0, 1.9, start + 0.05, start + 1.95])
    assert [read_number(frame.rgb) for frame in frames] == [0, 19, 0, 19]
    heard = click_times(whole_sound(joined), 16_000)
    assert heard == pytest.approx([0.5, start + 0.5], abs=0.03)
    chapters, said = told(tmp_path / "both.mp4")
    assert [words for *_, words in chapters] == ["First", "Second", "Third"]
    times = [(0.25, 1.5), (start, start + 1), (start + 1, start + 2)]
    assert [one[0] for one in chapters] == pytest.approx([0.0, start, start + 1], abs=0.05)
    assert [one[:2] for one in said] == [pytest.approx(span, abs=0.05) for span in times]
    assert said[0][:2] == pytest.approx((0.25, 1.5), abs=5e-4)
    assert [words for *_, words in said] == ["A hand stirs.", "Ein Löffel fällt.", "é" * 2000]


@pytest.mark.parametrize("kinds", [(".mp4", ".mkv"), (".mkv", ".mp4")])
def test_clips_that_count_time_in_other_ticks_are_copied_on_one_clock(tmp_path, kinds):
    clips = [clip(tmp_path / f"{kind[1:]}.mp4", kind=kind) for kind in kinds]
    ticks = []
    for one in clips:
        with av.open(str(one.path)) as file:
            ticks.append(file.streams.video[0].time_base)
    assert len(set(ticks)) == 2
    assert join_clips(clips, tmp_path / "both.mp4") is True
    joined = open_recording(tmp_path / "both.mp4")
    assert joined.duration == pytest.approx(4.0, abs=0.1)
    start = joined.duration - 2.0
    frames = joined.frames([1.95, start + 0.05, start + 1.95])
    assert [read_number(frame.rgb) for frame in frames] == [19, 0, 19]


def test_clips_that_differ_are_encoded_in_the_size_of_the_first(tmp_path):
    """The second is taller, stands on its side and has another rate of sound; it is fitted in."""
    white = np.full((160, 160, 3), 255, np.uint8)
    plan = {"audio": AudioPlan((0.5,), sample_rate=44_100), "draw": lambda _: white}
    clips = [
        clip(tmp_path / "a.mp4", CUE),
        clip(tmp_path / "b.mp4", *OTHERS, size=(160, 160), **plan),
        clip(tmp_path / "c.mp4", rotation=180),
    ]
    assert join_clips(clips, tmp_path / "all.mp4") is False
    joined = open_recording(tmp_path / "all.mp4")
    assert joined.duration == pytest.approx(6.0, abs=0.15)
    assert joined.audio_tracks[0].sample_rate == 48_000
    first, fitted, turned = joined.frames([1.05, 3.05, 5.15])
    assert {(one.width, one.height) for one in (first, fitted, turned)} == {(160, 120)}
    assert read_number(first.rgb) == 10
    assert read_number(np.rot90(turned.rgb, 2)) in (10, 11), "turned as a player would"
    assert fitted.rgb[:, 30:130].min() > 240 and fitted.rgb[:, :15].max() < 20, "black beside it"
    heard = click_times(whole_sound(joined), 16_000)
    assert heard == pytest.approx([0.5, 2.5, 4.5], abs=0.12)
    chapters, said = told(tmp_path / "all.mp4")
    assert [one[0] for one in chapters] == pytest.approx([0.0, 2.0, 3.0], abs=0.1)
    assert len(said) == 3


def test_a_clip_without_sound_among_others_is_silent(tmp_path):
    clips = [clip(tmp_path / "a.mp4", has_audio=False), clip(tmp_path / "b.mp4")]
    assert join_clips(clips, tmp_path / "both.mp4") is False
    heard = click_times(whole_sound(open_recording(tmp_path / "both.mp4")), 16_000)
    assert heard == pytest.approx([2.5], abs=0.12)
    mute = [clip(tmp_path / f"{n}.mp4", has_audio=False, size=(160, 120 + 40 * n)) for n in (0, 1)]
    assert join_clips(mute, tmp_path / "mute.mp4") is False
    assert not open_recording(tmp_path / "mute.mp4").has_audio


def test_a_damaged_packet_costs_what_it_holds_and_no_more(tmp_path):
    clips = [clip(tmp_path / "a.mp4"), clip(tmp_path / "b.mp4", size=(160, 160))]
    damage(clips[0].path)
    assert join_clips(clips, tmp_path / "both.mp4") is False
    heard = click_times(whole_sound(open_recording(tmp_path / "both.mp4")), 16_000)
    assert heard == pytest.approx([0.5, 2.5], abs=0.12)


def damage(path: Path) -> None:
    """Overwrite the last packet of its sound."""
    with av.open(str(path)) as file:
        last = [one for one in file.demux(audio=0) if one.size][-1]
        place, size = last.pos, last.size
    data = bytearray(path.read_bytes())
    data[place : place + size] = b"\xff" * size
    path.write_bytes(data)
    with av.open(str(path)) as file, pytest.raises(av.FFmpegError):
        list(file.decode(audio=0))


def test_what_cannot_be_joined_says_so_and_leaves_nothing(tmp_path):
    (tmp_path / "b.mp4").write_bytes(b"no clip")
    clips = [clip(tmp_path / "a.mp4"), CaptionedClip(tmp_path / "b.mp4", ())]
    with pytest.raises(MediaError, match="no video can be made of the clips"):
        join_clips(clips, tmp_path / "both.mp4")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a.mp4", "b.mp4"]


@pytest.mark.parametrize("codec", ["libx264", "libsvtav1"])
def test_a_clip_keeps_frame_rate_language_and_codec(tmp_path, codec):
    sounds = [AudioPlan([0.5], language="deu")]
    made = clip(tmp_path / "a.mp4", codec=codec, audio=sounds)
    copied = open_recording(made.path)
    assert copied.video.mean_fps == pytest.approx(10.0, abs=0.1)
    assert [track.language for track in copied.audio_tracks] == ["deu"]
    assert len(copied.frames([0.0, 1.5])) == 2


def test_chapters_and_subtitles_are_told_to_the_millisecond(tmp_path):
    clips = [CaptionedClip(tmp_path / "a.mp4", (CUE,)), CaptionedClip(tmp_path / "b.mp4", OTHERS)]
    chapters = [(one["start"], one["end"]) for one in _chapters(clips, [0.0, 3600.0])]
    assert chapters == [(250, 1500), (3_600_000, 3_601_000), (3_601_000, 3_602_000)]
    with av.open(str(tmp_path / "made.mp4"), "w") as made:
        told = list(_subtitles(clips[1], 3600.0, _add_subtitles(made)))
        assert [(one.pts, one.dts, one.duration) for one in told] == [
            (3_600_000, 3_600_000, 1000),
            (3_601_000, 3_601_000, 1000),
        ]
