"""Chapters as FFmpeg reads them, and in the containers it writes them into."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import av
import pytest

from earmark.errors import MediaError
from earmark.evidence.face_blur import FaceBlur
from earmark.ledger.ledger import Ledger
from earmark.ledger.run_reader import Run
from earmark.pipeline.clips import highlights
from earmark.reporting.editing_formats import GAP
from earmark.reporting.export_formats import export
from ledger_runs import PLAN, fill, open_run, row
from making import make_video

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
    with Run(tmp_path / "run") as run:
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


@pytest.fixture
def run(tmp_path: Path, monkeypatch) -> Iterator[Run]:
    """A run of a real recording with one captioned pick."""
    monkeypatch.chdir(tmp_path)
    make_video(tmp_path / "a.mp4", duration=24.0, fps=2, clicks=[5.0])
    with open_run(tmp_path / "run", tags={3: ("water",)}) as ledger:
        fill(ledger, {1: CAPTION})
    with Run(tmp_path / "run") as run:
        yield run


@pytest.mark.parametrize("suffix", ["mp4", "mkv"])
def test_a_copy_of_the_recording_has_them(run: Run, tmp_path: Path, suffix: str):
    (marks,) = export(run, tmp_path / "marks", format="chapters")
    (copy,) = export(run, tmp_path / "copies", format=suffix)
    assert copy == tmp_path / "copies" / f"a.{suffix}"
    assert read(copy) == read(marks, "ffmetadata")
    with av.open(str(tmp_path / "a.mp4")) as given, av.open(str(copy)) as made:
        assert [one.type for one in made.streams][:2] == ["video", "audio"]
        assert len(list(made.decode(video=0))) == len(list(given.decode(video=0)))


def test_no_copy_is_made_of_what_is_to_be_blurred_or_is_gone(run: Run, tmp_path: Path):
    with (
        Run(tmp_path / "run", blur=FaceBlur()) as hidden,
        pytest.raises(MediaError, match="faces are blurred in this run"),
    ):
        export(hidden, tmp_path / "copies", format="mp4")
    (tmp_path / "a.mp4").unlink()
    with pytest.raises(MediaError, match=r"a\.mp4 cannot be copied with chapters"):
        export(run, tmp_path / "copies", format="mkv")
    assert not list((tmp_path / "copies").glob("*.m*"))


@pytest.mark.parametrize("name", ["", "a.mp4"])
def test_a_recording_is_never_replaced_by_its_copy(run: Run, tmp_path: Path, name: str):
    before = (tmp_path / "a.mp4").read_bytes()
    for kind in ("mp4", "csv") if name else ("mp4",):
        with pytest.raises(ValueError, match=r"a\.mp4 is a recording of this run"):
            export(run, tmp_path / name, format=kind)
    with pytest.raises(ValueError, match=r"a\.mp4 is a recording of this run"):
        highlights(run.folder, tmp_path / "a.mp4")
    assert (tmp_path / "a.mp4").read_bytes() == before


def test_a_recording_that_cannot_be_copied_does_not_stop_the_others(run: Run, tmp_path: Path):
    with Ledger(tmp_path / "run", PLAN) as ledger:
        for name in ("gone", "lost"):
            ledger.add(replace(row(name), path=str(tmp_path / f"{name}.mp4")))
    why = r"1 file written to .*copies, 2 not: .*gone\.mp4 cannot .*; .*lost\.mp4 cannot"
    with Run(tmp_path / "run") as both, pytest.raises(MediaError, match=why):
        export(both, tmp_path / "copies", format="mp4")
    assert [path.name for path in (tmp_path / "copies").glob("*.mp4")] == ["a.mp4"]
