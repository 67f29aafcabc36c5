"""Which windows hold a sound that a question means, by a model of queries."""

from __future__ import annotations

import pickle
from pathlib import Path

import numpy as np
import pytest

import earmark
from annotation_server import MODEL, annotation_server
from earmark.media import open_recording
from earmark.models import ModelStore
from earmark.search.sound_relevance import sound_finders
from earmark.timeline import Span
from making import make_audio, make_video
from query_model import answer_model


@pytest.fixture
def store(tmp_path) -> ModelStore:
    """A model that hears two sounds wherever it is loud, the second twice as sure."""
    folder = tmp_path / "models"
    folder.mkdir()
    answer_model(folder / "dasm.onnx", asks_for_queries=False)
    (folder / "dasm.txt").write_text("water running\nhammering\n", encoding="utf-8")
    return ModelStore(folder)


def finders(question: str, store: ModelStore) -> list:
    return list(sound_finders(question, None, length=4.0, meaning=None, store=store))


def test_the_query_that_is_meant_is_heard_where_it_is(store, tmp_path):
    recording = open_recording(make_audio(tmp_path / "a.flac", duration=30.0, clicks=[9.0, 25.0]))
    (finder,) = pickle.loads(pickle.dumps(finders("somebody hammering", store)))
    assert set(finder.matches) == {"hammering"}
    likely = finder(recording).likely
    assert sorted(np.argsort(likely)[-2:]) == [2, 6]
    (half,) = finders("running water", store)
    assert set(half.matches) == {"water running"}
    assert half(recording).likely[2] == pytest.approx(likely[2] / 2, rel=0.01)


def test_without_the_model_nothing_listens(tmp_path):
    assert finders("hammering", ModelStore(Path(tmp_path))) == []


def test_find_asks_where_the_query_is_heard(store, tmp_path):
    path = make_video(tmp_path / "a.mp4", duration=64.0, clicks=[33.0], fps=2)
    with annotation_server([Span(33.0, 34.0)]) as server:
        found = earmark.find(
            "hammering",
            [path],
            run=tmp_path / "run",
            calls=2,
            server=server.url,
            model=MODEL,
            store=store,
            sounds=None,
            frontline="energy",
        )
    assert set(found.matches) == {"hammering"}
    (one,) = found.recordings
    assert any(span.overlaps(Span(33.0, 34.0)) for span in one.spans)
