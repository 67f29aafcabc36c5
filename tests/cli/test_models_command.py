"""`earmark models` lists, fetches and takes in checkpoints, and says what is not known."""

from __future__ import annotations

import hashlib
import json

import pytest

from earmark.cli import models
from earmark.errors import ModelMismatch, ModelMissing
from earmark.models import CATALOGUE, Checkpoint, catalogue

WEIGHTS = b"weights"


@pytest.fixture(autouse=True)
def tiny(monkeypatch) -> None:
    digest = hashlib.sha256(WEIGHTS).hexdigest()
    for name, known in (("tiny", digest), ("unproven", None)):
        size = len(WEIGHTS) if known else None
        one = Checkpoint(name, f"{name}.bin", "a test", "MIT", "", (), size, known)
        monkeypatch.setitem(catalogue.CATALOGUE, name, one)


def listed(capsys, folder) -> dict[str, dict]:
    models.list(format=models.Format.json, models=folder)
    return {row["name"]: row for row in json.loads(capsys.readouterr().out)}


def test_every_checkpoint_is_listed_with_what_is_known_of_it(capsys, tmp_path):
    rows = listed(capsys, tmp_path)
    assert set(rows) == set(CATALOGUE)
    assert rows["yamnet"]["size_bytes"] == 4_126_810 and rows["yamnet"]["state"] == "absent"
    assert rows["fpasst"]["sha256"] is None
    assert rows["beats"]["origins"] == ["github.com"]
    models.list(format=models.Format.table, models=tmp_path)
    printed = capsys.readouterr().out
    assert "unknown" in printed and "efficientdet-lite0" in printed and str(tmp_path) in printed


def test_a_file_is_taken_in_and_then_here(capsys, tmp_path):
    file = tmp_path / "download"
    file.write_bytes(WEIGHTS)
    models.add("tiny", file, models=tmp_path / "shelf")
    assert "as published" in capsys.readouterr().out
    assert listed(capsys, tmp_path / "shelf")["tiny"]["state"] == "here"
    models.add("unproven", file, models=tmp_path / "shelf")
    assert "kept unproven" in capsys.readouterr().err
    file.write_bytes(b"another")
    with pytest.raises(ModelMismatch, match="another file"):
        models.add("tiny", file, models=tmp_path / "shelf")


def test_what_nobody_gives_out_says_so(tmp_path):
    with pytest.raises(ModelMissing, match="earmark models add tiny FILE"):
        models.get("tiny", source=models.Way.any, models=tmp_path)
    with pytest.raises(ModelMissing, match="minilm cannot be had"):
        models.get("minilm", source=models.Way.address, models=tmp_path)
    with pytest.raises(ValueError, match="no checkpoint 'nobody'"):
        models.get("nobody", source=models.Way.any, models=tmp_path)
