"""An encoder is named in words, with its options."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np
import pytest

from earmark.errors import ModelMismatch
from earmark.features.encoder import (
    make_encoder,
    portable_options,
    split_name,
    with_machine_options,
)
from earmark.gate.frontline import FRONTLINES, GATE, OPEN, encoder_named
from earmark.media import Sound
from tone_model import write_model, write_queries


@pytest.mark.parametrize("name", [name for name in FRONTLINES if name not in (GATE, OPEN)])
def test_a_name_alone_is_the_encoder_as_it_is(name):
    assert encoder_named(name) == FRONTLINES[name]()
    detector = make_encoder(FRONTLINES[name], name, as_detector=True)
    assert getattr(detector, "reads", "activity") == "activity"
    assert detector.channels == 1 or name in ("log-mel", "floor-mel")


@pytest.mark.parametrize(
    ("text", "option", "value"),
    [
        ("beats:weights=/data/a b.pt", "weights", "/data/a b.pt"),
        ("beats:hop=2.5", "hop", 2.5),
        ("atst-frame:reads=embeddings", "reads", "embeddings"),
        ("yamnet:cell=6:reads=embedding", "reads", "embedding"),
        ("yamnet:weights=C:/models/yamnet.tflite", "weights", Path("C:/models/yamnet.tflite")),
        ("log-mel:memory=60", "memory", 60.0),
        ("dasm:weights=a.onnx:queries=a=b.txt", "queries", "a=b.txt"),
    ],
)
def test_options_have_the_type_of_their_field(text, option, value):
    assert getattr(encoder_named(text), option) == value


def test_a_detector_takes_options_too():
    made = make_encoder(FRONTLINES["panns"], "panns:threshold=0.25", as_detector=True)
    assert (made.reads, made.threshold) == ("activity", 0.25)


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("loud", "no frontline 'loud'; the frontlines are gate, open, energy, flux"),
        ("gate", "gate is a whole frontline; name an encoder"),
        ("flux:size=3", "flux has no option 'size'"),
        ("yamnet:cell=often", "yamnet: cell should be a valid integer, not 'often'"),
        ("yamnet:cell=", "yamnet: cell should be a valid integer, not ''"),
        ("yamnet:cell=99", "a patch is shared by 1 to 24 steps, not 99"),
        ("beats:hop", "no frontline 'beats:hop'"),
        ("flux:bands=0", "flux: bands should be greater than 0, not '0'"),
        ("flow:width_pixels=0", "flow: width_pixels should be greater than 0, not '0'"),
        ("log-mel:memory=0", "log-mel: memory should be greater than 0, not '0'"),
        ("variance:around=nan", "variance: around should be a finite number, not 'nan'"),
        ("beats:hop=inf", "beats: hop should be a finite number, not 'inf'"),
    ],
)
def test_what_cannot_be_is_refused(text, complaint):
    with pytest.raises(ValueError, match=complaint):
        encoder_named(text)


def test_limits_of_our_encoders_are_not_those_of_another_package():
    """There an option of the same name may be a word, or 0 for none."""

    @dataclass(frozen=True)
    class Foreign:
        bands: int = 8
        memory: str = "long"
        around: bool = True

    made = make_encoder(Foreign, "foreign:bands=0:memory=short:around=false")
    assert made == Foreign(0, "short", around=False)
    assert encoder_named("packets:smooth=0").smooth == 0  # as the packets are


def test_a_path_may_hold_colons():
    assert split_name("a:weights=x:y/z") == ("a", {"weights": "x:y/z"})


def test_what_a_gate_remembers_leaves_out_where_things_are(tmp_path):
    """And holds the encoder to the weights it was trained on."""
    model, queries = write_model(tmp_path / "m.onnx"), tmp_path / "q.txt"
    write_queries(queries, "a low hum", "a high whistle")
    made = encoder_named(f"dasm:weights={model}:queries={queries}")
    kept = json.loads(json.dumps(portable_options(made)))
    assert kept == {"reads": "logits", "threshold": 0.0, "expects": made.fingerprint()}
    again = with_machine_options(
        FRONTLINES["dasm"](**kept), {"weights": str(model), "queries": str(queries)}
    )
    sound = [Sound(np.zeros(32_000, np.float32), 0.0, 32_000)]
    assert sum(len(track) for track in again.encode(sound)) == 25
    write_queries(queries, "a high whistle", "a low hum")
    with pytest.raises(ModelMismatch, match="trained on another dasm, or on other queries"):
        list(again.encode(sound))
    assert portable_options(encoder_named("log-mel")) == asdict(encoder_named("log-mel"))


def test_files_may_be_elsewhere_and_nothing_else_may_change():
    elsewhere = with_machine_options(encoder_named("beats:hop=2"), {"weights": "/there/b.pt"})
    assert elsewhere == encoder_named("beats:hop=2:weights=/there/b.pt")
    with pytest.raises(ValueError, match="a gate fixes 'hop' of its encoder; only weights"):
        with_machine_options(encoder_named("beats"), {"hop": "2"})
    with pytest.raises(ValueError, match="LogMel has no option 'weights'"):
        with_machine_options(encoder_named("log-mel"), {"weights": "a.pt"})
