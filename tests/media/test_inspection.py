"""A look at the index tells what listening will cost and what would go wrong."""

from __future__ import annotations

import av
import numpy as np
import pytest

from earmark import open_recording
from earmark.media import Meter, Source
from earmark.media.mp4_index import PacketIndex
from earmark.media.recording import _timestamp_warnings, inspect
from making import AudioPlan

CLICKS = (0.5, 1.25, 3.0)


def warnings(path):
    return inspect(open_recording(path)).warnings


def test_all_is_well(media):
    assert warnings(media("a.mp4", audio=AudioPlan(CLICKS, noise=0.1))) == ()


def test_the_cost_is_what_listening_reads(media):
    recording = open_recording(media("a.mp4"))
    inspection, meter = inspect(recording), Meter()
    for _ in recording.sound(meter=meter):
        pass
    assert inspection.audio_pass_bytes == pytest.approx(meter.bytes_read, rel=0.3)
    assert inspection.audio_packet_bytes < inspection.audio_pass_bytes < recording.size_bytes


def test_the_bytes_are_those_of_the_index_and_of_the_packets_that_are_heard(media):
    first = media("two.mp4", audio=(AudioPlan(CLICKS), AudioPlan((2.0,), noise=0.5)))
    both = [inspect(open_recording(first, audio_track=track)) for track in (0, 1)]
    for track, one in enumerate(both):
        with av.open(str(first)) as file:
            packets = [packet.size for packet in file.demux(file.streams.audio[track])]
        assert one.audio_packet_bytes == sum(packets)
        assert one.audio_pass_bytes == one.audio_packet_bytes + one.index_bytes
    assert both[0].index_bytes == both[1].index_bytes == box_bytes(first, b"moov")
    assert both[0].audio_packet_bytes < both[1].audio_packet_bytes
    chapters = open_recording(Source((str(first), str(first))))
    twice = inspect(chapters)
    assert twice.audio_packet_bytes == 2 * both[0].audio_packet_bytes
    assert twice.index_bytes == 2 * both[0].index_bytes


def box_bytes(path, kind):
    data = path.read_bytes()
    place = data.index(kind) - 4
    return int.from_bytes(data[place : place + 4], "big")


def test_several_holes_are_counted_and_a_clock_that_begins_late_is_not_late(media):
    holes = AudioPlan(CLICKS, hole=(1.0, 1.5))
    (line,) = warnings(media("hole.mp4", audio=holes))
    assert "1 gap in the sound, 0.5 s in all" in line
    assert warnings(media("moved.ts", offset=3.0, audio=AudioPlan(CLICKS, noise=0.1)))[1:] == ()


def test_without_an_index_all_is_read(media):
    recording = open_recording(media("a.mkv"))
    inspection = inspect(recording)
    assert inspection.audio_pass_bytes == recording.size_bytes
    assert (inspection.audio_packet_bytes, inspection.index_bytes) == (None, 0)
    (line,) = inspection.warnings
    assert "no index of the sound, so the whole file is read" in line
    assert "remux it to MP4" in line


def test_a_file_of_sound_alone_has_nothing_to_save(media):
    assert warnings(media("a.flac", audio=AudioPlan(CLICKS, noise=0.1))) == ()


@pytest.mark.parametrize("suffix", ["mkv", "ts"])
def test_sound_that_starts_after_the_demuxer_looked_is_late(media, suffix):
    plan = AudioPlan((9.0,), start=8.0, noise=0.01)
    lines = warnings(media(f"late.{suffix}", duration=12.0, audio=plan))
    assert any("sound starts 8.0 s late" in line for line in lines)


@pytest.mark.parametrize(
    ("name", "options", "words"),
    [
        ("a.mkv", {}, "its header says 12.0 s"),
        ("a.mp4", {"layout": "fragmented"}, "packets in its index are past the end of the file"),
    ],
)
def test_a_file_cut_off_is_said_to_be(media, tmp_path, name, options, words):
    plan = AudioPlan((3.0,), noise=0.1)
    data = media(name, duration=12.0, audio=plan, **options).read_bytes()
    (tmp_path / name).write_bytes(data[: len(data) // 2])
    recording = open_recording(tmp_path / name)
    assert 3.0 < recording.duration < 9.0
    (line,) = [line for line in inspect(recording).warnings if "cut off" in line]
    assert words in line and f"treated as {recording.duration:.1f} s long" in line


@pytest.mark.parametrize(
    ("plan", "words"),
    [
        (AudioPlan(CLICKS, start=1.0), "sound starts 1.0 s late"),
        (AudioPlan(CLICKS, end=2.0), "sound ends 2.0 s before the pictures"),
        (AudioPlan(CLICKS, hole=(1.0, 2.0)), "1 gap in the sound, 1.0 s in all"),
    ],
    ids=["late", "early", "hole"],
)
def test_what_is_missing_is_said(media, plan, words):
    (line,) = warnings(media("odd.mp4", audio=plan))
    assert words in line and "silence" in line


def test_no_audio(media):
    inspection = inspect(open_recording(media("mute.mp4", has_audio=False)))
    assert inspection.audio_pass_bytes == 0
    assert "sizes of its video packets" in inspection.warnings[0]


def test_a_chapter_that_is_not_there(media):
    uris = tuple(str(media(name)) for name in ("GX010042.mp4", "GX030042.mp4"))
    (line,) = inspect(open_recording(Source(uris))).warnings
    assert line.startswith("chapter 2 missing")


def test_a_header_that_counts_from_before_the_first_packet_promises_no_more(media):
    assert not any("cut off" in line for line in warnings(media("a.mkv", offset=100.0)))


def test_several_tracks(media):
    path = media("two.mp4", audio=(AudioPlan(CLICKS), AudioPlan((2.0,))))
    (line,) = inspect(open_recording(path, audio_track=1)).warnings
    assert not line.startswith("two.mp4"), "of one file there is no need to say which"
    assert "2 audio tracks, of which track 1 is listened to" in line


def test_a_chapter_without_sound(media):
    uris = (str(media("a.mp4")), str(media("mute.mp4", has_audio=False)))
    recording = open_recording(Source(uris))
    assert recording.has_audio
    assert any("mute.mp4: no sound on this track" in line for line in inspect(recording).warnings)
    assert sum(len(block) for block in recording.sound()) == 8 * 16_000


def index_of(*stamps: int) -> PacketIndex:
    many = np.ones(len(stamps), np.int64)
    return PacketIndex(many, many, np.array(stamps), many > 0, many > 0, 100, 0.0, 1.0, 0)


@pytest.mark.parametrize(
    ("stamps", "words"),
    [
        ([0], []),
        ([0, 2, 4, 6], []),
        ([0, 2, 2, 4, 6], []),  # two at one time are no step back
        (
            [0, 2, 4, 3, 5, 7],
            ["audio timestamps step back 1 times; overlapping sound is read once"],
        ),
        ([0, 2, 4, 9, 11], ["1 gap in the sound, 0.0 s in all, treated as silence"]),
        ([0, 2, 4, 106, 108, 310, 312], ["2 gaps in the sound, 3.0 s in all, treated as silence"]),
    ],
)
def test_holes_and_steps_back_are_told_apart(stamps, words):
    assert _timestamp_warnings(index_of(*stamps)) == words
