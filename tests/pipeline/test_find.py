"""One thing is looked for: three drillings found with few calls, nothing where there is none."""

from __future__ import annotations

import json

import av
import pytest
from typer.testing import CliRunner

import earmark
from annotation_server import MODEL, annotation_server
from earmark import EarmarkError, Span
from earmark.cli.app import app
from earmark.evidence.evidence_entry import EvidenceEntry
from earmark.gate.gate import default_gate
from earmark.pipeline.batch import export_batch, import_batch
from earmark.pipeline.clips import highlights
from earmark.report.day import read_day
from earmark.report.export_formats import export
from earmark.run.corrections import Correction, correct
from earmark.run.run import Run
from earmark_lab.training.answered_windows import read_answers
from fault_server import fault_server
from making import make_video
from quiet_shift import film_shift, require_yamnet

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("named_by_yamnet")]
QUESTION = "someone uses a drill"


def test_all_drillings_are_found_cut_and_not_paid_twice(shift, cache, tmp_path):
    path, drillings = shift
    choices = {"run": tmp_path / "run", "calls": 8, "cache": cache}
    with annotation_server(drillings) as server:
        found = earmark.find(
            QUESTION, [path], model=f"{server.url}#{MODEL}", clips=tmp_path / "clips", **choices
        )
        asked = len(server.asked())
        again = earmark.find(QUESTION, [path], model=f"{server.url}#{MODEL}", **choices)
        assert len(server.asked()) == asked <= 8
        texts = json.dumps(server.asked())
    (one,) = found.recordings
    assert [any(span.overlaps(own) for own in one.spans) for span in drillings] == [True] * 3
    near = [Span(span.start - 8, span.end + 8) for span in drillings]
    assert all(any(span.overlaps(each) for each in near) for span in one.spans)
    assert again.recordings[0].spans == one.spans
    assert set(one.what) == {"a drill turns"}
    assert found.missed.low <= found.missed.expected <= found.missed.high
    assert QUESTION in texts and "Drill" in texts  # what is heard is told
    with Run(tmp_path / "run") as run:
        (told,) = read_day(run).recordings
        reasons = [row.reason for row in run.picks(run.recordings()[0].id)]
    assert all(float(reason.split("%")[0]) <= 100 for reason in reasons)
    heading, first = next(told.lines())  # what was looked for comes before what it took
    assert heading == "Found" and first.startswith(f"“{QUESTION}” 3× at ")
    assert told.sought is not None and told.sought.seen == one.spans
    assert told.activities == ()
    assert len(one.clips) == len(one.spans)
    with av.open(str(one.clips[0])) as clip:
        assert clip.streams.video and clip.streams.audio
        assert 2 <= clip.duration / 1e6 <= 30


def test_recordings_of_one_name_have_clips_of_their_own(tmp_path):
    for place, clicks in (("monday", [1.0]), ("tuesday", [3.0])):
        (tmp_path / place).mkdir()
        make_video(tmp_path / place / "GH010042.mp4", duration=4.0, clicks=clicks)
    with annotation_server(reply=json.dumps({"seen": True, "what": "a drill turns"})) as server:
        whom = {"model": f"{server.url}#{MODEL}", "run": tmp_path / "run", "calls": 2}
        days = [tmp_path / "monday", tmp_path / "tuesday"]
        found = earmark.find(QUESTION, days, clips=tmp_path / "clips", **whom)
    clips = {path.name for one in found.recordings for path in one.clips}
    assert clips == {"monday-GH010042-001.mp4", "tuesday-GH010042-001.mp4"}
    assert {path.name for path in (tmp_path / "clips").iterdir()} == clips


def test_asking_a_run_may_buy_calls_first(shift, cache, tmp_path):
    path, _ = shift
    reply = {"seen": True, "what": "a drill turns", "sentences": [], "unknown": "who drilled"}
    earmark.caption([path], run=tmp_path / "run", budget="1", cache=cache)
    with annotation_server(reply=json.dumps(reply)) as server:
        whom = {"model": f"{server.url}#{MODEL}", "cache": cache}
        told = earmark.ask(tmp_path / "run", "When was the drill used?", calls=2, **whom)
        *bought, last = server.asked()
    assert told.bought == len(bought) == 2
    assert all("image_url" in json.dumps(body) for body in bought)
    given = json.loads(last["messages"][-1]["content"])["entries"]
    assert {"a drill turns", "Yes. a drill turns"} & {entry["text"] for entry in given}


