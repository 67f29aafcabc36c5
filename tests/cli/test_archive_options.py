"""Archives on the command line: engines, shards, merging, what failed, and how it is watched."""

from __future__ import annotations

import json
import pickle
from pathlib import Path

import pytest

from acceptance.command_line import Outcome, earmark
from acceptance.run_rows import rows
from earmark import CaptionResult
from earmark.captioning.dispatch import Tally
from earmark.captioning.local_captioners import LocalCaptioner
from earmark.pipeline.session import open_session
from earmark.run.records import Totals
from fault_server import fault_server
from making import make_archive, make_video
from servers import free_port

QUICK = ("--workers", "1", "--no-sounds", "--no-pictures")
CURRENCY = "(in the currency of your prices)"


@pytest.fixture(autouse=True)
def own_cache(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


@pytest.fixture(scope="module")
def archive(tmp_path_factory) -> Path:
    return make_archive(tmp_path_factory.mktemp("archive"))


def caption(archive: Path, run: Path, *words: object) -> Outcome:
    common = ("--frontline", "flux", "--run", run, *QUICK)
    return earmark("caption", archive, *common, *words)


def picks(folder: Path) -> dict[str, list[int]]:
    windows: dict[str, list[int]] = {}
    for row in rows(folder):
        windows.setdefault(row["path"], []).append(row["window"])
    return windows


def test_progress_as_lines_of_json(archive, tmp_path):
    said = caption(archive, tmp_path / "run", "--budget", "1", "--log", "json")
    lines = [json.loads(line) for line in said.err.splitlines() if line.startswith("{")]
    assert said.code == 0, said.err
    assert {line["event"] for line in lines} == {"progress"}
    first, last = lines[0], lines[-1]
    assert (first["phase"], first["recordings"], first["heard"]) == ("listening", 3, 0)
    assert (last["heard"], last["calls"], last["done"]) == (3, 3, 3)
    phases = list(dict.fromkeys(line["phase"] for line in lines))
    assert phases[:1] == ["listening"] and "looking" in phases and "writing" in phases[-1]
    assert last["seconds_heard"] == pytest.approx(72.0, abs=0.5)


def test_lines_of_json_stand_alone_on_a_terminal_too(archive, tmp_path, monkeypatch):
    monkeypatch.setenv("FORCE_COLOR", "1")
    said = caption(archive, tmp_path / "run", "--budget", "1", "--log", "json")
    assert all(json.loads(line)["event"] == "progress" for line in said.err.splitlines())


@pytest.mark.slow
def test_shards_merged_are_the_whole_and_a_price_over_all_asks_only_what_is_new(archive, tmp_path):
    with fault_server() as server:
        vlm = ("--model", f"{server.url}#scripted")
        whole = caption(archive, tmp_path / "whole", "--budget", "2", *vlm)
        assert whole.code == 0, whole.err
        assert server.count() == 6
        parts = [tmp_path / f"part-{number}" for number in (1, 2)]
        for number, part in enumerate(parts, start=1):
            said = caption(archive, part, "--budget", "2", "--shard", f"{number}/2", *vlm)
            assert said.code == 0, said.err
        assert server.count() == 12
        merged = earmark("run", "merge", *parts, "--into", tmp_path / "all", "--format", "json")
        assert json.loads(merged.out)["answers"] == 6
        assert picks(tmp_path / "all") == picks(tmp_path / "whole")
        again = caption(archive, tmp_path / "all", "--budget", "2", *vlm)
        assert again.code == 0
        assert server.count() == 12, "what a shard was answered is not asked again"
        more = caption(archive, tmp_path / "all", "--budget", "8", "--across", *vlm)
        assert more.code == 0
        assert server.count() == 14


def test_a_spend_over_all_is_said_with_its_currency_where_the_model_has_a_price(archive, tmp_path):
    prices = ("--input-price", "10", "--output-price", "20")
    with fault_server() as server:
        words = ("--budget", "3", "--across", "--model", f"{server.url}#scripted")
        for run, given, shown in (("priced", prices, 1), ("free", (), 0)):
            forecast = caption(archive, tmp_path / run, *words, *given, "--dry-run")
            asked = caption(archive, tmp_path / run, *words, *given)
            for said in (forecast, asked):
                assert said.code == 0, said.err
                assert " ".join(said.out.split()).count(CURRENCY) == shown, said.out
            assert "300 tokens in" in asked.out
            assert (", less than 0.01 (in" in asked.out) == shown


def test_a_dry_run_says_what_cannot_be_done_as_the_run_does(archive, tmp_path):
    empty = tmp_path / "empty.mp4"
    empty.touch()
    said = earmark("caption", empty, "--run", tmp_path / "run", "--dry-run")
    assert (said.code, "empty.mp4 is empty (0 bytes)" in said.err) == (1, True)
    assert not (tmp_path / "run").exists()
    assert caption(archive, tmp_path / "run", "--dry-run").code == 0


@pytest.mark.parametrize(("decoded", "told"), [(80, 0), (81, 1)])
def test_more_frames_than_there_are_were_decoded_more_than_once(decoded, told):
    totals = Totals(recordings=1, frames_decoded=decoded, frame_count=80, size_bytes=9)
    lines = "".join(CaptionResult(Path("run"), Path("page"), totals, Tally(), 0, 0).lines())
    assert lines.count("frames decoded (some of 80 more than once)") == told


def test_what_a_manifest_says_is_kept_and_what_plays_no_part_is_said(archive, tmp_path):
    manifest = tmp_path / "shift.csv"
    lines = [f"{archive / f'{number}.mp4'},cam {number},{number + 1}" for number in range(3)]
    manifest.write_text("\n".join(["path,id,weight", *lines, "gone.mp4,cam 9,1"]))
    said = caption(manifest, tmp_path / "run", "--budget", "1")
    assert "weights of the manifest have no effect without --across" in said.err
    assert [row["id"] for row in rows(tmp_path / "run")] == ["cam 0", "cam 1", "cam 2"]
    assert "cam 9" in (tmp_path / "run" / "report.html").read_text(encoding="utf-8")
    across = caption(manifest, tmp_path / "across", "--budget", "3", "--across")
    assert "weights" not in across.err


def test_only_what_failed_is_taken_up_again(archive, tmp_path):
    folder = tmp_path / "archive"
    folder.mkdir()
    for path in archive.iterdir():
        (folder / path.name).write_bytes(path.read_bytes())
    (folder / "1.mp4").write_bytes(b"half a movie")
    run = tmp_path / "run"
    first = caption(folder, run, "--budget", "1")
    assert first.code == 1
    assert "1.mp4 is text, not a media file" in first.err
    (folder / "1.mp4").write_bytes((archive / "1.mp4").read_bytes())
    again = caption(folder, run, "--budget", "1", "--retry-failed", "--log", "json")
    assert again.code == 0, again.err
    lines = [json.loads(line) for line in again.err.splitlines() if line.startswith("{")]
    assert lines[-1]["recordings"] == 1
    assert len(picks(run)) == 3
    nothing = caption(folder, run, "--budget", "1", "--retry-failed", "--log", "json")
    assert nothing.code == 0
    assert f"nothing failed in {run}" in nothing.err
    other = caption(folder, run, "--budget", "2", "--retry-failed")
    assert other.code == 1
    assert "budget is '1' there and '2' here" in other.err
    assert len(picks(run)) == 3


def test_bad_words_are_one_line(archive, tmp_path):
    run = tmp_path / "run"
    split = caption(archive, run, "--budget", "5", "--across", "--shard", "1/2")
    assert (split.code, split.err.count("\n")) == (1, 1)
    assert "cannot be split among shards" in split.err
    shard = caption(archive, run, "--shard", "9/2")
    assert "a shard is written 1/2 to 2/2" in shard.err
    address = earmark("select", archive, "--address", "auto")
    assert "address: auto needs engine = ray" in address.err
    idle = earmark("select", archive, "--workers", "0")
    assert "workers: should be greater than or equal to 1" in idle.err
    none = caption(archive, tmp_path / "none", "--retry-failed")
    assert (none.code, none.err.count("\n")) == (1, 1)


def test_workers_are_given_paths_that_mean_the_same_everywhere(archive, monkeypatch):
    monkeypatch.chdir(archive)
    here = open_session(["0.mp4", "s3://bucket/a.mp4"]).sources()
    there = open_session(["0.mp4", "s3://bucket/a.mp4"], engine="ray").sources()
    assert [source.uris for source in here] == [("0.mp4",), ("s3://bucket/a.mp4",)]
    assert [source.uris for source in there] == [(str(archive / "0.mp4"),), ("s3://bucket/a.mp4",)]
    model = LocalCaptioner(Path("a.gguf"), Path("b.gguf"))
    assert pickle.loads(pickle.dumps(model)).model_path == archive / "a.gguf"


def test_a_cluster_that_is_not_there(archive, tmp_path):
    pytest.importorskip("ray")
    words = ("--engine", "ray", "--address", f"127.0.0.1:{free_port()}")
    said = caption(archive, tmp_path / "run", *words)
    assert said.code == 1
    assert "no Ray cluster at" in said.err


def test_a_batch_says_where_it_is_and_what_to_do_next(archive, tmp_path):
    path = tmp_path / "requests.jsonl"
    run = tmp_path / "run"
    assert caption(archive, run, "--budget", "1").code == 0
    unnamed = earmark("export", run, "--to", "batch", "--out", path)
    assert "name the model" in unnamed.err
    export = earmark("export", run, "--to", "batch", "--model", "mail", "--out", path)
    assert export.code == 0, export.err
    assert export.out.splitlines() == [str(path)]
    assert f"3 requests; import their results with: earmark run import {run}" in export.err


def test_a_batch_of_a_run_with_every_answer_is_not_written(archive, tmp_path):
    with fault_server() as server:
        asked = ("--budget", "1", "--model", f"{server.url}#scripted")
        assert caption(archive, tmp_path / "run", *asked).code == 0
    path = tmp_path / "requests.jsonl"
    words = ("--to", "batch", "--model", "scripted", "--out", path)
    said = earmark("export", tmp_path / "run", *words)
    assert (said.code, said.out, path.exists()) == (0, "", False)
    assert "every pick has an answer" in said.err
    assert "run import" not in said.err


def test_a_recording_without_a_pick_is_not_passed_over_in_silence(tmp_path):
    make_video(tmp_path / "mute.mp4", duration=20.0, has_audio=False)
    words = ("--budget", "auto", "--run", tmp_path / "run", *QUICK)
    said = earmark("caption", tmp_path / "mute.mp4", *words)
    assert said.code == 0
    assert "mute.mp4: nothing in its sound" in " ".join(said.err.split())


def test_rounds_without_a_model_say_that_there_are_none(tmp_path):
    make_video(tmp_path / "a.mp4", duration=20.0, clicks=[3.0])
    asked = ("caption", tmp_path / "a.mp4", "--budget", "2", "--run", tmp_path / "run", *QUICK)
    assert "--rounds has no effect without a model" in " ".join(
        earmark(*asked, "--rounds", "auto").err.split()
    )
    assert "--rounds has no effect without a model" not in " ".join(earmark(*asked).err.split())


def test_rounds_say_what_rests_on_the_sound_and_where_there_is_none(tmp_path):
    for name, clicks in (("a", [3.0, 9.0, 15.5]), ("mute", [])):
        make_video(tmp_path / f"{name}.mp4", duration=20.0, clicks=clicks)
    words = ("--budget", "2", "--rounds", "auto", *QUICK)
    told = {}
    with fault_server() as server:
        for some in (("a",), ("mute",), ("a", "mute")):
            paths, run = [tmp_path / f"{name}.mp4" for name in some], "-".join(some)
            model = ("--model", f"{server.url}#scripted")
            said = earmark("caption", *paths, "--run", tmp_path / run, *words, *model)
            told[run] = " ".join(said.out.split())
    assert "expected coverage by the sound alone" in told["a"]
    assert "probably missed: about" in told["a"] and "is not known" not in told["a"]
    assert "probably missed" not in told["mute"]
    assert "missed in 1 recording in which nothing was heard is not known" in told["mute"]
    assert "probably missed: about" in told["a-mute"] and "in 1 recording" in told["a-mute"]


@pytest.mark.parametrize("shape", ["table", "json"])
def test_what_is_odd_about_a_recording_is_said_though_it_has_picks(tmp_path, shape):
    whole = make_video(tmp_path / "a.mp4", duration=24.0, clicks=[3.0, 17.0], layout="first")
    whole.write_bytes(whole.read_bytes()[:-10_000])
    (tmp_path / "empty.mp4").touch()
    said = caption(tmp_path, tmp_path / "run", "--budget", "2", "--format", shape)
    assert said.code == 1
    assert "a.mp4: cut off:" in said.err and "copy the whole file again" in said.err
    assert "empty.mp4 is empty" in said.err


def test_why_a_server_that_fails_stops_the_run_is_said_once(tmp_path):
    video = make_video(tmp_path / "a.mp4", duration=600.0, clicks=[3.0, 70.0], fps=1)
    with fault_server(then="400") as server:
        words = ("--model", f"{server.url}#scripted", "--budget", 150)
        said = caption(video, tmp_path / "run", *words)
    assert said.code == 1
    told = " ".join(said.err.split())
    assert "calls failed warning: stopped: " in told
    assert told.count("(400)") == 1
