"""A recording is described without decoding it, and a bad file says what is wrong."""

from __future__ import annotations

import os
import pickle
import shutil
from pathlib import Path

import av
import pytest

from earmark import open_recording
from earmark.errors import MediaError, NoAudioStream, UnreadableFile
from earmark.media import Meter, Source
from earmark.media.frame_reader import scan_video
from earmark.media.recording import inspect
from earmark.media.recording_description import content_key
from earmark.media.storage import LocalStorage
from hostile_media import pcm, write_movie
from making import AudioPlan, click_times, make_video, read_number, whole_sound

CLICKS = (0.5, 1.25, 3.0)


def test_what_a_recording_says_of_itself(media):
    path = media("a.mp4", audio=AudioPlan(CLICKS, channels=2, sample_rate=44_100, language="fra"))
    recording = open_recording(path)
    assert recording.duration == pytest.approx(4.0)
    assert recording.container.startswith("mov,mp4")
    assert (recording.has_audio, recording.has_video) == (True, True)
    (track,) = recording.audio_tracks
    assert (track.codec, track.sample_rate, track.channels) == ("aac", 44_100, 2)
    assert track.language == "fra"
    assert recording.video is not None
    assert (recording.video.codec, recording.video.mean_fps) == ("h264", pytest.approx(10.0))
    assert (recording.video.width_pixels, recording.video.height_pixels) == (160, 120)
    assert recording.size_bytes == path.stat().st_size
    assert "index" in recording.access_reason


@pytest.mark.parametrize("name", ["a.mp4", "a.mkv", "a.flac"])
def test_a_recording_can_be_sent_to_a_worker(media, name):
    recording = open_recording(media(name))
    assert pickle.loads(pickle.dumps(recording)) == recording
    assert hash(recording) == hash(open_recording(str(media(name))))
    assert len(pickle.dumps(recording)) < 2000


@pytest.mark.parametrize(
    ("name", "fps"), [("a.mkv", 10.0), ("a.ts", 10.0), ("a.webm", 10.0), ("f.mp4", 10.0)]
)
def test_the_frame_rate_where_there_is_no_index(media, name, fps):
    options = {"layout": "fragmented"} if name == "f.mp4" else {}
    video = open_recording(media(name, **options)).video
    assert video is not None and video.mean_fps == pytest.approx(fps, rel=0.01)


