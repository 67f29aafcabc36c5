"""Every captioner is held to the one contract."""

from __future__ import annotations

import json
from concurrent.futures import ThreadPoolExecutor

import pytest

from earmark.call import (
    CAPTIONERS,
    LocalCaptioner,
    OpenAICaptioner,
    Replay,
    TagsCaptioner,
    TransformersCaptioner,
)
from earmark.errors import CallTimeout, UnreadableAnswer
from stills import ask_about

SCHEMA = {
    "type": "object",
    "properties": {"action": {"enum": ["cuts", "stirs"]}},
    "required": ["action"],
    "additionalProperties": False,
}


@pytest.fixture(scope="session")
def made(request, tmp_path_factory, gguf_pair, checkpoint, vlm_url):
    """One captioner of each kind, by its registered name."""
    kept = tmp_path_factory.mktemp("replay") / "answers.jsonl"
    text = '{"action": "cuts"}'
    lines = [
        {"recording": "kitchen", "start": 4.0 * n, "end": 4.0 * n + 4.0, "text": text}
        for n in range(4)
    ]
    kept.write_text("".join(json.dumps(line) + "\n" for line in lines))
    local = LocalCaptioner(*gguf_pair, threads=1)
    request.addfinalizer(local.close)
    return {
        "tags": TagsCaptioner(),
        "openai": OpenAICaptioner(vlm_url, "tiny"),
        "local": local,
        "transformers": TransformersCaptioner(checkpoint, device="cpu"),
        "replay": Replay.load(kept),
    }


@pytest.fixture(params=CAPTIONERS)
def captioner(request, made):
    return made[request.param]


def ask(captioner, times=(1.0,), **options):
    options = {"answer_tokens": 24, "tags": ("chopping", "tap"), **options}
    request = ask_about(times, model=captioner.model, **options)
    before = [frame.rgb.copy() for frame in request.frames]
    answer = captioner(request, timeout=60.0)
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


def test_a_model_that_is_too_slow_is_a_time_out(made):
    for name in ("openai", "local", "transformers"):
        with pytest.raises(CallTimeout, match="in time"):
            made[name](ask_about(model=made[name].model, answer_tokens=3000), timeout=0.02)


def test_a_vision_model_needs_frames(made):
    for name in ("openai", "local", "transformers"):
        with pytest.raises(ValueError, match="needs frames"):
            made[name](ask_about(model="tiny", frames=False), timeout=1.0)


def test_tags_without_names_are_no_words():
    assert TagsCaptioner()(ask_about(), timeout=1.0).text == ""
