"""`select`, `plan` and `doctor FILE` as a person runs them."""

from __future__ import annotations

import os
import re
import sys
from pathlib import Path

import av
import jsonschema
import pytest

from acceptance.command_line import Outcome, earmark
from making import AudioPlan, make_audio, make_video

CLICKS = [9.0, 25.0, 41.3]
CURRENCY = "(in the currency of your prices)"
LISTENING = (("select",), ("plan",), ("doctor",), ("select", "--episodes"))


def said(*words: object) -> Outcome:
    """What a command printed, and how it ended; it works in this process."""
    return earmark(*words, *(("--workers", "1") if words[0] in ("select", "plan") else ()))


@pytest.fixture(autouse=True)
def own_cache(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("archive")
    make_video(folder / "a.mp4", duration=60.0, clicks=CLICKS, layout="first")
    make_video(folder / "b.mkv", duration=24.0, clicks=[3.0])
    make_audio(folder / "c.wav", duration=12.0, clicks=[5.0])
    return folder


def test_json_keeps_the_published_shape(folder):
    told = said("select", folder, "--budget", "25%", "--format", "json", "--explain")
    assert told.code == 0
    jsonschema.validate(told.json, said("select", "--schema").json)
    access = {Path(one["path"]).name: one["access"] for one in told.json["recordings"]}
    assert access == {"a.mp4": "index", "b.mkv": "demux", "c.wav": "demux"}
    assert [one["budget"] for one in told.json["recordings"]] == [4, 2, 1]
    assert all(one["left_out"] for one in told.json["recordings"])


def test_what_was_left_out_is_told_in_order_of_time(folder):
    told = said("select", folder / "a.mp4", "--budget", "3", "--explain")
    _, _, rest = told.out.partition("left out: the best 10 of 12")
    starts = re.findall(r"^ *\d+ +(\d:\d\d\.\d)", rest, re.MULTILINE)
    assert len(starts) == 10
    assert starts == sorted(starts)


def test_clips_too_short_for_their_share_are_told_of_in_one_line(tmp_path):
    for number in range(3):
        make_audio(tmp_path / f"clip{number}.wav", duration=3.0, clicks=[1.0])
    told = said("select", tmp_path, "--budget", "25%")
    assert told.code == 0
    assert "0 calls of 3 in 3 recordings" in told.out
    (line,) = told.err.splitlines()
    assert "3 recordings" in line and "25% of the windows is less than one call" in line
    assert "spend one budget across all recordings" in line
    assert said("select", tmp_path, "--budget", "25%", "--format", "csv").err == told.err
    assert "1 call of 3" in said("select", tmp_path, "--budget", "25%", "--across").out


def test_the_copies_of_a_camera_are_left_out_and_said_once(tmp_path):
    made = make_video(tmp_path / "a.mp4", duration=8.0, clicks=[1.0]).read_bytes()
    for name in ("GX010001.MP4", "GL010001.LRV", "GX010001.THM"):
        (tmp_path / name).write_bytes(made)
    for command in LISTENING:
        told = said(*command, *sorted(tmp_path.glob("G*")))
        assert (told.code, told.err.count("2 files skipped")) == (0, 1), command
        assert "GL010001" not in told.out


def test_two_files_of_one_name_are_told_apart(tmp_path):
    for folder in ("a", "b"):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "bad.mp4").write_bytes(b"")
    for command in LISTENING:
        told = said(*command, tmp_path)
        assert told.code == 1
        for folder in ("a", "b"):
            assert f"{tmp_path / folder / 'bad.mp4'} is empty" in told.err, command


def test_a_table_that_is_piped_has_a_line_a_row(folder):
    words = ("select", folder / "a.mp4", "-b", "3", "--explain")
    told = earmark(*words, env={"COLUMNS": "60"}).out
    rows = re.findall(r"^ *\d+  .* expected", told, re.MULTILINE)
    lines = [line for line in told.splitlines() if line.strip()]
    assert (len(rows), len(lines)) == (3 + 10, 1 + (1 + 3) + (2 + 10))


@pytest.mark.skipif(sys.platform != "linux", reason="names are any bytes on Linux alone")
@pytest.mark.parametrize("form", ["table", "csv", "edl", "json"])
def test_a_name_that_is_no_text_is_printed_as_it_is(tmp_path, form):
    made = make_audio(tmp_path / "a.wav", duration=8.0, clicks=[1.0])
    made.rename(os.fsdecode(os.fsencode(tmp_path) + b"/b\xff.wav"))
    outcome = earmark("select", tmp_path, "-b", "1", "--format", form)
    assert outcome.code == 0, outcome.err
    assert ("b\ufffd.wav" if form != "json" else "b\\udcff.wav") in outcome.out


def test_the_table_names_every_pick(folder):
    told = said("select", folder / "a.mp4", "--budget", "3", "--rule", "rank", "-f", "flux")
    assert "3 of 15 windows" in told.out
    for start in ("0:08.0", "0:24.0", "0:40.0"):
        assert start in told.out


