"""Three drillings in a quiet shift are found by name, and nothing where there is none."""

from __future__ import annotations

import csv
import io
import json
from pathlib import Path

import av
import numpy as np
import pytest
from av.audio.frame import AudioFrame
from typer.testing import CliRunner

import earmark
from earmark import Span
from earmark.cli.app import app
from earmark.cli.look import split_words
from earmark.pipeline import sounds as module
from earmark.run.run import Run
from making import AudioPlan, make_audio, make_video
from quiet_shift import film_shift, require_yamnet

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("named_by_yamnet")]


def touched(spans: list[Span], events) -> list[bool]:
    return [any(event.span.overlaps(span) for event in events) for span in spans]


def test_all_drillings_are_found_and_nothing_else_is_one(shift, cache):
    path, drillings = shift
    found = earmark.sounds([path], "drilling", cache=cache)
    (one,) = found.recordings
    assert touched(drillings, one.events) == [True] * 3
    near = [Span(span.start - 2, span.end + 2) for span in drillings]
    assert all(any(event.span.overlaps(span) for span in near) for event in one.events)
    assert found.matches["Power tool"].reason == "includes drill"


def test_what_was_heard_is_not_heard_again(shift, cache, monkeypatch):
    path, _ = shift
    first = earmark.sounds([path], cache=cache)
    monkeypatch.setattr(module.SoundListener, "keep", lambda *_: pytest.fail("listened again"))
    assert earmark.sounds([path], cache=cache) == first


def test_a_recording_without_a_drill_has_none(tmp_path, cache):
    require_yamnet()
    path = tmp_path / "other.mp4"
    film_shift(path, minutes=1.0, drillings=0)
    (one,) = earmark.sounds([path], "drill", cache=cache).recordings
    assert one.events == ()


def test_a_recording_that_cannot_be_read_is_a_row(shift, tmp_path, cache):
    (tmp_path / "broken.mp4").write_bytes(b"no video at all")
    found = earmark.sounds([shift[0], tmp_path / "broken.mp4"], "drill", cache=cache, workers=1)
    assert [Path(one.path).name for one in found.recordings] == ["shift.mp4"]
    assert [Path(one.path).name for one in found.failures] == ["broken.mp4"]


def test_the_command_lists_and_writes_every_format(shift, cache):
    path, drillings = shift
    command = ["search", "--sounds", str(path), "drill", "--cache", str(cache), "--format"]
    said = {form: CliRunner().invoke(app, [*command, form]) for form in ("json", "csv", "labels")}
    assert {form: each.exit_code for form, each in said.items()} == dict.fromkeys(said, 0)
    plain = json.loads(said["json"].stdout)["recordings"][0]["sounds"]
    rows = list(csv.DictReader(io.StringIO(said["csv"].stdout)))
    labels = [line.split("\t") for line in said["labels"].stdout.splitlines()]
    assert [each["sound"] for each in plain] == [row["sound"] for row in rows]
    assert [each["sound"] for each in plain] == [label for _, _, label in labels]
    starts = [float(start) for start, _, label in labels if label == "Drill"]
    assert starts == pytest.approx([span.start for span in drillings], abs=2.0)
    table = CliRunner().invoke(app, command[:-1])
    assert "Drill" in table.stdout and "its name" in table.stdout
    assert "includes drill" in table.stderr


def test_words_are_what_names_no_file(tmp_path):
    file = tmp_path / "drill"
    file.touch()
    assert split_words(["a.mp4", "drill"]) == (["a.mp4"], "drill")
    assert split_words(["a.mp4", str(file)]) == (["a.mp4", str(file)], "")
    assert split_words(["a.mp4", "*.mov"]) == (["a.mp4", "*.mov"], "")
    assert split_words(["drill"]) == (["drill"], "")
    assert split_words(["a.mp4", "mistyped.MP4"]) == (["a.mp4", "mistyped.MP4"], "")


def test_a_caption_run_keeps_the_sounds_of_the_whole_recording(shift, tmp_path):
    """In the pass that the gate makes, not in one of its own."""
    path, drillings = shift
    earmark.caption([path], run=tmp_path / "run", budget="2", sounds=True, cache=tmp_path / "own")
    with Run(tmp_path / "run") as run:
        (recording,) = run.recordings()
        kept = [entry for entry in run.evidence(recording.id) if entry.is_tracked]
    (one,) = earmark.sounds([path], cache=tmp_path / "own").recordings
    assert [(entry.span, entry.text) for entry in kept] == [(e.span, e.text) for e in one.events]
    assert touched(drillings, [entry for entry in kept if entry.text == "Drill"]) == [True] * 3


def test_a_recording_without_sound_goes_without_names(tmp_path):
    require_yamnet()
    silent = make_audio(tmp_path / "silent.flac", duration=4.0, clicks=[])
    (one,) = earmark.sounds([silent], cache=tmp_path / "cache").recordings
    assert one.events == ()


def test_a_file_without_sound_is_told_no_option_that_the_command_lacks(tmp_path):
    require_yamnet()
    make_video(tmp_path / "mute.mp4", has_audio=False)
    (one,) = earmark.sounds([tmp_path / "mute.mp4"], cache=tmp_path / "cache").failures
    assert one.error.endswith("has no audio stream, so it has no sounds to name")


def add_silent_track(path: Path, target: Path) -> Path:
    """The sound of `path`, in a second track behind a silent one."""
    with av.open(str(path)) as given, av.open(str(target), "w") as made:
        sound = given.streams.audio[0]
        silent, copied = made.add_stream("aac", 16_000), made.add_stream_from_template(sound)
        silent.layout = "mono"
        values = np.zeros((1, round(given.duration / av.time_base * 16_000)), np.float32)
        frame = AudioFrame.from_ndarray(values, format="fltp", layout="mono")
        frame.sample_rate = 16_000
        made.mux([*silent.encode(frame), *silent.encode(None)])
        for packet in given.demux(sound):
            if packet.dts is not None:
                packet.stream = copied
                made.mux(packet)
    return target


def test_sounds_of_another_track_are_named_where_the_first_is_silent(shift, cache, tmp_path):
    """As `caption` names them, and `--audio-track` promises."""
    path, drillings = shift
    both = add_silent_track(path, tmp_path / "both.mp4")
    (one,) = earmark.sounds([both], "drill", cache=cache).recordings
    assert touched(drillings, one.events) == [True] * 3
    assert "audio track 0 is silent, so track 1 was listened to" in one.notes
    shown = CliRunner().invoke(
        app, ["search", "--sounds", str(both), "drill", "--cache", str(cache)]
    )
    assert "both.mp4: audio track 0 is silent, so track 1 was listened to" in shown.stderr


def test_what_is_wrong_with_a_file_is_told_beside_its_sounds(tmp_path):
    require_yamnet()
    late = make_video(tmp_path / "late.mp4", duration=6.0, audio=AudioPlan(start=3.0))
    (one,) = earmark.sounds([late], cache=tmp_path / "cache").recordings
    assert one.notes == ("sound starts 3.0 s late; silence until then",)


def test_times_of_chapter_files_are_said_to_count_from_the_first(tmp_path):
    require_yamnet()
    for name in ("GX010042.MP4", "GX020042.MP4"):
        made = make_video(tmp_path / "made.mp4", duration=4.0, clicks=[1.0])
        made.rename(tmp_path / name)
    (one,) = earmark.sounds([tmp_path], cache=tmp_path / "cache").recordings
    assert one.notes == ("2 files: times count from the start of the first",)
