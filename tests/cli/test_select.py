"""`select`, `plan` and `doctor FILE` as a person runs them."""

from __future__ import annotations

import csv
import io
import json
import os
import re
import subprocess
import sys
from pathlib import Path

import av
import jsonschema
import pytest
from typer.testing import CliRunner

from earmark.cli.app import app
from earmark.text_format import CURRENCY
from making import AudioPlan, make_audio, make_video
from servers import range_server

CLICKS = [9.0, 25.0, 41.3]
LISTENING = (("select",), ("plan",), ("doctor",), ("select", "--episodes"))


class Said:
    """What a command printed, and how it ended; it works in this process."""

    def __init__(self, *words: object) -> None:
        words += ("--workers", "1") if words[0] in ("select", "plan") else ()
        outcome = CliRunner().invoke(app, [str(word) for word in words])
        self.code, self.out, self.err = outcome.exit_code, outcome.stdout, outcome.stderr
        self.error = outcome.exception

    @property
    def json(self):
        return json.loads(self.out)


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
    said = Said("select", folder, "--budget", "25%", "--format", "json", "--explain")
    assert said.code == 0
    jsonschema.validate(said.json, Said("select", "--schema").json)
    access = {Path(one["path"]).name: one["access"] for one in said.json["recordings"]}
    assert access == {"a.mp4": "index", "b.mkv": "demux", "c.wav": "demux"}
    assert [one["budget"] for one in said.json["recordings"]] == [4, 2, 1]
    assert all(one["left_out"] for one in said.json["recordings"])


def test_what_was_left_out_is_told_in_order_of_time(folder):
    said = Said("select", folder / "a.mp4", "--budget", "3", "--explain")
    _, _, rest = said.out.partition("left out: the best 10 of 12")
    starts = re.findall(r"^ *\d+ +(\d:\d\d\.\d)", rest, re.MULTILINE)
    assert len(starts) == 10
    assert starts == sorted(starts)


def test_clips_too_short_for_their_share_are_told_of_in_one_line(tmp_path):
    for number in range(3):
        make_audio(tmp_path / f"clip{number}.wav", duration=3.0, clicks=[1.0])
    said = Said("select", tmp_path, "--budget", "25%")
    assert said.code == 0
    assert "0 calls of 3 in 3 recordings" in said.out
    (line,) = said.err.splitlines()
    assert "3 recordings" in line and "25% of the windows is less than one call" in line
    assert "spend one budget across all recordings" in line
    assert Said("select", tmp_path, "--budget", "25%", "--format", "csv").err == said.err
    assert "1 call of 3" in Said("select", tmp_path, "--budget", "25%", "--across").out


def test_the_copies_of_a_camera_are_left_out_and_said_once(tmp_path):
    made = make_video(tmp_path / "a.mp4", duration=8.0, clicks=[1.0]).read_bytes()
    for name in ("GX010001.MP4", "GL010001.LRV", "GX010001.THM"):
        (tmp_path / name).write_bytes(made)
    for command in LISTENING:
        said = Said(*command, *sorted(tmp_path.glob("G*")))
        assert (said.code, said.err.count("2 files left out")) == (0, 1), command
        assert "GL010001" not in said.out


def test_two_files_of_one_name_are_told_apart(tmp_path):
    for folder in ("a", "b"):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "bad.mp4").write_bytes(b"")
    for command in LISTENING:
        said = Said(*command, tmp_path)
        assert said.code == 1
        for folder in ("a", "b"):
            assert f"{tmp_path / folder / 'bad.mp4'} is empty" in said.err, command


def test_a_table_that_is_piped_has_a_line_a_row(folder):
    said = subprocess.run(
        [sys.executable, "-m", "earmark", "select", folder / "a.mp4", "-b", "3", "--explain"],
        capture_output=True,
        env={**os.environ, "COLUMNS": "60"},
        check=True,
        text=True,
    )
    rows = re.findall(r"^ *\d+  .* expected", said.stdout, re.MULTILINE)
    lines = [line for line in said.stdout.splitlines() if line.strip()]
    assert (len(rows), len(lines)) == (3 + 10, 1 + (1 + 3) + (2 + 10))