def test_nothing_is_found_where_there_is_none(tmp_path, cache):
    require_yamnet()
    path = tmp_path / "other.mp4"
    film_shift(path, minutes=1.0, drillings=0)
    with annotation_server() as server:
        command = ["find", QUESTION, str(path), "--calls", "3"]
        command += [
            "--model",
            f"{server.url}#{MODEL}",
            "--run",
            str(tmp_path / "run"),
            "--cache",
            str(cache),
        ]
        said = CliRunner().invoke(app, command)
        assert len(server.asked()) == 3
    assert said.exit_code == 0, said.output
    assert "0 moments found with 3 calls of 15 windows" in said.stdout
    told = CliRunner().invoke(app, ["show", str(tmp_path / "run")]).stdout
    assert f"“{QUESTION}” in none of 3 windows asked about" in told


def test_highlights_of_a_search_are_what_was_seen(tmp_path):
    path = make_video(tmp_path / "a.mp4", duration=20.0, clicks=[5.0])
    with annotation_server([Span(5.0, 7.0)]) as server:
        whom = {"model": f"{server.url}#{MODEL}", "run": tmp_path / "run", "calls": 5}
        found = earmark.find(QUESTION, [path], **whom)
    assert (found.calls, [len(one.spans) for one in found.recordings]) == (5, [1])
    made = highlights(tmp_path / "run", tmp_path / "day.mp4")
    assert made.picks == 1


def test_windows_that_were_not_seen_in_are_no_highlights(tmp_path):
    """Neither those whose call failed, nor those captioned before."""
    path = make_video(tmp_path / "a.mp4", duration=20.0, clicks=[5.0, 13.0])
    folder = tmp_path / "run"
    with annotation_server(reply="A hand holds a cup.") as server:
        earmark.caption([path], run=folder, budget="2", model=f"{server.url}#{MODEL}")
    with annotation_server(reply="hm") as server:
        whom = {"model": f"{server.url}#{MODEL}", "run": folder, "calls": 2}
        assert earmark.find(QUESTION, [path], **whom).failed == 2
    with pytest.raises(EarmarkError):
        highlights(folder, tmp_path / "day.mp4")
    with Run(folder) as run:
        (written,) = export(run, tmp_path / "day.srt", format="srt")
    assert written.read_text(encoding="utf-8").strip() == ""


def test_a_batch_is_read_as_the_server_s_answers_are(tmp_path):
    path, folder = make_video(tmp_path / "a.mp4", duration=8.0, clicks=[5.0]), tmp_path / "run"
    with annotation_server(reply="hm") as server:
        whom = {"model": f"{server.url}#{MODEL}", "run": folder, "calls": 2}
        earmark.find(QUESTION, [path], **whom)
    written = export_batch(folder, tmp_path / "requests.jsonl", model=MODEL)
    said = ['{"seen": "no", "what": "There is no drill."}', '{"seen": "perhaps"}']
    results = tmp_path / "results.jsonl"
    lines = written.paths[0].read_text(encoding="utf-8").splitlines()
    results.write_text("".join(reply(line, words) for line, words in zip(lines, said, strict=True)))
    done = import_batch(folder, [results], model=MODEL)
    assert (done.answered, done.failed) == (1, 1)
    with Run(folder) as run:
        assert run.search("drill") == []
        (told,) = read_day(run).recordings
    assert told.sought is not None and told.sought.seen == ()


def reply(line: str, words: str) -> str:
    """A line of a batch's results that answers the request of `line`."""
    body = {"choices": [{"message": {"content": words}, "finish_reason": "stop"}]}
    answered = {"custom_id": json.loads(line)["custom_id"]}
    return json.dumps(answered | {"response": {"status_code": 200, "body": body}}) + "\n"


