"""`earmark caption`: every pick is asked about once, and the run remembers all of it."""

from __future__ import annotations

import json
import re
import shutil
import signal
import subprocess
import time
from pathlib import Path

import pytest

from acceptance.command_line import Outcome, earmark, fresh_command
from acceptance.model_server import PROMPT_TOKENS, ModelServer, model_server
from acceptance.recordings import make_recording
from acceptance.run_rows import captions, rows


@pytest.fixture
def run(tmp_path: Path) -> Path:
    """Where the run goes."""
    return tmp_path / "run"


def caption(clip: Path, run: Path, server: ModelServer, *words: object) -> Outcome:
    """Caption with a server, as JSON."""
    options = ["--model", server.model, "--run", run, "--format", "json"]
    return earmark("caption", clip, *options, *words)


def test_every_pick_is_asked_about_once_and_stored(clip, run, server):
    outcome = caption(clip, run, server, "--budget", "2")
    assert outcome.code == 0, outcome.err
    totals = outcome.json["totals"]
    assert (totals["picks"], totals["answered"], totals["failed"]) == (2, 2, 0)
    assert (totals["windows"], totals["recordings"], totals["duration"]) == (10, 1, 40.0)
    assert totals["prompt_tokens"] == 2 * PROMPT_TOKENS
    assert server.count == 2
    assert sorted(captions(run)) == [2, 7]
    told = {request.digest for request in server.requests}
    assert {re.search(r"seen as (\w+)", text)[1] for text in captions(run).values()} == told


def test_a_request_shows_the_window_and_names_its_times(clip, run, server):
    caption(clip, run, server, "--budget", "1")
    (request,) = server.requests
    (row,) = rows(run)
    assert request.body["model"] == "tiny"
    assert len(request.pictures) == 1
    assert request.pictures[0].startswith(b"\xff\xd8"), "a JPEG"
    assert f"0:00:{row['start']:04.1f}" in request.prompt
    assert f"0:00:{row['end']:04.1f}" in request.prompt


def test_the_picks_are_those_of_select(clip, run, server):
    caption(clip, run, server, "--budget", "4")
    (recording,) = earmark("select", clip, "--budget", "4", "--format", "json").json["recordings"]
    picks = [(pick["window"], pick["instant"], pick["reason"]) for pick in recording["picks"]]
    assert [(row["window"], row["instant"], row["reason"]) for row in rows(run)] == picks


def test_a_report_is_written_and_named(clip, run, server):
    outcome = earmark("caption", clip, "--budget", "2", "--model", server.model, "--run", run)
    assert outcome.code == 0
    assert "report.html" in outcome.out
    page = (run / "report.html").read_text(encoding="utf-8")
    assert all(text in page for text in captions(run).values())


def test_the_run_has_a_folder_of_its_own_by_default(clip, server, tmp_path):
    outcome = earmark(
        "caption", clip, "--budget", "1", "--model", server.model, "--format", "json", cwd=tmp_path
    )
    folder = tmp_path / outcome.json["run"]
    assert folder.parent == tmp_path / "runs"
    assert (folder / "report.html").exists()


def test_the_name_of_the_model_is_asked_of_a_server_with_one_model(clip, run, server):
    outcome = earmark("caption", clip, "--budget", "1", "--model", server.url, "--run", run)
    assert outcome.code == 0, outcome.err
    assert server.requests[0].body["model"] == "tiny"


def write_answers(file: Path, picks: list[dict[str, object]]) -> str:
    """A replay file with an answer for each pick; returns the value of `--model`."""
    answers = (
        {name: pick[name] for name in ("recording", "start", "end")}
        | {"text": f"Answer {pick['window']}."}
        for pick in picks
    )
    file.write_text("".join(f"{json.dumps(answer)}\n" for answer in answers), encoding="utf-8")
    return f"replay:{file}"


def test_answers_from_a_replay_file(clip, run, tmp_path):
    earmark("caption", clip, "--budget", "2", "--run", tmp_path / "unasked")
    model = write_answers(tmp_path / "answers.jsonl", rows(tmp_path / "unasked"))
    outcome = earmark("caption", clip, "--budget", "2", "--model", model, "--run", run)
    assert outcome.code == 0, outcome.err
    assert captions(run) == {2: "Answer 2.", 7: "Answer 7."}


