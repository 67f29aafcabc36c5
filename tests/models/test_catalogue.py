"""One row a model, and everything it names is there."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path

import pytest

from earmark.features.encoder import encoder_files
from earmark.features.sound_tags import VOCABULARIES
from earmark.gate.frontline import FRONTLINES
from earmark.models import EXTRAS, MODELS, PRETRAINED
from earmark_lab.encoders.pretrained_encoder import architecture_of


@pytest.mark.parametrize("name", MODELS)
def test_a_row_is_in_order(name):
    row = MODELS[name]
    assert name == row.name and row.title and row.licence and row.purpose
    assert row.sha256 is None or (len(row.sha256) == 64 and row.size_bytes)
    assert all(Path(file).name == file for file in row.files)
    assert row.origins or row.licence == "your own"
    assert not row.extra or row.extra in EXTRAS


def test_every_encoder_with_weights_finds_them_in_the_catalogue():
    assert {*PRETRAINED, "yamnet", "mn04", "dasm"} == {
        name for name in FRONTLINES if encoder_files(name)
    }
    for name in FRONTLINES:
        assert all(file in MODELS for file in encoder_files(name).values())


def test_a_model_without_an_architecture_says_which_have_one():
    with pytest.raises(ValueError, match="no published model 'yamnet'; there are beats, "):
        architecture_of("yamnet")


@pytest.mark.parametrize("name", PRETRAINED)
def test_a_checkpoint_has_a_network(name):
    pytest.importorskip("torch")
    _, architecture = architecture_of(name)
    module, _, network = architecture.network.partition(":")
    assert callable(getattr(import_module(f"earmark_lab.encoders.{module}"), network))
    assert architecture.vocabulary in VOCABULARIES
