"""An exported model hears what its checkpoint hears, without PyTorch."""

from __future__ import annotations

import hashlib
import json
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import typer
from typer.testing import CliRunner

from earmark.errors import ModelMismatch
from earmark.features.sound_tags import class_names
from earmark.media import Sound
from earmark.models.sessions import open_session
from earmark_lab.cli.reproduce import export_encoder
from earmark_lab.encoders.audio_transformers import TransformerSize
from earmark_lab.encoders.detector import TOLERANCE, build, export, sample_chunks, verify, write
from earmark_lab.encoders.pretrained_encoder import (
    ARCHITECTURES,
    ExportCard,
    PretrainedEncoder,
    read_card,
)
from published_weights import seeded_sound, seeded_weights

SMALL = TransformerSize(width=32, heads=2, layers=2)
SIZES = {
    "beats": (("size", SMALL),),
    "atst-frame": (("size", SMALL),),
    "fpasst": (("size", SMALL),),
    "panns": (("channels", 2),),
    "slowfast": (("channels", 8),),
}


needs_export = pytest.mark.slow
"""PyTorch's exporter takes seconds even for a small model."""


@pytest.fixture(scope="module")
def proof(light_checkpoint: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """What the command says of the copy it wrote; made once, as a person would."""
    target = tmp_path_factory.mktemp("exported") / "frame_mn06_strong_1.onnx"
    app = typer.Typer()
    app.command()(export_encoder)
    env = {"EARMARK_CHECKPOINTS": str(light_checkpoint.parent)}
    result = CliRunner().invoke(app, ["frame-mn06", str(target), "--format", "json"], env=env)
    assert result.exit_code == 0, result.output
    return json.loads(result.stdout)


@pytest.fixture(scope="module")
def exported(proof: dict[str, Any]) -> Path:
    return Path(proof["file"])


def card_of(file: Path) -> ExportCard:
    return read_card(open_session(file), file, "frame-mn06")


def light(file: Path, **options: object) -> PretrainedEncoder:
    return PretrainedEncoder("frame-mn06", weights=str(file), **options)


def features(encoder, sound: np.ndarray) -> np.ndarray:
    tracks = encoder.encode([Sound(sound, 0.0, 16_000)])
    return np.concatenate([track.values for track in tracks])


@needs_export
@pytest.mark.parametrize("reads", ["logits", "activity", "embeddings"])
def test_the_copy_hears_the_same(exported, light_checkpoint, reads):
    sound = seeded_sound(17.0, 16_000)
    whole = light(light_checkpoint, reads=reads)
    copy = light(exported, reads=reads, threads=1)
    assert (copy.classes, copy.channels) == (whole.classes, whole.channels)
    assert copy.fingerprint() == whole.fingerprint(), "a gate over the one takes the other"
    np.testing.assert_allclose(features(copy, sound), features(whole, sound), atol=1e-3)


@needs_export
def test_the_proof_is_told(proof, exported, light_checkpoint):
    assert 0 <= proof["difference"] <= proof["tolerance"] == TOLERANCE == 1e-4
    assert (proof["name"], proof["size_bytes"]) == ("frame-mn06", exported.stat().st_size)
    assert card_of(exported) == ExportCard(
        name="frame-mn06",
        source_sha256=hashlib.sha256(light_checkpoint.read_bytes()).hexdigest(),
        drop_layers=0,
        sample_rate=16_000,
        samples=160_000,
        width=576,
        classes=class_names("audioset-strong"),
    )


@needs_export
def test_neither_torch_nor_anything_else_is_loaded(exported):
    code = (
        "import sys, numpy as np\n"
        "from earmark_lab.encoders.pretrained_encoder import PretrainedEncoder\n"
        "from earmark.media import Sound\n"
        f"encoder = PretrainedEncoder('frame-mn06', weights={str(exported)!r})\n"
        "rows = list(encoder.encode([Sound(np.zeros(16_000, np.float32), 0.0, 16_000)]))\n"
        "assert len(rows[0]) == 25 and 'torch' not in sys.modules\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


@needs_export
@pytest.mark.parametrize("name", SIZES)
def test_every_architecture_can_be_exported(name, tmp_path):
    network = replace(ARCHITECTURES[name], options=SIZES[name])
    detector = build(network).eval()
    detector.load_state_dict(seeded_weights(detector.state_dict()))
    detector.prepare()
    rate, classes = network.sample_rate, class_names(network.vocabulary)
    samples = network.layout.chunk * rate // 25
    card = ExportCard(name, "0" * 64, 0, rate, samples, 32, classes)
    write(detector, card, tmp_path / "it.onnx")
    assert verify(detector, tmp_path / "it.onnx", sample_chunks(card)) <= TOLERANCE


class TestRefused:
    @needs_export
    def test_a_copy_that_hears_something_else(self, exported, light_checkpoint):
        encoder = light(light_checkpoint)
        other = build(ARCHITECTURES["frame-mn06"]).eval()
        with pytest.raises(ModelMismatch, match=r"hears something else: logits differ by"):
            verify(other, exported, sample_chunks(card_of(exported)))
        assert (
            verify(encoder.network().detector, exported, sample_chunks(card_of(exported)))
            <= TOLERANCE
        )

    @needs_export
    def test_another_model(self, exported):
        with pytest.raises(ModelMismatch, match=r"onnx is frame-mn06 and not beats"):
            PretrainedEncoder("beats", weights=str(exported)).network()

    @needs_export
    def test_a_reading_it_was_not_exported_for(self, exported):
        with pytest.raises(ModelMismatch, match=r"without its last 0 layers.*export it again"):
            light(exported, reads="embeddings", drop_layers=2).network()

    def test_a_file_that_is_no_model(self, tmp_path):
        cut = tmp_path / "cut.onnx"
        cut.write_bytes(b"\x08\x0a:\xff\xff\x03")
        with pytest.raises(ModelMismatch, match=r"cut.onnx is cut off or no ONNX model"):
            light(cut).network()

    def test_an_onnx_file_without_a_card(self, tmp_path):
        from onnx import TensorProto, helper, save

        value = helper.make_tensor_value_info
        graph = helper.make_graph(
            [helper.make_node("Identity", ["sound"], ["out"])],
            "plain",
            [value("sound", TensorProto.FLOAT, [1])],
            [value("out", TensorProto.FLOAT, [1])],
        )
        opset = helper.make_opsetid("", 18)
        save(helper.make_model(graph, opset_imports=[opset], ir_version=9), tmp_path / "p.onnx")
        with pytest.raises(ModelMismatch, match=r"p.onnx has no card .*earmark lab encoder"):
            light(tmp_path / "p.onnx").network()

    def test_nothing_is_left_where_the_checkpoint_is_wrong(self, light_checkpoint, tmp_path):
        target = tmp_path / "beats.onnx"
        with pytest.raises(ModelMismatch, match="is not BEATs"):
            export("beats", light_checkpoint, target)
        assert list(tmp_path.iterdir()) == []
