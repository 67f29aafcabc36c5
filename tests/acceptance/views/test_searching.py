"""`earmark search`, over one run and several, and `search --sounds`."""

from __future__ import annotations

import base64
import csv
import io
import json
from collections.abc import Mapping
from pathlib import Path

import av
import numpy as np
import pytest
from PIL import Image

import earmark as library
from acceptance.command_line import earmark
from acceptance.views.conftest import Place
from acceptance.views.scene import CAPTIONS


def found(*words: object) -> list[dict]:
    outcome = earmark("search", *words, "--format", "json")
    assert outcome.code == 0, outcome.err
    return outcome.json


def captions_of(hit: dict) -> list[dict]:
    return [reason for reason in hit["reasons"] if reason["kind"] == "caption"]


def test_a_word_of_a_caption_finds_its_moments(place: Place):
    hits = found(place.run, "drills")
    assert hits
    for hit in hits:
        assert Path(hit["path"]) == place.bench
        assert {reason["text"] for reason in captions_of(hit)} == {CAPTIONS["drill"]}
        for reason in captions_of(hit):
            assert reason["end"] - reason["start"] == pytest.approx(4.0)
        assert "caption" in hit["kinds"]


def test_other_forms_of_a_word_find_the_same(place: Place):
    moments = [(hit["path"], hit["start"]) for hit in found(place.run, "drills")]
    for word in ("drill", "drilling", "DRILLED"):
        assert [(hit["path"], hit["start"]) for hit in found(place.run, word)] == moments


def test_all_words_must_match(place: Place):
    assert found(place.run, "red board")
    assert found(place.run, "blue cup")
    assert found(place.run, "red cup") == []


def test_several_runs_are_searched_at_once(place: Place):
    hits = found(place.runs, "drill")
    assert {Path(hit["run"]).name for hit in hits} == {"site", "yard"}
    assert {Path(hit["path"]).name for hit in hits} == {"bench.mp4", "yard.mp4"}


def test_a_search_has_a_largest_number_of_results(place: Place):
    assert len(found(place.runs, "drill")) > 1
    assert len(found(place.runs, "drill", "--most", "1")) == 1


def test_a_result_carries_the_picture_of_its_moment(place: Place):
    hit = found(place.run, "drill")[0]
    with Image.open(io.BytesIO(base64.b64decode(hit["thumbnail"]))) as picture:
        red, green, blue = np.asarray(picture.convert("RGB"), float).reshape(-1, 3).mean(0)
    assert red > 2 * green and red > 2 * blue


def test_the_text_names_file_time_and_caption(place: Place):
    outcome = earmark("search", place.run, "washes")
    assert outcome.code == 0
    assert "sink.mp4" in outcome.out
    assert "0:08" in outcome.out
    assert CAPTIONS["water"] in outcome.out


def test_nothing_found_is_an_empty_list_and_a_word_on_stderr(place: Place):
    outcome = earmark("search", place.runs, "zebra", "--format", "json")
    assert (outcome.code, outcome.json) == (0, [])
    outcome = earmark("search", place.runs, "zebra")
    assert outcome.out.strip() == ""
    assert "zebra" in outcome.err


def test_pictures_of_the_results_are_written(place: Place, tmp_path: Path):
    outcome = earmark("search", place.run, "drill", "--thumbnails", tmp_path / "found")
    assert outcome.code == 0, outcome.err
    pictures = sorted((tmp_path / "found").iterdir())
    assert len(pictures) == len(found(place.run, "drill"))
    with Image.open(pictures[0]) as picture:
        assert picture.format == "JPEG"


def test_a_folder_without_runs_is_an_error_of_one_line(tmp_path: Path):
    (tmp_path / "empty").mkdir()
    outcome = earmark("search", tmp_path / "empty", "drill")
    assert outcome.code != 0
    assert "empty" in outcome.err
    assert len(outcome.err.strip().splitlines()) == 1


