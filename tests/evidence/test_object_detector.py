"""Things in a photograph are named, and the tags captioner passes their names on."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import av
import numpy as np
import pytest

from earmark.captioning.captioner import TagsCaptioner
from earmark.errors import ModelMismatch, ModelMissing
from earmark.evidence.object_detector import ObjectTagger
from earmark.media import Frame
from earmark.models import ModelStore
from stills import ask_about


@pytest.fixture(scope="module")
def weights() -> Path:
    pytest.importorskip("ai_edge_litert")
    try:
        return ModelStore().find("efficientdet-lite0")
    except ModelMissing as error:
        pytest.skip(str(error))


@pytest.fixture(scope="module")
def portrait() -> Frame:
    """The photograph that comes with matplotlib: an officer in uniform, with a tie."""
    matplotlib = pytest.importorskip("matplotlib")
    path = Path(matplotlib.get_data_path(), "sample_data", "grace_hopper.jpg")
    if not path.is_file():
        pytest.skip("this matplotlib comes without its sample photograph")
    with av.open(str(path)) as file:
        return Frame(0.0, next(file.decode(video=0)).to_ndarray(format="rgb24"))


EMPTY = Frame(0.0, np.full((240, 320, 3), 128, np.uint8))


def test_a_photograph_is_named_the_surest_first(weights, portrait):
    assert ObjectTagger(weights=weights)([portrait]) == ("person", "tie")
    assert ObjectTagger(weights=weights, most=1)([portrait]) == ("person",)
    assert ObjectTagger(weights=weights, least=0.9)([portrait]) == ("person",)


def test_each_thing_is_named_once_over_all_frames(weights, portrait):
    assert ObjectTagger(weights=weights)([EMPTY, portrait, portrait]) == ("person", "tie")


def test_nothing_is_nothing(weights):
    tagger = ObjectTagger(weights=weights)
    assert tagger([EMPTY]) == tagger([]) == ()


def test_several_threads_get_the_same(weights, portrait):
    tagger = ObjectTagger(weights=weights)
    with ThreadPoolExecutor(4) as pool:
        assert set(pool.map(tagger, [[portrait]] * 8)) == {("person", "tie")}


def test_the_tags_captioner_says_what_is_heard_and_then_what_is_seen(weights):
    captioner = TagsCaptioner(look=lambda frames: ("cup", "chopping") if frames else ())
    answer = captioner(ask_about(tags=("chopping", "tap")), timeout=1.0)
    assert answer.text == "chopping, tap, cup"
    assert (answer.kind, answer.form) == ("tags", "images")
    real = TagsCaptioner(look=ObjectTagger(weights=weights))(ask_about(), timeout=1.0)
    assert real.kind == "tags"


def test_a_missing_or_foreign_file_says_so_before_any_call(weights, tmp_path):
    foreign = tmp_path / "efficientdet-lite0.tflite"
    foreign.write_bytes(b"not it")
    with pytest.raises(ModelMismatch, match=r"gave 6 bytes for efficientdet-lite0\.tflite"):
        ObjectTagger(weights=foreign).check()
    ObjectTagger(weights=weights).check()
