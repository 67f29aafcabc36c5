"""Clips are cut without decoding; with speech muted nothing of it is in them."""

from __future__ import annotations

from pathlib import Path

import av
import numpy as np
import pytest

from earmark import Span, open_recording
from earmark.errors import MediaError
from earmark.media import Frame, Source
from earmark.media.clip_writer import cut_clip
from making import AudioPlan, make_audio, make_video, read_number


def write_clip(recording, span: Span, path: Path, **how) -> Path:
    cut_clip(recording, span, path, **how)
    return path


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


def test_the_sound_is_the_track_that_was_listened_to(tmp_path):
    tracks = [AudioPlan([2.0]), AudioPlan([7.0])]
    path = make_video(tmp_path / "a.mp4", duration=12.0, audio=tracks, group=10)
    for track, time in enumerate((2, 7)):
        clip = write_clip(
            open_recording(path, audio_track=track), Span(0.0, 12.0), tmp_path / f"{track}.mp4"
        )
        assert {round(each) for each in loud_times(clip)} == {time}


def test_a_clip_is_cut_from_av1_whose_decoder_is_named_unlike_any_encoder(tmp_path):
    path = make_video(tmp_path / "a.mp4", duration=2.0, codec="libsvtav1")
    assert open_recording(path).video.codec == "av1"
    clip = open_recording(write_clip(open_recording(path), Span(0.0, 2.0), tmp_path / "clip.mp4"))
    assert clip.duration == pytest.approx(2.0, abs=0.1)
    assert len(clip.frames([0.0, 1.5])) == 2


class BlackCorner:
    """Blurs one corner, and says where; the next pictures have it too."""

    def __init__(self) -> None:
        self.held: list[int] = []

    def at_half_resolution(self) -> BlackCorner:
        return self

    def __call__(self, frame, also=()):
        self.held.append(len(also))
        return self.hide(frame, [(0, 40, 0, 40)]), [(0, 40, 0, 40)]

    def hide(self, frame, boxes):
        rgb = frame.rgb.copy()
        if boxes:
            rgb[:40, :40] = 0
        return Frame(frame.time, rgb)


@pytest.mark.parametrize(
    ("name", "plan"),
    [("a.mp4", {}), ("a.mp4", {"b_frames": 2, "rotation": 90}), ("a.mkv", {"offset": 30.0})],
)
def test_a_blurred_clip_is_just_the_span_every_picture_blurred_and_the_sound_in_time(
    tmp_path, name, plan
):
    path = make_video(tmp_path / name, duration=12.0, clicks=[6.0], fps=10, group=50, **plan)
    recording, blur = open_recording(path), BlackCorner()
    start = cut_clip(recording, Span(4.5, 7.0), tmp_path / "clip.mp4", blur=blur)
    assert start == 4.5 and len(blur.held) == 26 and blur.held[:4] == [0, 1, 2, 3]
    assert max(blur.held) <= 4, "what was found is held for a while, not for good"
    clip = open_recording(tmp_path / "clip.mp4")
    first, last = clip.frames([0.0, 2.5])
    whole, shown = recording.frames([4.5, 7.0]), [first, last]
    assert (first.width, first.height) == (whole[0].width, whole[0].height)
    for before, after in zip(whole, shown, strict=True):
        assert after.rgb[:32, :32].max() < 30
        change = np.abs(before.rgb.astype(int) - after.rgb.astype(int))
        assert change[48:, 48:].mean() < 6
    assert {round(time, 1) for time in loud_times(tmp_path / "clip.mp4")} & {1.4, 1.5}


def test_between_two_searches_the_faces_of_both_and_their_way_are_blurred(tmp_path):
    """A face that moves right by its width from one search to the next, at 30 pictures a second."""
    path = make_video(tmp_path / "a.mp4", duration=1.0, fps=30, size=(1600, 1200))
    blur = MovingFace()
    cut_clip(open_recording(path), Span(0.0, 1.0), tmp_path / "clip.mp4", blur=blur)
    assert 9 <= blur.searches <= 12, "not in every picture"
    clip = open_recording(tmp_path / "clip.mp4")
    assert (clip.video.width_pixels, clip.video.height_pixels) == (1280, 960)
    with av.open(str(tmp_path / "clip.mp4")) as video:
        frames = [frame.to_ndarray(format="rgb24") for frame in video.decode(video=0)]
    assert len(frames) == 30
    for number in range(1, 27):
        left = round(number / 3 * 40)  # where it is in this picture
        assert frames[number][8:32, left + 4 : left + 36].max() < 40, number


