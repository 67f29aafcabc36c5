"""The boxes of an MP4, put together byte by byte: headers of 32 and of 64 bits, and odd ends."""

from __future__ import annotations

import struct
from contextlib import nullcontext
from pathlib import Path

import pytest

from earmark import open_recording
from earmark.errors import UnreadableFile
from earmark.media import Meter, mp4_boxes
from earmark.media.container import _read_tracks
from earmark.media.mp4_boxes import Trak, describe, read_boxes, read_traks, walk_boxes
from earmark.media.storage import LocalStorage
from hostile_media import FTYP, NUMBER, RATE, PcmMovie, box, pcm, write_movie
from making import click_times, whole_sound

SOUND = pcm(4.0, (1.0, 2.5))


def stored(path: Path, *data: bytes) -> LocalStorage:
    path.write_bytes(b"".join(data))
    return LocalStorage(str(path), Meter())


def kinds(storage: LocalStorage, start: int = 0) -> list[bytes]:
    return [box.kind for box in walk_boxes(storage, range(start, storage.size_bytes))]


def traks_of(storage: LocalStorage) -> list[Trak]:
    return read_traks(storage, read_boxes(storage)[b"moov"])


@pytest.mark.parametrize("version", [0, 1])
@pytest.mark.parametrize("is_long", [False, True])
def test_headers_of_64_bits_say_what_those_of_32_do(tmp_path, version, is_long):
    """A second of nothing, then all from half a second on."""
    path = write_movie(
        tmp_path / "a.mov",
        SOUND,
        version=version,
        is_long=is_long,
        edits=[(1000, -1), (3500, RATE // 2)],
    )
    recording = open_recording(path)
    assert (recording.access, recording.duration) == ("index", pytest.approx(4.5, abs=0.01))
    assert click_times(whole_sound(recording), 16_000) == pytest.approx([1.5, 3.0], abs=0.001)


@pytest.mark.parametrize("version", [0, 1])
@pytest.mark.parametrize("rotation", [0, 90, 180, 270])
def test_a_track_says_its_number_clock_turn_and_edits(tmp_path, version, rotation):
    movie = PcmMovie(8, version=version, rotation=rotation, edits=[(1000, -1), (250, 3)])
    storage = stored(tmp_path / "a.mov", FTYP, movie.moov())
    (trak,) = traks_of(storage)
    assert (trak.number, trak.kind, trak.ticks_a_second) == (NUMBER, b"soun", RATE)
    assert trak.rotation == rotation
    assert trak.edits == ((1.0, -1), (0.25, 3))
    assert {b"stts", b"stsc", b"stsz", b"stco"} <= trak.tables.keys()


def test_an_edit_longer_than_32_bits_can_say(tmp_path):
    movie = PcmMovie(8, version=1, edits=[(5 << 32, 6 << 32)])
    storage = stored(tmp_path / "a.mov", FTYP, movie.moov())
    (trak,) = traks_of(storage)
    assert trak.edits == (((5 << 32) / 1000, 6 << 32),)


@pytest.mark.parametrize("size", range(0, 92, 4))
@pytest.mark.parametrize("version", [0, 1])
def test_a_track_header_that_is_cut_off_says_nothing_wrong(tmp_path, size, version):
    turned = struct.pack(">9i", 0, 1 << 16, 0, -1 << 16, 0, 0, 0, 0, 1 << 30)
    times = struct.pack(">I16xIQI" if version else ">I8xIII", version << 24, NUMBER, 0, 0)
    header = (times + bytes(16) + turned)[:size]
    has_number, has_turn = size >= (24 if version else 16), size >= len(times) + 16 + 8
    moov = box(b"moov", PcmMovie(8).moov()[8:116], box(b"trak", box(b"tkhd", header)))
    storage = stored(tmp_path / "a.mov", FTYP, moov)
    (trak,) = traks_of(storage)
    assert (trak.number, trak.rotation) == (NUMBER * has_number, 90 * has_turn)
    assert (trak.kind, trak.ticks_a_second, trak.edits) == (b"", 1, ())


@pytest.mark.parametrize(
    ("within", "after", "is_fragmented"),
    [
        (b"", b"", False),
        (box(b"mvex"), b"", True),
        (b"", box(b"moof"), True),
        (box(b"mvex"), box(b"moof"), True),
    ],
)
def test_a_file_in_fragments_is_known_by_either_sign(tmp_path, within, after, is_fragmented):
    storage = stored(tmp_path / "a.mov", FTYP, PcmMovie(8, more=within).moov(), after)
    assert _read_tracks(storage).is_fragmented == is_fragmented


def test_a_movie_without_a_clock_has_no_tracks(tmp_path):
    moov = PcmMovie(8).moov()
    storage = stored(tmp_path / "a.mov", FTYP, moov.replace(b"mvhd", b"free"))
    assert traks_of(storage) == []


class TestWalk:
    def test_a_last_box_of_nothing_but_its_header_is_given(self, tmp_path):
        assert kinds(stored(tmp_path / "a", FTYP, box(b"free"))) == [b"ftyp", b"free"]

    @pytest.mark.parametrize("rest", [b"\0", b"\0\0\0\7", b"\0\0\0\7free"])
    def test_what_is_too_short_for_a_box_ends_it(self, tmp_path, rest):
        assert kinds(stored(tmp_path / "a", FTYP, rest)) == [b"ftyp"]

    def test_a_size_of_none_reaches_to_the_end(self, tmp_path):
        *_, last = walk_boxes(
            stored(tmp_path / "a", FTYP, box(b"mdat", bytes(99), size=0)),
            range(len(FTYP) + 107),
        )
        assert (last.kind, last.whole.start, last.whole.stop) == (
            b"mdat",
            len(FTYP),
            len(FTYP) + 107,
        )
        assert last.body.start == len(FTYP) + 8

    def test_one_that_reaches_past_the_end_is_given_and_ends_it(self, tmp_path):
        storage = stored(tmp_path / "a", FTYP, box(b"mdat", bytes(9), size=1 << 20))
        *_, last = walk_boxes(storage, range(storage.size_bytes))
        assert (last.kind, len(last.whole)) == (b"mdat", 1 << 20)

    @pytest.mark.parametrize("is_long", [False, True])
    def test_a_body_begins_behind_its_header(self, tmp_path, is_long):
        storage = stored(tmp_path / "a", FTYP, box(b"mdat", b"body", is_long=is_long))
        *_, last = walk_boxes(storage, range(storage.size_bytes))
        assert storage.read(last.body.start, last.body.stop) == b"body"
        assert last.whole.stop == storage.size_bytes

    @pytest.mark.parametrize(("size", "is_given"), [(15, False), (16, True)])
    def test_a_long_box_is_no_shorter_than_its_header(self, tmp_path, size, is_given):
        storage = stored(tmp_path / "a", FTYP, box(b"mdat", is_long=True, size=size))
        assert (kinds(storage) == [b"ftyp", b"mdat"]) == is_given


def test_a_description_holds_whole_boxes_and_nothing_too_large_to_copy(tmp_path):
    notes, junk = box(b"note", b"kept"), box(b"junk", bytes((1 << 20) + 1))
    storage = stored(tmp_path / "a.mov", FTYP, PcmMovie(8, more=notes + junk).moov())
    found = read_boxes(storage)
    said = describe(storage, found[b"ftyp"], found[b"moov"])
    again = stored(tmp_path / "b.mov", said)
    boxes = list(walk_boxes(again, range(again.size_bytes)))
    assert [box.kind for box in boxes] == [b"ftyp", b"moov"]
    assert boxes[-1].whole.stop == len(said)
    inside = list(walk_boxes(again, boxes[-1].body))
    assert [box.kind for box in inside] == [b"mvhd", b"trak", b"note"]
    assert inside[-1].whole.stop == len(said)
    assert again.read(inside[-1].body.start, inside[-1].body.stop) == b"kept"
    (trak,) = traks_of(again)
    assert (trak.number, trak.kind, trak.ticks_a_second) == (NUMBER, b"soun", RATE)


class CountingStorage(LocalStorage):
    """Says how often the disk was asked."""

    reads = 0

    def read_all(self, ranges):
        self.reads += 1
        return super().read_all(ranges)


def test_an_index_is_read_from_the_disk_once(tmp_path):
    path = write_movie(tmp_path / "a.mov", pcm(1.0, []))
    storage = CountingStorage(str(path), Meter())
    index = read_boxes(storage)[b"moov"]
    before = storage.reads
    assert before <= 6, "the boxes side by side, and all of the index at once"
    assert len(read_traks(storage, index)) == 1
    assert storage.reads == before


def test_of_fragments_the_first_tells_enough(tmp_path):
    path = tmp_path / "a.mp4"
    fragments = [box(b"moof"), box(b"mdat", bytes(50))] * 200
    path.write_bytes(FTYP + box(b"moov", box(b"mvex")) + b"".join(fragments))
    meter = Meter()
    assert b"moof" in read_boxes(LocalStorage(str(path), meter))
    assert meter.bytes_read < 200


@pytest.mark.parametrize("less", [0, 1])
def test_an_index_may_be_as_large_as_any_recording_s(tmp_path, monkeypatch, less):
    path = write_movie(tmp_path / "a.mov", pcm(1.0, []))
    storage = LocalStorage(str(path), Meter())
    size = len(read_boxes(storage)[b"moov"].whole)
    monkeypatch.setattr(mp4_boxes, "MOST_INDEX_BYTES", size - less)
    with (
        pytest.raises(UnreadableFile, match="larger than any recording") if less else nullcontext()
    ):
        read_boxes(storage)


@pytest.mark.parametrize("rest", [-8, -1, 0, 1, 11])
def test_a_table_of_edits_may_end_in_the_middle_of_one(tmp_path, rest):
    row = struct.pack(">IiI", 2000, -1, 1 << 16)
    lines = (
        b"".join([bytes(8), row, row, row])[: 8 + 2 * len(row) + rest]
        if rest >= 0
        else bytes(-rest)
    )
    trak = box(b"trak", box(b"edts", box(b"elst", lines)))
    storage = stored(tmp_path / "a.mov", FTYP, box(b"moov", PcmMovie(8).moov()[8:116], trak))
    (found,) = traks_of(storage)
    assert found.edits == ((2.0, -1),) * (2 if rest >= 0 else 0)


def test_a_file_whose_tables_claim_too_much_is_not_opened(tmp_path):
    path = write_movie(tmp_path / "a.mov", SOUND, stsz=(1 << 30, 1 << 20))
    with pytest.raises(UnreadableFile, match="has a damaged index: a track of"):
        open_recording(path)


def test_a_file_whose_fragments_claim_too_much_is_not_opened(tmp_path):
    run = box(b"trun", bytes(4), struct.pack(">I", (1 << 32) - 1))
    movie = PcmMovie(len(SOUND) // 2, more=box(b"mvex")).moov()
    path = tmp_path / "a.mp4"
    path.write_bytes(FTYP + movie + box(b"moof", box(b"traf", run)))
    with pytest.raises(UnreadableFile, match="its fragments name"):
        open_recording(path)
