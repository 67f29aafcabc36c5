"""An exported model hears what its checkpoint hears, without PyTorch."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from earmark.errors import ModelMismatch
from earmark.features.pretrained import (
    Activity,
    Embeddings,
    Listening,
    Logits,
    open_encoder,
    published,
)
from earmark.features.pretrained.checkpoint import build
from earmark.features.pretrained.detector import Transformer
from earmark.features.pretrained.onnx_encoder import ExportCard, read_card
from earmark.features.pretrained.onnx_export import TOLERANCE, Exported, export, prove, trial, write
from earmark.media import Sound
from published_weights import seeded_sound, seeded_weights

SMALL = Transformer(width=32, heads=2, layers=2)
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
def exported(light_checkpoint: Path, tmp_path_factory: pytest.TempPathFactory) -> Exported:
    target = tmp_path_factory.mktemp("exported") / "frame_mn06_strong_1.onnx"
    return export("frame-mn06", light_checkpoint, target)


def features(encoder, sound: np.ndarray) -> np.ndarray:
    tracks = encoder.encode([Sound(sound, 0.0, 16_000)])
    return np.concatenate([track.values for track in tracks])


@needs_export
@pytest.mark.parametrize("reading", [Logits(), Activity(), Embeddings()], ids=repr)
def test_the_copy_hears_the_same(exported, light_checkpoint, reading):
    sound = seeded_sound(17.0, 16_000)
    whole = open_encoder("frame-mn06", light_checkpoint, reading=reading)
    copy = open_encoder(
        "frame-mn06", exported.file, reading=reading, listening=Listening(threads=1)
    )
    assert (copy.classes, copy.channels) == (whole.classes, whole.channels)
    assert copy.source == whole.source, "a gate over the one takes the other"
    np.testing.assert_allclose(features(copy, sound), features(whole, sound), atol=1e-3)


@needs_export
def test_the_proof_is_told(exported, light_checkpoint):
    assert 0 <= exported.difference <= TOLERANCE
    assert exported.size_bytes == exported.file.stat().st_size
    card = read_card(exported.file, name="frame-mn06", reading=Logits())
    assert card == exported.card
    assert card.sample_rate == 16_000


@needs_export
def test_neither_torch_nor_anything_else_is_loaded(exported):
    code = (
        "import sys, numpy as np\n"
        "from pathlib import Path\n"
        "from earmark.features.pretrained import open_encoder\n"
        "from earmark.media import Sound\n"
        f"encoder = open_encoder('frame-mn06', Path({str(exported.file)!r}))\n"
        "rows = list(encoder.encode([Sound(np.zeros(16_000, np.float32), 0.0, 16_000)]))\n"
        "assert len(rows[0]) == 25 and 'torch' not in sys.modules\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


@needs_export
@pytest.mark.parametrize("name", SIZES)
def test_every_architecture_can_be_exported(name, tmp_path):
    known = replace(published(name), options=SIZES[name])
    detector = build(known).eval()
    detector.load_state_dict(seeded_weights(detector.state_dict()))
    detector.settle()
    samples = known.layout.chunk * known.sample_rate // 25
    card = ExportCard(name, "0" * 64, 0, known.sample_rate, samples, 32, known.classes)
    write(detector, card, tmp_path / "it.onnx")
    assert prove(detector, tmp_path / "it.onnx", trial(card)) <= TOLERANCE


class TestRefused:
    @needs_export
    def test_a_copy_that_hears_something_else(self, exported, light_checkpoint):
        encoder = open_encoder("frame-mn06", light_checkpoint)
        other = build(published("frame-mn06")).eval()
        with pytest.raises(ModelMismatch, match=r"hears something else: logits differ by"):
            prove(other, exported.file, trial(exported.card))
        assert prove(encoder.detector(), exported.file, trial(exported.card)) <= TOLERANCE

    @needs_export
    def test_another_model(self, exported):
        with pytest.raises(ModelMismatch, match=r"onnx is frame-mn06 and not beats"):
            open_encoder("beats", exported.file)

    @needs_export
    def test_a_reading_it_was_not_exported_for(self, exported):
        with pytest.raises(ModelMismatch, match=r"without its last 0 layers.*export it again"):
            open_encoder("frame-mn06", exported.file, reading=Embeddings(drop_layers=2))

    def test_a_file_that_is_no_model(self, tmp_path):
        cut = tmp_path / "cut.onnx"
        cut.write_bytes(b"\x08\x0a:\xff\xff\x03")
        with pytest.raises(ModelMismatch, match=r"cut.onnx is cut off or no ONNX model"):
            open_encoder("frame-mn06", cut)

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
        with pytest.raises(ModelMismatch, match=r"p.onnx has no card .*earmark encoder export"):
            open_encoder("frame-mn06", tmp_path / "p.onnx")

    def test_nothing_is_left_where_the_checkpoint_is_wrong(self, light_checkpoint, tmp_path):
        target = tmp_path / "beats.onnx"
        with pytest.raises(ModelMismatch, match="is not BEATs"):
            export("beats", light_checkpoint, target)
        assert list(tmp_path.iterdir()) == []
