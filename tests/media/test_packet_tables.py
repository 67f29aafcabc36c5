"""Packet tables put together row by row, as ISO/IEC 14496-12 defines them in 8.6 and 8.7."""

from __future__ import annotations

import struct
from pathlib import Path

import numpy as np
import pytest

from earmark.errors import UnreadableFile
from earmark.media import Meter
from earmark.media.mp4_boxes import Edit, Trak
from earmark.media.mp4_index import (
    MOST_PACKET_BYTES,
    MOST_PACKETS,
    PacketIndex,
    check_fragments,
    read_packets,
    why_unsupported,
)
from earmark.media.storage import LocalStorage
from hostile_media import FTYP, box, table

FILE_BYTES = 10_000


def rows(*numbers: tuple[int, ...], form: str = "I") -> bytes:
    return table(b"none", *numbers, form=form)[8:]


def sizes(*each: int, constant: int = 0, count: int | None = None) -> bytes:
    told = len(each) if count is None else count
    return struct.pack(f">4xII{len(each)}I", constant, told, *each)


class Film:
    """A track of five packets in three chunks; any table may be another."""

    def __init__(self, folder: Path, *edits: Edit, ticks: int = 10, **tables: bytes | None) -> None:
        given = {
            "stts": rows((5, 2)),
            "stsc": rows((1, 2, 1), (3, 1, 1)),
            "stsz": sizes(10, 20, 30, 40, 50),
            "stco": rows((100,), (200,), (300,)),
            **tables,
        }
        held, data = {}, b""
        for kind, body in given.items():
            if body is not None:
                held[kind.encode()] = range(len(data), len(data) + len(body))
                data += body
        path = folder / "tables"
        path.write_bytes(data.ljust(FILE_BYTES, b"\xff"))
        self.storage = LocalStorage(str(path), Meter())
        self.trak = Trak(1, b"vide", ticks, 0, edits, held)

    def index(self) -> PacketIndex:
        return read_packets(self.storage, self.trak)


def test_packets_follow_one_another_in_their_chunks(tmp_path):
    index = Film(tmp_path).index()
    assert index.positions.tolist() == [100, 110, 200, 230, 300]
    assert index.sizes.tolist() == [10, 20, 30, 40, 50]
    assert index.stamps.tolist() == [0, 2, 4, 6, 8]
    assert index.is_shown.all() and index.is_key.all()
    assert (len(index), index.size_bytes, index.start, index.end) == (5, 150, 0.0, 1.0)
    assert (index.ticks_a_second, index.missing_packets) == (10, 0)


@pytest.mark.parametrize("form", ["stco", "co64"])
def test_chunks_are_found_by_places_of_32_and_of_64_bits(tmp_path, form):
    places = rows((100,), (200,), (300,), form="Q" if form == "co64" else "I")
    film = Film(tmp_path, **{"stco": None, form: places})
    assert film.index().positions.tolist() == [100, 110, 200, 230, 300]


def test_a_place_past_32_bits_is_not_folded_into_them(tmp_path):
    film = Film(tmp_path, stco=None, co64=rows((100,), (200,), ((1 << 32) + 300,), form="Q"))
    index = film.index()
    assert index.positions.tolist() == [100, 110, 200, 230], "the last lies past the end"
    assert index.missing_packets == 1


def test_a_run_of_chunks_goes_on_until_the_next(tmp_path):
    film = Film(
        tmp_path,
        stts=rows((6, 2)),
        stsc=rows((1, 1, 1), (4, 3, 1)),
        stsz=sizes(constant=8, count=6),
        stco=rows((100,), (200,), (300,), (400,)),
    )
    index = film.index()
    assert index.positions.tolist() == [100, 200, 300, 400, 408, 416]
    assert index.sizes.tolist() == [8] * 6


def test_pictures_are_shown_out_of_order_and_before_they_are_due(tmp_path):
    """Offsets are signed, whatever the version says."""
    film = Film(tmp_path, ctts=rows((1, 2), (2, 4), (1, (1 << 32) - 4), (1, 0)))
    assert film.index().stamps.tolist() == [2, 6, 8, 2, 8]


def test_packets_of_one_tick_each_are_no_raw_sound_where_they_differ_in_size(tmp_path):
    index = Film(tmp_path, stts=rows((5, 1))).index()
    assert (index.sizes.tolist(), index.stamps.tolist()) == ([10, 20, 30, 40, 50], list(range(5)))


def test_durations_that_end_early_are_none(tmp_path):
    index = Film(tmp_path, stts=rows((2, 3)), ctts=rows((1, 1))).index()
    assert index.stamps.tolist() == [1, 3, 6, 6, 6]


def test_key_frames_are_those_named_and_all_where_none_is(tmp_path):
    film = Film(tmp_path, stss=rows((1,), (4,), (0,), (6,), (99,)))
    assert np.flatnonzero(film.index().is_key).tolist() == [0, 3]
    assert not Film(tmp_path, stss=rows()).index().is_key.any()


