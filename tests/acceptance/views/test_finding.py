"""`earmark find` and `earmark ask`, from the command line and from Python."""

from __future__ import annotations

import inspect
import json
from pathlib import Path

import av
import numpy as np
import pytest

import earmark as library
import earmark_lab
from acceptance.command_line import earmark
from acceptance.views.conftest import BENCH, Place
from acceptance.views.scene import CAPTIONS, ColourModel, python_model

QUESTION = "someone uses a drill"
WHEN = "When was the drill used?"


def test_find_lists_the_moments_the_model_says_yes_to(
    place: Place, model: ColourModel, tmp_path: Path
):
    words = ("find", QUESTION, place.site, "--model", model.address, "--run", tmp_path / "found")
    outcome = earmark(*words, "--calls", "16", "--format", "json")
    assert outcome.code == 0, outcome.err
    found = outcome.json
    assert found["question"] == QUESTION
    assert found["calls"] <= 16 == found["windows"]
    (recording,) = found["recordings"]
    assert Path(recording["path"]) == place.bench
    for start, end in BENCH["drill"]:
        assert any(span["start"] <= start and end <= span["end"] for span in recording["spans"])
    assert set(recording["what"]) == {CAPTIONS["drill"]}
    assert 0 <= found["missed"]["low"] <= found["missed"]["expected"] <= found["missed"]["high"]
    assert Path(found["page"]).is_file()


def test_find_spends_no_more_calls_than_it_may_and_none_twice(
    place: Place, model: ColourModel, tmp_path: Path
):
    words = ("find", QUESTION, place.bench, "--model", model.address, "--run", tmp_path / "found")
    before = len(model.requests)
    first = earmark(*words, "--calls", "3", "--format", "json").json
    assert (first["calls"], len(model.requests) - before) == (3, 3)
    again = earmark(*words, "--calls", "3", "--format", "json")
    assert (again.code, len(model.requests) - before) == (0, 3)
    more = earmark(*words, "--calls", "5", "--format", "json")
    assert (more.code, len(model.requests) - before) == (0, 5)


def test_find_sends_the_question_with_the_picture(place: Place, model: ColourModel, tmp_path: Path):
    before = len(model.requests)
    words = ("--model", model.address, "--run", tmp_path / "found", "--calls", "1")
    assert earmark("find", QUESTION, place.bench, *words).code == 0
    (request,) = model.requests[before:]
    sent = json.dumps(request)
    assert QUESTION in sent
    assert sent.count("data:image/") == 1
    assert request["model"] == "colour"


def test_find_writes_clips_of_what_it_found(place: Place, model: ColourModel, tmp_path: Path):
    words = ("--model", model.address, "--run", tmp_path / "run", "--clips", tmp_path / "clips")
    outcome = earmark("find", QUESTION, place.bench, *words, "--calls", "10", "--format", "json")
    (recording,) = outcome.json["recordings"]
    assert len(recording["clips"]) == len(recording["spans"])
    with av.open(str(recording["clips"][0])) as clip:
        frames = [frame.to_ndarray(format="rgb24") for frame in clip.decode(video=0)]
    redness = [frame[..., 0].mean() - frame[..., 1].mean() for frame in frames]
    assert np.max(redness) > 100, "the drilling is in the clip"


def test_find_as_text_names_file_and_time(place: Place, model: ColourModel, tmp_path: Path):
    words = ("--model", model.address, "--run", tmp_path / "found", "--calls", "10")
    outcome = earmark("find", QUESTION, place.bench, *words)
    assert outcome.code == 0, outcome.err
    assert "bench.mp4" in outcome.out
    assert "0:04" in outcome.out
    assert CAPTIONS["drill"] in outcome.out


def test_what_find_found_is_searched_like_any_run(place: Place, model: ColourModel, tmp_path: Path):
    words = ("--model", model.address, "--run", tmp_path / "found", "--calls", "10")
    assert earmark("find", QUESTION, place.bench, *words).code == 0
    hits = earmark("search", tmp_path / "found", "red board", "--format", "json").json
    (hit,) = hits
    assert {start for start, _ in hit["spans"]} >= {4.0, 20.0}, "neighbours are listed as one"
    reasons = {reason["start"] for reason in hit["reasons"] if reason["kind"] == "caption"}
    assert reasons >= {4.0, 20.0}


