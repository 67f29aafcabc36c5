"""One row a model, and everything it names is there."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path

import pytest

from earmark.features import ENCODERS
from earmark.features.encoder_spec import encoder_files
from earmark.features.pretrained.vocabulary import VOCABULARIES
from earmark.models import EXTRAS, MODELS, PRETRAINED


@pytest.mark.parametrize("name", MODELS)
def test_a_row_is_in_order(name):
    row = MODELS[name]
    assert name == row.name and row.title and row.licence and row.purpose
    assert row.sha256 is None or (len(row.sha256) == 64 and row.size_bytes)
    assert all(Path(file).name == file for file in row.files)
    assert row.origins or row.licence == "your own"
    assert not row.extra or row.extra in EXTRAS
    assert not row.vocabulary or row.vocabulary in VOCABULARIES


@pytest.mark.parametrize("name", [name for name in MODELS if MODELS[name].loader])
def test_what_loads_it_exists(name):
    if MODELS[name].extra:
        pytest.importorskip(EXTRAS[MODELS[name].extra])
    module, _, attribute = MODELS[name].loader.partition(":")
    assert callable(getattr(import_module(module), attribute))


def test_every_encoder_with_weights_finds_them_in_the_catalogue():
    assert {*PRETRAINED, "yamnet", "dasm"} == {name for name in ENCODERS if encoder_files(name)}
    for name in ENCODERS:
        assert all(file in MODELS for file in encoder_files(name).values())


def test_a_model_without_an_architecture_says_which_have_one():
    with pytest.raises(ValueError, match="no published model 'yamnet'; there are beats, "):
        _ = MODELS["yamnet"].network
