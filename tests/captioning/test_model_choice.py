"""A choice of model is plain values, and means one captioner."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from earmark.captioning.captioner import TagsCaptioner
from earmark.captioning.llama_cpp import LocalCaptioner
from earmark.captioning.model_choice import CAPTIONERS, ModelChoice
from earmark.captioning.openai_captioner import OpenAICaptioner
from earmark.captioning.replay import Replay
from earmark.captioning.transformers_captioner import TransformersCaptioner
from earmark.errors import EarmarkError
from fault_server import fault_server

CHOICES = [
    ModelChoice(),
    ModelChoice("http://127.0.0.1:1/v1", "qwen"),
    ModelChoice(gguf=Path("a.gguf"), mmproj=Path("b.gguf")),
    ModelChoice(transformers="Qwen/Qwen3-VL-8B-Instruct"),
    ModelChoice(replay=Path("answers.jsonl"), model="qwen"),
    ModelChoice(plugin="parrot"),
]


def made(choice, **options):
    return choice.captioner(**{"concurrency": 2, "tokens": 1280, **options})


@pytest.mark.parametrize("choice", CHOICES, ids=["none", *CAPTIONERS][:6])
def test_a_choice_comes_back_from_json_as_it_was(choice):
    assert ModelChoice(**json.loads(json.dumps(choice.to_json()))) == choice


def test_a_file_may_be_given_as_text():
    said = ModelChoice(gguf="a.gguf", mmproj="b.gguf")
    assert said == ModelChoice(gguf=Path("a.gguf"), mmproj=Path("b.gguf"))
    with pytest.raises(EarmarkError, match=r"there is no model at a\.gguf"):
        made(ModelChoice(gguf="a.gguf"))
    assert ModelChoice(replay="answers.jsonl").replay == Path("answers.jsonl")


def test_nothing_chosen_is_tags():
    assert isinstance(made(ModelChoice()), TagsCaptioner)


def test_a_server_and_its_model():
    captioner = made(CHOICES[1])
    assert isinstance(captioner, OpenAICaptioner)
    assert (captioner.endpoint.url, captioner.model) == ("http://127.0.0.1:1/v1", "qwen")


def test_a_server_with_one_model_need_not_be_told_its_name():
    with fault_server() as server:
        assert made(ModelChoice(server.url)).model == "scripted"


def test_the_key_is_an_argument_and_never_part_of_the_choice(monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", "from-the-environment")
    with fault_server(key="secret-key") as server:
        made(ModelChoice(server.url), api_key="secret-key").check()
        with pytest.raises(EarmarkError, match=r"wants a key \(401\)"):
            made(ModelChoice(server.url))
        with pytest.raises(EarmarkError, match=r"refuses the key \(401\)"):
            made(ModelChoice(server.url), api_key="another-key")


@pytest.mark.parametrize(("tokens", "context"), [(256, 4096), (8192, 8192 + 1024)])
def test_a_model_in_process_has_room_for_the_pictures(tmp_path, tokens, context):
    model, encoder = tmp_path / "a.gguf", tmp_path / "a-mmproj.gguf"
    model.touch()
    encoder.touch()
    captioner = made(ModelChoice(gguf=model), tokens=tokens)
    assert isinstance(captioner, LocalCaptioner)
    assert (captioner.context, captioner.at_once) == (context, 2)
    assert captioner.mmproj_path == encoder


def test_a_model_without_its_one_encoder_says_how_many_there_are(tmp_path):
    with pytest.raises(EarmarkError, match=r"there is no model at .*a\.gguf; check the path"):
        made(ModelChoice(gguf=tmp_path / "a.gguf"))
    for name in ("a.gguf", "a-mmproj.gguf", "b-mmproj.gguf"):
        (tmp_path / name).touch()
    with pytest.raises(EarmarkError, match="2 mmproj files lie beside it; say which"):
        made(ModelChoice(gguf=tmp_path / "a.gguf"))


def test_a_checkpoint_and_a_replay(tmp_path):
    assert isinstance(made(ModelChoice(transformers="Qwen/Qwen3-VL-8B")), TransformersCaptioner)
    path = tmp_path / "answers.jsonl"
    path.write_text('{"identity": "x", "text": "cuts"}\n')
    captioner = made(ModelChoice(replay=path, model="qwen"))
    assert isinstance(captioner, Replay) and captioner.model == "qwen"


def test_two_models_are_one_too_many():
    with pytest.raises(ValueError, match="only one model can be asked"):
        ModelChoice(server="http://127.0.0.1:1/v1", gguf=Path("a.gguf"))


def test_a_name_without_a_place_is_no_model():
    with pytest.raises(ValueError, match="give --vlm URL"):
        ModelChoice(model="qwen")


def test_a_captioner_of_another_package_is_found_by_its_name(tmp_path):
    """In a process of its own, which finds the package as it starts."""
    folder = tmp_path / "parrot-1.0.dist-info"
    folder.mkdir()
    (folder / "METADATA").write_text("Metadata-Version: 2.1\nName: parrot\nVersion: 1.0\n")
    (folder / "entry_points.txt").write_text("[earmark.captioners]\nparrot = parrot:Parrot\n")
    (tmp_path / "parrot.py").write_text("class Parrot:\n    model = 'parrot'\n")
    code = (
        "from earmark.captioning.model_choice import ModelChoice\n"
        "print(ModelChoice(plugin='parrot').captioner(concurrency=2, tokens=1280).model)"
    )
    env = {**os.environ, "PYTHONPATH": str(tmp_path)}
    command = [sys.executable, "-c", code]
    assert subprocess.check_output(command, env=env, text=True) == "parrot\n"
    with pytest.raises(ValueError, match="there is no captioner 'cuckoo'; the captioners are tags"):
        made(ModelChoice(plugin="cuckoo"))