def test_an_answer_to_a_schema_of_one_s_own_may_say_seen(tmp_path):
    path, folder = make_video(tmp_path / "a.mp4", duration=12.0, clicks=[5.0]), tmp_path / "run"
    schema = {"type": "object", "properties": {"seen": {"type": "boolean"}}, "required": ["seen"]}
    asked = {"prompt": "Is anybody there?", "answer_schema": schema}
    with annotation_server(reply='{"seen": false, "people": 2}') as server:
        whom = {"model": f"{server.url}#{MODEL}", "run": folder}
        earmark.caption([path], budget="2", **asked, **whom)
    assert highlights(folder, tmp_path / "day.mp4").picks == 2
    with Run(folder) as run:
        (told,) = read_day(run).recordings
    assert told.sought is None and told.activities


def test_a_verdict_on_a_yes_or_no_teaches_no_activity(tmp_path):
    path, folder = make_video(tmp_path / "a.mp4", duration=12.0, clicks=[5.0]), tmp_path / "run"
    with annotation_server(reply=json.dumps({"seen": False})) as server:
        whom = {"model": f"{server.url}#{MODEL}", "run": folder, "calls": 2}
        earmark.find(QUESTION, [path], **whom)
    with Run(folder) as run:
        key = run.recordings()[0].id
        spans = [row.span for row in run.picks(key)]
    correct(folder, Correction(key, spans[0], "right", "ann"))
    correct(folder, Correction(key, spans[1], "reworded", "ann", "A hand pours tea"))
    (recording,) = read_answers([folder], default_gate()).recordings
    assert [one.activity for one in recording.answers] == ["A hand pours tea"]


def test_what_a_no_says_is_found_by_no_search(tmp_path):
    path = make_video(tmp_path / "a.mp4", duration=12.0, clicks=[5.0])
    reply = {"seen": False, "what": "There is no drill, a hand holds a cup."}
    with annotation_server(reply=json.dumps(reply)) as server:
        whom = {"model": f"{server.url}#{MODEL}", "run": tmp_path / "run", "calls": 2}
        earmark.find(QUESTION, [path], **whom)
    with Run(tmp_path / "run") as run:
        assert [row.caption for row in run.picks(run.recordings()[0].id)] == ["No.", "No."]
        assert run.search("drill") == []


@pytest.mark.parametrize(
    ("reply", "shown"),
    [
        ("Yes, a drill turns.", "Yes. a drill turns."),
        ("**No**. There is a cup.", "No."),
        ('{"seen": "no", "what": "a cup"}', "No."),
        ('{"seen": "Yes", "what": "a drill"}', "Yes. a drill"),
        ('{"seen": true}', "Yes."),
    ],
)
def test_yes_and_no_are_read_where_a_server_keeps_to_no_schema(reply, shown, tmp_path):
    path = make_video(tmp_path / "a.mp4", duration=4.0, clicks=[1.0])
    with annotation_server(reply=reply) as server:
        whom = {"model": f"{server.url}#{MODEL}", "run": tmp_path / "run", "calls": 1}
        found = earmark.find(QUESTION, [path], **whom)
    assert (found.calls, len(found.recordings)) == (1, int(shown.startswith("Yes")))
    with Run(tmp_path / "run") as run:
        assert [row.caption for row in run.picks(run.recordings()[0].id)] == [shown]


@pytest.mark.parametrize("reply", ["A cup.", '{"seen": null}', '{"seen": "maybe"}'])
def test_what_is_neither_yes_nor_no_is_a_failed_call(reply, tmp_path):
    path = make_video(tmp_path / "a.mp4", duration=4.0, clicks=[1.0])
    with annotation_server(reply=reply) as server:
        whom = {"model": f"{server.url}#{MODEL}", "run": tmp_path / "run", "calls": 1}
        found = earmark.find(QUESTION, [path], **whom)
    assert (found.calls, found.failed, found.recordings) == (0, 1, ())
    with Run(tmp_path / "run") as run:
        totals = run.totals()
    assert (totals.prompt_tokens, totals.completion_tokens) == (10, 5), "it is paid for"


