"""Every captioner is held to the one contract."""

from __future__ import annotations

import json
import pickle
from concurrent.futures import ThreadPoolExecutor

import pytest

from earmark.captioning.answer_files import load_replay
from earmark.captioning.captioner import CAPTIONERS, TagsCaptioner
from earmark.captioning.local_captioners import LocalCaptioner, TransformersCaptioner
from earmark.captioning.openai_captioner import OpenAICaptioner
from earmark.errors import CallTimeout, UnreadableAnswer
from stills import ask_about

SCHEMA = {
    "type": "object",
    "properties": {"action": {"enum": ["cuts", "stirs"]}},
    "required": ["action"],
    "additionalProperties": False,
}


@pytest.fixture(scope="session")
def tags():
    return TagsCaptioner()


@pytest.fixture(scope="session")
def http(vlm_url):
    return OpenAICaptioner(vlm_url, "tiny")


@pytest.fixture(scope="session")
def gguf(gguf_pair):
    return LocalCaptioner(*gguf_pair, threads=1)


@pytest.fixture(scope="session")
def hf(checkpoint):
    return TransformersCaptioner(checkpoint)


@pytest.fixture(scope="session")
def replay(tmp_path_factory):
    path = tmp_path_factory.mktemp("replay") / "answers.jsonl"
    text = '{"action": "cuts"}'
    lines = [
        {"recording": "kitchen", "start": 4.0 * n, "end": 4.0 * n + 4.0, "text": text}
        for n in range(4)
    ]
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return load_replay(path)


def named(names):
    """The names of captioners; the one that takes seconds to load is marked slow."""
    slow = {"hf": pytest.mark.slow}
    return [pytest.param(name, marks=slow.get(name, ())) for name in names]


@pytest.fixture(params=named(CAPTIONERS))
def captioner(request):
    """Each captioner, by its registered name; a name without a fixture above fails here."""
    return request.getfixturevalue(request.param)


@pytest.fixture(params=named(["http", "gguf", "hf"]))
def model(request):
    """Those that look at pictures."""
    return request.getfixturevalue(request.param)


def ask(captioner, times=(1.0,), **options):
    options = {"answer_tokens": 24, "tags": ("chopping", "tap"), **options}
    request = ask_about(times, model=captioner.model, **options)
    before = [frame.rgb.copy() for frame in request.frames]
    answer = captioner(request, timeout=600.0)
    assert all((a == b.rgb).all() for a, b in zip(before, request.frames, strict=True))
    return answer


def test_it_is_ready(captioner):
    captioner.check()
    assert captioner.model


def test_it_answers_with_words_and_what_they_took(captioner):
    answer = ask(captioner)
    assert answer.text == answer.text.strip() != ""
    assert answer.data is None
    assert answer.finish in ("stop", "length")
    assert answer.model
    assert answer.attempts == 1 and answer.latency >= 0
    if answer.kind == "caption" and answer.model != "replay":
        assert answer.form == "images"
        assert answer.prompt_tokens > 10 and 0 < answer.completion_tokens <= 24


def test_the_same_question_has_the_same_answer(captioner):
    assert ask(captioner).text == ask(captioner).text


def test_it_can_be_asked_from_several_threads(captioner):
    with ThreadPoolExecutor(4) as pool:
        texts = list(pool.map(lambda _: ask(captioner).text, range(8)))
    assert len(texts) == 8 and all(texts)


def test_it_travels_to_a_worker_and_answers_the_same_there(captioner):
    """Weights, connections and locks stay behind."""
    there = pickle.loads(pickle.dumps(captioner))
    assert there.model == captioner.model
    assert ask(there).text == ask(captioner).text


def test_json_is_data_or_an_error_and_never_silence(captioner):
    try:
        answer = ask(captioner, times=(5.0,), schema=SCHEMA, answer_tokens=100)
    except UnreadableAnswer as error:
        assert "JSON" in str(error)
        assert type(captioner) is TransformersCaptioner  # nothing forces it
    else:
        assert answer.kind == "tags" or answer.data["action"] in ("cuts", "stirs")


def test_only_tags_are_called_tags(captioner):
    answer = ask(captioner)
    assert (answer.kind == "tags") == (type(captioner) is TagsCaptioner)
    assert (answer.form == "none") == (answer.kind == "tags")


def test_several_frames_take_more_tokens_than_one(captioner):
    one, three = ask(captioner), ask(captioner, times=(1.0, 2.0, 3.0), tokens=192)
    if one.kind == "caption" and one.prompt_tokens is not None:
        assert three.prompt_tokens >= one.prompt_tokens + 2 * 4


def test_a_model_that_is_too_slow_is_a_time_out(model):
    with pytest.raises(CallTimeout, match="in time"):
        model(ask_about(model=model.model, answer_tokens=3000), timeout=0.02)


def test_a_vision_model_needs_frames(model):
    with pytest.raises(ValueError, match="needs frames"):
        model(ask_about(model=model.model, frames=False), timeout=1.0)


def test_tags_without_names_are_no_words():
    assert TagsCaptioner()(ask_about(), timeout=1.0).text == ""
