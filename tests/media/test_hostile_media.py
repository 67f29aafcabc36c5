"""Files made to do harm: each is an error with its name, in bounded time and memory."""

from __future__ import annotations

import os
import struct
import subprocess
import sys
import zlib
from pathlib import Path

import pytest

from earmark import open_recording
from earmark.errors import MediaError, UnreadableFile
from earmark.media import Meter
from earmark.media.storage import LocalStorage
from hostile_media import FTYP, PcmMovie, box, pcm, wav, write_movie
from making import click_times, whole_sound

CLICKS = (1.0, 2.5)
SOUND = pcm(4.0, CLICKS)


def refuse(path: Path, words: str, error: type[MediaError] = UnreadableFile) -> None:
    """Whoever reads `path` is told so, by name and in one line."""
    with pytest.raises(error, match=words) as caught:
        whole_sound(open_recording(path))
    assert path.name in str(caught.value)
    assert "\n" not in str(caught.value)


def within(path: Path, megabytes: int) -> str:
    """What reading `path` says in a process that may have so many megabytes above what it has."""
    code = f"""
import resource
from earmark.errors import MediaError
from earmark.media import open_recording
import av, numpy
have = int(open("/proc/self/statm").read().split()[0]) * resource.getpagesize()
limit = have + ({megabytes} << 20)
resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
try:
    recording = open_recording({str(path)!r})
    seconds = sum(len(block) / block.sample_rate for block in recording.sound())
    if recording.has_video:
        recording.frames([0.0])
    print("heard", seconds)
except MediaError as error:
    print(error)
"""
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stderr
    return ran.stdout


def sparse(path: Path, size_bytes: int, *pieces: tuple[int, bytes]) -> Path:
    """A file of holes with something written here and there."""
    with path.open("wb") as file:
        os.truncate(file.fileno(), size_bytes)
        for place, data in pieces:
            file.seek(place)
            file.write(data)
    return path


def test_what_is_put_together_is_heard(tmp_path):
    """The files below differ from this one in a single way."""
    recording = open_recording(write_movie(tmp_path / "a.mov", SOUND))
    assert recording.access == "index"
    assert click_times(whole_sound(recording), 16_000) == pytest.approx(CLICKS, abs=0.001)


@pytest.mark.parametrize(("frame_bytes", "access"), [(2, "index"), (4, "demux")])
def test_raw_sound_is_read_by_the_index_where_its_samples_are_what_they_say(
    tmp_path, frame_bytes, access
):
    recording = open_recording(write_movie(tmp_path / "a.mov", SOUND, frame_bytes=frame_bytes))
    assert recording.access == access
    if access == "index":
        assert click_times(whole_sound(recording), 16_000) == pytest.approx(CLICKS, abs=0.001)