@pytest.mark.skipif(sys.platform != "linux", reason="names are any bytes on Linux alone")
@pytest.mark.parametrize("form", ["table", "csv", "edl", "json"])
def test_a_name_that_is_no_text_is_printed_as_it_is(tmp_path, form):
    made = make_audio(tmp_path / "a.wav", duration=8.0, clicks=[1.0])
    made.rename(os.fsdecode(os.fsencode(tmp_path) + b"/b\xff.wav"))
    said = subprocess.run(
        [sys.executable, "-m", "earmark", "select", tmp_path, "-b", "1", "--format", form],
        capture_output=True,
        env={**os.environ, "PYTHONIOENCODING": "utf-8:strict"},
        check=True,
    )
    assert (b"b\xff.wav" if form != "json" else b"b\\udcff.wav") in said.stdout


def test_the_table_names_every_pick(folder):
    said = Said("select", folder / "a.mp4", "--budget", "3", "--rule", "rank", "-f", "flux")
    assert "3 of 15 windows" in said.out
    for start in ("0:08.0", "0:24.0", "0:40.0"):
        assert start in said.out


def test_csv_and_jsonl_have_a_row_a_pick(folder):
    words = ("select", folder / "a.mp4", "--budget", "4", "--format")
    rows = list(csv.DictReader(io.StringIO(Said(*words, "csv").out)))
    lines = [json.loads(line) for line in Said(*words, "jsonl").out.splitlines()]
    assert len(rows) == len(lines) == 4
    assert [float(row["start"]) for row in rows] == [line["start"] for line in lines]


def test_edl_has_an_event_a_pick(folder):
    said = Said("select", folder / "a.mp4", "--budget", "3", "--format", "edl").out
    assert len(re.findall(r"^\d{3}  AX ", said, re.MULTILINE)) == 3
    assert "* FROM CLIP NAME: a.mp4" in said


def test_edl_of_chapters_names_the_chapter_and_its_own_time(tmp_path):
    make_video(tmp_path / "a.mp4", duration=12.0).rename(tmp_path / "GX010042.MP4")
    make_video(tmp_path / "b.mp4", duration=20.0, clicks=[9.0]).rename(tmp_path / "GX020042.MP4")
    said = Said("select", tmp_path, "-b", "1", "-r", "rank", "-f", "flux", "--format", "edl").out
    assert "* FROM CLIP NAME: GX020042.MP4" in said
    assert "00:00:08:00 00:00:12:00 00:00:00:00 00:00:04:00" in said


def test_a_glob_takes_what_it_matches(folder):
    said = Said("select", folder / "*.mkv", "--format", "json")
    assert [Path(one["path"]).name for one in said.json["recordings"]] == ["b.mkv"]


def test_in_a_batch_the_bad_are_rows_and_the_exit_code_says_so(folder, tmp_path):
    empty, junk = tmp_path / "empty.mp4", tmp_path / "junk.mp4"
    empty.write_bytes(b"")
    junk.write_bytes(b"no movie at all" * 100)
    whole = (folder / "a.mp4").read_bytes()
    (cut := tmp_path / "cut.mp4").write_bytes(whole[: len(whole) // 40])
    mute = make_video(tmp_path / "mute.mp4", duration=8.0, has_audio=False)
    missing = tmp_path / "missing.mp4"
    said = Said("select", empty, junk, mute, missing, folder / "a.mp4", "--format", "json")
    assert said.code == 1
    assert [Path(one["path"]).name for one in said.json["recordings"]] == ["mute.mp4", "a.mp4"]
    errors = {Path(one["path"]).name: one["error"] for one in said.json["failures"]}
    assert set(errors) == {"empty.mp4", "junk.mp4", "missing.mp4"}
    for name, error in errors.items():
        assert name in error
        assert "\n" not in error
        assert error in said.err
    assert Said("select", cut, "--format", "json").code in (0, 1)


@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        (["--budget", "0"], "budget"),
        (["--budget", "101%"], "budget"),
        (["--budget", "-3%"], "budget"),
        (["--budget", "many"], "25%"),
        (["--rule", "best"], "separated"),
        (["--frontline", "ears"], "flux"),
        (["--window", "0"], "window"),
    ],
)
def test_a_wrong_choice_is_one_line(folder, words, complaint):
    said = Said("select", folder / "a.mp4", *words)
    assert isinstance(said.error, ValueError)
    assert complaint in str(said.error)
    assert "\n" not in str(said.error)