def test_a_window_that_the_replay_file_lacks_is_a_failed_call(clip, run, tmp_path):
    earmark("caption", clip, "--budget", "2", "--run", tmp_path / "unasked")
    model = write_answers(tmp_path / "answers.jsonl", rows(tmp_path / "unasked")[:1])
    outcome = earmark("caption", clip, "--budget", "2", "--model", model, "--run", run)
    assert outcome.code == 1
    assert captions(run) == {2: "Answer 2."}
    assert [row["status"] for row in rows(run)] == ["answered", "failed"]


def test_without_a_model_the_report_shows_the_picks(clip, run):
    outcome = earmark("caption", clip, "--budget", "2", "--run", run, "--format", "json")
    assert outcome.code == 0, outcome.err
    totals = outcome.json["totals"]
    assert (totals["picks"], totals["answered"], totals["asked"]) == (2, 0, 0)
    assert [row["window"] for row in rows(run)] == [2, 7]
    assert (run / "report.html").exists()
    assert "--model" in earmark("caption", clip, "--budget", "2", "--run", run).out


def test_a_model_added_later_continues_the_run(clip, run, server):
    earmark("caption", clip, "--budget", "2", "--run", run)
    outcome = caption(clip, run, server, "--budget", "2")
    assert outcome.json["totals"]["answered"] == 2
    assert sorted(captions(run)) == [2, 7]


def test_a_dry_run_asks_nothing_and_tells_the_cost(clip, run, server):
    prices = ["--input-price", "1", "--output-price", "2"]
    outcome = caption(clip, run, server, "--budget", "3", "--dry-run", *prices)
    assert outcome.code == 0, outcome.err
    cost = outcome.json
    assert (cost["calls"], cost["kept"], cost["windows"]) == (3, 0, 10)
    assert cost["tokens"] > 3 * PROMPT_TOKENS
    assert cost["tokens"] / 1e6 < cost["money"] < 2 * cost["tokens"] / 1e6
    assert server.count == 0
    assert not run.exists()


def test_a_dry_run_of_a_finished_run_costs_only_what_is_new(clip, run, server):
    caption(clip, run, server, "--budget", "2")
    cost = caption(clip, run, server, "--budget", "3", "--dry-run").json
    assert cost["calls"] + cost["kept"] == 3
    assert cost["kept"] >= 1
    assert server.count == 2


def test_the_same_command_again_asks_nothing(clip, run, server):
    first = caption(clip, run, server, "--budget", "3").json
    before = captions(run)
    again = caption(clip, run, server, "--budget", "3")
    assert again.code == 0
    assert server.count == 3
    assert again.json["this_run"]["calls"] == 0
    assert again.json["totals"] == first["totals"]
    assert captions(run) == before


@pytest.mark.parametrize("rule", ["coverage", "rank", "uniform"])
def test_a_larger_budget_asks_only_about_new_windows(clip, run, server, rule):
    caption(clip, run, server, "--budget", "2", "--rule", rule)
    paid = captions(run)
    outcome = caption(clip, run, server, "--budget", "5", "--rule", rule)
    assert outcome.json["totals"]["picks"] >= 5
    assert len({request.digest for request in server.requests}) == server.count
    assert outcome.json["this_run"]["calls"] == server.count - 2
    assert {window: captions(run)[window] for window in paid} == paid


def test_a_copied_recording_is_not_paid_for_twice(clip, run, server, tmp_path):
    caption(clip, run, server, "--budget", "2")
    copy = shutil.copy2(clip, tmp_path / "copy.mp4")
    outcome = caption(copy, run, server, "--budget", "2")
    assert outcome.code == 0, outcome.err
    assert server.count == 2


def test_another_prompt_is_another_question(clip, run, server, tmp_path):
    prompt = tmp_path / "prompt.txt"
    prompt.write_text("Which tool is used between $start and $end? It costs $$5.", encoding="utf-8")
    caption(clip, run, server, "--budget", "2")
    outcome = caption(clip, run, server, "--budget", "2", "--prompt", prompt)
    assert outcome.code == 0, outcome.err
    assert server.count == 4
    last = server.requests[-1].prompt
    assert "Which tool is used between 0:00:" in last
    assert "It costs $5." in last


