"""When a file begins and ends, by its streams."""

from __future__ import annotations

import av
import pytest

from earmark.media import Meter, open_recording
from earmark.media.container import open_media
from earmark.media.stream_extents import Extent, bounds, promised
from making import make_audio, make_video


@pytest.mark.parametrize(
    ("heard", "seen", "shown"),
    [
        ([(0.0, 4.0)], None, (0.0, 4.0)),
        ([(1.0, 4.0), (0.5, 3.0)], None, (0.5, 4.0)),
        ([(0.0, 4.0)], (0.05, 3.95), (0.05, 3.95)),
        ([(0.0, 4.0)], (0.5, 3.0), (0.0, 4.0)),
        ([(0.25, 4.25)], (0.3125, 4.1875), (0.3125, 4.1875)),
        ([(2.0, 4.0)], (1.0, 9.0), (1.0, 9.0)),
        ([], (1.0, 9.0), (1.0, 9.0)),
    ],
)
def test_pictures_decide_where_sound_overhangs_by_a_hair_and_else_the_longest(heard, seen, shown):
    extents = [Extent(*one) for one in heard]
    assert bounds(extents, Extent(*seen) if seen else None) == shown


@pytest.mark.parametrize(
    ("name", "seconds"),
    [
        ("a.mkv", 4.0),  # its header says how long it is
        ("a.mp4", 0.0),  # an index says it packet by packet: nothing is promised
        ("a.mp3", 0.0),  # what libav says of it is a guess from the bit rate
    ],
)
def test_a_header_promises_a_length_where_it_has_one(tmp_path, name, seconds):
    make = make_audio if name == "a.mp3" else make_video
    path = make(tmp_path / name, duration=4.0)
    with open_media(str(path), Meter()) as file:
        assert promised(file) == pytest.approx(seconds, abs=0.1)


@pytest.mark.parametrize("frames", [1, 2, 3])
def test_few_pictures_of_a_fragment_last_as_long_as_they_are_apart(tmp_path, frames):
    path = tmp_path / "a.mp4"
    with av.open(str(path), "w", options={"movflags": "frag_keyframe+empty_moov"}) as made:
        stream = made.add_stream("mpeg4", rate=5, width=64, height=48)
        for _ in range(frames):
            made.mux(stream.encode(av.VideoFrame(64, 48, "yuv420p")))
        made.mux(stream.encode())
    video = open_recording(path).video
    assert video is not None
    assert (video.start, video.end) == (0.0, pytest.approx(0.2 * frames, abs=0.21 * (frames == 1)))