class TestPlan:
    def test_the_ladder_rises_and_the_last_rung_is_everything(self, folder):
        said = Said("plan", folder, "--format", "json")
        rungs = said.json["rungs"]
        assert [rung["calls"] for rung in rungs] == sorted(rung["calls"] for rung in rungs)
        coverages = [rung["coverage"] for rung in rungs]
        assert coverages == sorted(coverages)
        assert coverages[-1] == pytest.approx(1.0)
        assert rungs[-1]["calls"] == said.json["windows"] == 24
        assert rungs[-1]["gpu_hours"] == pytest.approx(24 * 0.74 / 3600)
        screening = said.json["screening"]
        assert screening["measured_now"] == 3
        assert screening["share"] == screening["seconds"] / (24 * 0.74) > 0
        assert screening["break_even"] == max(0.0, 1 - screening["share"]) < 1

    def test_the_inverse_reaches_what_was_asked(self, folder):
        said = Said("plan", folder, "--coverage", "80%", "--format", "json")
        assert said.json["goal"]["coverage"] >= 0.8
        fewer = Said("plan", folder, "--format", "json").json["rungs"]
        short = [rung for rung in fewer if rung["calls"] < said.json["goal"]["calls"]]
        assert all(rung["coverage"] < 0.8 for rung in short)

    @pytest.mark.parametrize(("words", "again"), [((), 0), (("--no-cache",), 1)])
    def test_what_was_heard_is_kept_unless_told_not_to(self, folder, tmp_path, words, again):
        command = ("plan", folder / "c.wav", "--format", "json", *words)
        heard = [Said(*command).json["screening"]["measured_now"] for _ in range(2)]
        assert heard == [1, again]
        assert (tmp_path / "cache").exists() == (not again)

    def test_what_it_costs_is_in_a_currency_that_is_told(self, folder):
        said = Said("plan", folder / "c.wav", "--coverage", "50%", "--money", "0.5").out
        assert " ".join(said.split()).count(CURRENCY) == 2

    def test_costs_are_settable(self, folder):
        said = Said("plan", folder, "--gpu-seconds", "2", "--money", "0.5", "--format", "json")
        rung = said.json["rungs"][-1]
        assert (rung["gpu_hours"], rung["money"]) == (pytest.approx(24 * 2 / 3600), 12.0)

    @pytest.mark.parametrize("coverage", ["0%", "120%", "most"])
    def test_a_wrong_coverage_is_refused(self, folder, coverage):
        assert isinstance(Said("plan", folder, "--coverage", coverage).error, ValueError)

    def test_what_is_odd_about_recordings_is_said_once(self, tmp_path):
        for name in ("a.wav", "b.wav"):
            make_audio(tmp_path / name, duration=8.0, audio=AudioPlan())
        said = Said("plan", tmp_path)
        assert "2 recordings" in said.err and "the sound track is silent" in said.err
        assert len(said.err.splitlines()) == 1
        notes = Said("plan", tmp_path, "--format", "json").json["notes"]
        assert [Path(one["path"]).name for one in notes] == ["a.wav", "b.wav"]

    def test_what_the_forecast_is_of_is_said(self, folder, tmp_path):
        """One budget over all, which is not what 25% of each comes to; and what it leaves out."""
        across = "one over all recordings, as `--across` spends it"
        assert across in Said("plan", folder).out
        assert across not in Said("plan", folder / "a.mp4").out
        make_audio(tmp_path / "silent.wav", duration=8.0, audio=AudioPlan())
        said = Said("plan", folder, tmp_path / "silent.wav").err
        assert "silent.wav: all its windows score the same, so the forecast counts windows" in said

    def test_no_rung_is_of_no_call(self, tmp_path):
        make_audio(tmp_path / "a.wav", duration=8.0, clicks=[1.0])
        rungs = Said("plan", tmp_path, "--format", "json").json["rungs"]
        assert [rung["calls"] for rung in rungs] == [1, 2]


