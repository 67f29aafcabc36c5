"""One text names a model of any kind, and means one captioner."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from earmark import EarmarkError
from earmark.captioning.answer_files import Replay
from earmark.captioning.captioner import ModelAddress, TagsCaptioner, make_captioner
from earmark.captioning.local_captioners import LocalCaptioner, TransformersCaptioner
from earmark.captioning.openai_captioner import OpenAICaptioner
from fault_server import fault_server


def made(text, **options):
    return make_captioner(text, **{"concurrency": 2, "tokens": 1280, **options})


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        (None, ("tags", "", "")),
        ("http://127.0.0.1:1/v1", ("http", "http://127.0.0.1:1/v1", "")),
        ("https://host/v1#org/qwen", ("http", "https://host/v1", "org/qwen")),
        ("gguf:a.gguf", ("gguf", "a.gguf", "")),
        ("gguf:a.gguf#b.gguf", ("gguf", "a.gguf", "b.gguf")),
        ("hf:Qwen/Qwen3-VL-8B", ("hf", "Qwen/Qwen3-VL-8B", "")),
        ("replay:answers.jsonl#qwen", ("replay", "answers.jsonl", "qwen")),
    ],
)
def test_a_text_names_a_model(text, parts):
    model = ModelAddress.parse(text)
    assert (model.kind, model.target, model.name) == parts


@pytest.mark.parametrize("text", ["qwen", "cuckoo:egg", "gguf:", "", "ftp://host/v1"])
def test_another_text_is_no_model(text):
    with pytest.raises(ValueError, match=r"is no model: write http://HOST/v1#NAME, gguf:FILE"):
        ModelAddress.parse(text)


def test_nothing_chosen_is_tags():
    assert isinstance(made(None), TagsCaptioner)


def test_a_server_and_its_model():
    captioner = made("http://127.0.0.1:1/v1#qwen")
    assert isinstance(captioner, OpenAICaptioner)
    assert (captioner.endpoint.url, captioner.model) == ("http://127.0.0.1:1/v1", "qwen")


def test_the_name_of_the_only_model_of_a_server_may_be_left_out():
    with fault_server() as server:
        assert made(server.url).model == "scripted"


def test_the_key_is_an_argument_and_never_part_of_the_address(monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", "from-the-environment")
    with fault_server(key="secret-key") as server:
        made(server.url, api_key="secret-key").check()
        with pytest.raises(EarmarkError, match=r"needs a key \(401\)"):
            made(server.url)
        with pytest.raises(EarmarkError, match=r"refuses the key \(401\)"):
            made(server.url, api_key="another-key")


@pytest.mark.parametrize(("tokens", "context"), [(256, 4096), (8192, 8192 + 1024)])
def test_a_model_in_process_has_room_for_the_pictures(tmp_path, tokens, context):
    model, encoder = tmp_path / "a.gguf", tmp_path / "a-mmproj.gguf"
    model.touch()
    encoder.touch()
    captioner = made(f"gguf:{model}", tokens=tokens)
    assert isinstance(captioner, LocalCaptioner)
    assert (captioner.context, captioner.at_once) == (context, 2)
    assert captioner.mmproj_path == encoder


def test_a_model_without_its_one_encoder_says_how_many_there_are(tmp_path):
    with pytest.raises(EarmarkError, match=r"there is no model at .*a\.gguf; check the path"):
        made(f"gguf:{tmp_path / 'a.gguf'}")
    for name in ("a.gguf", "a-mmproj.gguf", "b-mmproj.gguf"):
        (tmp_path / name).touch()
    with pytest.raises(EarmarkError, match="2 mmproj files lie beside it; name it after a #"):
        made(f"gguf:{tmp_path / 'a.gguf'}")
    encoder = tmp_path / "b-mmproj.gguf"
    assert made(f"gguf:{tmp_path / 'a.gguf'}#{encoder}").mmproj_path == encoder


def test_a_checkpoint_and_a_replay(tmp_path):
    assert isinstance(made("hf:Qwen/Qwen3-VL-8B"), TransformersCaptioner)
    path = tmp_path / "answers.jsonl"
    path.write_text('{"identity": "x", "text": "cuts"}\n')
    captioner = made(f"replay:{path}#qwen")
    assert isinstance(captioner, Replay) and captioner.model == "qwen"


def test_a_captioner_of_another_package_is_found_by_its_name(tmp_path):
    """In a process of its own, which finds the package as it starts."""
    folder = tmp_path / "parrot-1.0.dist-info"
    folder.mkdir()
    (folder / "METADATA").write_text("Metadata-Version: 2.1\nName: parrot\nVersion: 1.0\n")
    (folder / "entry_points.txt").write_text("[earmark.captioners]\nparrot = parrot:Parrot\n")
    (tmp_path / "parrot.py").write_text(
        "class Parrot:\n    def __init__(self, model='parrot'):\n        self.model = model\n"
    )
    code = (
        "from earmark.captioning.captioner import make_captioner\n"
        "for text in ('parrot', 'parrot:grey'):\n"
        "    print(make_captioner(text, concurrency=2, tokens=1280).model)"
    )
    paths = [str(tmp_path), *filter(None, [os.environ.get("PYTHONPATH")])]
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(paths)}
    command = [sys.executable, "-c", code]
    assert subprocess.check_output(command, env=env, text=True) == "parrot\ngrey\n"