class TestDuration:
    def test_the_header_is_not_trusted(self, media, tmp_path):
        data = bytearray(media("a.mp4").read_bytes())
        for kind in (b"mvhd", b"mdhd", b"tkhd"):
            place = data.index(kind) + 4 + (20 if kind == b"tkhd" else 16)
            data[place : place + 4] = (1_000_000).to_bytes(4, "big")
        path = tmp_path / "lies.mp4"
        path.write_bytes(data)
        assert open_recording(path).duration == pytest.approx(4.0)

    def test_sound_that_outlasts_the_pictures_counts(self, tmp_path):
        path = make_video(
            tmp_path / "a.mp4", duration=4.0, frame_times=(0.0, 0.5, 1.0), video_end=1.5
        )
        recording = open_recording(path)
        assert recording.duration == pytest.approx(4.0)
        assert recording.video is not None and recording.video.end == pytest.approx(1.5)
        assert read_number(recording.frames([3.0])[0].rgb) == 2

    def test_the_fill_of_the_last_audio_packet_does_not(self, tmp_path):
        path = make_video(tmp_path / "a.mkv", duration=4.0, video_end=3.95)
        assert open_recording(path).duration == pytest.approx(3.95)

    def test_matroska_that_was_never_closed(self, media, tmp_path):
        """A recorder that lost power leaves no duration and no cues."""
        data = media("a.mkv").read_bytes()
        path = tmp_path / "cut.mkv"
        path.write_bytes(data[: len(data) * 3 // 4])
        recording = open_recording(path)
        assert 1.0 < recording.duration < 4.0
        heard = click_times(whole_sound(recording), 16_000)
        assert heard == pytest.approx([c for c in CLICKS if c < recording.duration], abs=0.01)
        wanted = [0.5, recording.duration - 0.2]
        assert [read_number(frame.rgb) for frame in recording.frames(wanted)] == [
            int(time * 10 + 1e-6) for time in wanted
        ]


class TestKey:
    def test_the_name_plays_no_part(self, media, tmp_path):
        path = media("a.mp4")
        copy = tmp_path / "other.mp4"
        shutil.copy2(path, copy)
        assert open_recording(copy).key == open_recording(path).key

    def test_a_changed_file_has_another(self, media, tmp_path):
        copy = tmp_path / "a.mp4"
        shutil.copy2(media("a.mp4"), copy)
        before = open_recording(copy).key
        os.utime(copy, ns=(1, 1))
        assert open_recording(copy).key != before

    def test_chapters_count_and_so_does_their_order(self, media):
        first, second = str(media("a.mp4")), str(media("b.mp4", fps=5))
        keys = {open_recording(Source(uris)).key for uris in [(first,), (first, second)]}
        assert len(keys | {open_recording(Source((second, first))).key}) == 3


class TestBadFiles:
    def refuse(self, path, words):
        with pytest.raises(UnreadableFile, match=words) as caught:
            open_recording(path)
        assert "\n" not in str(caught.value)

    def test_missing(self, tmp_path):
        self.refuse(tmp_path / "no.mp4", r"no.mp4 does not exist; check the path")

    def test_empty(self, tmp_path):
        (tmp_path / "empty.mp4").touch()
        self.refuse(tmp_path / "empty.mp4", r"empty.mp4 is empty")

    def test_a_directory(self, tmp_path):
        self.refuse(tmp_path, r"is a directory with no media in it")

    def test_not_media(self, tmp_path):
        (tmp_path / "x.mp4").write_bytes(bytes(5000))
        self.refuse(tmp_path / "x.mp4", r"x.mp4 is not a media file.*check that it plays")

    @pytest.mark.parametrize("content", [b"hello", b"%PDF-1.4 " * 500])
    def test_text(self, tmp_path, content):
        (tmp_path / "x.mp4").write_bytes(content)
        self.refuse(tmp_path / "x.mp4", r"x.mp4 is text, not a media file")

    def test_not_to_be_read(self, tmp_path):
        os.mkfifo(tmp_path / "pipe.mp4")
        self.refuse(tmp_path / "pipe.mp4", r"pipe.mp4 is not a regular file")

    def test_a_stream_without_a_container(self, tmp_path):
        path = make_video(tmp_path / "a.mp4", has_audio=False)
        with av.open(str(path)) as file, av.open(str(tmp_path / "a.h264"), "w") as bare:
            stream = bare.add_stream_from_template(file.streams.video[0])
            for packet in file.demux(video=0):
                if packet.size:
                    packet.stream = stream
                    bare.mux(packet)
        self.refuse(tmp_path / "a.h264", r"a\.h264 is a bare stream.*remux it to MP4")

    def test_no_index(self, media, tmp_path):
        data = media("a.mp4").read_bytes()
        (tmp_path / "cut.mp4").write_bytes(data[: data.index(b"moov") - 10])
        self.refuse(tmp_path / "cut.mp4", r"no index \(no moov box\).*copy the whole file")

    def test_cut_inside_the_index(self, media, tmp_path):
        data = media("a.mp4").read_bytes()
        (tmp_path / "cut.mp4").write_bytes(data[:-100])
        self.refuse(tmp_path / "cut.mp4", r"cut off inside its index")

    def test_a_fragment_alone(self, media, tmp_path):
        data = media("f.mp4", layout="fragmented").read_bytes()
        (tmp_path / "part.mp4").write_bytes(data[data.index(b"moof") - 4 :])
        self.refuse(tmp_path / "part.mp4", r"fragment without its header.*initialisation segment")

    def test_an_index_and_nothing_else(self, media, tmp_path):
        data = media("first.mp4", layout="first").read_bytes()
        (tmp_path / "head.mp4").write_bytes(data[: data.index(b"mdat") + 4])
        self.refuse(tmp_path / "head.mp4", r"holds no packets; copy the whole file")

    def test_an_index_of_rubbish_is_no_crash(self, media, tmp_path):
        """Spoiled at one place after another, and nothing but a MediaError comes of it."""
        data = media("first.mp4", layout="first").read_bytes()
        start, end = data.index(b"moov") - 4, data.index(b"mdat") - 4
        path = tmp_path / "rubbish.mp4"
        for place in range(start, end, 17):
            path.write_bytes(data[:place] + b"\xff\xff" + data[place + 2 :])
            try:
                recording = open_recording(path)
                if recording.has_audio and recording.duration < 60:
                    whole_sound(recording)
            except MediaError as error:
                assert "\n" not in str(error)


def test_a_stream_that_appears_in_the_middle_is_passed_over(media, tmp_path):
    """A packet of sound that claims another codec: libav makes a stream of it, PyAV fails at it."""
    data = bytearray(
        media("a.flv", duration=12.0, audio=AudioPlan(CLICKS, codec="aac")).read_bytes()
    )
    tag, position = 0, 13
    while position < 0.7 * len(data) or tag != 8:
        position += 11 + int.from_bytes(data[position + 1 : position + 4], "big") + 4
        tag = data[position]
    data[position + 11] = 0x2F
    (tmp_path / "odd.flv").write_bytes(data)
    recording = open_recording(tmp_path / "odd.flv")
    assert recording.duration == pytest.approx(12.0, abs=0.1)
    assert click_times(whole_sound(recording), 16_000) == pytest.approx(CLICKS, abs=0.01)
    assert len(recording.frames([11.0])) == 1
    assert [frame.time for frame in scan_video(recording)][-1] == pytest.approx(11.9, abs=0.1)


def test_timestamps_that_nothing_can_last_are_refused(media, tmp_path):
    path = media("far.mkv", duration=1.0, audio=AudioPlan(hole=(0.1, 0.9)), frame_times=(0.0, 9e5))
    with pytest.raises(UnreadableFile, match=r"damaged timestamps: .* cannot last 250 h"):
        open_recording(path)


def test_a_cut_off_file_gives_what_it_has(media, tmp_path):
    data = media("first.mp4", layout="first", audio=AudioPlan(CLICKS, noise=0.1)).read_bytes()
    path = tmp_path / "cut.mp4"
    start = data.index(b"mdat")
    path.write_bytes(data[: start + (len(data) - start) // 2])
    recording = open_recording(path)
    assert 1.0 < recording.duration < 3.0
    heard = click_times(whole_sound(recording), 16_000)
    assert heard == pytest.approx([c for c in CLICKS if c < recording.duration], abs=0.01)
    (warning,) = inspect(recording).warnings
    assert "cut off: " in warning and "past the end of the file" in warning


def test_a_file_that_was_replaced_is_heard_by_its_own_tables(media, tmp_path):
    """What was read of its head is kept for the next opening, and for this very file alone."""
    path = tmp_path / "one.mp4"
    path.write_bytes(media("a.mp4").read_bytes())
    first = open_recording(path)
    assert sum(map(len, first.sound())) == round(first.duration * 16_000)
    path.write_bytes(media("b.mp4", duration=3.0, clicks=(0.5,)).read_bytes())
    with pytest.raises(UnreadableFile, match="changed while it was in use"):
        list(first.sound())
    second = open_recording(path)
    assert second.duration != first.duration
    assert sum(map(len, second.sound())) == round(second.duration * 16_000)


def dated(media, path, said):
    """A copy of a recording that says it began then."""
    with av.open(str(media("a.mp4"))) as given, av.open(str(path), "w") as made:
        made.metadata["creation_time"] = said
        streams = {one.index: made.add_stream_from_template(one) for one in given.streams}
        for packet in given.demux():
            if packet.dts is not None:
                packet.stream = streams[packet.stream.index]
                made.mux(packet)
    return path


@pytest.mark.parametrize(
    ("said", "began"),
    [
        ("2024-05-01T10:20:30.250000Z", "2024-05-01T10:20:30+00:00"),
        ("1981-01-01T00:00:00Z", "1981-01-01T00:00:00+00:00"),
        ("1980-12-31T00:00:00Z", ""),
        ("1970-01-01T00:00:00Z", ""),
    ],
)
def test_when_it_began_is_believed_of_a_clock_that_was_set(media, tmp_path, said, began):
    path = dated(media, tmp_path / "a.mp4", said)
    assert open_recording(path).began == began
    assert open_recording(media("a.mp4")).began == ""
    chapters = Source((str(path), str(dated(media, tmp_path / "b.mp4", "2030-01-01T00:00:00Z"))))
    assert open_recording(chapters).began == began, "as the first of them says"


def test_a_key_is_known_without_opening_the_file(media):
    uris = (str(media("a.mp4")), str(media("a.mkv")))
    for source in (Source(uris), Source(uris[:1])):
        assert content_key(source) == open_recording(source).key


def test_of_chapters_the_first_gives_the_container_and_any_the_access(media):
    mp4, mkv = str(media("a.mp4")), str(media("a.mkv"))
    both = open_recording(Source((mp4, mkv)))
    assert both.container.startswith("mov,mp4") and both.access == "demux"
    assert both.size_bytes == sum(Path(uri).stat().st_size for uri in (mp4, mkv))
    assert "no index of its packets" in both.access_reason
    assert "no index of its packets" not in open_recording(Source((mp4, mp4))).access_reason
    turned = open_recording(Source((mkv, mp4)))
    assert (turned.container.startswith("matroska"), turned.access) == (True, "demux")
    assert turned.access_reason == both.access_reason, "why it is not by the index"


def test_tracks_are_counted_from_0_and_no_further_than_there_are(media):
    path = media("two.mp4", audio=(AudioPlan(CLICKS), AudioPlan((2.0,), language="fra")))
    assert [track.language for track in open_recording(path).audio_tracks] == [None, "fra"]
    assert open_recording(path, audio_track=1).audio_track == 1
    with pytest.raises(ValueError, match="no track -1"):
        open_recording(path, audio_track=-1)
    with pytest.raises(NoAudioStream, match=r"no audio track 2; choose an `audio_track` of 0 to 1"):
        open_recording(path, audio_track=2)
    with pytest.raises(NoAudioStream, match=r"no audio track 1; it has none"):
        open_recording(media("mute.mp4", has_audio=False), audio_track=1)
    assert not open_recording(media("mute.mp4", has_audio=False)).has_audio


def test_opening_reads_the_index_and_little_else(media):
    path = media("minute.mp4", duration=60.0, size=(160, 40))
    recording = open_recording(path)
    assert 0 < recording.bytes_read < path.stat().st_size / 2


def test_the_key_of_one_file_is_its_own_and_that_of_chapters_all_of_them(tmp_path):
    paths = [str(make_video(tmp_path / f"{n}.mp4", duration=2.0 + n)) for n in range(2)]
    keys = [LocalStorage(path, Meter()).key() for path in paths]
    assert [content_key(Source((path,))) for path in paths] == keys
    both = {content_key(Source(order)) for order in (tuple(paths), tuple(reversed(paths)))}
    assert len(both | set(keys)) == 4


def test_sound_alone_may_take_fewer_bytes_than_pictures_do(tmp_path):
    """40 bytes a second: more than digital silence takes, and fewer than any pictures."""
    path = write_movie(tmp_path / "slow.mov", pcm(4.0, []), timescale=20)
    assert 20 < path.stat().st_size / 1600 < 60
    assert open_recording(path).duration == 1600.0


@pytest.mark.parametrize("seconds", [0.4, 0.8, 1.6])
def test_the_frame_rate_of_a_moment_is_counted(tmp_path, seconds):
    """Of pictures that follow each other unevenly, however few there are."""
    times = [0.0, 0.1, 0.3] if seconds < 0.5 else [0.0, 0.05, 0.4, 0.5]
    path = tmp_path / "short.mp4"
    make_video(path, duration=seconds, frame_times=times, has_audio=False, fps=30)
    recording = open_recording(path)
    assert recording.video.mean_fps == pytest.approx(len(times) / recording.duration, rel=0.01)


def test_the_ticks_of_a_clock_are_no_frame_rate(tmp_path):
    """Streams copied into Matroska without their rate tell 30,000 frames a second."""
    path = make_video(tmp_path / "a.mp4", duration=2.0, has_audio=False)
    with av.open(str(path)) as given, av.open(str(tmp_path / "a.mkv"), "w") as made:
        copy = made.add_stream_from_template(given.streams.video[0])
        for packet in given.demux(video=0):
            if packet.dts is not None:
                packet.stream = copy
                made.mux(packet)
    with av.open(str(tmp_path / "a.mkv")) as made:
        assert made.streams.video[0].average_rate > 1000
    assert open_recording(tmp_path / "a.mkv").video.mean_fps == pytest.approx(10.0)


def test_a_link_that_leads_nowhere_says_where_it_leads(tmp_path):
    (tmp_path / "a.mp4").symlink_to("/gone/card/a.mp4")
    with pytest.raises(UnreadableFile, match=r"a\.mp4 is a link to /gone/card/a\.mp4, which does"):
        open_recording(tmp_path / "a.mp4")


def test_a_gopro_stores_what_its_clock_shows(shared_data):
    assert open_recording(shared_data / "clips" / "karma.mp4").began == "2017-04-17T19:27:57"