def test_a_transcript_is_deleted_by_a_search_without_voices(tmp_path):
    path, folder = make_video(tmp_path / "a.mp4", duration=8.0, clicks=[5.0]), tmp_path / "run"
    earmark.caption([path], run=folder, budget="1")
    with Run(folder, {"another": "plan"}) as ledger, Run(folder) as run:
        said = EvidenceEntry(Span(1.0, 2.0), "said", "Hand me the spanner.", 0.9, "whisper")
        ledger.keep_evidence(run.recordings()[0].id, [said], kinds=["said"])
    with annotation_server(reply=json.dumps({"seen": False})) as server:
        whom = {"model": f"{server.url}#{MODEL}", "run": folder, "calls": 1}
        earmark.find(QUESTION, [path], voices=False, **whom)
    with Run(folder) as run:
        assert run.search("spanner") == []
    assert not [file for file in folder.iterdir() if b"spanner" in file.read_bytes()]


def test_captions_stay_in_a_run_that_is_searched(tmp_path):
    """On its page, in its summary, and after a command that asks no model."""
    path = make_video(tmp_path / "a.mp4", duration=16.0, clicks=[5.0, 9.0])
    run = {"run": tmp_path / "run"}
    caption = "A hand pours coffee."
    with annotation_server(reply=caption) as server:
        earmark.caption([path], budget="3", model=f"{server.url}#{MODEL}", **run)
    with annotation_server(reply=json.dumps({"seen": False})) as server:
        found = earmark.find(QUESTION, [path], calls=2, model=f"{server.url}#{MODEL}", **run)
        assert (found.calls, len(server.asked())) == (2, 2)
    with Run(tmp_path / "run") as kept:
        (told,) = read_day(kept).recordings
        shown = [row.caption for row in kept.picks(kept.recordings()[0].id)]
    assert sorted(shown)[-2:] == ["No.", "No."] and caption in shown
    assert told.sought is not None and told.sought.asked == 2
    assert {one.text for one in told.activities} == {caption}
    earmark.caption([path], budget="3", **run)
    with Run(tmp_path / "run") as kept:
        shown = [row.caption for row in kept.picks(kept.recordings()[0].id)]
    assert shown == [caption] * 3


def test_what_no_sound_means_is_looked_for_where_something_goes_on(tmp_path, cache):
    require_yamnet()
    path = tmp_path / "other.mp4"
    film_shift(path, minutes=1.0, drillings=0)
    with annotation_server() as server:
        found = earmark.find(
            "qwertz uiop",
            [path],
            run=tmp_path / "run",
            calls=2,
            cache=cache,
            model=f"{server.url}#{MODEL}",
        )
    assert found.recordings == ()
    if not found.matches:
        assert "chosen by how much seems to happen" in found.notes[0]


def test_a_question_and_calls_are_needed(tmp_path):
    with pytest.raises(ValueError, match="say what to find"):
        earmark.find("  ", [], run=tmp_path)
    with pytest.raises(ValueError, match="at least 1, not 0"):
        earmark.find("a drill", [], run=tmp_path, calls=0)
    with pytest.raises(ValueError, match="model: name a model to ask"):
        earmark.find("a drill", [], run=tmp_path)


def test_what_failed_is_said(tmp_path, cache):
    require_yamnet()
    path, cut = tmp_path / "other.mp4", tmp_path / "cut.mp4"
    film_shift(path, minutes=1.0, drillings=0)
    cut.write_bytes(path.read_bytes()[:20_000])
    with fault_server(then="empty") as server:
        command = ["find", QUESTION, str(path), str(cut), "--calls", "3"]
        command += [
            "--model",
            f"{server.url}#scripted",
            "--run",
            str(tmp_path / "run"),
            "--cache",
            str(cache),
        ]
        said = CliRunner().invoke(app, [*command, "--retries", "0"])
    assert said.exit_code == 1
    told = " ".join(said.stderr.split())
    assert "cut.mp4" in told
    assert "calls failed, the last: " in told
