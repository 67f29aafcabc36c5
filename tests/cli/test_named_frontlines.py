"""Every acoustic system of the paper runs by its name, with weights that a user brings."""

from __future__ import annotations

import wave
from pathlib import Path

import numpy as np
import pytest
import torch

from acceptance.command_line import earmark
from earmark.gate.gate import Gate, default_gate
from earmark.models import MODELS, PRETRAINED
from earmark_lab.encoders.pretrained_encoder import ARCHITECTURES
from published_weights import make_small, saved, seeded_sound
from tone_model import tones, write_model, write_queries


def write_sound(path: Path, samples: np.ndarray) -> Path:
    with wave.open(str(path), "wb") as file:
        file.setparams((1, 2, 16_000, 0, "NONE", ""))
        file.writeframes((samples * 32_000).astype(np.int16).tobytes())
    return path


@pytest.fixture(autouse=True)
def own_home(tmp_path, monkeypatch):
    """A model store and a cache of the test's own; one thread, for the machine is shared."""
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.delenv("EARMARK_CHECKPOINTS", raising=False)
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


@pytest.fixture
def recording(tmp_path) -> Path:
    return write_sound(tmp_path / "shift.wav", seeded_sound(13.0, 16_000))


@pytest.fixture
def tone_recording(tmp_path) -> Path:
    """The low tone in the window from 8 s, the high one in that from 20 s."""
    return write_sound(tmp_path / "tones.wav", tones(30.0, low=9.2, high=21.6))


def selected(*words: object) -> dict:
    said = earmark("select", *words, "--format", "json")
    assert said.code == 0, said.err
    (chosen,) = said.json["recordings"]
    return chosen


def starts(*words: object) -> list[float]:
    return [pick["start"] for pick in selected(*words, "--rule", "rank")["picks"]]


@pytest.mark.parametrize("name", PRETRAINED)
def test_every_published_model_runs_with_a_checkpoint(name, recording, tmp_path, monkeypatch):
    """At a size that takes no time: names and layout as published, weights that mean nothing."""
    file = saved(make_small(monkeypatch, name), tmp_path / MODELS[name].file)
    by_path = selected(recording, "--frontline", f"{name}:weights={file}", "--budget", "2")
    assert len(by_path["picks"]) == 2 and by_path["frontline"].startswith(name)
    assert all(0 < pick["score"] <= 1 for pick in by_path["picks"])
    monkeypatch.setenv("EARMARK_CHECKPOINTS", str(tmp_path))
    by_setting = selected(recording, "--frontline", name, "--budget", "2")
    assert by_setting["picks"] == by_path["picks"]


def test_one_at_its_full_size_in_a_process_of_its_own(recording, tmp_path):
    """From `earmark models add` to the windows, as a person would type it."""
    file = saved(ARCHITECTURES["frame-mn06"], tmp_path / "download.pt")
    assert earmark("models", "add", "frame-mn06", file).code == 0
    rows = earmark("lab", "systems", "--format", "json").json
    assert next(row["state"] for row in rows if row["name"] == "frame-mn06") == "ready"
    words = ("select", recording, "-f", "frame-mn06", "-b", "50%", "--format", "json")
    done = earmark(*words, fresh=True, env={"OMP_NUM_THREADS": "1"})
    assert done.code == 0, done.err
    assert len(done.json["recordings"][0]["picks"]) == 2


def test_another_checkpoint_under_the_same_name_is_heard_anew(recording, tmp_path, monkeypatch):
    """What was heard is kept under what is in the weights, not under what they are called."""
    network = make_small(monkeypatch, "atst-frame")
    file = saved(network, tmp_path / MODELS["atst-frame"].file)
    words = (recording, "-f", f"atst-frame:weights={file}", "-b", "100%")
    before = [pick["score"] for pick in selected(*words)["picks"]]
    assert [pick["score"] for pick in selected(*words)["picks"]] == before
    saved(network, file, **{"strong_head.bias": torch.full((447,), 3.0)})
    assert [pick["score"] for pick in selected(*words)["picks"]] != before


def test_a_detector_may_be_thresholded(recording, tmp_path, monkeypatch):
    network = make_small(monkeypatch, "atst-frame")
    file = saved(network, tmp_path / MODELS["atst-frame"].file)
    frontline = f"atst-frame:weights={file}"
    free = [p["score"] for p in selected(recording, "-f", frontline, "-b", "100%")["picks"]]
    middle = sorted(free)[2]
    frontline += f":threshold={middle - 1e-4}"
    strict = [p["score"] for p in selected(recording, "-f", frontline, "-b", "100%")["picks"]]
    assert all(low <= high for low, high in zip(strict, free, strict=True))
    assert sorted(strict) != sorted(free)