class MovingFace:
    """Finds one face, 40 pixels wide, that moves 40 pixels in 0.1 s."""

    def __init__(self) -> None:
        self.searches = 0

    def at_half_resolution(self) -> MovingFace:
        return self

    def __call__(self, frame, also=()):
        self.searches += 1
        left = round(frame.time * 400)
        boxes = [(0, 40, left, left + 40)]
        return self.hide(frame, [*also, *boxes]), boxes

    def hide(self, frame, boxes):
        rgb = frame.rgb.copy()
        for top, bottom, left, right in boxes:
            rgb[top:bottom, left:right] = 0
        return Frame(frame.time, rgb)


def test_a_clip_that_begins_with_a_chapter_is_cut_from_it(tmp_path):
    paths = [make_video(tmp_path / f"{name}.mp4", duration=4.0) for name in ("a", "b")]
    recording = open_recording(Source(tuple(map(str, paths))))
    second = recording.parts[1].start
    assert cut_clip(recording, Span(second, second + 1.0), tmp_path / "clip.mp4") == second


@pytest.mark.parametrize("second", [{}, {"b_frames": 2}, {"has_audio": False, "clicks": ()}])
@pytest.mark.parametrize("is_blurred", [False, True])
def test_a_clip_over_a_seam_shows_and_sounds_like_both_chapters(tmp_path, second, is_blurred):
    plans = ({"clicks": [3.0]}, {"clicks": [1.0]} | second)
    paths = [
        make_video(tmp_path / f"{n}.mp4", duration=4.0, group=10, **plan)
        for n, plan in enumerate(plans)
    ]
    recording = open_recording(Source(tuple(map(str, paths))))
    seam, to = recording.parts[1].start, tmp_path / "clip.mp4"
    blur = BlackCorner() if is_blurred else None
    start = cut_clip(recording, Span(seam - 2.0, seam + 2.0), to, blur=blur)
    assert seam - 3.1 <= start <= seam - 1.9
    clip = open_recording(to)
    assert clip.duration == pytest.approx(seam + 2.0 - start, abs=0.4)
    if not is_blurred:
        times = [seam - 1.95, seam - 0.15, seam + 0.15, seam + 1.85]
        frames = clip.frames([time - start for time in times])
        assert [read_number(frame.rgb) for frame in frames] == [20, 38, 1, 18]
    clicks = {3.0, seam + 1.0} if plans[1]["clicks"] else {3.0}
    assert {round(time + start) for time in loud_times(to)} == {round(time) for time in clicks}


@pytest.mark.parametrize("name", ["a.mp4", "a.mkv", "a.ts", "a.avi", "a.flv"])
@pytest.mark.parametrize("is_blurred", [False, True])
def test_a_clip_shows_all_of_its_span_whatever_the_container_seeks_to(tmp_path, name, is_blurred):
    plan = {"b_frames": 2, "offset": 30.0} if name in ("a.mkv", "a.ts") else {}
    path = make_video(tmp_path / name, duration=12.0, clicks=[6.0], fps=10, group=30, **plan)
    recording = open_recording(path)
    blur = BlackCorner() if is_blurred else None
    start = cut_clip(recording, Span(4.5, 7.0), tmp_path / "clip.mp4", blur=blur)
    assert 3.0 <= start <= 4.5
    clip = open_recording(tmp_path / "clip.mp4")
    times = [4.5, 5.0, 6.9]
    shown = [recording.frames(times), clip.frames([time - start for time in times])]
    if not is_blurred:  # a blur hides the numbers
        whole, part = ([read_number(one.rgb) for one in each] for each in shown)
        assert part == whole
    found = [one.time + start for one in shown[1]]
    assert found == pytest.approx([max(start, one.time) for one in shown[0]], abs=0.01)
    assert any(
        time + start == pytest.approx(6.0, abs=0.06) for time in loud_times(clip.source.path)
    )


