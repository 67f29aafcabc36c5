"""An ONNX model that answers queries becomes an encoder."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest
from onnx import TensorProto, helper, save

from earmark.errors import ModelMismatch
from earmark.features.sound_tags import read_names
from earmark.media import Sound
from earmark_lab.encoders.chunk_encoder import TEN_SECONDS, encode_in_chunks
from earmark_lab.encoders.query_encoder import QueryEncoder, QueryNetwork
from query_model import answer_model

QUERIES = "# in the kitchen\nchopping vegetables\n\nwater running\n"


@dataclass(frozen=True)
class Loudness:
    """A session: how loud each hundredth of a second is, `count` times."""

    count: int = 2
    scale: float = 1.0

    def run(self, _outputs: None, inputs: dict[str, np.ndarray]) -> list[np.ndarray]:
        sound = inputs["sound"]
        cells = np.abs(sound.reshape(len(sound), 1000, -1)).max(axis=2)
        return [np.repeat(self.scale * cells[:, None], self.count, axis=1)]


def posteriors(session: Loudness, sound: list[Sound]) -> np.ndarray:
    network = QueryNetwork(session, ("a", "b"), None, 32_000, "")
    pieces = encode_in_chunks(sound, network, layout=TEN_SECONDS, sample_rate=32_000, batch=2)
    return np.concatenate([rows for rows, _ in pieces])


@pytest.fixture
def queries(tmp_path: Path) -> Path:
    path = tmp_path / "kitchen.txt"
    path.write_text(QUERIES, encoding="utf-8")
    return path


def asked(model: Path, queries: Path, **options: object) -> QueryEncoder:
    return QueryEncoder(queries=str(queries), weights=str(model), **options)


def clicking(*times: float) -> list[Sound]:
    sound = np.zeros(12 * 32_000, np.float32)
    for time in times:
        sound[round(time * 32_000)] = 0.75
    return [Sound(sound, 0.0, 32_000)]


def rows_of(encoder, sound: list[Sound]) -> np.ndarray:
    return np.concatenate([track.values for track in encoder.encode(sound)])


def test_posteriors_are_pooled_onto_the_clock():
    rows = posteriors(Loudness(), clicking(3.21, 7.0, 11.99))
    assert rows.shape == (300, 2)
    assert list(np.flatnonzero(rows[:, 0])) == [80, 175, 299]
    np.testing.assert_allclose(rows[80], 0.75, atol=1e-5)


def test_as_a_detector_every_query_counts(queries, tmp_path):
    model = answer_model(tmp_path / "dasm.onnx", asks_for_queries=False)
    encoder = asked(model, queries, reads="activity")
    assert rows_of(encoder, clicking(3.21)).max() == pytest.approx(0.75)


def test_an_onnx_file_with_its_queries_inside(queries, tmp_path):
    model = answer_model(tmp_path / "dasm.onnx", asks_for_queries=False)
    encoder = asked(model, queries)
    assert encoder.classes == ("chopping vegetables", "water running")
    rows = 1 / (1 + np.exp(-rows_of(encoder, clicking(3.21))))
    np.testing.assert_allclose(rows[75:100], [[0.375, 0.75]] * 25, atol=1e-5)
    assert rows[:75].max() < 1e-5
    assert encoder.sample_rate == 32_000


def test_an_onnx_file_that_asks_for_embeddings(queries, tmp_path):
    model = answer_model(tmp_path / "d.onnx", asks_for_queries=True, sample_rate="32000")
    np.save(tmp_path / "kitchen.npy", np.array([[1.0], [0.2]], np.float32))
    encoder = asked(model, queries)
    rows = 1 / (1 + np.exp(-rows_of(encoder, clicking(3.21))))
    np.testing.assert_allclose(rows[80], [0.75, 0.15], atol=1e-5)


class TestRefused:
    def test_an_answer_of_the_wrong_shape(self):
        wrong = r"answers \(2, 1, 1000\) to 2 chunks and 2 queries"
        with pytest.raises(ModelMismatch, match=wrong):
            posteriors(Loudness(count=1), clicking(1.0))

    def test_an_answer_that_is_no_posterior(self):
        with pytest.raises(ModelMismatch, match=r"answers 0 to 2.25; posteriors are 0 to 1"):
            posteriors(Loudness(scale=3.0), clicking(1.0))

    def test_embeddings_that_are_missing_or_too_few(self, queries, tmp_path):
        model = answer_model(tmp_path / "d.onnx", asks_for_queries=True)
        with pytest.raises(ModelMismatch, match=r"cannot read the embeddings .*kitchen.npy"):
            asked(model, queries).network()
        np.save(tmp_path / "kitchen.npy", np.ones((1, 1)))
        with pytest.raises(ModelMismatch, match=r"embeds 1 queries and the list names 2"):
            asked(model, queries).network()

    def test_a_model_that_is_missing_or_asks_for_something_else(self, queries, tmp_path):
        with pytest.raises(ModelMismatch, match="there is no model at"):
            asked(tmp_path / "none.onnx", queries).network()
        value = helper.make_tensor_value_info
        graph = helper.make_graph(
            [helper.make_node("Identity", ["wave"], ["out"])],
            "other",
            [value("wave", TensorProto.FLOAT, [1])],
            [value("out", TensorProto.FLOAT, [1])],
        )
        opset = helper.make_opsetid("", 18)
        save(helper.make_model(graph, opset_imports=[opset], ir_version=9), tmp_path / "o.onnx")
        with pytest.raises(ModelMismatch, match=r"o.onnx asks for \['wave'\]"):
            asked(tmp_path / "o.onnx", queries).network()

    def test_embeddings_as_features(self, queries, tmp_path):
        with pytest.raises(ValueError, match="dasm reads logits or activity, not 'embeddings'"):
            asked(tmp_path / "dasm.onnx", queries, reads="embeddings")

    @pytest.mark.parametrize(
        ("text", "what"),
        [("", "names nothing"), ("# all\n", "names nothing"), ("a\nb\na\n", "names 'a' twice")],
    )
    def test_a_list_that_names_nothing_or_something_twice(self, tmp_path, text, what):
        path = tmp_path / "list.txt"
        path.write_text(text, encoding="utf-8")
        with pytest.raises(ModelMismatch, match=rf"list.txt {what}; write one name a line"):
            read_names(path)

    def test_a_list_that_is_not_text(self, tmp_path):
        (tmp_path / "list.txt").write_bytes(b"\xff\xfe\x00")
        with pytest.raises(ModelMismatch, match="cannot read the names"):
            read_names(tmp_path / "list.txt")
        with pytest.raises(ModelMismatch, match="cannot read the names"):
            read_names(tmp_path / "none.txt")
