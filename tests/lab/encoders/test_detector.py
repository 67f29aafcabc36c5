"""Checkpoints as published go in; everything else is refused by name."""

from __future__ import annotations

import pickle
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from earmark.errors import ModelMismatch
from earmark.features.sound_tags import class_names
from earmark.models import MODELS, PRETRAINED, find_checkpoint
from earmark_lab.encoders.detector import Detector, build
from earmark_lab.encoders.detector import load_detector as load
from earmark_lab.encoders.pretrained_encoder import ARCHITECTURES, Architecture
from published_weights import SMALL, as_published, saved, seeded_sound, seeded_weights, small


def load_detector(name: str, file: Path, architecture: Architecture | None = None) -> Detector:
    return load(MODELS[name], architecture or small(name), file)


@pytest.mark.parametrize("name", PRETRAINED)
def test_a_checkpoint_as_published_goes_in(name, tmp_path):
    network = small(name)
    detector = load_detector(name, saved(network, tmp_path / MODELS[name].file))
    expected = build(network).eval()
    expected.load_state_dict(seeded_weights(expected.state_dict()))
    sound = torch.from_numpy(seeded_sound(network.layout.chunk / 25, network.sample_rate))[None]
    with torch.inference_mode():
        logits = detector(sound)
        torch.testing.assert_close(logits, expected(sound), atol=1e-5, rtol=1e-5)
        rows = 1 if name == "slowfast" else 250
        assert logits.shape == (1, rows, len(class_names(network.vocabulary)))
        assert detector.embed(detector.spectrum(sound)).shape[:2] == (1, rows)


@pytest.mark.parametrize(
    ("name", "first"),
    [
        ("beats", "model.model.patch_embedding.weight"),
        ("beats", "model.model.encoder.pos_conv.0.parametrizations.weight.original0"),
        ("beats", "model.model.encoder.layers.11.self_attn.relative_attention_bias.weight"),
        ("atst-frame", "model.atst.blocks.11.mlp.fc2.bias"),
        ("fpasst", "model.time_new_pos_embed"),
        ("frame-mn10", "model.frame_mn.features.4.block.2.conc_se_layers.0.fc1.weight"),
        ("panns", "conv_block6.bn2.running_var"),
        ("slowfast", "s4.pathway0_res5.branch2.c_bn.weight"),
        ("slowfast", "s4_fuse.conv_f2s.weight"),
    ],
)
def test_names_are_the_published_ones(name, first):
    network = ARCHITECTURES[name]
    if network.options == () and network.width == 768:  # as many layers, each small
        network = replace(network, options=(("size", replace(SMALL, layers=12)),))
    held, section = as_published(build(network).state_dict(), network), network.section
    assert first in (held[section] if section else held)


def test_beats_with_the_older_names_of_weight_norm(tmp_path):
    network = small("beats")
    names = "model.model.encoder.pos_conv.0.parametrizations.weight.original"
    weights = seeded_weights(build(network).state_dict())
    held = as_published(weights, network)
    old = {
        "model.model.encoder.pos_conv.0.weight_g": held.pop(f"{names}0"),
        "model.model.encoder.pos_conv.0.weight_v": held.pop(f"{names}1"),
    }
    torch.save({**held, **old}, tmp_path / "old.pt")
    load_detector("beats", tmp_path / "old.pt")


def test_mel_filters_in_the_file_are_not_needed(tmp_path):
    network = small("atst-frame")
    extra = {"model.atst_mel.mel_transform.spectrogram.window": torch.ones(1024)}
    load_detector("atst-frame", saved(network, tmp_path / "atst.pt", **extra))


def test_panns_holds_the_state_of_its_sampler_as_numpy_one_wrote_it(tmp_path):
    network = small("panns")
    held = as_published(seeded_weights(build(network).state_dict()), network)
    held["sampler"] = {"indexes": np.arange(5), "pointer": np.float64(3)}
    path = tmp_path / "new.pth"
    torch.save(held, path, _use_new_zipfile_serialization=False)
    load_detector("panns", path)
    older = tmp_path / "old.pth"
    older.write_bytes(path.read_bytes().replace(b"numpy._core.", b"numpy.core."))
    load_detector("panns", older)


class TestRefused:
    NAME = "frame-mn06"
    SMALL = small("frame-mn06")
    HEAD = "strong_head.bias"

    def test_another_models_checkpoint(self, tmp_path):
        foreign = saved(small("panns"), tmp_path / "Cnn14.pth")
        with pytest.raises(ModelMismatch, match=r"Cnn14.pth is not frame_mn06 .*expected frame_mn"):
            load_detector(self.NAME, foreign)
        strong = saved(self.SMALL, tmp_path / "frame_mn06.pt")
        with pytest.raises(ModelMismatch, match=r"holds no weights under 'model'.*Cnn14_Decision"):
            load_detector("panns", strong)

    def test_another_size_of_the_same_model(self, tmp_path):
        wide = replace(self.SMALL, options=(("width", 0.3),))
        with pytest.raises(ModelMismatch, match=r"features.* is \(.*\) instead of \("):
            load_detector(self.NAME, saved(wide, tmp_path / "wide.pt"))

    def test_a_file_that_was_cut_off(self, tmp_path):
        whole = saved(self.SMALL, tmp_path / "whole.pt").read_bytes()
        for share in (0.0, 0.3, 0.999):
            cut = tmp_path / "cut.pt"
            cut.write_bytes(whole[: int(share * len(whole))])
            with pytest.raises(ModelMismatch, match=r"cut.pt is cut off, .*frame_mn06_strong_1.pt"):
                load_detector(self.NAME, cut)

    def test_a_weight_is_missing_or_too_many_or_no_weight(self, tmp_path):
        path = tmp_path / "odd.pt"
        with pytest.raises(ModelMismatch, match=r"strong_head.bias is missing"):
            load_detector(self.NAME, saved(self.SMALL, path, **{self.HEAD: None}))
        with pytest.raises(ModelMismatch, match="extra does not belong there"):
            load_detector(self.NAME, saved(self.SMALL, path, extra=torch.ones(1)))
        with pytest.raises(ModelMismatch, match=r"strong_head.bias is str instead of"):
            load_detector(self.NAME, saved(self.SMALL, path, **{self.HEAD: "text"}))
        with pytest.raises(ModelMismatch, match=r"strong_head.bias is not finite"):
            bad = torch.full((447,), torch.nan)
            load_detector(self.NAME, saved(self.SMALL, path, **{self.HEAD: bad}))

    def test_a_file_that_would_run_something(self, tmp_path):
        ran = tmp_path / "ran"
        path = tmp_path / "evil.pt"
        torch.save({"strong_head.bias": _Runs(ran)}, path)
        with pytest.raises(ModelMismatch, match=r"evil.pt is cut off, or no .* allowed global"):
            load_detector(self.NAME, path)
        assert not ran.exists()
        pickle.loads(pickle.dumps(_Runs(ran)))
        assert ran.exists(), "the file would have run something"

    def test_no_file_at_all(self, tmp_path):
        with pytest.raises(ModelMismatch, match=r"beats needs its checkpoint BEATs_strong_1.pt"):
            find_checkpoint("beats", tmp_path)
        with pytest.raises(ModelMismatch, match=r"there is none at .*nowhere"):
            find_checkpoint("beats", tmp_path / "nowhere")
        with pytest.raises(ValueError, match=r"no checkpoint 'bats'; the checkpoints are beats, "):
            find_checkpoint("bats", tmp_path)


class _Runs:
    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self):
        return Path.touch, (self.path,)