def test_a_prompt_with_an_unknown_name_is_refused_before_anything_is_asked(
    clip, run, server, tmp_path
):
    prompt = tmp_path / "prompt.txt"
    prompt.write_text("Who is $wearer?", encoding="utf-8")
    outcome = caption(clip, run, server, "--prompt", prompt)
    assert outcome.code == 1
    assert "--prompt: " in outcome.err
    assert "$wearer" in outcome.err
    assert server.count == 0


def test_a_schema_is_sent_and_its_answers_are_stored(clip, run, server, tmp_path):
    schema = {
        "type": "object",
        "properties": {"tool": {"type": "string"}, "gloves": {"type": "boolean"}},
        "required": ["tool", "gloves"],
        "additionalProperties": False,
    }
    file = tmp_path / "schema.json"
    file.write_text(json.dumps(schema), encoding="utf-8")
    outcome = caption(clip, run, server, "--budget", "1", "--schema", file)
    assert outcome.code == 0, outcome.err
    assert server.requests[0].schema["properties"].keys() == {"tool", "gloves"}
    (answer,) = captions(run).values()
    assert json.loads(answer)["gloves"] is True


def test_an_answer_that_breaks_the_schema_is_a_failed_call(clip, run, tmp_path):
    file = tmp_path / "schema.json"
    schema = {"type": "object", "properties": {"tool": {"type": "string"}}, "required": ["tool"]}
    file.write_text(json.dumps(schema), encoding="utf-8")
    with model_server(then="ok:I cannot say.") as server:
        outcome = caption(clip, run, server, "--budget", "1", "--schema", file)
    assert outcome.code == 1
    assert outcome.json["totals"]["failed"] == 1
    assert rows(run)[0]["failure"]


def test_frames_temperature_and_answer_length_reach_the_server(clip, run, server):
    options = ["--frames", "3", "--temperature", "0.5", "--answer-tokens", "64"]
    outcome = caption(clip, run, server, "--budget", "1", *options)
    assert outcome.code == 0, outcome.err
    (request,) = server.requests
    assert len(request.pictures) == len(set(request.pictures)) == 3
    assert (request.body["temperature"], request.body["max_tokens"]) == (0.5, 64)


def test_the_server_s_own_temperature_sends_none(clip, run, server):
    caption(clip, run, server, "--budget", "1", "--temperature", "server")
    assert "temperature" not in server.requests[0].body


def test_no_more_calls_are_in_flight_than_allowed(clip, run):
    with model_server(then="slow:0.05") as server:
        outcome = caption(clip, run, server, "--budget", "8", "--concurrency", "2")
    assert outcome.code == 0, outcome.err
    assert server.peak == 2


def test_one_budget_for_an_archive(archive, run, server):
    outcome = caption(archive, run, server, "--budget", "4", "--across", "--workers", "1")
    assert outcome.code == 0, outcome.err
    names = [Path(row["path"]).name for row in rows(run)]
    assert len(names) == server.count == 4
    assert names.count("busy.mp4") >= 2
    assert "quiet.mp4" not in names


def test_a_recording_added_later_joins_the_run(archive, run, server, tmp_path):
    folder = tmp_path / "footage"
    folder.mkdir()
    (folder / "busy.mp4").write_bytes((archive / "busy.mp4").read_bytes())
    caption(folder, run, server, "--budget", "2")
    (folder / "sparse.mp4").write_bytes((archive / "sparse.mp4").read_bytes())
    outcome = caption(folder, run, server, "--budget", "2", "--workers", "1")
    assert outcome.json["totals"]["recordings"] == 2
    assert outcome.json["this_run"]["calls"] == 2
    assert server.count == 4


def test_two_rounds_ask_for_the_activity_and_spend_the_budget(clip, run, server):
    outcome = caption(clip, run, server, "--budget", "4", "--rounds", "2")
    assert outcome.code == 0, outcome.err
    assert outcome.json["totals"]["answered"] == server.count == 4
    assert all(
        {"activity", "active"} <= request.schema["properties"].keys() for request in server.requests
    )
    texts = [row["caption"] for row in rows(run)]
    assert all("A hand knocks" in text for text in texts)


