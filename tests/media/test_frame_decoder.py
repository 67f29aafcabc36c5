"""The picture shown at a time, and no more decoded than it takes."""

from __future__ import annotations

from fractions import Fraction

import av
import numpy as np
import pytest

from earmark import Span, open_recording
from earmark.errors import MediaError
from earmark.media import Source
from earmark.media.clip_writer import cut_clip
from earmark.media.frame_reader import scan_video
from making import AudioPlan, make_video, numbered_picture, read_number

# Ten pictures a second, a key frame every ten:
#   number   0         10        20        30        40        50
#   key      K.........K.........K.........K.........K.........K.........
#   wanted   ^  ^                     ^       ^ ^    ^         ^        ^
WANTED = (0.0, 0.05, 0.31, 2.5, 3.21, 3.49, 4.0, 5.0, 5.95, 9.0)
SHOWN = [0, 0, 3, 25, 32, 34, 40, 50, 59, 59]

CONTAINERS = [
    ("six.mp4", {}),
    ("six.mp4", {"b_frames": 2}),
    ("six.mp4", {"layout": "fragmented"}),
    ("six.mov", {"offset": 1.0}),
    ("six.mkv", {"b_frames": 2}),
    ("six.webm", {}),
    ("six.ts", {}),
    ("six.ts", {"b_frames": 2}),
    ("six.ts", {"offset": 3.0}),
]


def numbers(frames):
    return [read_number(frame.rgb) for frame in frames]


@pytest.mark.parametrize(("name", "options"), CONTAINERS, ids=str)
def test_the_picture_shown_at_each_time(media, name, options):
    recording = open_recording(media(name, duration=6.0, **options))
    zero = 1.0 if name.endswith("mov") else 0.0
    frames = recording.frames([time + zero for time in WANTED])
    assert numbers(frames) == SHOWN
    assert [frame.time - zero for frame in frames] == pytest.approx(
        [number / 10 for number in SHOWN], abs=0.001
    )


@pytest.mark.parametrize(
    ("times", "decoded"),
    [
        ([0.0], 1),
        ([0.35], 4),
        ([0.9, 0.35, 0.0], 10),
        ([1.0], 1),
        ([2.5, 4.0], 6 + 1),
        ([0.95, 1.05], 10 + 1),
        ([30.75, 30.25], 8),
        ([59.95], 10),
    ],
    ids=str,
)
def test_no_more_is_decoded_than_it_takes(media, times, decoded):
    recording = open_recording(media("minute.mp4", duration=60.0, size=(160, 40)))
    with recording.frame_reader() as reader:
        assert numbers(reader.frames(times)) == [int(time * 10) for time in times]
        assert reader.decoded == decoded


@pytest.mark.parametrize("name", ["six.mp4", "six.mkv", "six.ts"])
def test_b_frames_past_the_one_wanted_are_not_decoded(media, name):
    """Every third is a reference, and comes before the two that lie between it and the last."""
    recording = open_recording(media(name, duration=6.0, b_frames=2))
    for time, decoded in {0.0: 1, 0.15: 3, 0.35: 2, 0.5: 7, 0.95: 8, 1.0: 1, 5.95: 8}.items():
        with recording.frame_reader() as reader:
            assert numbers(reader.frames([time])) == [int(time * 10 + 1e-6)]
            assert reader.decoded == decoded


def test_a_reader_is_asked_again_and_again_in_any_order(media):
    recording = open_recording(media("minute.mp4", duration=60.0, size=(160, 40)))
    with recording.frame_reader() as reader:
        opening = reader.meter.bytes_read
        asked = [30.0, 30.55, 3.05, 0.0, 59.9, 30.5]
        assert [numbers(reader.frames([time]))[0] for time in asked] == [300, 305, 30, 0, 599, 305]
        assert numbers(reader.frames([12.0, 5.0])) == [120, 50]
    assert opening == 0
    assert reader.decoded == 1 + 6 + 1 + 1 + 10 + 6 + 1 + 1