class TestLargeFiles:
    """Over 4 GB, the usual case: a size or a place does not fit in 32 bits."""

    PLACE = (1 << 32) + 12_345

    def test_64_bit_sizes_and_chunk_offsets(self, tmp_path):
        movie = PcmMovie(len(SOUND) // 2, chunks=(self.PLACE,), chunk_table=b"co64")
        index = self.PLACE + len(SOUND)
        media = box(b"mdat", is_long=True, size=index - len(FTYP))
        path = sparse(tmp_path / "a.mov", index, (0, FTYP + media), (self.PLACE, SOUND))
        with path.open("ab") as file:
            file.write(movie.moov())
        recording = open_recording(path)
        meter = Meter()
        assert recording.access == "index"
        assert click_times(whole_sound(recording, meter=meter), 16_000) == pytest.approx(
            CLICKS, abs=0.001
        )
        assert meter.bytes_read < 2 * len(SOUND)

    def test_a_32_bit_table_reads_other_bytes(self, tmp_path):
        """Offsets of 64 bits in a small file; their high words are not chunks of their own."""
        half = len(SOUND) // 2
        head = len(FTYP) + len(PcmMovie(half, chunks=(0, 0), chunk_table=b"co64").moov()) + 8
        path = write_movie(
            tmp_path / "a.mov", SOUND, chunks=(head, head + half), chunk_table=b"co64"
        )
        recording = open_recording(path)
        assert recording.duration == 4.0
        assert click_times(whole_sound(recording), 16_000) == pytest.approx(CLICKS, abs=0.001)

    def test_a_long_chunk_is_read_in_pieces(self, tmp_path):
        sound = pcm(200.0, [1.0, 150.0])
        recording = open_recording(write_movie(tmp_path / "a.mov", sound))
        assert click_times(whole_sound(recording), 16_000) == pytest.approx([1, 150], abs=0.001)


class TestBoxes:
    def test_deeply_nested_boxes(self, tmp_path):
        nested = b""
        for _ in range(5000):
            nested = box(b"trak", nested)
        recording = open_recording(write_movie(tmp_path / "a.mov", SOUND, more=nested))
        assert recording.duration == 4.0
        for kind in (b"mdia", b"minf", b"stbl", b"moov", b"edts"):
            nested = box(kind, nested)
        (tmp_path / "b.mov").write_bytes(FTYP + box(b"moov", nested))
        refuse(tmp_path / "b.mov", r"b.mov is not a media file|holds neither")

    @pytest.mark.parametrize("size", [2**40, 2**62, 2**64 - 1])
    @pytest.mark.parametrize("kind", [b"ftyp", b"free", b"moov", b"mdat"])
    def test_an_oversized_box(self, tmp_path, kind, size):
        data = box(kind, bytes(24), is_long=True, size=size)
        (tmp_path / "a.mov").write_bytes(data + PcmMovie(8).moov())
        refuse(tmp_path / "a.mov", r"a.mov (has no index|is cut off inside its index)")
        more = box(kind, bytes(24), is_long=True, size=size)
        assert open_recording(write_movie(tmp_path / "b.mov", SOUND, more=more)).duration == 4.0

    def test_a_heap_of_boxes(self, tmp_path):
        """16 MB of boxes without a body, wherever they lie: a few thousand of them are read."""
        heap = box(b"free") * (1 << 21)
        for data in (FTYP + heap, FTYP + box(b"moov", heap)):
            (tmp_path / "a.mov").write_bytes(data)
            refuse(tmp_path / "a.mov", r"a.mov has 4,\d\d\d almost empty boxes")

    def test_a_compressed_index(self, tmp_path):
        moov = zlib.compress(bytes(1 << 20))
        data = box(b"cmvd", struct.pack(">I", 1 << 31), moov)
        cmov = box(b"cmov", box(b"dcom", b"zlib"), data)
        (tmp_path / "a.mov").write_bytes(FTYP + box(b"moov", cmov) + box(b"mdat", SOUND))
        refuse(tmp_path / "a.mov", r"a.mov has a compressed index \(cmov\)")


class TestMemory:
    def test_an_index_of_holes(self, tmp_path):
        size = 1_800_000_000
        moov = struct.pack(">I4s", size - len(FTYP), b"moov") + box(b"free", size=size - 200)
        path = sparse(tmp_path / "a.mov", size, (0, FTYP + moov))
        assert "has an index (moov) of 1,800 MB" in within(path, 400)

    def test_a_large_box_in_the_index_is_not_read(self, tmp_path):
        more = box(b"junk", size=(1 << 27) + 8)
        whole = write_movie(tmp_path / "a.mov", SOUND, more=b"")
        movie = PcmMovie(len(SOUND) // 2)
        start = len(FTYP)
        length = len(movie.moov()) + (1 << 27) + 8
        place = start + length + 8
        movie = PcmMovie(len(SOUND) // 2, chunks=(place,), more=more)
        moov = movie.moov()
        head = struct.pack(">I", length) + moov[4:]
        path = sparse(whole, place + len(SOUND), (0, FTYP + head), (place - 8, box(b"mdat", SOUND)))
        assert open_recording(path).duration == 4.0
        assert open_recording(path).bytes_read < 100_000

    @pytest.mark.parametrize(
        "lies",
        [
            {"stts": [(8, 1024)], "stsz": (1, (1 << 32) - 1), "chunks": (1000,)},
            {"stsc": 1 << 31, "chunks": (1000,) * 1000},
        ],
        ids=["by size", "by chunk"],
    )
    def test_tables_that_claim_billions(self, tmp_path, lies):
        """A few bytes that claim every byte of 4 GB for a packet of its own, or many times over."""
        movie = PcmMovie((1 << 32) - 1, **lies)
        path = sparse(tmp_path / "a.mov", 1 << 32, (0, FTYP + movie.moov() + box(b"mdat", size=0)))
        assert "a.mov has a damaged index: a track of " in within(path, 400)

    @pytest.mark.parametrize("nest", [(b"udta",), (b"udta", b"udta", b"stbl"), (b"trak", b"dinf")])
    def test_a_table_hidden_where_none_belongs(self, tmp_path, nest):
        """libav reads a table wherever it lies; what we check must be what it reads."""
        hidden = box(b"stsz", struct.pack(">III", 0, 1, 1 << 27))
        for kind in reversed(nest):
            hidden = box(kind, hidden)
        path = write_movie(tmp_path / "a.mov", SOUND, more=hidden)
        refuse(path, "has packet tables in the wrong place")

    def test_a_second_table_and_one_in_a_description_of_sound(self, tmp_path):
        path = write_movie(tmp_path / "a.mov", SOUND)
        data = path.read_bytes()
        place = data.index(b"stsc")
        twice = data[:place] + b"stts" + data[place + 4 :]
        path.write_bytes(twice)
        refuse(path, "has packet tables in the wrong place")
        place = data.index(b"sowt") + 20
        path.write_bytes(data[:place] + b"stsz" + data[place + 4 :])
        refuse(path, "has packet tables in the wrong place")

    def test_pictures_larger_than_any_cameras(self, media, monkeypatch):
        path = media("a.mp4", duration=2.0)
        video = open_recording(path).video
        assert video is not None
        pixels = video.width_pixels * video.height_pixels
        monkeypatch.setattr("earmark.media.container.MOST_PIXELS", 2 * pixels)
        assert len(open_recording(path).frames([0.5])) == 1
        monkeypatch.setattr("earmark.media.container.MOST_PIXELS", pixels // 2)
        with pytest.raises(MediaError):
            open_recording(path).frames([0.5])

    def test_fragments_that_claim_billions(self, tmp_path, media):
        data = media("f.mp4", layout="fragmented").read_bytes()
        place = data.index(b"trun") + 8
        spoiled = data[:place] + struct.pack(">I", 1 << 27) + data[place + 4 :]
        (tmp_path / "a.mp4").write_bytes(spoiled)
        assert "a.mp4 has a damaged index: its fragments name" in within(tmp_path / "a.mp4", 400)


class TestClocks:
    @pytest.mark.parametrize(
        "lies",
        [
            {"timescale": 1},
            {"edits": [(2**32 - 2, -1), (4000, 0)]},
            {"edits": [(2**32 - 2, -1)]},
            {"stts": [(len(SOUND) // 2, 2**30)]},
        ],
        ids=str,
    )
    def test_a_movie(self, tmp_path, lies):
        path = write_movie(tmp_path / "a.mov", SOUND, **lies)
        refuse(path, r"a.mov has damaged timestamps: 64,\d+ bytes cannot last [\d,.]+ h")

    def test_months_of_nothing_before_a_large_file(self, tmp_path):
        path = write_movie(tmp_path / "a.mov", SOUND, edits=[(2**32 - 2, -1), (4000, 0)])
        os.truncate(path, 1 << 32)
        refuse(path, r"a.mov has damaged timestamps: .* cannot last 1,193 h")

    def test_sound_of_another_world(self, tmp_path):
        for channels, rate in ((1, 5), (64, 5), (1, 2**31 - 1), (64, 999)):
            (tmp_path / "a.wav").write_bytes(wav(channels, rate))
            refuse(tmp_path / "a.wav", r"a.wav has (damaged|an audio track 0 at)", MediaError)

    def test_channels_that_nobody_can_mix(self, tmp_path):
        (tmp_path / "a.wav").write_bytes(wav(channels=255))
        refuse(tmp_path / "a.wav", r"a.wav: its sound cannot be mixed and resampled \(Invalid")


class TestChanges:
    """A file is read as the one it was when it was opened, or not at all."""

    def test_while_it_is_described_and_after(self, tmp_path):
        path = write_movie(tmp_path / "a.mov", SOUND)
        recording = open_recording(path)
        blocks = recording.sound()
        write_movie(path, pcm(4.0, [3.0]))
        for need in (lambda: next(blocks), lambda: whole_sound(recording)):
            with pytest.raises(UnreadableFile, match=r"a.mov changed while it was in use"):
                need()
        assert click_times(whole_sound(open_recording(path)), 16_000) == pytest.approx(
            [3.0], abs=0.001
        )

    def test_while_it_is_open(self, tmp_path):
        path = write_movie(tmp_path / "a.mov", SOUND)
        storage = LocalStorage(str(path), Meter())
        assert storage.read(4, 8) == b"ftyp"
        with path.open("r+b") as file:
            file.write(FTYP[::-1])
        os.utime(path, ns=(1, 1))
        with pytest.raises(UnreadableFile, match=r"a.mov changed while it was in use"):
            storage.read(4, 8)
        storage.close()


NAMES_OTHERS = {
    "ffconcat": "ffconcat version 1.0\nfile '{other}'\n",
    "hls": "#EXTM3U\n#EXT-X-TARGETDURATION:4\n#EXTINF:4,\n{other}\n#EXT-X-ENDLIST\n",
    "sdp": (
        "v=0\r\no=- 0 0 IN IP4 127.0.0.1\r\ns=x\r\nc=IN IP4 127.0.0.1\r\nt=0 0\r\n"
        "m=audio 5004 RTP/AVP 0\r\n"
    ),
    "dash": (
        '<?xml version="1.0"?>\n<MPD xmlns="urn:mpeg:dash:schema:mpd:2011" type="static" '
        'profiles="urn:mpeg:dash:profile:isoff-main:2011"><Period><BaseURL>{other}</BaseURL>'
        "</Period></MPD>\n"
    ),
    "vobsub": "# VobSub index file, v7\nid: en, index: 0\n",
}


@pytest.mark.parametrize("kind", NAMES_OTHERS)
def test_a_file_that_names_others_opens_none(tmp_path, kind):
    other = write_movie(tmp_path / "other.mov", SOUND)
    path = tmp_path / "list.mp4"
    path.write_text(NAMES_OTHERS[kind].format(other=other.name))
    refuse(path, r"list.mp4 is text, not a media file; playlists are not followed")
