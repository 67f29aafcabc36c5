"""Encoders by name, as the registry of frontlines and the gate's card want them."""

from __future__ import annotations

import json
import pickle
from dataclasses import asdict

import numpy as np
import pytest

from earmark import EarmarkError
from earmark.features.encoder import SoundEncoder
from earmark.features.sound_tags import class_names
from earmark.gate.frontline import FRONTLINES
from earmark.media import Sound
from earmark.models import PRETRAINED
from earmark_lab.encoders.pretrained_encoder import ARCHITECTURES, PretrainedEncoder
from published_weights import seeded_sound


@pytest.mark.parametrize("name", PRETRAINED)
def test_an_encoder_is_made_of_plain_values(name):
    encoder, network = FRONTLINES[name](), ARCHITECTURES[name]
    assert isinstance(encoder, SoundEncoder)
    assert PretrainedEncoder(**json.loads(json.dumps(asdict(encoder)))) == encoder
    assert pickle.loads(pickle.dumps(encoder)) == encoder and hash(encoder)
    assert encoder.channels == len(encoder.classes)
    assert encoder.classes == class_names(network.vocabulary)
    assert encoder.sample_rate == network.sample_rate
    assert FRONTLINES[name](reads="embeddings").channels == network.width
    assert FRONTLINES[name](reads="activity").channels == 1


def test_weights_come_from_the_store(light_checkpoint, tmp_path, monkeypatch):
    sound = [Sound(seeded_sound(2.0, 16_000), 0.0, 16_000)]
    monkeypatch.setenv("HOME", str(tmp_path))
    encoder = PretrainedEncoder("frame-mn06")
    with pytest.raises(EarmarkError, match=r"earmark models add frame-mn06 FILE"):
        list(encoder.encode(sound))
    store = tmp_path / ".cache" / "earmark" / "models"
    store.mkdir(parents=True)
    (store / light_checkpoint.name).write_bytes(light_checkpoint.read_bytes())
    rows = np.concatenate([track.values for track in encoder.encode(sound)])
    by_path = PretrainedEncoder("frame-mn06", weights=str(light_checkpoint))
    expected = np.concatenate([track.values for track in by_path.encode(sound)])
    np.testing.assert_array_equal(rows, expected)


def test_what_cannot_be_read_is_refused():
    with pytest.raises(ValueError, match="beats reads logits, activity or embeddings, not 'tags'"):
        PretrainedEncoder("beats", reads="tags")
    with pytest.raises(ValueError, match="has a threshold for its activity and for nothing else"):
        PretrainedEncoder("beats", threshold=0.5)
    with pytest.raises(ValueError, match=r"a threshold on posteriors is 0 to 1, not 1\.0"):
        PretrainedEncoder("beats", reads="activity", threshold=1.0)


def test_weights_by_path_are_named_by_what_is_in_them(light_checkpoint, tmp_path):
    """What was heard is kept under this name: another file must not be taken for it."""
    first = PretrainedEncoder("frame-mn06", weights=str(light_checkpoint))
    copy = tmp_path / "elsewhere.pt"
    copy.write_bytes(light_checkpoint.read_bytes())
    second = PretrainedEncoder("frame-mn06", weights=str(copy))
    assert repr(first) == repr(second)
    copy.write_bytes(light_checkpoint.read_bytes() + b"!")
    assert repr(first) != repr(second)
    copy.unlink()
    assert repr(second).endswith("weights=absent)")


def test_how_it_is_run_is_no_part_of_what_is_heard(light_checkpoint):
    quick = PretrainedEncoder("frame-mn06", weights=str(light_checkpoint), batch=2)
    plain = PretrainedEncoder("frame-mn06", weights=str(light_checkpoint))
    assert repr(quick) == repr(plain)
    sound = [Sound(seeded_sound(12.0, 16_000), 0.0, 16_000)]
    heard, expected = (
        np.concatenate([track.values for track in one.encode(sound)]) for one in (quick, plain)
    )
    np.testing.assert_allclose(heard, expected, atol=1e-4)
    with pytest.raises(ValueError, match="at least one chunk at a time, not 0"):
        PretrainedEncoder("beats", batch=0)


def test_a_gate_holds_its_encoder_to_the_weights_it_was_trained_on(light_checkpoint):
    made = PretrainedEncoder("frame-mn06", weights=str(light_checkpoint))
    sound = [Sound(seeded_sound(1.0, 16_000), 0.0, 16_000)]
    same = PretrainedEncoder(
        "frame-mn06", weights=str(light_checkpoint), expects=made.fingerprint()
    )
    assert repr(same) == repr(made) and len(list(same.encode(sound))) == 1
    other = PretrainedEncoder("frame-mn06", weights=str(light_checkpoint), expects="0" * 64)
    with pytest.raises(EarmarkError, match="trained on another frame-mn06: sha256 000000000000"):
        list(other.encode(sound))