@pytest.mark.parametrize(
    ("edits", "stamps", "shown", "between"),
    [
        ([(0.5, -1), (1.0, 0)], [5, 7, 9, 11, 13], [0, 1, 2, 3, 4], (0.5, 1.5)),
        ([(0.6, 4)], [-4, -2, 0, 2, 4], [2, 3, 4], (0.0, 0.6)),
        ([(0.5, 3)], [-3, -1, 1, 3, 5], [1, 2, 3], (0.0, 0.5)),
        ([(0.0, 4)], [-4, -2, 0, 2, 4], [2, 3, 4], (0.0, 0.6)),
        ([(0.5, -1)], [5, 7, 9, 11, 13], [0, 1, 2, 3, 4], (0.5, 1.5)),
        ([(1.0, 1 << 62)], None, [], (0.0, 0.0)),
    ],
)
def test_edits_move_and_cut(tmp_path, edits, stamps, shown, between):
    index = Film(tmp_path, *edits).index()
    assert np.flatnonzero(index.is_shown).tolist() == shown
    assert (index.start, index.end) == pytest.approx(between)
    if stamps:
        assert index.stamps.tolist() == stamps


def test_packets_past_the_end_of_the_file_are_missing_and_counted(tmp_path):
    film = Film(tmp_path, stco=rows((100,), (FILE_BYTES - 70,), (FILE_BYTES - 49,)))
    index = film.index()
    assert (index.positions.tolist(), index.missing_packets) == ([100, 110, 9930, 9960], 1)
    assert index.end == pytest.approx(0.8), "they are not shown either"
    whole = Film(tmp_path, stco=rows((100,), (200,), (FILE_BYTES - 50,))).index()
    assert (len(whole), whole.missing_packets) == (5, 0)


def test_a_track_without_packets_is_empty(tmp_path):
    index = Film(tmp_path, stts=rows(), stsc=rows(), stsz=sizes(), stco=rows()).index()
    assert (len(index), index.start, index.end, index.missing_packets) == (0, 0.0, 0.0, 0)


def test_a_table_has_the_rows_it_says_and_holds(tmp_path):
    """One says more than it holds; one says fewer."""
    film = Film(tmp_path, stsz=sizes(10, 20, 30, count=99), stco=rows((100,), (200,)))
    assert film.index().positions.tolist() == [100, 110, 200]
    film = Film(tmp_path, stsz=sizes(10, 20, 30, 40, 50, count=2))
    assert film.index().sizes.tolist() == [10, 20]


def test_a_constant_size_is_of_no_more_packets_than_the_file_could_hold(tmp_path):
    film = Film(
        tmp_path, stsz=sizes(constant=1000, count=1 << 30), stsc=rows((1, 1 << 20, 1)),
        stco=rows((0,)), stts=rows((1 << 30, 2)),
    )  # fmt: skip
    assert len(film.index()) == FILE_BYTES // 1000


def raw(tmp_path, *, held: int, constant: int = 2, places: tuple[int, ...] = (100,)) -> Film:
    count = min(held * len(places), (1 << 32) - 1)
    return Film(
        tmp_path,
        stts=rows((count, 1)),
        stsc=rows((1, held, 1)),
        stsz=sizes(constant=constant, count=count),
        stco=rows(*[(place,) for place in places]),
        stsd=struct.pack(">24xHHIHHHHI", 0, 0, 0, 1, 8 * constant, 0, 0, 8000 << 16),
    )


def test_a_chunk_of_raw_sound_is_one_packet(tmp_path):
    index = raw(tmp_path, held=30, places=(100, 500)).index()
    assert (index.positions.tolist(), index.sizes.tolist()) == ([100, 500], [60, 60])
    assert (index.stamps.tolist(), index.end) == ([0, 30], 6.0)


def test_a_long_chunk_of_raw_sound_is_cut_into_pieces(tmp_path, monkeypatch):
    monkeypatch.setattr("earmark.media.mp4_index._PIECE_BYTES", 20)
    index = raw(tmp_path, held=25, places=(100, 500)).index()
    assert index.positions.tolist() == [100, 120, 140, 500, 520, 540]
    assert index.sizes.tolist() == [20, 20, 10, 20, 20, 10]
    assert index.stamps.tolist() == [0, 10, 20, 25, 35, 45]


@pytest.mark.parametrize(
    ("kept", "obstacle"),
    [
        (("stts", "stsc", "stsz"), ""),
        (("stts", "stsc", "stsz", "stco"), ""),
        (("stts", "stsc", "stco"), "unsupported kind"),
        (("stsc", "stsz", "stco"), "unsupported kind"),
    ],
)
def test_what_tables_a_track_must_have(tmp_path, kept, obstacle):
    others = {kind: None for kind in ("stts", "stsc", "stsz", "stco") if kind not in kept}
    film = Film(tmp_path, **others)
    said = why_unsupported(film.storage, film.trak)
    assert obstacle in said and bool(obstacle) == bool(said)


