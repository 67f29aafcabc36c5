"""Objects in a photograph are named, and the tags captioner passes their names on."""

from __future__ import annotations

import pickle
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import av
import numpy as np
import pytest

from earmark import Span
from earmark.captioning.captioner import TagsCaptioner
from earmark.errors import ModelMismatch, ModelMissing
from earmark.evidence.evidence_entry import EvidenceEntry
from earmark.evidence.picture_evidence import ObjectTagger
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


SPAN = Span(0.0, 4.0)
EMPTY = Frame(0.0, np.full((240, 320, 3), 128, np.uint8))


def names(tagger: ObjectTagger, frames: list[Frame]) -> list[str]:
    return [entry.text for entry in tagger(frames, SPAN)]


def test_a_photograph_is_named_the_surest_first(weights, portrait):
    assert names(ObjectTagger(least=0.4, weights=weights), [portrait]) == ["person", "tie"]
    assert names(ObjectTagger(weights=weights, most=1), [portrait]) == ["person"]
    assert names(ObjectTagger(weights=weights, least=0.9), [portrait]) == ["person"]
    person, tie = ObjectTagger(least=0.4, weights=weights)([portrait], SPAN)
    assert (person.span, person.kind, person.model) == (SPAN, "seen", "efficientdet-lite0")
    assert person.confidence > tie.confidence


def test_each_object_is_named_once_over_all_frames(weights, portrait):
    frames = [EMPTY, portrait, portrait]
    assert names(ObjectTagger(least=0.4, weights=weights), frames) == ["person", "tie"]


def test_nothing_is_nothing(weights):
    tagger = ObjectTagger(least=0.4, weights=weights)
    assert tagger([EMPTY], SPAN) == tagger([], SPAN) == []


def test_several_threads_get_the_same_from_a_pickled_tagger(weights, portrait):
    tagger = pickle.loads(pickle.dumps(ObjectTagger(least=0.4, weights=weights)))
    with ThreadPoolExecutor(4) as pool:
        found = list(pool.map(lambda _: names(tagger, [portrait]), range(8)))
    assert found == [["person", "tie"]] * 8


def test_the_tags_captioner_says_what_is_heard_and_then_what_is_seen():
    seen = tuple(EvidenceEntry(SPAN, "seen", name, 0.9, "m") for name in ("cup", "chopping"))
    asked = replace(ask_about(tags=("chopping", "tap")), evidence=seen)
    answer = TagsCaptioner()(asked, timeout=1.0)
    assert answer.text == "chopping, tap, cup"
    assert answer.kind == "tags"


def test_a_foreign_file_is_refused(tmp_path):
    pytest.importorskip("ai_edge_litert")
    foreign = tmp_path / "efficientdet-lite0.tflite"
    foreign.write_bytes(b"not it")
    with pytest.raises(ModelMismatch, match=r"gave 6 bytes for efficientdet-lite0\.tflite"):
        ObjectTagger(weights=foreign)([EMPTY], SPAN)
