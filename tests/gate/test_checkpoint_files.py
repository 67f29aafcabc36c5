"""The environment says where models lie, and every way of naming an encoder follows it."""

from __future__ import annotations

from pathlib import Path

import pytest

from earmark.gate.frontline import frontline_named, with_checkpoints
from earmark.gate.gate import default_gate
from earmark.gate.listener import cache_at
from earmark.models.model_store import cache_folder, model_store


@pytest.fixture(autouse=True)
def plain(monkeypatch, tmp_path):
    for name in ("EARMARK_CACHE", "EARMARK_CHECKPOINTS", "XDG_CACHE_HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))


def test_scores_and_models_lie_beside_each_other(monkeypatch, tmp_path):
    assert cache_folder() == tmp_path / "home/.cache/earmark"
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "xdg"))
    assert cache_folder() == tmp_path / "xdg/earmark"
    monkeypatch.setenv("EARMARK_CACHE", str(tmp_path / "own"))
    assert cache_at(None, no_cache=False).folder == tmp_path / "own"
    assert model_store().folder == tmp_path / "own/models"
    assert model_store(tmp_path).folder == tmp_path, "an option goes before the environment"


def test_a_name_is_left_alone_where_nothing_is_set():
    assert with_checkpoints("auto,beats,my.gate") == "auto,beats,my.gate"


def test_what_needs_weights_looks_for_them_in_the_store(monkeypatch, tmp_path):
    monkeypatch.setenv("EARMARK_CACHE", str(tmp_path))
    there = with_checkpoints("energy,beats:hop=2,yamnet,dasm:queries=a.txt").split(",")
    store = tmp_path / "models"
    assert there == ["energy", f"beats:hop=2:store={store}", f"yamnet:store={store}",
                     "dasm:queries=a.txt"]  # fmt: skip
    assert frontline_named(there[1]).encoder.store == str(store)
    assert frontline_named(there[2]).encoder.store == store


def test_the_folder_of_checkpoints_goes_before_the_store(monkeypatch, tmp_path):
    monkeypatch.setenv("EARMARK_CACHE", str(tmp_path))
    monkeypatch.setenv("EARMARK_CHECKPOINTS", str(tmp_path))
    file = tmp_path / "yamnet.tflite"
    file.touch()
    assert with_checkpoints("yamnet") == f"yamnet:weights={file}"


def test_a_gate_file_that_needs_no_weights_is_left_alone(monkeypatch, tmp_path):
    default_gate().save(tmp_path / "mine.gate")
    monkeypatch.setenv("EARMARK_CACHE", str(tmp_path))
    for gate in (tmp_path / "mine.gate", Path("nowhere.gate")):
        assert with_checkpoints(str(gate)) == str(gate)