def test_find_without_a_model_names_the_option(place: Place, tmp_path: Path):
    outcome = earmark("find", QUESTION, place.bench, "--run", tmp_path / "found")
    assert outcome.code != 0
    assert "--model" in outcome.err or "--vlm" in outcome.err
    assert len(outcome.err.strip().splitlines()) == 1


def test_an_answer_keeps_only_sentences_that_quote_the_run(place: Place, model: ColourModel):
    outcome = earmark("ask", place.run, WHEN, "--model", model.address, "--format", "json")
    assert outcome.code == 0, outcome.err
    answer = outcome.json
    assert answer["question"] == WHEN
    (sentence,) = answer["sentences"]
    assert "dragon" not in outcome.out
    assert answer["left_out"] == 1
    (citation,) = sentence["citations"]
    assert citation["quote"] == CAPTIONS["drill"]
    assert Path(citation["moment"]["path"]) == place.bench
    assert answer["unknown"] == "who it was"
    assert answer["tokens"] == 110


def test_an_answer_as_text_has_the_sentence_and_its_source(place: Place, model: ColourModel):
    outcome = earmark("ask", place.run, WHEN, "--model", model.address)
    assert outcome.code == 0, outcome.err
    assert CAPTIONS["drill"] in outcome.out
    assert "bench.mp4" in outcome.out
    assert "who it was" in outcome.out
    assert "dragon" not in outcome.out


def test_a_question_is_sent_with_the_entries_of_the_run_and_no_picture(
    place: Place, model: ColourModel
):
    before = len(model.requests)
    assert earmark("ask", place.run, WHEN, "--model", model.address).code == 0
    (request,) = model.requests[before:]
    sent = json.dumps(request)
    assert WHEN in sent
    assert CAPTIONS["drill"] in sent
    assert "data:image/" not in sent


def test_a_question_without_a_model_lists_what_may_answer_it(place: Place):
    outcome = earmark("ask", place.run, WHEN)
    assert outcome.code == 0, outcome.err
    assert CAPTIONS["drill"] in outcome.out
    assert CAPTIONS["water"] not in outcome.out


def test_a_question_may_look_first(place: Place, run_copy: Path, model: ColourModel):
    before = len(model.requests)
    words = ("ask", run_copy, WHEN, "--model", model.address, "--calls", "2", "--format", "json")
    outcome = earmark(*words)
    assert outcome.code == 0, outcome.err
    assert outcome.json["bought"] == 2
    looked = [body for body in model.requests[before:] if "data:image/" in json.dumps(body)]
    assert len(looked) == 2
    assert earmark("ask", place.run, WHEN, "--format", "json").json["unasked"] == 10


def test_asking_a_folder_that_is_no_run_is_an_error_of_one_line(tmp_path: Path):
    outcome = earmark("ask", tmp_path, WHEN)
    assert outcome.code != 0
    assert tmp_path.name in outcome.err
    assert len(outcome.err.strip().splitlines()) == 1


def test_the_library_finds_and_asks(place: Place, model: ColourModel, tmp_path: Path):
    run = tmp_path / "found"
    choices = python_model(model.address)
    found = library.find(QUESTION, [place.bench], run=run, calls=10, **choices)
    assert isinstance(found, library.FindResult)
    spans = [span for recording in found.recordings for span in recording.spans]
    assert library.Span(4.0, 8.0) in spans
    answer = library.ask(place.run, WHEN, **choices)
    assert CAPTIONS["drill"] in answer.answer.sentences[0].text


@pytest.mark.parametrize(
    ("verb", "names"),
    [
        ("find", ("question", "paths", "run", "calls", "clips", "api_key")),
        ("ask", ("run", "question", "calls", "api_key")),
        ("sounds", ("paths", "words")),
        ("evaluate", ("spans", "out")),
        ("train", ("spans",)),
    ],
)
def test_the_verbs_take_these_arguments(verb: str, names: tuple[str, ...]):
    if verb == "train":
        pytest.importorskip("torch", reason="PyTorch is not installed")
    package = earmark_lab if verb in ("evaluate", "train") else library
    parameters = inspect.signature(getattr(package, verb)).parameters
    assert set(names) <= set(parameters)
    assert verb in package.__all__
