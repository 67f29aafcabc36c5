"""What was marked on a GoPro camera is read from the index of a file, whichever way it is there."""

from __future__ import annotations

import json
import struct

import pytest
from typer.testing import CliRunner

from earmark import open_recording
from earmark.cli.app import app
from earmark.media import Source
from highlight_film import film_highlights, gpmf, hmmt, klv
from hostile_media import box

PRESSED = struct.pack(">I20x4s8x", 5000, b"MANL")
OTHERS = b"".join(
    [
        klv(b"HLMT", struct.pack(">I20x4s12x", 2000, b"MANL"), b"?", size=40),
        klv(b"SCAL", struct.pack(">I20x4s8x", 3000, b"MANL"), b"?", size=36),
        klv(b"MINF", b"HERO1", b"c"),  # filled up to whole words
        klv(b"HLMT", PRESSED, b"?", size=36),
        struct.pack(">4scBH", b"TICK", b"L", 4, 0),
    ]
)
"""Records of another length, other records of that length, and one that counts."""


@pytest.mark.parametrize(
    ("boxes", "marks"),
    [
        ((hmmt([1500, 8040]),), (1.5, 8.04)),
        ((hmmt([]),), ()),
        ((gpmf([(9225, b"MANL"), (3865, b"FUSE"), (2000, b"MANL")]),), (2.0, 9.225)),
        ((hmmt([2000]), gpmf([(2000, b"MANL"), (7000, b"MANL")])), (2.0, 7.0)),
        ((hmmt([2000, 99_000]),), (2.0,)),
        ((box(b"HMMT", struct.pack(">II", 2**31, 700)),), (0.7,)),
        ((box(b"HMMT"), box(b"HMMT", b"abc"), box(b"GPMF", b"DEVC\0\xff\xff\xff")), ()),
        ((box(b"FIRM", b"HD4.02"), bytes(4)), ()),
        ((box(b"GPMF", OTHERS),), (5.0,)),
    ],
    ids=[
        "HMMT",
        "none",
        "GPMF",
        "both",
        "past the end",
        "too many",
        "cut off",
        "others",
        "other records",
    ],
)
def test_marks_are_read_and_nothing_else(tmp_path, boxes, marks):
    assert open_recording(film_highlights(tmp_path / "a.mp4", *boxes)).marks == marks


def test_of_chapters_they_are_on_the_clock_of_the_recording(tmp_path):
    files = [
        film_highlights(tmp_path / name, hmmt([1000 * number]))
        for number, name in enumerate(("GX010042.mp4", "GX020042.mp4"), start=1)
    ]
    recording = open_recording(Source(tuple(map(str, files))))
    first, second = recording.marks
    assert first == 1.0 and second == pytest.approx(recording.parts[1].start + 2.0)


def test_doctor_lists_them(tmp_path):
    path = film_highlights(tmp_path / "a.mp4", hmmt([1500, 8040]))
    said = CliRunner().invoke(app, ["doctor", str(path)])
    assert "2 highlights marked: 0:01.5, 0:08.0" in said.output
    plain = CliRunner().invoke(app, ["doctor", str(path), "--format", "json"])
    assert json.loads(plain.stdout)["recordings"][0]["marks"] == [1.5, 8.04]


def test_a_file_without_any_has_none(tmp_path):
    assert open_recording(film_highlights(tmp_path / "a.mp4")).marks == ()
