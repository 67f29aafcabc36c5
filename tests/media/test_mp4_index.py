"""The packet tables say what libav's index says, and reading them reads no video."""

from __future__ import annotations

import subprocess
import sys

import av
import numpy as np
import pytest

from earmark import open_recording
from earmark.errors import NoVideoIndex
from earmark.media import Meter, Source
from earmark.media.container import open_media
from earmark.media.mp4_index import read_packets
from earmark.media.recording import inspect
from making import AudioPlan, make_video, whole_sound

CLICKS = (0.5, 1.25, 3.0)

PLAIN = [
    ("a.mp4", {}),
    ("a.mp4", {"layout": "first"}),
    ("b.mp4", {"b_frames": 2}),
    ("a.mov", {}),
    ("late.mp4", {"audio": AudioPlan(CLICKS, start=1.0)}),
    ("hole.mov", {"audio": AudioPlan(CLICKS, hole=(1.0, 2.0))}),
    ("offset.mp4", {"offset": 2.0, "b_frames": 2}),
    ("vfr.mp4", {"frame_times": (0.0, 0.1, 0.5, 0.6, 2.0, 3.9), "b_frames": 2}),
    ("two.mp4", {"audio": (AudioPlan(CLICKS), AudioPlan((2.0,)))}),
    ("a.m4a", {}),
]


@pytest.mark.parametrize(("name", "options"), PLAIN, ids=str)
def test_the_tables_agree_with_libav(media, name, options):
    path = str(media(name, **options))
    with open_media(path, Meter()) as file:
        for stream in file.container.streams:
            index = read_packets(file.storage, file.tracks.traks[stream.id])
            entries = list(stream.index_entries)
            assert index.positions.tolist() == [entry.pos for entry in entries]
            assert index.sizes.tolist() == [entry.size for entry in entries]
            assert index.is_key.tolist() == [entry.is_keyframe for entry in entries]
            assert index.is_shown.tolist() == [not entry.is_discard for entry in entries]
            with av.open(path) as container:
                stamps = [p.pts for p in container.demux(container.streams[stream.index]) if p.size]
            assert index.stamps.tolist() == stamps


