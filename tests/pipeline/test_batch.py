"""Asking a run by post: requests out, results back in."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from earmark import Settings, caption, preview
from earmark.captioning.captioner import TagsCaptioner
from earmark.captioning.openai_captioner import OpenAICaptioner
from earmark.errors import MediaError, RunError
from earmark.evidence.evidence_entry import EvidenceEntry
from earmark.evidence.picture_evidence import PictureEvidence
from earmark.pipeline.batch import export_batch, import_batch
from earmark.pipeline.session import open_session
from earmark.run.run import Run
from fault_server import fault_server
from making import make_video
from servers import range_server


@pytest.fixture
def run(tmp_path) -> Path:
    video = make_video(tmp_path / "shift.mp4", duration=48.0, clicks=[9.0, 25.0])
    choices = {"budget": "4", "frontline": "flux", "captioner": TagsCaptioner()}
    return caption([video], run=tmp_path / "run", sounds=False, pictures=False, **choices).folder


def reply(line: str, text: str) -> str:
    message = {"message": {"role": "assistant", "content": text}, "finish_reason": "stop"}
    body = {
        "model": "mail",
        "choices": [message],
        "usage": {"prompt_tokens": 50, "completion_tokens": 5},
    }
    answer = {"status_code": 200, "body": body}
    return json.dumps({"custom_id": json.loads(line)["custom_id"], "response": answer}) + "\n"


class Hammering:
    """Hears one sound wherever it is asked to."""

    model = "hammering"

    def __call__(self, recording, spans):  # noqa: ARG002
        return dict.fromkeys(spans, ("hammer", "wood, metal"))

    def cached(self, recording):  # noqa: ARG002
        return {}

    def keep(self, recording, names):
        """It has no cache."""


def test_the_question_is_the_one_a_server_would_be_asked(tmp_path):
    """Sounds are told in it, and what the batch has answered is not asked of a server again."""
    video = make_video(tmp_path / "shift.mp4", duration=48.0, clicks=[9.0, 25.0])
    session = replace(open_session(budget="4", frontline="flux"), namer=Hammering())
    tags = TagsCaptioner()
    folder = caption([video], run=tmp_path / "run", settings=session, captioner=tags).folder
    written = export_batch(folder, tmp_path / "requests.jsonl", model="mail")
    lines = written.paths[0].read_text(encoding="utf-8").splitlines()
    assert all("hammer, wood, metal" in line for line in lines)
    results = tmp_path / "results.jsonl"
    results.write_text("".join(reply(line, "seen") for line in lines))
    import_batch(folder, [results], model="mail")
    mail = OpenAICaptioner("http://127.0.0.1:1", "mail")
    assert preview([video], run=folder, settings=session, captioner=mail).calls == 0


def test_what_is_seen_in_the_frames_is_in_the_prompt_and_in_the_run(tmp_path, monkeypatch):
    def wanted_look(wanted=None, store=None):
        return None if wanted is False else PictureEvidence((Sees(),))

    for module in ("evidence.picture_evidence", "pipeline.batch"):
        monkeypatch.setattr(f"earmark.{module}.picture_evidence", wanted_look)
    video = make_video(tmp_path / "shift.mp4", duration=48.0, clicks=[9.0, 25.0])
    choices = {"budget": "2", "frontline": "flux", "sounds": False}
    caption([video], run=tmp_path / "run", captioner=TagsCaptioner(), pictures=False, **choices)
    (path,) = export_batch(tmp_path / "run", tmp_path / "r.jsonl", model="mail").paths
    assert "red cup" not in path.read_text(encoding="utf-8")
    folder = caption([video], run=tmp_path / "other", captioner=TagsCaptioner(), **choices).folder
    (path,) = export_batch(folder, tmp_path / "r.jsonl", model="mail").paths
    lines = path.read_text(encoding="utf-8").splitlines()
    assert len(lines) == 2 and all('seen: \\"red cup\\"' in line for line in lines)
    with Run(folder) as run:
        (recording,) = run.recordings()
        kept = [entry.text for entry in run.evidence(recording.id, kinds=["seen"])]
    assert kept == ["red cup"] * 2


class Sees:
    """Sees one thing wherever it looks."""

    kind, name = "seen", "eyes"

    def __call__(self, frames, span):
        assert frames
        return [EvidenceEntry(span, "seen", "red cup", 0.9, self.name)]


def test_results_of_another_run_are_said_to_be_unknown(run, tmp_path):
    written = export_batch(run, tmp_path / "requests.jsonl", model="mail")
    lines = written.paths[0].read_text(encoding="utf-8").splitlines()
    results = tmp_path / "results.jsonl"
    strange = json.dumps({"custom_id": "of another run"})
    results.write_text(reply(lines[0], "seen") + reply(strange, "seen"))
    taken = import_batch(run, [results], model="mail")
    assert (taken.answered, taken.unknown) == (1, 1)


def test_a_recording_that_is_gone_does_not_keep_the_others_from_being_written(tmp_path):
    names = ("here.mp4", "gone.mp4")
    videos = [make_video(tmp_path / name, duration=20.0, clicks=[3.0]) for name in names]
    videos[1].write_bytes(videos[1].read_bytes() + bytes(8))  # another recording
    folder = caption(videos, run=tmp_path / "run", budget="2", frontline="flux").folder
    videos[1].unlink()
    written = export_batch(folder, tmp_path / "requests.jsonl", model="mail")
    assert written.requests == 2
    (reason,) = written.left_out
    assert "gone.mp4" in reason


def test_a_recording_that_changed_is_refused(run, tmp_path):
    make_video(tmp_path / "shift.mp4", duration=20.0, clicks=[3.0])
    with pytest.raises(MediaError, match=r"shift\.mp4 has changed since the run"):
        export_batch(run, tmp_path / "requests.jsonl", model="mail")


def test_chapters_on_a_server_are_found_again(tmp_path):
    """Two files of one action-camera recording, reached by addresses that nobody can list."""
    (tmp_path / "card").mkdir()
    for number in (1, 2):
        path = tmp_path / "card" / f"GX0{number}0042.mp4"
        make_video(path, duration=20.0, clicks=[5.0, 11.0], fps=5)
    with range_server(tmp_path / "card") as server:
        paths = [server.url(f"GX0{number}0042.mp4") for number in (1, 2)]
        choices = {"budget": "8", "frontline": "flux", "captioner": TagsCaptioner()}
        folder = caption(paths, run=tmp_path / "run", **choices).folder
        with pytest.raises(MediaError, match=r"if you trust that address, allow it with"):
            export_batch(folder, tmp_path / "requests.jsonl", model="mail")
        allowed = Settings.read({"addresses": server.url("")})
        written = export_batch(folder, tmp_path / "requests.jsonl", model="mail", settings=allowed)
    with Run(folder) as run:
        (recording,) = run.recordings()
        assert max(row.end for row in run.picks(recording.id)) > 20.0
    assert [path for path, _ in recording.chapters] == paths
    assert (written.requests, written.left_out) == (8, [])


def test_a_recording_whose_address_was_redacted_is_not_opened_again(tmp_path):
    make_video(tmp_path / "shift.mp4", duration=20.0, clicks=[3.0])
    with range_server(tmp_path) as server:
        url = server.url("shift.mp4?token=hunter2")
        caption([url], run=tmp_path / "run", budget="1", frontline="flux")
        with pytest.raises(MediaError, match="the secret part of its address was not stored"):
            export_batch(tmp_path / "run", tmp_path / "requests.jsonl", model="mail")


def test_caps_hold_for_what_is_written_too(tmp_path):
    """Three calls are room for: one is asked of a server, so two are written, and then none."""
    video = make_video(tmp_path / "shift.mp4", duration=48.0, clicks=[9.0, 25.0])
    post = tmp_path / "requests.jsonl"
    with fault_server() as server:
        ask = {
            "frontline": "flux",
            "model": f"{server.url}#scripted",
            "run": tmp_path / "run",
            "concurrency": 1,
            "sounds": False,
        }
        caption([video], budget="4", max_calls=1, **ask)
        written = export_batch(
            tmp_path / "run", post, model="scripted", settings=Settings.read({"max_calls": 3})
        )
        lines = post.read_text(encoding="utf-8").splitlines(keepends=True)
        assert written.requests == len(lines) == 2
        assert written.left_out == ["stopped: the cap on calls, 3, is reached"]
        results = tmp_path / "results.jsonl"
        results.write_text("".join(reply(line, "seen") for line in lines))
        assert import_batch(tmp_path / "run", [results], model="scripted").answered == 2
        caption([video], budget="4", max_calls=3, **ask)
        assert server.count() == 1


def answered(run: Path) -> tuple[int, int]:
    with Run(run) as reader:
        totals = reader.totals()
        return totals.answered, totals.picks


@pytest.fixture
def captioned(run, tmp_path) -> Path:
    written = export_batch(run, tmp_path / "requests.jsonl", model="mail")
    lines = written.paths[0].read_text(encoding="utf-8").splitlines()
    results = tmp_path / "results.jsonl"
    results.write_text("".join(reply(line, f"seen {n}") for n, line in enumerate(lines)))
    import_batch(run, [results], model="mail")
    return run


def test_captions_stay_where_they_are_while_another_model_is_thought_of(captioned, tmp_path):
    assert export_batch(captioned, tmp_path / "other.jsonl", model="other").requests == 4
    assert answered(captioned) == (4, 4)
    with pytest.raises(RunError, match=r"none of the 4 results answers a call of .* to mial"):
        import_batch(captioned, [tmp_path / "results.jsonl"], model="mial")
    assert answered(captioned) == (4, 4)


def test_tags_take_no_captions_place(captioned, tmp_path):
    choices = {"budget": "4", "frontline": "flux", "captioner": TagsCaptioner()}
    done = caption([tmp_path / "shift.mp4"], run=captioned, **choices)
    assert (done.tally.calls, done.totals.answered, done.totals.picks) == (0, 4, 4)
    with Run(captioned) as reader:
        (recording,) = reader.recordings()
        shown = {row.answer.text for row in reader.picks(recording.id) if row.answer}
    assert shown == {f"seen {n}" for n in range(4)}


def test_what_came_back_before_is_not_missing(run, tmp_path):
    written = export_batch(run, tmp_path / "requests.jsonl", model="mail")
    lines = written.paths[0].read_text(encoding="utf-8").splitlines()
    missing = []
    for part in (lines[:2], lines[2:]):
        results = tmp_path / "part.jsonl"
        results.write_text("".join(reply(line, "seen") for line in part))
        missing.append(import_batch(run, [results], model="mail").missing)
    assert missing == [2, 0]
