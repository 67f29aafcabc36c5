"""`earmark export` in every format, read back by a reader of that format."""

from __future__ import annotations

import csv
import io
import json
import re
import zipfile
from itertools import pairwise
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import av
import pytest

from acceptance.command_line import earmark
from acceptance.model_server import model_server
from acceptance.views.conftest import Place
from acceptance.views.scene import CAPTIONS, MODEL

CLOCK = r"(\d+):(\d\d):(\d\d)[.,](\d{3})"


def export(place: Place, to: str, path: Path) -> Path:
    outcome = earmark("export", place.run, "--to", to, "--out", path)
    assert outcome.code == 0, outcome.err
    return path


@pytest.fixture(scope="module")
def rows(place: Place) -> list[dict[str, Any]]:
    """The picks of the run as exported in JSON lines."""
    return earmark("export", place.run, "--to", "jsonl").lines


def rows_of(rows: list[dict[str, Any]], stem: str) -> list[dict[str, Any]]:
    return [row for row in rows if Path(row["path"]).stem == stem]


def test_json_lines_hold_each_pick_and_what_became_of_it(place: Place, rows: list[dict]):
    assert len(rows) == 6
    for row in rows:
        assert row["start"] <= row["instant"] < row["end"]
        assert row["end"] - row["start"] == pytest.approx(4.0)
        assert row["window"] * 4.0 == row["start"]
        assert row["caption"] == place.caption_at(Path(row["path"]).name, row["instant"])
        assert (row["status"], row["model"]) == ("answered", "colour")
        assert (row["prompt_tokens"], row["completion_tokens"]) == (100, 10)
        assert row["score"] >= 0 and row["rate"] >= 0 and row["reason"]
    assert {Path(row["path"]).name for row in rows} == {"bench.mp4", "sink.mp4"}
    assert {CAPTIONS["drill"], CAPTIONS["water"]} <= {row["caption"] for row in rows}


def test_stdout_and_a_file_get_the_same(place: Place, tmp_path: Path):
    written = export(place, "csv", tmp_path / "picks.csv")
    printed = earmark("export", place.run, "--to", "csv").out
    assert written.read_text(encoding="utf-8").splitlines() == printed.splitlines()


def test_a_spreadsheet_reads_the_csv(place: Place, rows: list[dict], tmp_path: Path):
    pandas = pytest.importorskip("pandas")
    table = pandas.read_csv(export(place, "csv", tmp_path / "picks.csv"))
    for name in ("path", "window", "start", "end", "instant", "caption", "status", "model"):
        assert table[name].tolist() == [row[name] for row in rows]
    assert table["score"].tolist() == pytest.approx([row["score"] for row in rows])


def test_arrow_reads_the_parquet_with_types(place: Place, rows: list[dict], tmp_path: Path):
    parquet = pytest.importorskip("pyarrow.parquet")
    table = parquet.read_table(export(place, "parquet", tmp_path / "picks.parquet"))
    assert table.num_rows == len(rows)
    for name in ("path", "window", "start", "end", "caption", "tags"):
        assert table[name].to_pylist() == [row[name] for row in rows]
    assert str(table.schema.field("start").type) == "double"


def seconds(hours: str, minutes: str, whole: str, thousandths: str) -> float:
    return 3600 * int(hours) + 60 * int(minutes) + int(whole) + int(thousandths) / 1000


@pytest.mark.parametrize("kind", ["srt", "vtt"])
def test_subtitles_show_each_caption_in_its_time(
    place: Place, rows: list[dict], tmp_path: Path, kind: str
):
    folder = export(place, kind, tmp_path / "subtitles")
    assert {path.name for path in folder.iterdir()} == {f"bench.{kind}", f"sink.{kind}"}
    for stem in ("bench", "sink"):
        text = (folder / f"{stem}.{kind}").read_text(encoding="utf-8")
        assert text.startswith("WEBVTT\n" if kind == "vtt" else "1\n")
        cues = [
            (seconds(*found[:4]), seconds(*found[4:8]), found[8])
            for found in re.findall(rf"{CLOCK} --> {CLOCK}\n(.+)", text)
        ]
        expected = [(row["start"], row["end"], row["caption"]) for row in rows_of(rows, stem)]
        assert cues == expected


