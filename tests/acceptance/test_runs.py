"""`earmark run`: list, merge, import, audit and forget."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from acceptance.command_line import Outcome, earmark
from acceptance.model_server import ModelServer, completion
from acceptance.run_rows import captions, rows


def caption(path: Path, run: Path, server: ModelServer, *words: object) -> Outcome:
    options = ["--budget", "2", "--model", server.model, "--run", run, "--workers", "1"]
    return earmark("caption", path, *options, "--format", "json", *words)


def replies(requests: Path, file: Path, *, count: int | None = None) -> list[str]:
    """Answer the first `count` requests of a batch file; returns the texts."""
    texts, lines = [], []
    for number, line in enumerate(requests.read_text(encoding="utf-8").splitlines()[:count]):
        texts.append(f"Batched {number}.")
        response = {"status_code": 200, "body": completion(texts[-1])}
        lines.append({"custom_id": json.loads(line)["custom_id"], "response": response})
    file.write_text("".join(f"{json.dumps(line)}\n" for line in lines), encoding="utf-8")
    return texts


def write_batch(clip: Path, run: Path, file: Path, *words: object) -> Outcome:
    chosen = earmark("caption", clip, "--budget", "3", "--run", run)
    assert chosen.code == 0, chosen.err
    return earmark("export", run, "--to", "batch", "--out", file, *words)


def test_list_shows_every_run_below_a_folder(clip, archive, tmp_path, server):
    caption(clip, tmp_path / "monday", server)
    caption(archive, tmp_path / "week" / "tuesday", server)
    outcome = earmark("run", "list", tmp_path, "--format", "json")
    assert outcome.code == 0, outcome.err
    listed = {Path(row["run"]).name: row for row in outcome.json}
    assert listed.keys() == {"monday", "tuesday"}
    assert (listed["monday"]["recordings"], listed["monday"]["answered"]) == (1, 2)
    assert (listed["tuesday"]["recordings"], listed["tuesday"]["picks"]) == (3, 6)
    text = earmark("run", "list", tmp_path).out
    assert "monday" in text
    assert "2 of 2" in text


def test_list_of_a_folder_without_runs_is_empty(tmp_path):
    outcome = earmark("run", "list", tmp_path, "--format", "json")
    assert (outcome.code, outcome.json) == (0, [])


def test_shards_divide_an_archive_and_merge_into_one_run(archive, tmp_path, server):
    shards = [tmp_path / f"shard{number}" for number in (1, 2)]
    for number, shard in enumerate(shards, start=1):
        outcome = caption(archive, shard, server, "--shard", f"{number}/2")
        assert outcome.code == 0, outcome.err
    parts = [{row["path"] for row in rows(shard)} for shard in shards]
    assert not parts[0] & parts[1]
    assert len(parts[0] | parts[1]) == 3
    merged = tmp_path / "all"
    outcome = earmark("run", "merge", *shards, "--into", merged, "--format", "json")
    assert outcome.code == 0, outcome.err
    assert (outcome.json["runs"], outcome.json["recordings"], outcome.json["answers"]) == (2, 3, 6)
    texts = {(row["path"], row["window"]): row["caption"] for row in rows(merged)}
    assert texts == {
        (row["path"], row["window"]): row["caption"] for shard in shards for row in rows(shard)
    }
    again = caption(archive, merged, server)
    assert again.code == 0, again.err
    assert server.count == 6, "the merged run continues without asking again"


def test_merging_twice_changes_nothing(archive, tmp_path, server):
    caption(archive, tmp_path / "one", server)
    words = ["run", "merge", tmp_path / "one", "--into", tmp_path / "all", "--format", "json"]
    assert earmark(*words).code == 0
    before = rows(tmp_path / "all")
    assert earmark(*words).code == 0
    assert rows(tmp_path / "all") == before


def test_merging_what_is_no_run_is_one_line(tmp_path):
    (tmp_path / "folder").mkdir()
    outcome = earmark("run", "merge", tmp_path / "folder", "--into", tmp_path / "all")
    assert outcome.code == 1
    assert "folder" in outcome.err


def test_a_batch_is_written_without_asking_and_its_results_are_imported(clip, tmp_path, server):
    run, requests, results = (
        tmp_path / name for name in ("run", "requests.jsonl", "results.jsonl")
    )
    outcome = write_batch(clip, run, requests, "--model", server.model)
    assert outcome.code == 0, outcome.err
    assert server.count == 0
    lines = [json.loads(line) for line in requests.read_text(encoding="utf-8").splitlines()]
    assert len({line["custom_id"] for line in lines}) == len(lines) == 3
    assert all(line["body"]["model"] == "tiny" for line in lines)
    assert all("data:image/jpeg;base64," in json.dumps(line) for line in lines)
    texts = replies(requests, results)
    imported = earmark("run", "import", run, results, "--model", "tiny")
    assert imported.code == 0, imported.err
    assert sorted(captions(run).values()) == texts
    assert caption(clip, run, server, "--budget", "3").code == 0
    assert server.count == 0, "imported answers are not asked for again"


def test_a_batch_asks_what_a_server_would_be_asked(clip, tmp_path, server):
    requests = tmp_path / "requests.jsonl"
    write_batch(clip, tmp_path / "batch", requests, "--model", server.model)
    caption(clip, tmp_path / "live", server, "--budget", "3")
    lines = requests.read_text(encoding="utf-8").splitlines()
    written = [json.dumps(json.loads(line)["body"]["messages"]) for line in lines]
    asked = [json.dumps(request.body["messages"]) for request in server.requests]
    assert sorted(written) == sorted(asked)


def test_what_is_missing_from_the_results_is_asked_later(clip, tmp_path, server):
    run, requests, results = (
        tmp_path / name for name in ("run", "requests.jsonl", "results.jsonl")
    )
    write_batch(clip, run, requests, "--model", server.model)
    replies(requests, results, count=2)
    imported = earmark("run", "import", run, results, "--model", "tiny")
    assert imported.code == 1, "an answer is missing"
    assert len(captions(run)) == 2
    caption(clip, run, server, "--budget", "3")
    assert server.count == 1
    assert len(captions(run)) == 3


def test_results_of_another_run_are_not_taken(clip, tmp_path, server):
    caption(clip, tmp_path / "run", server)
    before = captions(tmp_path / "run")
    results = tmp_path / "results.jsonl"
    stranger = {"custom_id": "0" * 32, "response": {"status_code": 200, "body": completion("No.")}}
    results.write_text(json.dumps(stranger) + "\n", encoding="utf-8")
    outcome = earmark("run", "import", tmp_path / "run", results, "--model", "tiny")
    assert outcome.code == 1
    assert str(tmp_path / "run") in outcome.err
    assert captions(tmp_path / "run") == before


def test_an_audit_asks_about_windows_that_were_not_picked(clip, tmp_path, server):
    run = tmp_path / "run"
    caption(clip, run, server)
    picked = {request.pictures[0] for request in server.requests}
    words = ["run", "audit", run, "--calls", "3", "--model", server.model, "--format", "json"]
    outcome = earmark(*words)
    assert outcome.code == 0, outcome.err
    audit = outcome.json
    assert (audit["windows"], audit["drawn"], audit["answered"]) == (8, 3, 3)
    assert 0 <= audit["share"]["low"] <= audit["share"]["share"] <= audit["share"]["high"] <= 1
    drawn = {request.pictures[0] for request in server.requests[2:]}
    assert len(drawn) == 3
    assert not drawn & picked
    assert earmark(*words).json["share"] == audit["share"]
    assert server.count == 5, "the same draw is not asked twice"


def test_a_dry_audit_tells_how_wide_the_interval_will_be(clip, tmp_path, server):
    caption(clip, tmp_path / "run", server)
    words = ["--calls", "3", "--dry-run", "--format", "json"]
    widths = earmark("run", "audit", tmp_path / "run", *words).json
    assert 0 < widths["3"] <= 1
    assert widths["8"] == 0, "all windows are known"
    assert server.count == 2


def test_forgetting_a_recording_leaves_nothing_of_it(archive, tmp_path, server):
    run, cache = tmp_path / "run", tmp_path / "cache"
    caption(archive, run, server, "--cache", cache)
    gone = {row["caption"] for row in rows(run) if row["path"].endswith("busy.mp4")}
    cached = {path for path in cache.rglob("*") if path.is_file()}
    assert gone
    outcome = earmark("run", "forget", archive / "busy.mp4", run, "--cache", cache, "--yes")
    assert outcome.code == 0, outcome.err
    assert {Path(row["path"]).name for row in rows(run)} == {"sparse.mp4", "quiet.mp4"}
    contents = [path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()]
    assert not any(text.encode() in content for text in gone for content in contents)
    assert not any(b"busy.mp4" in content for content in contents)
    assert {path for path in cache.rglob("*") if path.is_file()} < cached
    assert (archive / "busy.mp4").exists(), "the recording itself is not touched"


def test_forgetting_asks_first(clip, tmp_path, server):
    caption(clip, tmp_path / "run", server)
    outcome = earmark("run", "forget", clip, tmp_path / "run", stdin="n\n")
    assert outcome.code == 1
    assert len(rows(tmp_path / "run")) == 2


def test_forgetting_what_no_run_holds_is_one_line(clip, archive, tmp_path, server):
    caption(clip, tmp_path / "run", server)
    outcome = earmark("run", "forget", archive / "busy.mp4", tmp_path / "run", "--yes")
    assert outcome.code == 1
    assert "busy.mp4" in outcome.err
    assert len(rows(tmp_path / "run")) == 2


@pytest.mark.parametrize(
    "command", [["run", "audit", "--dry-run"], ["show"], ["export", "--to", "csv"]]
)
def test_a_run_that_is_not_there_is_one_line(command, tmp_path):
    outcome = earmark(*command, tmp_path / "nowhere")
    assert outcome.code == 1
    assert "nowhere" in outcome.err
    assert "Traceback" not in outcome.err