def test_several_pieces_of_a_track_are_an_obstacle_and_several_of_nothing_are_none(tmp_path):
    film = Film(tmp_path, (1.0, 0), (1.0, 5))
    assert "several pieces" in why_unsupported(film.storage, film.trak)
    film = Film(tmp_path, (1.0, -1), (1.0, -1), (1.0, 0))
    assert why_unsupported(film.storage, film.trak) == ""


@pytest.mark.parametrize(("said", "is_obstacle"), [(16, False), (8, True)])
def test_raw_sound_must_be_as_wide_as_it_says(tmp_path, said, is_obstacle):
    film = raw(tmp_path, held=30)
    wide = struct.pack(">24xHHIHHHHI", 0, 0, 0, 1, said, 0, 0, 8000 << 16)
    path = Path(film.storage.uri)
    body = film.trak.tables[b"stsd"]
    data = path.read_bytes()
    path.write_bytes(data[: body.start] + wide + data[body.stop :])
    again = LocalStorage(str(path), Meter())
    assert ("how large a sample is" in why_unsupported(again, film.trak)) == is_obstacle


class TestBatches:
    def index(self, *each: int) -> PacketIndex:
        count = len(each)
        zeros, ones = np.zeros(count, np.int64), np.ones(count, np.bool_)
        return PacketIndex(zeros, np.array(each, np.int32), zeros, ones, ones, 1, 0.0, 0.0, 0)

    def ends(self, *each: int, limit_bytes: int) -> list[int]:
        batches = list(self.index(*each).batches(limit_bytes))
        ends = [batch.stop for batch in batches]
        assert [batch.start for batch in batches] == [0, *ends[:-1]]
        return ends

    def test_a_batch_holds_what_fits_and_never_nothing(self):
        assert self.ends(600, 400, 100, 5000, 1, limit_bytes=1000) == [2, 3, 4, 5]
        assert self.ends(400, 100, 5000, 1, limit_bytes=1000) == [2, 3, 4]

    def test_small_packets_are_no_more_than_one_in_64_bytes(self):
        assert self.ends(*[1] * 25, limit_bytes=640) == [10, 20, 25]


class TestLimits:
    @pytest.mark.parametrize(
        ("count", "size", "is_refused"),
        [
            (MOST_PACKETS, 1, False),
            (MOST_PACKETS + 1, 1, True),
            (1, MOST_PACKET_BYTES, False),
            (1, MOST_PACKET_BYTES + 1, True),
        ],
    )
    def test_of_packets_of_one_size(self, tmp_path, count, size, is_refused):
        film = Film(tmp_path, stsz=sizes(constant=size, count=count))
        self.check(film, is_refused)

    @pytest.mark.parametrize("extra", [0, 1])
    def test_of_packets_each_with_its_size(self, tmp_path, extra):
        film = Film(tmp_path, stsz=sizes(5, MOST_PACKET_BYTES + extra, 7))
        self.check(film, bool(extra))

    @pytest.mark.parametrize("extra", [0, 1])
    def test_of_packets_of_few_bits(self, tmp_path, extra):
        film = Film(tmp_path, stsz=None, stz2=struct.pack(">4xII", 4, MOST_PACKETS + extra))
        self.check(film, bool(extra))

    @pytest.mark.parametrize(
        ("samples", "size", "is_refused"),
        [
            (MOST_PACKETS << 9, 1, False),  # half as many pieces as there may be
            (MOST_PACKETS << 10, 1, True),  # a chunk, and all the pieces there may be
            (MOST_PACKETS << 7, 4096, False),  # by its bytes
            (MOST_PACKETS << 8, 4096, True),
        ],
    )
    def test_of_raw_sound_in_pieces(self, tmp_path, samples, size, is_refused):
        """By what libav makes of a long chunk: pieces of 1,024 samples, or of a megabyte."""
        places = tuple(range(100, 116))
        film = raw(tmp_path, held=samples // len(places), constant=size, places=places)
        self.check(film, is_refused)

    def check(self, film: Film, is_refused: bool) -> None:
        if not is_refused:
            why_unsupported(film.storage, film.trak)
            return
        with pytest.raises(UnreadableFile, match="has a damaged index: a track of"):
            why_unsupported(film.storage, film.trak)

    @pytest.mark.parametrize("extra", [0, 1])
    def test_of_fragments_together(self, tmp_path, extra):
        half = MOST_PACKETS // 2
        runs = [box(b"trun", bytes(4), struct.pack(">I", n)) for n in (half, half + extra)]
        moofs = [box(b"moof", box(b"traf", run)) for run in runs]
        stray = box(b"free", box(b"traf", box(b"trun", bytes(4), b"\xff" * 4)))
        path = tmp_path / "a.mp4"
        path.write_bytes(FTYP + stray + b"".join(moofs))
        storage = LocalStorage(str(path), Meter())
        if not extra:
            check_fragments(storage)
            return
        with pytest.raises(UnreadableFile, match="its fragments name"):
            check_fragments(storage)
