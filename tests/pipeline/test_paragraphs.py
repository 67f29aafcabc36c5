"""A paragraph about each recording and the day: cited, checked, paid once, part of the preview."""

from __future__ import annotations

import json
from pathlib import Path

import earmark
from annotation_server import MODEL, annotation_server
from earmark.media import open_recording
from earmark.pipeline.caption import preview
from earmark.report.day import read_day
from earmark.run.run import Run
from making import make_video

SAID = "A hand drills a board."
REPLY = {
    "sentences": [
        {"text": "A board was drilled.", "sources": [{"entry": 1, "quote": "drills a board"}]},
        {"text": "It rained.", "sources": [{"entry": 1, "quote": "rain"}]},
    ],
    "unknown": "",
    "caption": SAID,
}


def test_sentences_that_hold_are_shown_and_paid_for_once(tmp_path: Path):
    paths = [
        make_video(tmp_path / f"{name}.mp4", duration=12.0, clicks=[5.0]) for name in ("a", "b")
    ]
    folder = tmp_path / "run"
    with annotation_server(reply=SAID) as server:
        captions = {"model": f"{server.url}#{MODEL}", "run": folder, "budget": "1", "sounds": False}
        earmark.caption(paths, **captions)
    with annotation_server(reply=json.dumps(REPLY)) as server:
        captions["model"] = f"{server.url}#{MODEL}"
        captions["paragraphs"] = True
        prices = {"input_price": 1.0, "output_price": 1.0}
        before = preview(paths, **captions, **prices)
        done = earmark.caption(paths, **captions, **prices)
        asked = len(server.asked())
        earmark.caption(paths, **captions, **prices)
        assert len(server.asked()) == asked, "what has not changed is not asked again"
    assert done.unwritten == ""
    assert asked == before.calls == 3, "one for each recording, and one for the day"
    with Run(folder) as run:
        day, spent = read_day(run), run.spent()
    assert 0 < spent.spend_before <= before.money
    assert day.cost.startswith("5 calls, "), "two about windows, three about words"
    for told in (day, *day.recordings):
        (sentence,) = told.paragraph["sentences"]
        assert sentence["text"] == "A board was drilled.", "the other one's source does not hold"
        assert sentence["citations"][0]["moment"]["reasons"][0]["text"] == SAID
    assert ("Summary", ["A board was drilled."]) in list(day.sections())
    assert "A board was drilled." in (folder / "report.html").read_text()


def test_without_a_server_it_is_said_why_nothing_was_written(tmp_path: Path):
    path = make_video(tmp_path / "a.mp4", duration=12.0, clicks=[5.0])
    answers = tmp_path / "answers.jsonl"
    key = open_recording(path).key
    rows = ({"recording": key, "start": n, "end": n + 4.0, "text": SAID} for n in (0.0, 4.0, 8.0))
    answers.write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    choices = {"model": f"replay:{answers}#m", "budget": "1", "sounds": False, "paragraphs": True}
    done = earmark.caption([path], run=tmp_path / "run", **choices)
    assert any("the summary was not written: it needs a server" in each for each in done.warnings())