def test_what_is_near_is_read_on_to_and_what_is_far_or_before_is_sought(media):
    """Ten seconds from what was read are near, within one question or from one to the next."""
    recording = open_recording(media("minute.mp4", duration=60.0, size=(160, 40)))
    jumps = []
    with recording.frame_reader() as reader:
        for times in ([30.0], [30.55], [39.0], [49.9], [3.05], [0.0], [9.0, 20.0], [59.9]):
            before = reader.seeks
            assert numbers(reader.frames(times)) == [int(time * 10) for time in times]
            jumps.append(reader.seeks - before)
    assert jumps == [1, 0, 0, 1, 1, 1, 1, 1]


def test_chapters_are_one_row_of_pictures(media):
    path = str(media("a.mp4"))
    recording = open_recording(Source((path, path, str(media("a.mkv")))))
    frames = recording.frames([7.95, 4.0, 3.99, 11.0])
    assert numbers(frames) == [39, 0, 39, 30]
    assert [frame.time for frame in frames] == pytest.approx([7.9, 4.0, 3.9, 11.0], abs=0.001)


def test_a_variable_frame_rate_shows_the_last_picture_begun(media):
    recording = open_recording(media("vfr.mp4", frame_times=(0.0, 0.1, 0.5, 0.6, 2.0, 3.9)))
    assert numbers(recording.frames([0.3, 0.55, 1.99, 2.0, 3.95])) == [1, 2, 3, 4, 5]


def test_pictures_that_start_late_are_shown_from_the_first(media):
    path = media("late.mp4", frame_times=(1.0, 1.5, 2.0))
    assert numbers(open_recording(path).frames([0.0, 1.2, 1.7])) == [0, 0, 1]


@pytest.mark.parametrize("rotation", [0, 90, 180, 270])
def test_pictures_come_upright(tmp_path, rotation):
    path = make_video(tmp_path / "turned.mp4", duration=0.5, has_audio=False, rotation=rotation)
    recording = open_recording(path)
    (frame,) = recording.frames([0.3])
    assert recording.video is not None and recording.video.rotation == rotation
    assert (frame.width, frame.height) == ((120, 160) if rotation % 180 else (160, 120))
    quarter_turns_back = rotation // 90  # numpy turns the other way round
    import numpy as np

    assert read_number(np.rot90(frame.rgb, quarter_turns_back)) == 3


def test_ten_bits_come_out_as_eight(tmp_path):
    path = make_video(
        tmp_path / "ten.mp4", duration=0.5, codec="libx265", pixel_format="yuv420p10le"
    )
    (frame,) = open_recording(path).frames([0.4])
    assert frame.rgb.dtype == "uint8"
    assert abs(frame.rgb.astype(int) - numbered_picture(4).astype(int)).mean() < 6


def test_no_pictures(media):
    with pytest.raises(MediaError, match=r"a.m4a has no pictures"):
        open_recording(media("a.m4a")).frames([0.0])


def test_pictures_nobody_can_decode(media, tmp_path):
    strange = tmp_path / "strange.mp4"
    strange.write_bytes(media("a.mp4").read_bytes().replace(b"avc1", b"zzzz"))
    recording = open_recording(strange)
    assert recording.video is not None and recording.video.codec == "unknown"
    assert len(recording.video_packets().times) == 40
    with pytest.raises(MediaError, match=r"strange.mp4 has pictures that libav cannot decode"):
        recording.frames([1.0])
    with pytest.raises(MediaError, match=r"strange.mp4 has pictures that libav cannot decode"):
        scan_video(recording)


def test_no_times_no_pictures(media):
    assert open_recording(media("a.mp4")).frames([]) == []


def test_damage_is_passed_by_or_said(media, tmp_path):
    path = media("a.mp4")
    data = bytearray(path.read_bytes())
    start, end = data.index(b"mdat") + 4, data.index(b"moov") - 4
    data[start:end] = bytes(end - start)
    spoiled = tmp_path / "zeros.mp4"
    spoiled.write_bytes(data)
    with pytest.raises(MediaError, match=r"zeros.mp4 has no picture .* at 1.500 s"):
        open_recording(spoiled).frames([1.5])


def test_the_last_picture_of_all_is_given_again(media):
    """It is the only one held."""
    recording = open_recording(media("a.mp4", group=1))
    with recording.frame_reader() as reader:
        for _ in range(2):
            assert numbers(reader.frames([3.95])) == [39]


