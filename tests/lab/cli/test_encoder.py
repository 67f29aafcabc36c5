"""`earmark lab encoder` refuses what it cannot do; that it works, `test_onnx_export` shows."""

from __future__ import annotations

from pathlib import Path

import pytest
import typer
from typer.testing import CliRunner

from earmark.errors import ModelMismatch
from earmark.models import MODELS
from earmark_lab.cli.reproduce import export_encoder as export
from earmark_lab.encoders.pretrained_encoder import ARCHITECTURES
from published_weights import saved

app = typer.Typer()
app.command()(export)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    saved(ARCHITECTURES["frame-mn06"], tmp_path / MODELS["frame-mn06"].file)
    return tmp_path


def test_a_checkpoint_of_another_model_is_refused(folder):
    checkpoint = folder / "frame_mn06_strong_1.pt"
    target = folder / "panns.onnx"
    words = ["panns", str(target), "--checkpoint", str(checkpoint)]
    result = CliRunner().invoke(app, words)
    assert isinstance(result.exception, ModelMismatch)
    assert "expected Cnn14_DecisionLevelMax_mAP=0.385.pth" in str(result.exception)
    assert not target.exists()


def test_where_the_checkpoint_is_must_be_said(folder):
    result = CliRunner().invoke(app, ["frame-mn06", str(folder / "it.onnx")])
    assert result.exit_code == 2
    assert "--checkpoint" in result.output
