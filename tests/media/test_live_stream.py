"""Live sources heard for real: cameras, streams, files that grow; lost, stalled, changed."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import pairwise
from pathlib import Path

import av
import numpy as np
import pytest

from earmark.errors import MediaError
from earmark.media.live_input import LiveInput
from earmark.media.live_stream import Gap, LiveEvent, LiveStream, SoundPiece, State
from earmark.media.packet_ring import PacketRing
from earmark.timeline import Span
from live_servers import ffmpeg, free_port, rtsp_camera
from servers import range_server

PATIENCE = 240.0
"""Seconds within which a source is heard, however busy the machine is."""


def listen(address: str, *, ring: PacketRing | None = None) -> LiveStream:
    return LiveStream(LiveInput(address), ring or PacketRing(60.0), sample_rate=16_000)


def hear(stream: LiveStream, seconds: float) -> list[LiveEvent]:
    """The events until `seconds` of sound were heard."""
    events, length = [], 0.0
    stopwatch = threading.Timer(PATIENCE, stream.stop)
    stopwatch.start()
    for event in stream.events():
        events.append(event)
        if isinstance(event, SoundPiece) and not event.is_silence:
            length += len(event.sound) / event.sound.sample_rate
        if length >= seconds:
            break
    stopwatch.cancel()
    assert length >= seconds, [event for event in events if not isinstance(event, SoundPiece)]
    return events


def check_heard(stream: LiveStream, events: list[LiveEvent]) -> None:
    """Sound without a break, at the present time, and pictures of it in the ring."""
    pieces = [event for event in events if isinstance(event, SoundPiece) and not event.is_silence]
    assert [piece.begins for piece in pieces] == [True] + [False] * (len(pieces) - 1)
    assert max(float(np.abs(piece.sound.values).max()) for piece in pieces) > 0.05
    for before, after in pairwise(pieces):
        end = before.sound.start + len(before.sound) / 16_000
        assert after.sound.start == pytest.approx(end, abs=1e-3)
    assert abs(time.time() - stream.until) < PATIENCE
    span = stream.ring.span
    assert span
    decoded = stream.ring.frames([span.middle])
    assert decoded.frames[0].rgb.shape == (240, 320, 3)
    assert 0 <= span.middle - decoded.frames[0].time < 0.3
    assert decoded.frames_decoded <= 31  # not all of the ring


def test_a_camera_by_rtsp():
    with rtsp_camera(free_port()) as address:
        stream = listen(address)
        check_heard(stream, hear(stream, 4.0))


def test_a_camera_that_is_unplugged_comes_back_with_another_resolution_and_sample_rate():
    port = free_port()
    stream = listen(f"rtsp://127.0.0.1:{port}/camera")
    events = stream.events()
    with rtsp_camera(port):
        first = _until_sound(events)
    with rtsp_camera(port, size="640x480", rate=48_000):
        second = _until_sound(events)
    states = [event.state for event in (*first, *second) if isinstance(event, State)]
    assert states[:2] == ["connecting", "listening"] and "lost" in states
    assert states[-1] == "listening"
    (gap,) = (event for event in second if isinstance(event, Gap))
    assert gap.span.duration > 1 and gap.reason
    assert isinstance(second[-1], SoundPiece) and second[-1].sound.sample_rate == 16_000
    assert stream.ring.format and stream.ring.format.width_pixels == 640
    assert stream.ring.frames([stream.until]).frames[0].width == 640


def _until_sound(events: Iterator[LiveEvent]) -> list[LiveEvent]:
    """Up to the fourth piece after the last gap or state."""
    taken: list[LiveEvent] = []
    pieces, deadline = 0, time.monotonic() + PATIENCE
    while time.monotonic() < deadline:
        taken.append(next(events))
        is_sound = isinstance(taken[-1], SoundPiece) and not taken[-1].is_silence
        pieces = pieces + 1 if is_sound else 0
        if pieces >= 4 and any(isinstance(e, State) and e.state == "listening" for e in taken):
            return taken
    raise AssertionError(taken)


def test_mpeg_ts_by_udp():
    port = free_port(socket.SOCK_DGRAM)
    with ffmpeg("-f", "mpegts", f"udp://127.0.0.1:{port}?pkt_size=1316"):
        stream = listen(f"udp://127.0.0.1:{port}")
        check_heard(stream, hear(stream, 4.0))


def test_srt():
    listed = subprocess.run(["ffmpeg", "-protocols"], capture_output=True, check=False).stdout
    if b" srt" not in listed:
        pytest.skip("needs an ffmpeg with SRT")
    port = free_port(socket.SOCK_DGRAM)
    with ffmpeg("-f", "mpegts", f"srt://127.0.0.1:{port}?mode=listener"):
        stream = listen(f"srt://127.0.0.1:{port}?mode=caller")
        check_heard(stream, hear(stream, 4.0))


def test_hls_and_its_end(tmp_path: Path):
    """A playlist that has ended is not heard again from its beginning."""
    playlist = tmp_path / "live.m3u8"
    segments = ("-f", "hls", "-hls_time", "1", "-hls_list_size", "4")
    with ffmpeg(*segments, str(playlist)), range_server(tmp_path) as server:
        _await(lambda: playlist.exists() and playlist.read_text().count(".ts") >= 3)
        stream = listen(server.url("live.m3u8"))
        check_heard(stream, hear(stream, 4.0))
        playlist.write_text(playlist.read_text() + "#EXT-X-ENDLIST\n")
        lost = next(e for e in listen(server.url("live.m3u8")).events() if isinstance(e, State)
                    and e.state == "lost")  # fmt: skip
        assert "finished recording; use `earmark caption`" in lost.reason


@pytest.mark.parametrize(
    "name, options",
    [
        ("film.mkv", ["-flush_packets", "1"]),
        ("film.ts", ["-flush_packets", "1"]),
        ("film.mp4", ["-movflags", "+frag_keyframe+empty_moov", "-flush_packets", "1"]),
    ],
)
def test_a_file_that_is_still_written(tmp_path: Path, name: str, options: list[str]):
    with ffmpeg(*options, str(tmp_path / name)):
        _await(lambda: (tmp_path / name).exists() and (tmp_path / name).stat().st_size > 100_000)
        stream = listen(str(tmp_path / name))
        check_heard(stream, hear(stream, 8.0))


def test_a_file_ends_where_its_writer_ends(tmp_path: Path):
    with ffmpeg(str(tmp_path / "film.mkv"), seconds=5.0):
        _await(lambda: (tmp_path / "film.mkv").exists() and (tmp_path / "film.mkv").stat().st_size)
        *events, last = listen(str(tmp_path / "film.mkv")).events()
    assert isinstance(last, State) and last.state == "ended"
    lengths = [len(event.sound) for event in events if isinstance(event, SoundPiece)]
    assert sum(lengths) / 16_000 == pytest.approx(5.0, abs=0.1)


def test_a_capture_device_stores_its_raw_pictures_as_jpeg():
    graph = (
        "testsrc2=size=320x240:rate=15,realtime[out0];sine=440:sample_rate=48000,arealtime[out1]"
    )
    stream = listen(f"lavfi:{graph}")
    check_heard(stream, hear(stream, 4.0))
    assert stream.ring.format and stream.ring.format.codec == "mjpeg"


@contextmanager
def stalled(process_output: list[str]) -> Iterator[subprocess.Popen[bytes]]:
    film = ["ffmpeg", "-loglevel", "error", "-nostdin", "-re", "-f", "lavfi", "-i",
            "sine=440:sample_rate=48000", "-c:a", "aac", *process_output]  # fmt: skip
    with subprocess.Popen(film) as process:
        try:
            yield process
        finally:
            process.kill()


def test_a_stream_that_stalls_is_opened_again(monkeypatch: pytest.MonkeyPatch):
    """The sender stops without a word, then goes on: the time between is a gap."""
    monkeypatch.setattr("earmark.media.live_input.READ_TIMEOUT", 3.0)
    port = free_port(socket.SOCK_DGRAM)
    with stalled(["-f", "mpegts", f"udp://127.0.0.1:{port}?pkt_size=1316"]) as sender:
        events = listen(f"udp://127.0.0.1:{port}").events()
        _until_sound(events)
        os.kill(sender.pid, signal.SIGSTOP)
        while not (isinstance(event := next(events), State) and event.state == "lost"):
            pass
        os.kill(sender.pid, signal.SIGCONT)
        gaps = [event for event in _until_sound(events) if isinstance(event, Gap)]
    assert len(gaps) == 1 and gaps[0].span.duration >= 2.0


def test_clips_are_cut_without_encoding(tmp_path: Path):
    port = free_port(socket.SOCK_DGRAM)
    with ffmpeg("-f", "mpegts", f"udp://127.0.0.1:{port}?pkt_size=1316"):
        stream = listen(f"udp://127.0.0.1:{port}")
        hear(stream, 6.0)
    span = stream.ring.span
    assert span
    begin = stream.ring.cut(Span(span.middle, span.middle + 1.5), tmp_path / "clip.mp4")
    assert span.middle - 1.1 <= begin <= span.middle
    with av.open(str(tmp_path / "clip.mp4")) as clip:
        assert [one.codec_context.name for one in clip.streams] == ["h264", "aac"]
        pictures = sum(1 for _ in clip.decode(video=0))
    assert pictures == pytest.approx((span.middle + 1.5 - begin) * 15, abs=2)
    stream.ring.cut(Span(span.middle, span.middle + 1), tmp_path / "mute.mp4", has_sound=False)
    with av.open(str(tmp_path / "mute.mp4")) as clip:
        assert not clip.streams.audio


def test_the_ring_is_bounded_in_seconds_and_bytes():
    port = free_port(socket.SOCK_DGRAM)
    with ffmpeg("-f", "mpegts", f"udp://127.0.0.1:{port}?pkt_size=1316"):
        short, small = PacketRing(2.0), PacketRing(60.0, most_bytes=200_000)
        stream = listen(f"udp://127.0.0.1:{port}", ring=short)
        hear(stream, 6.0)
        assert short.span and 2.0 <= short.span.duration <= 4.1
        assert short.size_bytes < short.bytes_received
        hear(listen(f"udp://127.0.0.1:{port}", ring=small), 6.0)
        assert 0 < small.size_bytes <= 300_000
    with pytest.raises(MediaError, match="not in the last 2 s of the stream"):
        short.frames([short.span.start - 1.0])


def test_secrets_of_an_address_are_in_no_event():
    port = free_port()
    stream = listen(f"rtsp://me:hunter2@127.0.0.1:{port}/camera?token=s3cr3t")
    lost = next(e for e in stream.events() if isinstance(e, State) and e.state == "lost")
    assert "hunter2" not in repr(lost) and "s3cr3t" not in repr(lost)
    assert "127.0.0.1" in lost.reason


def test_what_cannot_be_watched_says_so():
    with pytest.raises(ValueError, match=r"ftp://host/a cannot be watched; there are srt://"):
        LiveInput("ftp://host/a")


def test_a_playlist_cannot_reach_files_of_this_machine(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    """Neither a stream nor a file may name another file."""
    monkeypatch.setattr("earmark.media.live_input.REST", 1.0)
    (tmp_path / "secret.ts").write_bytes(b"G" * 188)
    (tmp_path / "bad.m3u8").write_text(
        f"#EXTM3U\n#EXT-X-TARGETDURATION:1\n#EXTINF:1,\nfile://{tmp_path}/secret.ts\n"
    )
    with range_server(tmp_path) as server:
        for address in (server.url("bad.m3u8"), str(tmp_path / "bad.m3u8")):
            events = listen(address).events()
            state = next(e for e in events if isinstance(e, State) and e.state != "connecting")
            assert state.state == "lost"


def _await(condition: object) -> None:
    deadline = time.monotonic() + PATIENCE
    while not condition():  # type: ignore[operator]
        assert time.monotonic() < deadline
        time.sleep(0.1)