class TestProbe:
    def test_what_a_file_is(self, folder):
        (one,) = Said("doctor", folder / "a.mp4", "--format", "json").json["recordings"]
        assert one["access"] == "index"
        assert one["duration"] == pytest.approx(60.0, abs=0.1)
        assert one["audio_pass_bytes"] < one["size_bytes"]
        said = Said("doctor", folder / "a.mp4").out
        assert "h264" in said
        assert "of the file: its index lists every audio packet" in said

    def test_what_would_go_wrong(self, folder):
        said = Said("doctor", folder / "b.mkv")
        assert said.code == 0
        assert "no index of the sound" in said.err

    def test_what_cannot_be_opened_is_a_line(self, tmp_path):
        said = Said("doctor", tmp_path / "missing.mp4")
        assert said.code == 1
        assert "missing.mp4" in said.err


def test_over_http_only_index_and_sound_are_fetched_and_the_second_run_fetches_nothing(folder):
    with range_server(folder) as server:
        url = server.url("a.mp4")
        first = Said("select", url, "--format", "json")
        sent = server.bytes_sent()
        second = Said("select", url, "--budget", "10%", "--rule", "rank", "--format", "json")
        assert server.bytes_sent() - sent < 200  # the answers about itself
    local = Said("select", folder / "a.mp4", "--format", "json")
    assert first.json["recordings"][0]["picks"] == local.json["recordings"][0]["picks"]
    assert len(second.json["recordings"][0]["picks"]) == 2


@pytest.mark.parametrize("fault", ["no-ranges", "broken", "error"])
def test_a_remote_that_will_not_serve_is_a_clear_row(folder, tmp_path, fault):
    make_video(tmp_path / "last.mp4", duration=60.0, clicks=CLICKS, layout="last")
    with range_server(tmp_path, fault=fault) as server:
        said = Said("select", server.url("last.mp4"), folder / "c.wav", "--format", "json")
    assert said.code == 1
    (failure,) = said.json["failures"]
    assert "\n" not in failure["error"]
    assert len(said.json["recordings"]) == 1


def test_probe_tells_no_size_of_pictures_that_is_not_known(tmp_path: Path) -> None:
    with av.open(str(tmp_path / "a.mp4"), "w") as made:
        stream = made.add_stream("mpeg4", rate=10)
        stream.width, stream.height = 64, 48
        for _ in range(20):
            made.mux(stream.encode(av.VideoFrame(64, 48, "yuv420p")))
        made.mux(stream.encode(None))
    said = CliRunner().invoke(app, ["doctor", str(tmp_path / "a.mp4")])
    assert "video: mpeg4, 10.00 frames a second" in said.stdout


def test_a_cache_that_cannot_even_be_looked_into_is_no_bug(folder):
    """As in a folder of somebody else's; a name too long is refused in the same way."""
    said = Said("select", folder / "c.wav", "--cache", "x" * 300)
    assert said.code == 1 and "a bug in earmark" not in said.err
    assert "scores cannot be cached in" in said.err and "set `cache` to another folder" in said.err
