from __future__ import annotations

import builtins
import csv
import json
import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from earmark.errors import MissingExtra
from earmark.pipeline.clips import highlights
from earmark.report.export_formats import (
    COLUMNS,
    EXPORTERS,
    Export,
    Exporter,
    export,
    file_stems,
)
from earmark.run.records import RunPick
from earmark.run.run import Run
from earmark.text_format import from_cell
from making import make_video
from small_runs import PLAN, answer, call, fill, open_run, row

ODD = 'Two\nlines, "quoted" --> <b>& more</b>;\r\n\r\n2\n00:00:00,000 --> 00:00:01,000\nà 日本'


@pytest.fixture
def run(tmp_path: Path):
    with open_run(tmp_path / "run", tags={1: ["hammering", "a; b"]}) as ledger:
        fill(ledger, {1: ODD})
        ledger.begin(call(3))
        ledger.fail(call(3), "the server said 500")
    with Run(tmp_path / "run") as run:
        yield run


def told(run: Run) -> list[dict[str, object]]:
    return list(Export.of(run, run.recordings()).rows())


def test_jsonl_holds_every_field(run: Run, tmp_path: Path):
    (path,) = export(run, tmp_path / "a.jsonl", format="jsonl")
    lines = [json.loads(line) for line in path.read_text(encoding="utf-8").split("\n")[:-1]]
    assert lines == told(run)
    assert [tuple(line) for line in lines] == [COLUMNS] * 2
    assert lines[0]["caption"] == ODD
    assert (lines[1]["caption"], lines[1]["failure"]) == (None, "the server said 500")


def test_csv_reads_back(run: Run, tmp_path: Path):
    (path,) = export(run, tmp_path / "a.csv", format="csv")
    with path.open(encoding="utf-8", newline="") as file:
        first, second = csv.DictReader(file)
    assert (first["caption"], first["tags"], first["status"]) == (
        ODD,
        "hammering; a; b",
        "answered",
    )
    assert float(first["score"]) == told(run)[0]["score"]
    assert (second["caption"], second["status"]) == ("", "failed")