def test_a_blurred_clip_begins_with_the_picture_that_is_on_show(tmp_path):
    times = [0.0, 0.1, 2.0, 3.5, 3.6, 3.7, 3.8]
    path = make_video(tmp_path / "a.mp4", frame_times=times, clicks=[], group=4, b_frames=2)
    last = Span(3.0, 4.0), [0.0, 0.5, 0.6, 0.7, 0.8]
    for span, found in ((Span(1.0, 1.5), [0.0]), (Span(1.0, 2.5), [0.0, 1.0]), last):
        cut_clip(open_recording(path), span, tmp_path / "clip.mp4", blur=BlackCorner())
        with av.open(str(tmp_path / "clip.mp4")) as clip:
            assert [frame.time for frame in clip.decode(video=0)] == pytest.approx(found)


def test_a_chapter_of_sound_alone_has_nothing_to_blur(tmp_path):
    paths = make_video(tmp_path / "a.mp4"), make_audio(tmp_path / "b.m4a", clicks=[1.0])
    recording = open_recording(Source(tuple(map(str, paths))))
    cut_clip(recording, Span(4.5, 6.0), tmp_path / "clip.mp4", blur=BlackCorner())
    assert streams(tmp_path / "clip.mp4")[:2] == (0, 1)
    assert {round(time, 1) for time in loud_times(tmp_path / "clip.mp4")} & {0.5, 0.6}


def test_sound_alone_leaves_nothing_where_all_of_it_is_muted(tmp_path):
    recording = open_recording(make_audio(tmp_path / "a.wav", clicks=[]))
    with pytest.raises(MediaError, match="nothing is left without its sound"):
        cut_clip(recording, Span(0.0, 2.0), tmp_path / "clip.mp4", muted=None)


def test_a_span_with_nothing_in_it_gives_no_clip(tmp_path):
    recording = open_recording(make_video(tmp_path / "a.mp4", duration=4.0, offset=60.0))
    with pytest.raises(MediaError, match=r"no clip can be cut from .*a\.mp4 \(nothing is recorded"):
        cut_clip(recording, Span(20.0, 30.0), tmp_path / "clip.mp4")
    assert not (tmp_path / "clip.mp4").exists()


@pytest.mark.parametrize("name", ["12:30.mp4", "file:a.mp4", "concat:a.mp4|b.mp4"])
def test_a_name_that_looks_like_a_protocol_is_the_name_of_a_file(tmp_path, monkeypatch, name):
    monkeypatch.chdir(tmp_path)
    make_video(tmp_path / name, duration=2.0, clicks=[1.0])
    cut_clip(open_recording(name), Span(0.0, 2.0), Path("clip", name))
    cut_clip(open_recording(name), Span(0.0, 2.0), Path(f"of {name}"))
    assert open_recording(f"of {name}").duration == pytest.approx(2.0, abs=0.1)


def test_a_file_is_cut_as_what_it_was_opened_as(tmp_path):
    """A file that names others is not followed to them, whatever its suffix."""
    path = make_video(tmp_path / "a.ts", duration=4.0, clicks=[])
    recording = open_recording(path)
    path.write_text(f"ffconcat version 1.0\nfile {make_video(tmp_path / 'b.mp4').name}\n")
    with pytest.raises(MediaError, match="changed while it was in use"):
        cut_clip(recording, Span(0.0, 2.0), tmp_path / "clip.mp4")


def test_a_film_without_a_key_frame_gives_its_sound(tmp_path):
    whole = make_video(tmp_path / "whole.mp4", duration=12.0, clicks=[2.0], group=1000)
    with av.open(str(whole)) as given, av.open(str(tmp_path / "a.flv"), "w") as kept:
        copies = [kept.add_stream_from_template(one, opaque=True) for one in given.streams]
        for packet in given.demux():
            if packet.size and not (packet.stream.type == "video" and packet.is_keyframe):
                packet.stream = copies[packet.stream.index]
                kept.mux(packet)
    path = tmp_path / "clip.mp4"
    start = cut_clip(open_recording(tmp_path / "a.flv"), Span(1.0, 3.0), path)
    assert {round(start + time) for time in loud_times(path)} == {2}