def test_the_answers_of_a_round_steer_the_next(run, tmp_path):
    recording = make_recording(tmp_path / "long.mp4", duration=80.0, work=[(0, 40), (60, 76)])

    def idle_at_first(request):
        """Nothing is done in the first half of the recording."""
        start = float(re.search(r"from 0:0(\d):([\d.]+)", request.prompt)[2])
        minute = int(re.search(r"from 0:0(\d):", request.prompt)[1])
        active = minute * 60 + start >= 40
        activity = f"sawing plank {request.digest}" if active else ""
        return json.dumps({"caption": activity or "Idle.", "activity": activity, "active": active})

    def windows(*words: object) -> list[int]:
        folder = tmp_path / f"run-{len(words)}"
        with model_server(say=idle_at_first) as server:
            outcome = caption(recording, folder, server, "--budget", "8", *words)
        assert outcome.code == 0, outcome.err
        return [row["window"] for row in rows(folder)]

    plain, steered = windows(), windows("--rounds", "4")
    assert len(plain) == len(steered) == 8
    assert sum(window >= 10 for window in steered) > sum(window >= 10 for window in plain)


def test_automatic_rounds_finish_and_resume_without_asking(clip, run, server):
    assert caption(clip, run, server, "--budget", "4", "--rounds", "auto").code == 0
    count = server.count
    assert count == 4
    assert caption(clip, run, server, "--budget", "4", "--rounds", "auto").code == 0
    assert server.count == count


def wait_until_stored(run: Path, answers: int, *, seconds: float = 60.0) -> None:
    """Wait until the run of another process holds so many answers."""
    deadline = time.monotonic() + seconds
    while True:
        (row,) = earmark("run", "list", run.parent, "--format", "json").json
        if row["answered"] == answers:
            return
        assert time.monotonic() < deadline, row
        time.sleep(0.02)


def test_a_killed_process_loses_no_answer(clip, run):
    with model_server(then="hold") as server:
        words = ["caption", clip, "--budget", "6", "--model", server.model, "--run", run]
        words += ["--concurrency", "1"]
        for answers, stored in ((2, 2), (1, 3)):
            before = server.count
            child = subprocess.Popen(
                fresh_command(*words), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
            )
            for number in range(answers):
                server.wait_for(before + number + 1)
                server.release()
            server.wait_for(before + answers + 1)
            wait_until_stored(run, stored)
            child.send_signal(signal.SIGKILL)
            child.wait()
        server.then = "ok"
        outcome = earmark(*words, "--format", "json", fresh=True)
    assert outcome.code == 0, outcome.err
    assert outcome.json["totals"]["answered"] == 6
    digests = [request.digest for request in server.requests]
    assert len(set(digests)) == 6
    assert len(digests) - 6 <= outcome.json["totals"]["interrupted"] == 2
    assert outcome.json["this_run"]["calls"] == 3


def test_an_interrupted_process_stores_what_is_in_flight(clip, run):
    with model_server(then="hold") as server:
        words = ["caption", clip, "--budget", "6", "--model", server.model, "--run", run]
        words += ["--concurrency", "2"]
        child = subprocess.Popen(
            fresh_command(*words), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )
        server.wait_for(2)
        child.send_signal(signal.SIGTERM)
        while child.poll() is None:  # a busy machine may ask more before it sees the signal
            time.sleep(0.3)
            server.release(2)
        assert child.returncode == 130
        server.then = "ok"
        outcome = earmark(*words, "--format", "json")
    assert outcome.code == 0, outcome.err
    assert 0 < outcome.json["this_run"]["calls"] < 6
    assert outcome.json["totals"]["answered"] == 6
    assert len({request.digest for request in server.requests}) == server.count == 6


def test_two_commands_do_not_write_to_one_run_at_once(clip, run):
    with model_server(then="hold") as server:
        words = ["caption", clip, "--budget", "2", "--model", server.model, "--run", run]
        child = subprocess.Popen(
            fresh_command(*words), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )
        server.wait_for(2)
        second = earmark(*words)
        server.release(2)
        assert child.wait(timeout=60) == 0
    assert second.code == 1
    assert str(run) in second.err.replace("\n", "")
    assert server.count == 2


def test_progress_as_json_lines_goes_to_stderr(clip, run, server):
    outcome = caption(clip, run, server, "--budget", "2", "--log", "json")
    events = [json.loads(line) for line in outcome.err.splitlines()]
    assert events
    assert outcome.json["totals"]["answered"] == 2