def test_parquet_without_its_library_names_the_cure(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    real = builtins.__import__

    def without(name: str, *rest: object, **named: object) -> object:
        if name.startswith("pyarrow"):
            raise ImportError(name)
        return real(name, *rest, **named)

    monkeypatch.setattr(builtins, "__import__", without)
    with pytest.raises(MissingExtra, match=r"pip install 'earmark\[parquet\]'"):
        export(run, tmp_path / "a.parquet", format="parquet")
    assert not list(tmp_path.glob("*.parquet"))


def read_cues(text: str, point: str) -> list[tuple[str, str, str]]:
    """Cues as a player reads them: a time line, then text up to an empty line."""
    time = rf"(\d\d+:\d\d:\d\d{re.escape(point)}\d\d\d)"
    found = []
    for block in text.split("\n\n"):
        lines = [line for line in block.split("\n") if line]
        timed = [number for number, line in enumerate(lines) if "-->" in line]
        for number in timed:
            times = re.fullmatch(f"{time} --> {time}", lines[number])
            assert times, lines[number]
            found.append((times[1], times[2], "\n".join(lines[number + 1 :])))
    return found


def test_srt_has_one_cue_a_caption_whatever_the_caption_says(run: Run, tmp_path: Path):
    (path,) = export(run, tmp_path / "a.srt", format="srt")
    ((start, end, text),) = read_cues(path.read_text(encoding="utf-8"), ",")
    assert (start, end) == ("00:00:04,000", "00:00:08,000")
    assert text.startswith('Two lines, "quoted" --\u203a \u2039b\u203a& more')
    assert text.endswith("à 日本")


def test_vtt_shows_markup_as_text(run: Run, tmp_path: Path):
    (path,) = export(run, tmp_path / "a.vtt", format="vtt")
    text = path.read_text(encoding="utf-8")
    assert text.startswith("WEBVTT\n\n")
    ((start, _, said),) = read_cues(text.removeprefix("WEBVTT\n\n"), ".")
    assert start == "00:00:04.000"
    assert "--&gt; &lt;b&gt;&amp; more&lt;/b&gt;" in said


def test_tags_in_subtitles_are_called_what_they_are(tmp_path: Path):
    with (
        open_run(tmp_path / "run", tags={1: ["hammering", "metal"]}) as ledger,
        Run(ledger.folder) as run,
    ):
        (path,) = export(run, tmp_path / "a.srt", format="srt")
    assert "[heard: hammering, metal]" in path.read_text(encoding="utf-8")


def test_windows_that_find_saw_nothing_in_are_in_tables_and_in_no_film(tmp_path: Path):
    parquet = pytest.importorskip("pyarrow.parquet")
    with open_run(tmp_path / "run") as ledger, Run(ledger.folder) as run:
        for window, seen in ((1, False), (3, True)):
            ledger.begin(call(window))
            text = "Yes. a drill" if seen else "No."
            ledger.keep(call(window), answer(text, data={"seen": seen}))
        every = {
            kind: export(run, tmp_path / f"out.{kind}", format=kind)[0].read_text()
            for kind in ("jsonl", "srt", "edl", "vtt")
        }
        table = parquet.read_table(export(run, tmp_path / "out.parquet", format="parquet")[0])
    assert [json.loads(line)["seen"] for line in every["jsonl"].splitlines()] == [False, True]
    assert table.column("seen").to_pylist() == [False, True]
    for kind in ("srt", "edl", "vtt"):
        assert "Yes. a drill" in every[kind] and "No." not in every[kind], kind


def test_edl_counts_frames_of_the_recording(run: Run, tmp_path: Path):
    (path,) = export(run, tmp_path / "a.edl", format="edl")
    lines = path.read_text(encoding="utf-8").split("\n")
    events = [line.split() for line in lines if re.match(r"\d{3} ", line)]
    assert events[0][4:] == ["00:00:04:00", "00:00:08:00", "00:00:00:00", "00:00:04:00"]
    assert events[1][4:] == ["00:00:12:00", "00:00:16:00", "00:00:04:00", "00:00:08:00"]
    assert "* FROM CLIP NAME: a.mp4" in lines
    assert sum("COMMENT" in line for line in lines) == 2


def test_edl_of_a_time_lapse_counts_usual_frames(tmp_path: Path):
    with open_run(tmp_path / "run") as ledger, Run(ledger.folder) as run:
        ledger.add(replace(row("a"), frame_rate=0.2))
        (path,) = export(run, tmp_path / "a.edl", format="edl")
    assert "00:00:04:00 00:00:08:00 00:00:00:00" in path.read_text(encoding="utf-8")


def test_subtitles_of_one_recording_go_into_a_folder_that_is_there(run: Run, tmp_path: Path):
    (tmp_path / "subs").mkdir()
    assert export(run, tmp_path / "subs", format="srt") == [tmp_path / "subs" / "a.srt"]


def test_subtitles_of_a_recording_with_the_longest_of_names(tmp_path: Path):
    name = "早" * 80  # 244 bytes with its suffix, of 255 that a file system takes
    with open_run(tmp_path / "run") as ledger, Run(ledger.folder) as run:
        ledger.add(replace(row("a"), path=f"/cams/{name}.mp4"))
        ledger.add(row("b"))
        written = export(run, tmp_path / "subs", format="srt")
    assert tmp_path / "subs" / f"{name}.srt" in written


def test_several_recordings_become_several_subtitles(tmp_path: Path):
    with Run(tmp_path / "run", PLAN) as ledger, Run(ledger.folder) as run:
        for name in ("cam1/0001", "cam2/0001"):
            ledger.add(row(name))
        written = export(run, tmp_path / "subs", format="srt")
    assert [path.name for path in written] == ["cam1-0001.srt", "cam2-0001.srt"]
    assert all(path.is_file() for path in written)


@pytest.mark.parametrize(
    ("paths", "stems"),
    [
        (["/a/1.mp4", "/b/2.mp4"], ["1", "2"]),
        (["/a/1.mp4", "/a/1.mov"], ["1.mp4", "1.mov"]),
        (["/a/x/1.mp4", "/b/x/1.mp4"], ["a-x-1", "b-x-1"]),
        (["/a/b/1.mp4", "/a-b/1.mp4", "/c/a-b-1.mp4"], ["b-1", "a-b-1.mp4", "a-b-1.mp4-2"]),
        (["https://host/1.mp4?***", "https://host/2?***"], ["1", "2"]),
        (
            [f"/a/{'x' * 199}.mp4", f"/b/{'x' * 199}.mp4"],
            [f"{'x' * 199}.mp4", f"{'x' * 199}.mp4-2"],
        ),
    ],
)
def test_a_file_is_named_so_that_one_knows_its_recording(paths: list[str], stems: list[str]):
    assert file_stems((path, "") for path in paths) == stems


def test_a_folder_in_place_of_a_file_is_said_to_be_one(run: Run, tmp_path: Path):
    with pytest.raises(ValueError, match="is a folder and csv is one file"):
        export(run, tmp_path, format="csv")


def test_an_unknown_format_lists_those_there_are(run: Run, tmp_path: Path):
    with pytest.raises(
        ValueError, match="no export format 'doc'; the export formats are jsonl, csv"
    ):
        export(run, tmp_path / "a.doc", format="doc")


def test_half_a_surrogate_pair_is_kept_as_text(tmp_path: Path):
    with open_run(tmp_path / "run") as ledger, Run(ledger.folder) as run:
        ledger.begin(call(1))
        ledger.keep(call(1), answer("half \ud83d of a face"))
        (path,) = export(run, tmp_path / "a.jsonl", format="jsonl")
    assert "half ? of a face" in path.read_text(encoding="utf-8")


OF_PICKS = sorted(EXPORTERS.keys() - {"corrections"})
"""Corrections are tested in tests/run/test_corrections.py."""


OTIO = ("otio", "fcpxml", "premiere")
LIBRARIES = {"parquet": "pyarrow", **dict.fromkeys(OTIO, "opentimelineio")}


@pytest.mark.parametrize("name", OF_PICKS)
def test_every_exporter_keeps_the_contract(name: str, run: Run, tmp_path: Path):
    if library := LIBRARIES.get(name):
        pytest.importorskip(library)
    kind = EXPORTERS.named(name)
    assert kind.__doc__ != Exporter.__doc__
    path = tmp_path / f"a.{name}"
    picks = iter(Export.of(run, run.recordings()).picks)
    kind()(Export("run", run.recordings(), picks), path)
    assert next(picks, None) is None, "every row is read, once"
    content = path.read_bytes()
    assert content
    if kind.is_text:
        assert "à 日本" in content.decode("utf-8")
    (whole,) = export(run, tmp_path / "again", format=name)
    again = whole.read_bytes()
    assert again == content or not kind.is_text
    with pytest.raises(ZeroDivisionError):  # what fails leaves what was there
        export(Broken(run), tmp_path / "again", format=name)  # type: ignore[arg-type]
    assert whole.read_bytes() == again
    assert not list(tmp_path.glob(".*"))


class Broken:
    """A run that cannot be read to the end."""

    def __init__(self, run: Run) -> None:
        self.folder, self.recordings = run.folder, run.recordings
        self._picks, self.hides_faces, self.plan = run.picks, False, run.plan

    def picks(self, recording: str) -> Iterator[RunPick]:
        yield self._picks(recording)[0]
        raise ZeroDivisionError


@pytest.fixture
def named(tmp_path: Path):
    """A run whose recording a manifest calls `cam 7/早`, in two files of twelve seconds."""
    chapters = (("/cams/GX010042.MP4", 0.0), ("/cams/GX020042.MP4", 10.0))
    with open_run(tmp_path / "named") as ledger:
        ledger.add(replace(row("a"), name="cam 7/早", chapters=chapters))
        fill(ledger, {1: "a board", 3: "a saw"})
    with Run(tmp_path / "named") as run:
        yield run


@pytest.mark.parametrize("kind", ["jsonl", "csv", "parquet"])
def test_tables_say_what_the_user_calls_a_recording(named: Run, tmp_path: Path, kind: str):
    if kind == "parquet":
        parquet = pytest.importorskip("pyarrow.parquet")
    (path,) = export(named, tmp_path / f"a.{kind}", format=kind)
    if kind == "jsonl":
        lines = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
    elif kind == "csv":
        lines = list(csv.DictReader(path.read_text(encoding="utf-8").splitlines()))
    else:
        lines = parquet.read_table(path).to_pylist()
    assert [(line["id"], line["recording"]) for line in lines] == [("cam 7/早", "a")] * 2


def test_an_edit_list_names_the_chapter_and_counts_from_its_start(named: Run, tmp_path: Path):
    (path,) = export(named, tmp_path / "a.edl", format="edl")
    lines = path.read_text(encoding="utf-8").split("\n")
    events = [line.split()[4:6] for line in lines if re.match(r"\d{3} ", line)]
    assert events == [["00:00:04:00", "00:00:08:00"], ["00:00:02:00", "00:00:06:00"]]
    assert [line for line in lines if "CLIP NAME" in line] == [
        "* FROM CLIP NAME: GX010042.MP4",
        "* FROM CLIP NAME: GX020042.MP4",
    ]
    assert lines.count("* RECORDING ID: cam 7/早") == 2


def test_a_pick_over_a_seam_is_one_event_for_each_chapter(tmp_path: Path):
    chapters = (("/cams/GX010042.MP4", 0.0), ("/cams/GX020042.MP4", 6.0))
    with open_run(tmp_path / "run") as ledger:
        ledger.add(replace(row("a"), chapters=chapters))
        fill(ledger, {1: "a board over the seam"})
    with Run(tmp_path / "run") as run:
        (path,) = export(run, tmp_path / "a.edl", format="edl")
        (timeline,) = export(run, tmp_path / "a.otio", format="otio")
    lines = path.read_text(encoding="utf-8").split("\n")
    events = [line.split()[4:] for line in lines if re.match(r"\d{3} ", line)]
    assert events[:2] == [
        ["00:00:04:00", "00:00:06:00", "00:00:00:00", "00:00:02:00"],
        ["00:00:00:00", "00:00:02:00", "00:00:02:00", "00:00:04:00"],
    ]
    clips = json.loads(timeline.read_text())["tracks"]["children"][0]["children"]
    assert [clip["name"] for clip in clips[:2]] == ["GX010042.MP4", "GX020042.MP4"]
    assert [clip["source_range"]["duration"]["value"] for clip in clips[:2]] == [30.0, 30.0]


def test_subtitles_are_called_what_the_user_calls_the_recording(tmp_path: Path):
    with Run(tmp_path / "run", PLAN) as ledger, Run(ledger.folder) as run:
        for name, own in (("x", "cam 7/早"), ("y", "../../etc"), ("z", "")):
            ledger.add(replace(row(name), name=own))
        written = export(run, tmp_path / "subs", format="vtt")
    assert [path.name for path in written] == ["cam_7_早.vtt", "_.._etc.vtt", "z.vtt"]
    assert {path.parent for path in written} == {tmp_path / "subs"}


@pytest.mark.parametrize("sign", ["=", "+", "-", "@", "\t", "\r"])
def test_no_csv_cell_is_a_formula(tmp_path: Path, sign: str):
    """A spreadsheet runs what begins so; a caption, a tag or a name can."""
    with open_run(tmp_path / "run", tags={1: [f"{sign}1+1"]}) as ledger:
        ledger.add(replace(row("a"), name=f"{sign}cmd"))
        fill(ledger, {1: f'{sign}HYPERLINK("https://evil.example")'})
        with Run(ledger.folder) as run:
            (path,) = export(run, tmp_path / "a.csv", format="csv")
    with path.open(encoding="utf-8", newline="") as file:
        cells = [cell for line in csv.reader(file) for cell in line]
    assert not [cell for cell in cells if cell.startswith(sign)]
    assert {from_cell(cell) for cell in cells} >= {
        f'{sign}HYPERLINK("https://evil.example")',
        f"{sign}1+1",
        f"{sign}cmd",
    }


def test_subtitles_make_the_folder_they_are_to_go_into(run: Run, tmp_path: Path):
    assert export(run, tmp_path / "subtitles", format="srt") == [tmp_path / "subtitles" / "a.srt"]


def test_a_recording_is_never_replaced_by_an_export(tmp_path: Path):
    video = make_video(tmp_path / "a.mp4", duration=24.0, fps=2, clicks=[5.0])
    before = video.read_bytes()
    with open_run(tmp_path / "run") as ledger:
        ledger.add(replace(row("a"), path=str(video)))
    with Run(tmp_path / "run") as run:
        for kind in ("csv", "srt"):
            with pytest.raises(ValueError, match=r"a\.mp4 is a recording of this run"):
                export(run, video, format=kind)
    with pytest.raises(ValueError, match=r"a\.mp4 is a recording of this run"):
        highlights(tmp_path / "run", video)
    assert video.read_bytes() == before
