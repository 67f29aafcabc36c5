"""Picks as editors and annotation tools open them: by their own libraries where there are."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from xml.etree import ElementTree

import pytest

from earmark.report.export_formats import export
from earmark.run.run import Run
from small_runs import fill, open_run, row


@pytest.fixture
def run(tmp_path: Path) -> Iterator[Run]:
    """A recording of 24 s at 15 frames a second; one pick of two is captioned."""
    with open_run(tmp_path / "run", tags={3: ("water",)}) as ledger:
        fill(ledger, {1: "a | hammer\nfalls & <b>rests</b>"})
        with Run(ledger.folder) as run:
            yield run


@pytest.mark.parametrize(
    ("name", "adapter"),
    [("otio", "otio_json"), ("fcpxml", "fcpx_xml"), ("premiere", "fcp_xml")],
)
def test_opentimelineio_opens_the_picks_as_clips(run: Run, tmp_path: Path, name: str, adapter: str):
    otio = pytest.importorskip("opentimelineio", reason="earmark[editing] is not installed")
    (path,) = export(run, tmp_path / f"a.{name}", format=name)
    read = otio.adapters.read_from_file(str(path), adapter_name=adapter)
    clips = list(read.find_clips()) if name == "otio" else _clips(otio, read)
    spans = [
        (clip.source_range.start_time.to_seconds(), clip.source_range.duration.to_seconds())
        for clip in clips
    ]
    assert spans == [(4.0, 4.0), (12.0, 4.0)]
    first, second = clips
    if name == "premiere":
        assert [clip.markers[0].name for clip in clips] == [
            "a | hammer falls & <b>rests</b>",
            "water",
        ]
    if name == "otio":
        assert first.media_reference.target_url.endswith("/a.mp4")
        assert first.markers[0].name == "a | hammer falls & <b>rests</b>"
        assert second.markers[0].name == "water"
        assert first.metadata["earmark"]["status"] == "answered"


def test_each_chapter_of_a_recording_is_as_long_as_its_file(tmp_path: Path):
    otio = pytest.importorskip("opentimelineio", reason="earmark[editing] is not installed")
    files = (("GH010042.MP4", 0.0), ("GH020042.MP4", 10.0))
    with open_run(tmp_path / "run") as ledger:
        ledger.add(replace(row("a"), path="GH010042.MP4", chapters=files))
        fill(ledger, {1: "a hammer falls"})
        with Run(ledger.folder) as run:
            (path,) = export(run, tmp_path / "a.otio", format="otio")
    clips = otio.adapters.read_from_file(str(path)).find_clips()
    media = [clip.media_reference for clip in clips]
    assert [Path(one.target_url).name for one in media] == ["GH010042.MP4", "GH020042.MP4"]
    assert [one.available_range.duration.to_seconds() for one in media] == [10.0, 14.0]


@pytest.mark.parametrize("name", ["fcpxml", "premiere"])
def test_control_characters_of_a_name_or_a_caption_are_no_fault(tmp_path: Path, name: str):
    """XML cannot hold them, and a camera or a model may write any."""
    pytest.importorskip("opentimelineio", reason="earmark[editing] is not installed")
    with open_run(tmp_path / "run") as ledger:
        ledger.add(replace(row("a"), path="a\x1b[31m.mp4"))
        fill(ledger, {1: "a hammer\x08 falls\uffff"})
        with Run(ledger.folder) as run:
            (path,) = export(run, tmp_path / f"a.{name}", format=name)
    assert "a\ufffd[31m.mp4" in path.read_text(encoding="utf-8")
    ElementTree.parse(path)


def _clips(otio: object, read: object) -> list:
    """The clips of whatever a reader makes of a Final Cut file."""
    if isinstance(read, otio.schema.Timeline):
        return list(read.find_clips())
    return [clip for part in read for clip in part.find_clips()]


def test_label_studio_itself_takes_the_tasks(run: Run, tmp_path: Path):
    interface = pytest.importorskip(
        "label_studio_sdk.label_interface",
        reason="label-studio-sdk is not installed; it brings another OpenCV, so it is no part of "
        "`dev`",
    )
    (path,) = export(run, tmp_path / "tasks.json", format="labelstudio")
    (task,) = json.loads(path.read_text(encoding="utf-8"))
    project = interface.LabelInterface(
        '<View><TimelineLabels name="label" toName="video"><Label value="picked"/></TimelineLabels>'
        '<Video name="video" value="$video"/></View>'
    )
    assert project.validate_task({"data": task["data"]}, validate_regions_only=False)
    (prediction,) = task["predictions"]
    assert project.validate_prediction(prediction)
    assert not project.validate_prediction(
        {**prediction, "result": [{**prediction["result"][0], "from_name": "other"}]}
    )
