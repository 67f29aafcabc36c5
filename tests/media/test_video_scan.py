"""Every picture in turn, small and grey; and a few windows decoded ahead."""

from __future__ import annotations

import threading
from contextlib import closing
from pathlib import Path

import pytest

from earmark import open_recording
from earmark.errors import MediaError, ModelMissing
from earmark.media import Meter, Source
from earmark.media.frame_reader import scan_video
from earmark.media.prefetch import (
    THREADS,
    DecodedFrames,
    FrameRequest,
    HeldRecordingDecoder,
    prefetch,
)
from earmark.media.recording import AudioTrack
from making import make_video, read_number


def numbers(frames):
    return [read_number(frame.rgb) for frame in frames]


def test_every_picture_is_given_at_its_time_and_in_its_shape(media):
    meter = Meter()
    recording = open_recording(Source((str(media("a.mp4")), str(media("a.mkv")))))
    scanned = list(scan_video(recording, width_pixels=80, meter=meter))
    assert [one.time for one in scanned] == pytest.approx([n / 10 for n in range(80)], abs=0.002)
    assert {one.grey.shape for one in scanned} == {(60, 80)}
    assert (meter.access, meter.bytes_read > 0) == ("demux", True)
    assert next(scan_video(recording, width_pixels=999)).grey.shape == (120, 160)


@pytest.mark.parametrize(("fps", "count"), [(10, 40), (30, 120), (50, 100), (60, 120), (100, 134)])
def test_pictures_that_follow_too_closely_are_passed_over(media, fps, count):
    recording = open_recording(media(f"{fps}.mp4", fps=fps))
    assert len(list(scan_video(recording))) == count


def test_a_recording_of_sound_has_no_motion(media):
    with pytest.raises(MediaError, match=r"a.m4a has no pictures"):
        scan_video(open_recording(media("a.m4a")))


def test_windows_come_in_order_each_with_what_it_cost(media, tmp_path):
    first, second = (open_recording(media(name)) for name in ("a.mp4", "a.mkv"))
    gone = tmp_path / "gone.mp4"
    gone.write_bytes(media("a.mp4").read_bytes())
    missing = open_recording(gone)
    gone.unlink()
    asked = [
        FrameRequest(first, (0.35,)),
        FrameRequest(first, (1.0, 1.5), then=lambda found: numbers(found.frames)),
        FrameRequest(missing, (0.0,)),
        *(FrameRequest(second, (number / 10,)) for number in range(12)),
    ]
    found = list(prefetch(iter(asked)))
    shown = [numbers(one.frames) for one in found]
    assert shown == [[3], [], [], *([number] for number in range(12))]
    assert [one.output for one in found[:3]] == [None, [10, 15], None], "and the frames are let go"
    assert (found[0].frames_decoded, found[1].frames_decoded) == (4, 6)
    assert found[0].bytes_read > 0 and found[2].bytes_read == 0
    assert "gone.mp4" in found[2].failure and not found[0].failure


def test_a_bug_is_the_reason_of_one_window_and_what_is_missing_goes_up(media):
    def fail(error):
        raise error

    recording = open_recording(media("a.mp4"))
    asked = [
        FrameRequest(recording, (0.0,), then=lambda _: fail(ZeroDivisionError("by 0"))),
        FrameRequest(recording, (1.0,)),
        FrameRequest(recording, (1.0,), then=lambda _: fail(ModelMissing("no model"))),
    ]
    first, second = prefetch(asked[:2])
    assert "ZeroDivisionError" in first.failure and numbers(second.frames) == [10]
    with pytest.raises(ModelMissing, match="no model"):
        list(prefetch(asked))


def test_tracks_that_a_file_has_not_are_empty(media):
    (part,) = open_recording(media("a.mp4", offset=0.0)).parts
    assert part.track(0) == part.audio_tracks[0] and not part.track(0).is_empty
    assert part.track(1) == AudioTrack("none", 0, 0) and part.track(1).is_empty
    assert AudioTrack("aac", 1, 1, start=1.0, end=1.0).is_empty
    chapters = open_recording(Source((str(media("a.mp4")),) * 2)).parts
    assert [(one.start, one.end) for one in chapters] == [(0.0, 4.0), (4.0, 8.0)]
    assert [one.shift for one in chapters] == [0.0, 4.0]


def test_one_recording_is_open_at_a_time(tmp_path):
    paths = [make_video(tmp_path / f"{name}.mp4", duration=2.0) for name in ("one", "two")]
    decoder = HeldRecordingDecoder()
    for path in paths:
        assert len(decoder(FrameRequest(open_recording(path), (0.5,))).frames) == 1
        assert [name for name in held_files() if name in map(str, paths)] == [str(path)]
    decoder.close()
    assert not set(held_files()) & set(map(str, paths))


def held_files() -> list[str]:
    links = Path("/proc/self/fd").iterdir()
    return [str(link.readlink()) for link in links if link.is_symlink()]


def test_a_chapter_without_pictures_has_none_to_scan(media):
    recording = open_recording(Source((str(media("a.mp4")), str(media("a.m4a")))))
    assert len(list(scan_video(recording))) == 40


def test_windows_are_decoded_some_way_ahead_and_no_further(media):
    recording, taken = open_recording(media("a.mp4")), list[int]()

    def requests():
        for number in range(20):
            taken.append(number)
            yield FrameRequest(recording, (0.1 * number,))

    decoded = prefetch(requests())
    next(decoded)
    assert len(taken) == 2 * THREADS + 1
    assert len(list(decoded)) == 19


class Waiting:
    """A decoder that is at work until it may go on."""

    def __init__(self, go_on: threading.Event) -> None:
        self.go_on = go_on

    def __call__(self, request: FrameRequest) -> DecodedFrames:  # noqa: ARG002
        self.go_on.wait(60)
        return DecodedFrames([])

    def close(self) -> None:
        pass


def decoders_alive() -> bool:
    return any(thread.name.startswith("prefetch") for thread in threading.enumerate())


def test_who_is_done_waits_for_the_decoders_and_who_is_interrupted_does_not(media):
    request, go_on = FrameRequest(open_recording(media("a.mp4")), (0.0,)), threading.Event()

    def interrupted():
        yield request
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        list(prefetch(interrupted(), lambda: Waiting(go_on)))
    assert decoders_alive()
    go_on.set()
    for thread in threading.enumerate():
        if thread.name.startswith("prefetch"):
            thread.join(60)
    assert [found.frames for found in prefetch([request], lambda: Waiting(go_on))] == [[]]
    assert not decoders_alive()


def test_what_windows_cost_adds_up(media):
    recording = open_recording(media("a.mp4"))
    with closing(HeldRecordingDecoder()) as decode:
        each = [decode(FrameRequest(recording, (time,))) for time in (0.5, 2.5, 3.5)]
        assert decode._reader is not None
        assert sum(one.bytes_read for one in each) == decode._reader.meter.bytes_read
        assert sum(one.frames_decoded for one in each) == decode._reader.decoded


def test_a_reader_holds_one_file_of_a_recording_open(tmp_path):
    paths = [make_video(tmp_path / f"{number}.mp4", fps=5) for number in range(2)]
    with open_recording(Source(tuple(map(str, paths)))).frame_reader() as reader:
        for time, path in ((0.5, paths[0]), (4.5, paths[1]), (1.0, paths[0])):
            reader.frames([time])
            assert [name for name in held_files() if str(tmp_path) in name] == [str(path)]