@pytest.mark.parametrize("kind", ["srt", "vtt"])
def test_ffmpeg_reads_the_subtitles(place: Place, rows: list[dict], tmp_path: Path, kind: str):
    folder = export(place, kind, tmp_path / "subtitles")
    with av.open(str(folder / f"bench.{kind}")) as container:
        packets = [packet for packet in container.demux() if packet.size]
    starts = [float(packet.pts * packet.time_base) for packet in packets]
    assert starts == pytest.approx([row["start"] for row in rows_of(rows, "bench")])
    assert CAPTIONS["drill"].encode() in bytes(packets[0])


@pytest.mark.parametrize(
    ("kind", "adapter"),
    [("otio", "otio_json"), ("fcpxml", "fcpx_xml"), ("premiere", "fcp_xml")],
)
def test_opentimelineio_reads_the_picks_as_clips(
    place: Place, rows: list[dict], tmp_path: Path, kind: str, adapter: str
):
    otio = pytest.importorskip("opentimelineio")
    if adapter not in otio.adapters.available_adapter_names():
        pytest.skip(f"the adapter {adapter} is not installed")
    timeline = otio.adapters.read_from_file(
        str(export(place, kind, tmp_path / f"picks.{kind}")), adapter_name=adapter
    )
    found = timeline if isinstance(timeline, otio.schema.Timeline) else timeline[0]
    if not hasattr(found, "find_clips"):
        found = next(one for one in timeline if hasattr(one, "find_clips"))
    clips = found.find_clips()
    assert len(clips) == len(rows)
    for clip, row in zip(clips, rows, strict=True):
        assert clip.source_range.start_time.to_seconds() == pytest.approx(row["start"], abs=0.05)
        assert clip.source_range.duration.to_seconds() == pytest.approx(4.0, abs=0.05)


def test_an_edit_list_has_an_event_for_each_pick(place: Place, rows: list[dict], tmp_path: Path):
    text = export(place, "edl", tmp_path / "picks.edl").read_text(encoding="utf-8")
    clock = r"(\d\d:\d\d:\d\d:\d\d)"
    events = re.findall(rf"^\d+ .* C +{clock} {clock} {clock} {clock}", text, re.MULTILINE)
    assert len(events) == len(rows)
    assert [event[0] for event in events] == [f"00:00:{int(row['start']):02d}:00" for row in rows]
    assert all(left[3] == right[2] for left, right in pairwise(events)), "one follows the other"
    for row in rows:
        assert Path(row["path"]).name in text
        assert row["caption"] in text


def test_final_cut_files_are_well_formed(place: Place, tmp_path: Path):
    pytest.importorskip("opentimelineio")
    root = ElementTree.fromstring(export(place, "fcpxml", tmp_path / "picks.xml").read_bytes())
    assert root.tag == "fcpxml"
    assets = {asset.get("name") for asset in root.iter("asset")}
    assert assets == {"bench.mp4", "sink.mp4"}


def test_label_studio_gets_a_task_for_each_recording(
    place: Place, rows: list[dict], tmp_path: Path
):
    tasks = json.loads(export(place, "labelstudio", tmp_path / "tasks.json").read_bytes())
    assert [task["data"]["name"] for task in tasks] == ["bench.mp4", "sink.mp4"]
    for task in tasks:
        regions = task["predictions"][0]["result"]
        captions = [row["caption"] for row in rows_of(rows, Path(task["data"]["name"]).stem)]
        assert [region["meta"]["text"][0] for region in regions] == captions
        assert all(region["type"] == "timelinelabels" for region in regions)


def test_corrections_are_none_before_any_is_made(place: Place, tmp_path: Path):
    assert export(place, "corrections", tmp_path / "said.jsonl").read_text() == ""


