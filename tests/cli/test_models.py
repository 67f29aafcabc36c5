"""`earmark models` lists, fetches and takes in checkpoints, and says what is not known."""

from __future__ import annotations

import hashlib
import re
from pathlib import Path

import pytest

from acceptance.command_line import Outcome, earmark
from earmark.models import MODELS, SETS, Address, Model

WEIGHTS = b"weights"


@pytest.fixture(autouse=True)
def tiny(monkeypatch) -> None:
    digest = hashlib.sha256(WEIGHTS).hexdigest()
    for name, known in (("tiny", digest), ("unproven", None)):
        size = len(WEIGHTS) if known else None
        origins = () if known else (Address("http://127.0.0.1:9/unproven.bin"),)
        one = Model(
            name, f"{name}.bin", "a test", "a test", "MIT",
            origins=origins, size_bytes=size, sha256=known,
        )  # fmt: skip
        monkeypatch.setitem(MODELS, name, one)


def run(*words: object, at: Path, code: int = 0) -> Outcome:
    """Run `earmark models`, with the models in the folder `at`."""
    outcome = earmark("models", *words, "--models", at)
    assert outcome.code == code, outcome.err
    return outcome


def listed(folder: Path) -> dict[str, dict]:
    return {row["name"]: row for row in run("list", "--format", "json", at=folder).json}


def test_every_checkpoint_is_listed_with_what_is_known_of_it(tmp_path):
    rows = listed(tmp_path)
    assert set(rows) == set(MODELS)
    assert rows["yamnet"]["size_bytes"] == 4_126_810 and rows["yamnet"]["state"] == "absent"
    assert rows["fpasst"]["sha256"] is None
    assert rows["beats"]["origins"] == ["github.com"]
    printed = run("list", at=tmp_path).out
    assert "unknown" in printed and "efficientdet-lite0" in printed and str(tmp_path) in printed


def test_a_file_is_taken_in_and_then_here(tmp_path):
    file = tmp_path / "download"
    file.write_bytes(WEIGHTS)
    assert "as published" in run("add", "tiny", file, at=tmp_path / "store").out
    assert listed(tmp_path / "store")["tiny"]["state"] == "here"
    assert "no published hash" in run("add", "unproven", file, at=tmp_path / "store").err
    file.write_bytes(b"another")
    assert "another file" in run("add", "tiny", file, at=tmp_path / "store", code=1).err


def test_a_file_of_ones_own_is_no_unproven_one(tmp_path):
    (tmp_path / "kitchen.txt").write_text("chopping\n")
    said = run("add", "dasm-queries", tmp_path / "kitchen.txt", at=tmp_path)
    assert "dasm.txt" in said.out and said.err == ""


def test_a_checkpoint_trained_further_is_sent_the_other_way(tmp_path):
    (tmp_path / "mine.pt").write_bytes(WEIGHTS)
    beats = run("add", "beats", tmp_path / "mine.pt", at=tmp_path / "store", code=1).err
    assert re.search(r"--frontline beats:weights=.*mine\.pt", beats)
    yamnet = run("add", "yamnet", tmp_path / "mine.pt", at=tmp_path / "store", code=1).err
    assert "--frontline" not in yamnet


def test_what_nobody_gives_out_says_so(tmp_path):
    assert "earmark models add tiny FILE" in run("get", "tiny", at=tmp_path, code=1).err
    elsewhere = run("get", "minilm", "--from", "address", at=tmp_path, code=1).err
    assert re.search(r"minilm comes from pip .* and from no address; leave", elsewhere)
    assert "no checkpoint 'nobody'" in run("get", "nobody", at=tmp_path, code=1).err


def test_a_set_is_fetched_whole_and_what_cannot_be_had_is_a_line(tmp_path, monkeypatch):
    monkeypatch.setitem(SETS, "both", ("tiny", "unproven"))
    (tmp_path / "tiny.bin").write_bytes(WEIGHTS)
    refused = run("get", "both", at=tmp_path, code=1).err
    assert "earmark: no hash is known for unproven, so its download cannot be checked" in refused
    (tmp_path / "unproven.bin").write_bytes(WEIGHTS)
    assert "both: all 2 files are in" in run("get", "both", at=tmp_path).out
    # nobody gives it out: it is not asked for
    assert "tiny: is here, " in run("get", "tiny", at=tmp_path).out


def test_the_evidence_set_names_models_of_the_catalogue():
    assert set(SETS["evidence"]) <= set(MODELS)
    assert all(MODELS[name].sha256 and MODELS[name].origins for name in SETS["evidence"])