def test_meaning_finds_what_the_words_do_not_say(run_copy: Path, with_models: Mapping[str, str]):
    if not Path(with_models["EARMARK_CACHE"], "models", "all-MiniLM-L6-v2-int8.onnx").is_file():
        pytest.skip("MiniLM is not installed here")
    words = ("search", run_copy, "someone cleans a mug", "--format", "json")
    assert earmark(*words).json == []
    outcome = earmark(*words, "--meaning", env=with_models)
    assert outcome.code == 0, outcome.err
    assert captions_of(outcome.json[0])[0]["text"] == CAPTIONS["water"]


@pytest.fixture(scope="module")
def barking(annotations: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Twenty seconds of quiet with a dog from the eighth second on."""
    rate = 16_000
    with av.open(str(sorted((annotations / "open_sounds").glob("dog-*.opus"))[0])) as source:
        resampler = av.AudioResampler("s16", "mono", rate)
        blocks = [
            block.to_ndarray()[0]
            for frame in source.decode(audio=0)
            for block in resampler.resample(frame)
        ]
    dog = np.concatenate(blocks)[: 5 * rate]
    sound = np.random.default_rng(1).integers(-3, 4, 20 * rate).astype(np.int16)
    sound[8 * rate : 8 * rate + len(dog)] += dog
    path = tmp_path_factory.mktemp("barking") / "yard.wav"
    with av.open(str(path), "w") as container:
        stream = container.add_stream("pcm_s16le", rate=rate)
        stream.layout = "mono"
        frame = av.AudioFrame.from_ndarray(sound[None], format="s16", layout="mono")
        frame.sample_rate = rate
        container.mux(stream.encode(frame))
        container.mux(stream.encode(None))
    return path


def test_the_named_sounds_of_a_recording_are_listed(barking: Path, with_models: Mapping[str, str]):
    pytest.importorskip("ai_edge_litert")
    (recording,) = earmark("search", "--sounds", barking, "--format", "json", env=with_models).json[
        "recordings"
    ]
    assert Path(recording["path"]) == barking
    assert recording["duration"] == pytest.approx(20, abs=0.1)
    dogs = [sound for sound in recording["sounds"] if sound["sound"] in ("Dog", "Bark", "Animal")]
    assert dogs
    assert all(7 <= sound["start"] < sound["end"] <= 14 for sound in recording["sounds"])


def test_sounds_are_searched_by_words_and_written_as_labels(
    barking: Path, with_models: Mapping[str, str]
):
    pytest.importorskip("ai_edge_litert")
    words = ("search", "--sounds", barking, "--words")
    listing = earmark(*words, "dog", "--format", "json", env=with_models).json
    assert listing["words"] == "dog"
    assert listing["recordings"][0]["sounds"]
    rows = list(
        csv.DictReader(io.StringIO(earmark(*words, "dog", "--format", "csv", env=with_models).out))
    )
    assert len(rows) == len(listing["recordings"][0]["sounds"])
    labels = earmark(*words, "dog", "--format", "labels", env=with_models).out.strip().splitlines()
    assert len(labels) == len(rows)
    start, end, name = labels[0].split("\t")
    assert float(start) < float(end)
    assert name
    none = earmark(*words, "violin", "--format", "json", env=with_models)
    assert none.code == 0
    assert none.json["recordings"][0]["sounds"] == []


def test_sounds_without_the_model_say_how_to_get_it(barking: Path):
    outcome = earmark("search", "--sounds", barking)
    assert outcome.code != 0
    assert "earmark models get " in outcome.err
    assert len(outcome.err.strip().splitlines()) == 1


def test_the_library_lists_sounds_too(
    barking: Path, with_models: Mapping[str, str], monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv("EARMARK_CACHE", with_models["EARMARK_CACHE"])
    listing = library.sounds([barking])
    assert isinstance(listing, library.SoundListing)
    printed = earmark("search", "--sounds", barking, "--format", "json").json
    assert json.loads(json.dumps(listing.to_json()))["recordings"] == printed["recordings"]