def test_a_cut_by_edit_list_is_not_shown(media, tmp_path):
    """An edit that begins at 1.5 s, as a trimming phone writes it."""
    data = bytearray(media("a.mp4", fps=20).read_bytes())
    trak = data.index(b"trak")
    place = data.index(b"elst", trak) + 12
    assert int.from_bytes(data[place + 4 : place + 8], "big") == 0
    with av.open(str(media("a.mp4", fps=20))) as container:
        ticks = container.streams.video[0].time_base.denominator
    data[place : place + 8] = (2500).to_bytes(4, "big") + (ticks * 3 // 2).to_bytes(4, "big")
    path = tmp_path / "cut.mp4"
    path.write_bytes(data)
    recording = open_recording(path)
    video = recording.video_packets()
    assert video.times[0] == pytest.approx(0.0) and len(video.times) == 50
    with open_media(str(path), Meter()) as file:
        stream = file.container.streams.video[0]
        shown = [not entry.is_discard for entry in stream.index_entries]
        assert (
            read_packets(file.storage, file.tracks.traks[stream.id])
            .is_shown[-len(shown) :]
            .tolist()
            == shown
        )


def test_several_edits_are_left_to_libav(media, tmp_path):
    data = bytearray(media("a.mp4").read_bytes())
    # The video track's own list is made to hold two pieces; everything around it grows by a line.
    boxes = [data.index(kind) - 4 for kind in (b"moov", b"trak", b"edts", b"elst")]
    place = boxes[-1] + 16
    for box in boxes:
        size = int.from_bytes(data[box : box + 4], "big") + 12
        data[box : box + 4] = size.to_bytes(4, "big")
    data[place - 4 : place] = (2).to_bytes(4, "big")
    one = bytes(data[place : place + 12])
    data[place : place + 12] = (1000).to_bytes(4, "big") + one[4:] + one
    path = tmp_path / "edits.mp4"
    path.write_bytes(data)
    recording = open_recording(path)
    assert (recording.access, "edit list" in recording.access_reason) == ("demux", True)
    assert len(whole_sound(recording)) == round(recording.duration * 16_000)
    with pytest.raises(NoVideoIndex, match="remux it to MP4"):
        recording.video_packets()


@pytest.mark.parametrize("layout", ["first", "last"])
def test_zeroed_video_sounds_the_same(media, tmp_path, layout):
    path = media("zero.mp4", layout=layout, audio=AudioPlan(CLICKS, noise=0.05), b_frames=2)
    data = bytearray(path.read_bytes())
    with open_media(str(path), Meter()) as file:
        (stream,) = file.container.streams.video
        index = read_packets(file.storage, file.tracks.traks[stream.id])
    for position, size in zip(index.positions.tolist(), index.sizes.tolist(), strict=True):
        data[position : position + size] = bytes(size)
    zeroed = tmp_path / "zero.mp4"
    zeroed.write_bytes(data)
    before, after = open_recording(path), open_recording(zeroed)
    np.testing.assert_array_equal(whole_sound(after), whole_sound(before))
    np.testing.assert_array_equal(after.video_packets().times, before.video_packets().times)
    assert after.key != before.key


def test_only_audio_and_index_are_read(tmp_path):
    """20 s of noise at 64 x 64 pixels: nine tenths of the file is video."""
    rng = np.random.default_rng(0)
    path = make_video(
        tmp_path / "busy.mp4",
        duration=20.0,
        audio=AudioPlan(noise=0.1),
        size=(64, 64),
        fps=20,
        draw=lambda _: rng.integers(0, 255, (64, 64, 3), np.uint8),
    )
    meter = Meter()
    recording = open_recording(path)
    whole_sound(recording, meter=meter)
    inspection = inspect(recording)
    needed = inspection.audio_packet_bytes + inspection.index_bytes
    assert needed < 0.2 * recording.size_bytes
    assert meter.bytes_read <= 1.1 * needed
    assert recording.bytes_read <= inspection.index_bytes + 16_384
    assert inspection.audio_pass_bytes == needed


class TestVideoPackets:
    def test_times_are_presentation_times(self, media):
        video = open_recording(media("b.mp4", b_frames=2)).video_packets()
        np.testing.assert_allclose(video.times, np.arange(40) / 10)
        assert np.flatnonzero(video.is_key).tolist() == [0, 10, 20, 30]
        assert len(video.times) == 40 and (video.sizes_bytes > 0).all()

    def test_sizes_are_those_of_the_packets(self, media):
        path = media("b.mp4", b_frames=2)
        with av.open(str(path)) as container:
            packets = sorted((p.pts, p.size) for p in container.demux(video=0) if p.size)
        video = open_recording(path).video_packets()
        assert video.sizes_bytes.tolist() == [size for _, size in packets]

    def test_a_variable_frame_rate(self, media):
        times = (0.0, 0.1, 0.5, 0.6, 2.0, 3.9)
        video = open_recording(media("vfr.mp4", frame_times=times)).video_packets()
        np.testing.assert_allclose(video.times, times, atol=1e-4)

    def test_chapters_are_joined_and_no_media_is_read(self, media):
        path = str(media("a.mp4"))
        recording = open_recording(Source((path, path)))
        meter = Meter()
        video = recording.video_packets(meter=meter)
        np.testing.assert_allclose(video.times, np.arange(80) / 10)
        assert meter.bytes_read < 2 * inspect(recording).index_bytes

    @pytest.mark.parametrize(
        ("name", "options"),
        [("a.mkv", {}), ("a.ts", {}), ("a.mp4", {"layout": "fragmented"}), ("a.m4a", {})],
        ids=str,
    )
    def test_elsewhere_there_is_no_index(self, media, name, options):
        with pytest.raises(NoVideoIndex, match=r"energy.*remux it to MP4"):
            open_recording(media(name, **options)).video_packets()


MEASURE = """
import resource, sys
from earmark.media import open_recording
for block in open_recording(sys.argv[1]).sound():
    pass
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)
"""


def test_memory_does_not_grow_with_length(media):
    """Twenty minutes against one: 73 MB of samples apart, in one memory."""

    def peak(duration):
        plan = AudioPlan(sample_rate=16_000, codec="flac")
        path = media(f"{duration}.mp4", duration=duration, frame_times=(0.0,), audio=plan)
        words = [sys.executable, "-c", MEASURE, str(path)]
        return int(subprocess.run(words, check=True, capture_output=True).stdout) / 1024

    assert peak(1200.0) - peak(60.0) < 15