def test_a_reader_goes_from_file_to_file_and_on_after_it_was_closed(media):
    path = str(media("a.mp4"))
    reader = open_recording(Source((path, str(media("a.mp4", group=1))))).frame_reader()
    assert numbers(reader.frames([0.5])) == numbers(reader.frames([4.5])) == [5]
    assert numbers(reader.frames([1.5])) == [15]
    reader.close()
    assert numbers(reader.frames([1.6])) == [16]
    reader.close()


def test_the_sound_beside_the_pictures_is_not_read(media):
    plan = AudioPlan((0.5,), codec="pcm_s16le", channels=2, noise=0.1)
    recording = open_recording(media("a.mov", audio=plan, group=40))
    with recording.frame_reader() as reader:
        reader.frames([3.9])
        assert reader.meter.bytes_read < recording.size_bytes / 2


@pytest.mark.parametrize("name", ["a.avi", "a.flv"])
def test_a_time_before_the_first_key_frame_is_sought_from_there(tmp_path, name):
    """AVI and FLV refuse to seek to a time before their first key frame."""
    path = make_video(tmp_path / name, clicks=[0.5])
    recording = open_recording(path)
    assert recording.duration == pytest.approx(4.0, abs=0.15)
    first, before, later, again = numbers(recording.frames([0.0, -1.0, 2.05, 0.0]))
    assert (first, before, again) == (0, 0, 0) and later == pytest.approx(20, abs=1)


@pytest.mark.parametrize("name", ["a.ts", "a.mpg"])
def test_the_first_pictures_of_an_mpeg_stream_are_found_without_a_decode_time(tmp_path, name):
    path = tmp_path / name
    with av.open(str(path), "w") as file:
        video = file.add_stream("mpeg2video", 25, options={"g": "25"})
        video.width, video.height, video.pix_fmt = 160, 120, "yuv420p"
        for number in [*range(100), None]:
            frame = None
            if number is not None:
                frame = av.VideoFrame.from_ndarray(numbered_picture(number), format="rgb24")
                frame.pts, frame.time_base = number, Fraction(1, 25)
            for packet in video.encode(frame):
                packet.dts = packet.pts  # then only one of them is written
                file.mux(packet)
    shown = open_recording(path).frames([0.0, 0.5, 1.5, 3.0])
    assert numbers(shown) == [0, 12, 37, 75]
    cut_clip(open_recording(path), Span(0.5, 2.0), tmp_path / "clip.mp4")
    assert numbers(open_recording(tmp_path / "clip.mp4").frames([0.5])) == [12]


def test_a_file_of_a_disc_is_read_from_the_start_where_it_cannot_be_sought(tmp_path):
    path = tmp_path / "a.vob"
    with av.open(str(path), "w", format="vob") as file:
        video = file.add_stream("mpeg2video", 25)
        video.width, video.height, video.pix_fmt = 160, 120, "yuv420p"
        sound, silence = file.add_stream("ac3", 48_000, layout="mono"), np.zeros((1, 1536), "f4")
        for number in range(100):
            frame = av.VideoFrame.from_ndarray(numbered_picture(number), format="rgb24")
            frame.pts, frame.time_base = number, Fraction(1, 25)
            file.mux(video.encode(frame))
            heard = av.AudioFrame.from_ndarray(silence, format="fltp", layout="mono")
            heard.sample_rate, heard.pts = 48_000, 1536 * number
            file.mux(sound.encode(heard))
        file.mux([*video.encode(None), *sound.encode(None)])
    recording, times = open_recording(path), [0.01, 0.35, 1.15, 2.35, 3.49]
    found = [numbers(recording.frames([time]))[0] for time in times]
    assert found == pytest.approx([25 * time for time in times], abs=1)


@pytest.mark.parametrize("name", ["a.mp4", "a.mkv", "a.ts"])
def test_a_time_far_outside_gives_the_first_or_the_last_picture(media, name):
    recording = open_recording(media(name))
    assert numbers(recording.frames([-1e17, 1e17])) == [0, 39]