class TestPlan:
    def test_the_ladder_rises_and_the_last_rung_is_everything(self, folder):
        told = said("plan", folder, "--format", "json")
        rungs = told.json["rungs"]
        assert [rung["calls"] for rung in rungs] == sorted(rung["calls"] for rung in rungs)
        coverages = [rung["coverage"] for rung in rungs]
        assert coverages == sorted(coverages)
        assert coverages[-1] == pytest.approx(1.0)
        assert rungs[-1]["calls"] == told.json["windows"] == 24
        assert rungs[-1]["gpu_hours"] == pytest.approx(24 * 0.74 / 3600)
        screening = told.json["screening"]
        assert screening["measured_now"] == 3
        assert screening["share"] == screening["seconds"] / (24 * 0.74) > 0
        assert screening["break_even"] == max(0.0, 1 - screening["share"]) < 1

    @pytest.mark.parametrize(("words", "again"), [((), 0), (("--no-cache",), 1)])
    def test_what_was_heard_is_kept_unless_told_not_to(self, folder, tmp_path, words, again):
        command = ("plan", folder / "c.wav", "--format", "json", *words)
        heard = [said(*command).json["screening"]["measured_now"] for _ in range(2)]
        assert heard == [1, again]
        assert (tmp_path / "cache").exists() == (not again)

    def test_what_it_costs_is_in_a_currency_that_is_told(self, folder):
        prices = ("--input-price", "500", "--output-price", "500")
        told = said("plan", folder / "c.wav", "--coverage", "50%", *prices).out
        assert " ".join(told.split()).count("the currency of your prices") == 2
        told = said("plan", folder / "c.wav", "--coverage", "50%", *prices, "--currency", "EUR").out
        assert told.count("EUR") == 2 and "your prices" not in told
        assert "Calls have no price" in said("plan", folder / "c.wav").out

    @pytest.mark.parametrize("coverage", ["0%", "120%", "most"])
    def test_a_wrong_coverage_is_refused(self, folder, coverage):
        refused = said("plan", folder, "--coverage", coverage)
        assert (refused.code, refused.out, refused.err.count("\n")) == (1, "", 1)

    def test_what_is_odd_about_recordings_is_said_once(self, tmp_path):
        for name in ("a.wav", "b.wav"):
            make_audio(tmp_path / name, duration=8.0, audio=AudioPlan())
        told = said("plan", tmp_path)
        assert "2 recordings" in told.err and "the sound track is silent" in told.err
        assert len(told.err.splitlines()) == 1
        notes = said("plan", tmp_path, "--format", "json").json["notes"]
        assert [Path(one["path"]).name for one in notes] == ["a.wav", "b.wav"]

    def test_what_the_forecast_is_of_is_said(self, folder, tmp_path):
        """Whether a budget is one over all or a share of each; and what it leaves out."""
        assert "that share of every recording" in said("plan", folder).out
        assert "one over all recordings (--across)" in said("plan", folder, "--across").out
        assert "every recording" not in said("plan", folder / "a.mp4").out
        make_audio(tmp_path / "silent.wav", duration=8.0, audio=AudioPlan())
        told = said("plan", folder, tmp_path / "silent.wav").err
        assert "silent.wav: all its windows score the same, so the forecast counts windows" in told

    def test_no_rung_is_of_no_call(self, tmp_path):
        make_audio(tmp_path / "a.wav", duration=8.0, clicks=[1.0])
        rungs = said("plan", tmp_path, "--format", "json").json["rungs"]
        assert [rung["calls"] for rung in rungs] == [1, 2]


class TestProbe:
    def test_what_a_file_is(self, folder):
        (one,) = said("doctor", folder / "a.mp4", "--format", "json").json["recordings"]
        assert one["access"] == "index"
        assert one["duration"] == pytest.approx(60.0, abs=0.1)
        assert one["audio_pass_bytes"] < one["size_bytes"]
        told = said("doctor", folder / "a.mp4").out
        assert "h264" in told
        assert "of the file: its index lists every audio packet" in told

    def test_what_would_go_wrong(self, folder):
        told = said("doctor", folder / "b.mkv")
        assert told.code == 0
        assert "no index of the sound" in told.err


def test_probe_tells_no_size_of_pictures_that_is_not_known(tmp_path: Path) -> None:
    with av.open(str(tmp_path / "a.mp4"), "w") as made:
        stream = made.add_stream("mpeg4", rate=10)
        stream.width, stream.height = 64, 48
        for _ in range(20):
            made.mux(stream.encode(av.VideoFrame(64, 48, "yuv420p")))
        made.mux(stream.encode(None))
    assert "video: mpeg4, 10.00 frames a second" in said("doctor", tmp_path / "a.mp4").out


def test_a_cache_that_cannot_even_be_looked_into_is_no_bug(folder):
    """As in a folder of somebody else's; a name too long is refused in the same way."""
    told = said("select", folder / "c.wav", "--cache", "x" * 300)
    assert told.code == 1 and "a bug in earmark" not in told.err
    assert "scores cannot be cached in" in told.err and "set `cache` to another folder" in told.err


def test_windows_chosen_without_listening_show_no_rates(folder):
    text = said("select", folder, "--rule", "uniform", "--budget", 2).out
    assert "not listened to" in text and "even steps" in text
    assert not {"score", "rate", "expected"} & set(text.splitlines()[1].split())