def test_a_batch_holds_what_no_model_was_asked(place: Place, tmp_path: Path):
    run = tmp_path / "unasked"
    assert earmark("caption", place.site, "--budget", "40%", "--run", run).code == 0
    path = tmp_path / "requests.jsonl"
    outcome = earmark("export", run, "--to", "batch", "--model", "some-model", "--out", path)
    assert outcome.code == 0, outcome.err
    requests = [json.loads(line) for line in path.read_text().splitlines()]
    assert len(requests) == len({request["custom_id"] for request in requests}) == 6
    for request in requests:
        assert (request["method"], request["url"]) == ("POST", "/v1/chat/completions")
        assert request["body"]["model"] == "some-model"
        assert "data:image/jpeg;base64," in json.dumps(request["body"]["messages"])


def test_a_finished_run_has_no_batch(place: Place, tmp_path: Path):
    path = tmp_path / "requests.jsonl"
    outcome = earmark("export", place.run, "--to", "batch", "--model", MODEL, "--out", path)
    assert outcome.code == 0
    assert not path.exists()
    assert outcome.err.strip()


def test_an_unknown_format_is_refused_with_those_there_are(place: Place):
    outcome = earmark("export", place.run, "--to", "wordperfect")
    assert outcome.code != 0
    assert "wordperfect" in outcome.err
    assert "jsonl" in outcome.err and "srt" in outcome.err


def test_a_failed_call_is_exported_with_its_reason(place: Place, tmp_path: Path):
    with model_server(then="400") as server:
        words = ("--budget", "1", "--run", tmp_path / "run", "--model", server.model)
        earmark("caption", place.bench, *words)
    (row,) = earmark("export", tmp_path / "run", "--to", "jsonl").lines
    assert (row["status"], row["caption"]) == ("failed", None)
    assert "400" in row["failure"]


def test_a_bundle_is_a_page_with_clips_and_captions(place: Place, rows: list[dict], tmp_path: Path):
    outcome = earmark("export", place.run, "--to", "bundle", "--out", tmp_path / "site.zip")
    assert outcome.code == 0, outcome.err
    with zipfile.ZipFile(tmp_path / "site.zip") as archive:
        assert archive.testzip() is None
        names = archive.namelist()
        table = list(csv.DictReader(io.StringIO(archive.read("captions.csv").decode())))
        lines = archive.read("captions.jsonl").decode().splitlines()
        subtitles = archive.read("subtitles/bench.srt").decode()
        clips = [name for name in names if name.startswith("clips/")]
        archive.extractall(tmp_path / "unpacked")
    assert "index.html" in names
    assert [row["caption"] for row in table] == [row["caption"] for row in rows]
    assert [json.loads(line)["start"] for line in lines] == [row["start"] for row in rows]
    assert CAPTIONS["drill"] in subtitles
    assert len(clips) == len(rows)
    with av.open(str(tmp_path / "unpacked" / clips[0])) as clip:
        assert 3.5 <= clip.duration / 1e6 <= 6.0


def test_a_bundle_tells_no_path_and_no_address(place: Place, tmp_path: Path):
    earmark("export", place.run, "--to", "bundle", "--out", tmp_path / "site.zip")
    with zipfile.ZipFile(tmp_path / "site.zip") as archive:
        content = b"".join(archive.read(name) for name in archive.namelist())
    assert str(place.folder).encode() not in content
    assert b"127.0.0.1" not in content


def test_highlights_are_one_video_with_chapters_and_subtitles(
    place: Place, rows: list[dict], tmp_path: Path
):
    path = tmp_path / "day.mp4"
    outcome = earmark("export", place.run, "--to", "highlights", "--out", path)
    assert outcome.code == 0, outcome.err
    with av.open(str(path)) as container:
        kinds = {stream.type for stream in container.streams}
        chapters = [chapter["metadata"]["title"] for chapter in container.chapters()]
        length = container.duration / 1e6
        subtitles = [bytes(packet) for packet in container.demux(subtitles=0) if packet.size]
    assert {"video", "audio", "subtitle"} <= kinds
    assert len(chapters) == len(rows)
    assert all(row["caption"] in title for row, title in zip(rows, chapters, strict=True))
    assert 4.0 * len(rows) - 1 <= length <= 6.0 * len(rows)
    assert any(CAPTIONS["drill"].encode() in text for text in subtitles)