class TestDasm:
    def test_by_path_the_queries_decide_what_is_heard(self, tone_recording, tmp_path):
        model = write_model(tmp_path / "my model.onnx")
        for query, window in (("a low hum", 8.0), ("a high whistle", 20.0)):
            queries = write_queries(tmp_path / f"{query}.txt", query)
            frontline = f"dasm:weights={model}:queries={queries}"
            assert starts(tone_recording, "-f", frontline, "-b", "1") == [window]
        both = write_queries(tmp_path / "both.txt", "a low hum", "a high whistle")
        frontline = f"dasm:weights={model}:queries={both}"
        assert starts(tone_recording, "-f", frontline, "-b", "2") == [8.0, 20.0]

    def test_from_the_store_its_name_is_enough(self, tone_recording, tmp_path):
        def state() -> tuple[str, str | None]:
            rows = earmark("lab", "systems", "--format", "json").json
            return next((row["state"], row["cure"]) for row in rows if row["name"] == "dasm")

        assert state() == ("needs a checkpoint", "earmark models add dasm FILE")
        model = write_model(tmp_path / "model.onnx")
        assert earmark("models", "add", "dasm", model).code == 0
        assert state() == ("needs a checkpoint", "earmark models add dasm-queries FILE")
        queries = write_queries(tmp_path / "kitchen.txt", "a high whistle")
        assert earmark("models", "add", "dasm-queries", queries).code == 0
        assert state() == ("ready", None)
        said = earmark("select", tone_recording, "-f", "dasm", "-b", "1")
        assert said.code == 1 and "dasm.npy" in said.err
        embeddings = queries.with_suffix(".npy")
        assert earmark("models", "add", "dasm-embeddings", embeddings).code == 0
        assert starts(tone_recording, "-f", "dasm", "-b", "1") == [20.0]
        changed = write_queries(tmp_path / "kitchen.txt", "a low hum")
        earmark("models", "add", "dasm-queries", changed)
        earmark("models", "add", "dasm-embeddings", changed.with_suffix(".npy"))
        assert starts(tone_recording, "-f", "dasm", "-b", "1") == [8.0]

    def test_from_the_setting(self, tone_recording, tmp_path, monkeypatch):
        folder = tmp_path / "checkpoints"
        folder.mkdir()
        write_model(folder / "dasm.onnx")
        write_queries(folder / "dasm.txt", "a low hum")
        monkeypatch.setenv("EARMARK_CHECKPOINTS", str(folder))
        assert starts(tone_recording, "-f", "dasm", "-b", "1") == [8.0]
        rows = earmark("lab", "systems", "--format", "json").json
        assert next(row["state"] for row in rows if row["name"] == "dasm") == "ready"

    def test_without_its_files_it_says_what_to_do(self, tone_recording):
        said = earmark("select", tone_recording, "-f", "dasm")
        assert said.code == 1
        assert "add it with `earmark models add dasm FILE`" in said.err


@pytest.mark.parametrize("name", ["dasm", "frame-mn06"])
def test_a_gate_is_trained_on_it_and_selects(name, tmp_path, monkeypatch):
    """The card names the encoder; the gate finds the checkpoint where the encoder does."""
    store, media = tmp_path / "cache/earmark/models", tmp_path / "media"
    store.mkdir(parents=True)
    media.mkdir()
    if name == "dasm":
        write_model(store / "dasm.onnx")
        write_queries(store / "dasm.txt", "a low hum", "a high whistle")
    else:
        saved(make_small(monkeypatch, name), store / MODELS[name].file)
    marks = ["recording,start,end,label"]
    for person in range(4):
        write_sound(media / f"P0{person}_1.wav", tones(22.0, low=4.0 + person, high=13.0))
        marks += [f"P0{person}_1,{start},{start + 1},tone" for start in (4.0 + person, 13.0)]
    (tmp_path / "marks.csv").write_text("\n".join(marks) + "\n")
    changed = ("steps=4", "folds=2", "width=8", "batch=2", "crop=8", "threads=1")
    words = ("--encoder", name, *(word for one in changed for word in ("--set", one)))
    said = earmark(
        "lab", "train", tmp_path / "marks.csv", "--media", media, "--out", tmp_path / "mine", *words
    )
    assert said.code == 0, said.err
    gate = tmp_path / "mine" / "gate.gate"
    assert Gate.load(gate).card.encoder == name
    chosen = selected(media / "P00_1.wav", "-f", gate, "-b", "2")
    assert len(chosen["picks"]) == 2 and chosen["frontline"] == "gate.gate"


@pytest.mark.parametrize(
    ("frontline", "complaint"),
    [
        ("beats:loudness=3", "beats has no option 'loudness'; it has reads, hop"),
        ("beats:threshold=high", "beats: threshold should be a valid number, not 'high'"),
        ("beats:threshold=2", "a threshold on posteriors is 0 to 1, not 2.0"),
        ("beats:reads=tags", "reads should be 'logits', 'activity' or 'embeddings', not 'tags'"),
        ("energy:x=1", "energy has no option 'x'; it has none"),
        ("beat", "there is no frontline 'beat'"),
    ],
)
def test_a_bad_name_or_option_is_one_clear_line(frontline, complaint, recording):
    said = earmark("select", recording, "--frontline", frontline)
    assert (said.code, said.out, said.err.count("\n")) == (1, "", 1)
    assert complaint in said.err


def test_a_gate_may_be_told_where_its_encoders_files_are(recording, tmp_path):
    default_gate().save(tmp_path / "mine.gate")
    chosen = selected(recording, "-f", tmp_path / "mine.gate", "-b", "1")
    assert chosen["frontline"] == "mine.gate"
    for option, complaint in (("device=cuda", "FloorMel has no option"), ("bands=3", "gate fixes")):
        said = earmark("select", recording, "-f", f"{tmp_path / 'mine.gate'}:{option}")
        assert said.code == 1 and complaint in said.err


def test_weights_that_are_not_there_are_named(recording, tmp_path):
    said = earmark("select", recording, "-f", f"beats:weights={tmp_path / 'no.pt'}")
    assert said.code == 1
    assert "beats needs its checkpoint BEATs_strong_1.pt; there is none at" in said.err
