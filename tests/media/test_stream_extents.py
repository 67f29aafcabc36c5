"""When a file begins and ends, by its streams."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

import av
import pytest

from earmark import open_recording
from earmark.media.recording_description import (
    Extent,
    _by_entries,
    _entries_within,
    _extent_of,
    bounds,
)
from making import AudioPlan, make_audio, make_video


@pytest.mark.parametrize(
    ("heard", "seen", "shown"),
    [
        ([(0.0, 4.0)], None, (0.0, 4.0)),
        ([(1.0, 4.0), (0.5, 3.0)], None, (0.5, 4.0)),
        ([(0.0, 4.0)], (0.05, 3.95), (0.05, 3.95)),
        ([(0.0, 4.0)], (0.5, 3.0), (0.0, 4.0)),
        ([(0.25, 4.25)], (0.3125, 4.1875), (0.3125, 4.1875)),
        ([(2.0, 4.0)], (1.0, 9.0), (1.0, 9.0)),
        ([(0.0, 4.0)], (0.1, 4.0), (0.0, 4.0)),  # by more than a hair
        ([(0.0, 0.1)], (0.0, 0.0), (0.0, 0.1)),
        ([], (1.0, 9.0), (1.0, 9.0)),
    ],
)
def test_pictures_decide_where_sound_overhangs_by_a_hair_and_else_the_longest(heard, seen, shown):
    extents = [Extent(*one) for one in (*heard, *filter(None, [seen]))]
    assert bounds(extents, extents[-1] if seen else None) == shown


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
    assert open_recording(path).parts[0].promised == pytest.approx(seconds, abs=0.1)


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


@dataclass(frozen=True)
class Entry:
    """A packet as an index has it."""

    timestamp: int
    pos: int = 0
    size: int = 0


@dataclass(frozen=True)
class Told:
    """What a demuxer says of a stream."""

    index_entries: tuple[Entry, ...] = ()
    start_time: int | None = None
    duration: int | None = None
    type: str = "audio"
    time_base: Fraction | None = Fraction(1, 10)


@pytest.mark.parametrize(
    ("times", "stream", "extent"),
    [
        ([0], {}, (0.0, 0.0)),  # nothing says how long one packet lasts
        ([0], {"duration": 4}, (0.0, 0.0)),
        ([0, 3], {}, (0.0, 0.6)),  # the last lasts as long as the one before
        ([0, 3, 5], {}, (0.0, 0.7)),
        ([0, 3, 5], {"start_time": 2}, (0.2, 0.7)),  # priming is left out
        ([0, 3, 5], {"start_time": 2, "type": "video"}, (0.2, 0.9)),  # shown so much later
        ([1, 3, 5], {"start_time": 2, "type": "video"}, (0.2, 0.8)),  # as the first is
        ([0, 3, 5], {"start_time": 2, "type": "video", "duration": 6}, (0.2, 0.8)),
        ([0, 3, 5], {"start_time": 2, "type": "video", "duration": 4}, (0.2, 0.9)),
        ([-2, 3, 5], {}, (0.0, 0.7)),
        ([0, 3, 5], {"duration": 6}, (0.0, 0.6)),  # the header ends within the last packet
        ([0, 3, 5], {"duration": 5}, (0.0, 0.7)),  # it does not bear it out
        ([0, 3, 5], {"duration": 7}, (0.0, 0.7)),
        ([0, 3, 5], {"duration": 9}, (0.0, 0.7)),
    ],
)
def test_an_index_of_a_few_packets_says_when_they_begin_and_end(times, stream, extent):
    entries = tuple(map(Entry, times))
    found = _by_entries(Told(entries, **stream), len(times), 0.1)
    assert (found.start, found.end) == pytest.approx(extent)
    assert (found.packets, found.missing_packets) == (len(times), 0)


def test_what_an_index_lists_past_the_end_says_nothing_of_what_is_there():
    entries = tuple(map(Entry, (0, 3, 5)))
    assert _by_entries(Told(entries), 1, 0.1) == Extent(0.0, 0.0, 1, 2)
    assert _by_entries(Told(entries), 2, 0.1) == Extent(0.0, pytest.approx(0.6), 2, 1)


@pytest.mark.parametrize(
    ("stream", "extent"),
    [
        ({}, (0.5, 4.0)),
        ({"start_time": 7}, (0.7, 4.0)),
        ({"start_time": 2}, (0.5, 4.0)),
        ({"start_time": 0, "duration": 39}, (0.5, 3.9)),
        ({"start_time": 0, "duration": 38}, (0.5, 4.0)),  # the last packet begins there
        ({"start_time": 0, "duration": 40}, (0.5, 4.0)),
        ({"start_time": 0, "duration": 50}, (0.5, 4.0)),
        ({"start_time": 7, "time_base": None}, (0.5, 4.0)),
    ],
)
def test_a_header_counts_where_the_packets_bear_it_out(stream, extent):
    found = _extent_of(Told(**stream), 0.5, 3.8, 4.0)
    assert (found.start, found.end) == pytest.approx(extent)


@pytest.mark.parametrize("name", ["a.mkv", "a.ts"])
def test_the_end_of_a_file_without_an_index_of_ours_is_that_of_its_last_packet(tmp_path, name):
    path = make_video(tmp_path / name, duration=30.0, fps=5)
    recording = open_recording(path)
    assert recording.duration == pytest.approx(30.0, abs=0.2)
    assert recording.bytes_read < 3 * path.stat().st_size


@pytest.mark.parametrize(
    ("size_bytes", "count"), [(29, 2), (30, 3), (25, 2), (20, 2), (19, 1), (9, 0), (0, 0)]
)
def test_packets_past_the_end_of_a_file_are_the_last_of_its_index(size_bytes, count):
    entries = tuple(Entry(place, 10 * place, 10) for place in range(3))
    assert _entries_within(Told(entries), size_bytes) == count


def test_of_a_long_file_without_an_index_of_ours_the_ends_are_read(tmp_path):
    """Its first packets and its last ten seconds tell how long it is."""
    sound = AudioPlan(noise=0.2)
    path = make_video(tmp_path / "long.mkv", duration=200.0, fps=1, group=1, audio=sound)
    recording = open_recording(path)
    assert recording.duration == pytest.approx(200.0, abs=0.1)
    assert recording.bytes_read < path.stat().st_size / 3
