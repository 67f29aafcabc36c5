"""Chapters as FFmpeg reads them, and in the containers it writes them into."""

from __future__ import annotations

from pathlib import Path

import av
import pytest

from earmark.ledger.run_reader import Run
from earmark.media.demo_scene import make_scene
from earmark.reporting.chapter_marks import GAP
from earmark.reporting.export_formats import export
from ledger_runs import fill, open_run

CAPTION = "a = hammer; #1 \\ falls\n[CHAPTER]\nSTART=0"


def read(path: Path, kind: str | None = None) -> list[tuple[float, float, str]]:
    """The chapters of a file in seconds, as FFmpeg's own library reads them."""
    with av.open(str(path), format=kind) as file:
        return [
            (
                float(one["start"] * one["time_base"]),
                float(one["end"] * one["time_base"]),
                one["metadata"]["title"],
            )
            for one in file.chapters()
        ]


@pytest.fixture
def marks(tmp_path: Path) -> Path:
    """The chapters of a run of two picks, one of them with a caption that would end its line."""
    with open_run(tmp_path / "run", tags={3: ("water",)}) as ledger:
        fill(ledger, {1: CAPTION})
    with Run.open(tmp_path / "run") as run:
        (path,) = export(run, tmp_path / "marks", format="chapters")
    assert path == tmp_path / "marks" / "a.ffmetadata"
    return path


def test_ffmpeg_reads_a_chapter_a_pick(marks: Path):
    said = "a = hammer; #1 \\ falls [CHAPTER] START=0"
    assert read(marks, "ffmetadata") == [
        (0.0, 4.0, GAP),
        (4.0, 8.0, said),
        (8.0, 12.0, GAP),
        (12.0, 16.0, "water"),
        (16.0, 24.0, GAP),
    ]


@pytest.mark.parametrize("suffix", ["mp4", "mkv"])
def test_a_copy_of_the_recording_has_them(marks: Path, tmp_path: Path, suffix: str):
    scene = make_scene(tmp_path / "a.mp4", duration=24.0).path
    copy = tmp_path / f"copy.{suffix}"
    with av.open(str(scene)) as given, av.open(str(copy), "w") as made:
        with av.open(str(marks), format="ffmetadata") as told:
            made.set_chapters(told.chapters())
        streams = {one.index: made.add_stream_from_template(one) for one in given.streams}
        for packet in given.demux():
            if packet.dts is not None:
                packet.stream = streams[packet.stream.index]
                made.mux(packet)
    assert read(copy) == read(marks, "ffmetadata")
