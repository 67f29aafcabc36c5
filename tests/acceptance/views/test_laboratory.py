"""`earmark lab`: evaluate, captions, occupancy, cost, reproduce, train, adapt and encoder."""

from __future__ import annotations

import csv
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import earmark_lab as laboratory
from acceptance.command_line import earmark
from acceptance.views.conftest import BENCH, SINK, Place
from acceptance.views.scene import ColourModel, film

PAPER_CALL, PAPER_SPEED = 0.74, 178.0


@pytest.fixture(scope="module")
def marks(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The actions of `bench.mp4` and `sink.mp4`, with verb and noun."""
    path = tmp_path_factory.mktemp("marks") / "marks.csv"
    words = {"drill": "drill,board", "water": "wash,cup"}
    rows = [
        f"{recording},{start},{end},{words[name]}"
        for recording, actions in (("bench", BENCH), ("sink", SINK))
        for name, spans in actions.items()
        for start, end in spans
    ]
    path.write_text("\n".join(["recording,start,end,verb,noun", *rows]) + "\n")
    return path


def first_table(outcome: Any) -> list[dict[str, Any]]:
    assert outcome.code == 0, outcome.err
    return list(outcome.json["tables"][0]["rows"])


def test_listening_beats_even_spacing_where_work_is_heard(place: Place, marks: Path):
    words = ("lab", "evaluate", marks, "--media", place.site, "--budgets", "25,50,100")
    quarter, half, whole = first_table(earmark(*words, "--format", "json"))
    for row in (quarter, half, whole):
        assert row["oracle"] >= row["coverage"] >= row["uniform"]
    assert quarter["coverage"] > quarter["uniform"]
    assert whole["coverage"] == whole["uniform"] == pytest.approx(100)


def test_the_folder_of_an_evaluation_counts_what_was_covered(
    place: Place, marks: Path, tmp_path: Path
):
    out = tmp_path / "results"
    words = ("lab", "evaluate", marks, "--media", place.site, "--budgets", "25", "--out", out)
    first = earmark(*words, "--rules", "uniform,coverage")
    assert first.code == 0, first.err
    with (out / "per_recording.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert {(row["recording"], row["rule"]) for row in rows} == {
        (recording, rule) for recording in ("bench", "sink") for rule in ("uniform", "coverage")
    }
    for row in rows:
        assert int(row["calls"]) == {"bench": 2, "sink": 2}[row["recording"]]
        assert 0 <= int(row["covered"]) <= int(row["actions"])
    page = (out / "index.html").read_text(encoding="utf-8")
    assert "<script src" not in page and "http://" not in page.replace("http://www.w3.org", "")
    assert json.loads((out / "tables.json").read_text())


def test_an_evaluation_prints_what_it_would_as_json(place: Place, marks: Path):
    words = ("lab", "evaluate", marks, "--media", place.site, "--budgets", "50")
    row = first_table(earmark(*words, "--format", "json"))[0]
    assert f"{row['coverage']:.1f}" in earmark(*words).out


def test_an_evaluation_of_other_results_does_not_overwrite_them(
    place: Place, marks: Path, tmp_path: Path
):
    words = ("lab", "evaluate", marks, "--media", place.site, "--rules", "uniform")
    assert earmark(*words, "--budgets", "25", "--out", tmp_path / "results").code == 0
    before = (tmp_path / "results" / "per_recording.csv").read_bytes()
    refused = earmark(*words, "--budgets", "50", "--out", tmp_path / "results")
    assert refused.code != 0
    assert "--out" in refused.err
    assert (tmp_path / "results" / "per_recording.csv").read_bytes() == before


def test_annotations_without_media_name_the_missing_recording(
    place: Place, marks: Path, tmp_path: Path
):
    path = tmp_path / "more.csv"
    path.write_text(marks.read_text() + "attic,1,2,drill,board\n")
    outcome = earmark("lab", "evaluate", path, "--media", place.site)
    assert outcome.code != 0
    assert "attic" in outcome.err
    assert len(outcome.err.strip().splitlines()) == 1


def test_the_library_evaluates(place: Place, marks: Path):
    result = laboratory.evaluate(marks, media=str(place.site), budgets=[0.5], rules=["coverage"])
    assert {(row.recording, row.rule) for row in result.rows} == {
        ("bench", "coverage"),
        ("sink", "coverage"),
    }
    words = ("--media", place.site, "--budgets", "50", "--rules", "coverage", "--format", "json")
    printed = earmark("lab", "evaluate", marks, *words)
    assert result.to_json()["tables"] == printed.json["tables"]


def test_rounds_are_simulated_from_annotations_alone(marks: Path, tmp_path: Path):
    lengths = tmp_path / "lengths.csv"
    lengths.write_text("recording,duration\nbench,40\nsink,24\n")
    words = ("lab", "evaluate", marks, "--answers", "perfect", "--durations", lengths)
    outcome = earmark(*words, "--budgets", "50", "--format", "json")
    assert outcome.code == 0, outcome.err
    assert outcome.json["tables"]


def test_captions_are_checked_for_the_annotated_words(
    place: Place, model: ColourModel, marks: Path, tmp_path: Path
):
    nouns, verbs = tmp_path / "nouns.csv", tmp_path / "verbs.csv"
    nouns.write_text("key,instances\nboard,\"['board']\"\ncup,\"['cup', 'mug']\"\n")
    verbs.write_text("key,instances\ndrill,\"['drill']\"\nwash,\"['wash', 'rinse']\"\n")
    kept = tmp_path / "captions.jsonl"
    words = ("lab", "captions", marks, "--media", place.site, "--nouns", nouns, "--verbs", verbs)
    outcome = earmark(*words, "--model", model.address, "--out", kept, "--format", "json")
    assert outcome.code == 0, outcome.err
    answers = [json.loads(line) for line in kept.read_text().splitlines()]
    assert len(answers) == 4
    table = json.dumps(outcome.json)
    assert '"nouns_named": 4' in table
    assert '"verbs_named": 4' in table
    before = len(model.requests)
    assert earmark(*words, "--model", model.address, "--out", kept).code == 0
    assert len(model.requests) == before, "nothing is asked twice"


def test_occupancy_counts_windows_that_touch_an_action(marks: Path, tmp_path: Path):
    lengths = tmp_path / "lengths.csv"
    lengths.write_text("recording,duration\nbench,40\nsink,24\n")
    words = ("lab", "occupancy", f"site={marks}", "--durations", lengths)
    row = first_table(earmark(*words, "--format", "json"))[0]
    values = list(row.values())
    assert values[0] == "site"
    # Four actions, each inside a window of its own, of sixteen windows.
    assert 4 in values
    assert 25.0 in values


def test_cost_is_the_formula_of_its_options():
    words = ("lab", "cost", "--hours", "100", "--budgets", "10", "--format", "json")
    rows = first_table(earmark(*words))
    calls = 100 * 3600 / 4 * PAPER_CALL / 3600
    full, tenth = rows[0], rows[1]
    assert calls in [value for value in full.values() if isinstance(value, float)]
    listening = 100 / PAPER_SPEED
    numbers = [value for value in tenth.values() if isinstance(value, float)]
    assert any(value == pytest.approx(calls / 10 + listening) for value in numbers)
    dear = first_table(earmark(*words, "--gpu-hour", "10"))
    assert max(value for value in dear[0].values() if isinstance(value, float)) == calls * 10


def test_the_tables_of_the_paper_are_listed(annotations: Path):
    outcome = earmark("lab", "reproduce", "--list", "--epic", annotations / "epic")
    assert outcome.code == 0, outcome.err
    names = {line.split()[0] for line in outcome.out.splitlines() if line.strip()}
    assert {"occupancy", "cost", "paired", "transfer", "captions"} <= names
    assert len(names) > 20


def test_a_table_is_made_from_annotations_alone(annotations: Path, tmp_path: Path):
    out = tmp_path / "paper"
    words = ("lab", "reproduce", "occupancy", "--epic", annotations / "epic", "--out", out)
    outcome = earmark(*words)
    assert outcome.code == 0, outcome.err
    (table,) = json.loads((out / "comparisons.json").read_text()).values()
    ours = {row["paper"]: row["ours"] for row in table}
    assert ours[24] == 24
    assert ours[85.1] == pytest.approx(85.131, abs=0.001)
    assert ours[1.41] == pytest.approx(1.4097, abs=0.0001)
    assert ours[56.2] == pytest.approx(56.204, abs=0.001)
    assert (out / "index.html").is_file()


def test_a_table_that_lacks_its_data_says_what_to_bring(annotations: Path, tmp_path: Path):
    words = ("--epic", annotations / "epic", "--out", tmp_path / "paper")
    outcome = earmark("lab", "reproduce", "transfer", *words)
    assert "--audio" in outcome.out + outcome.err
    unknown = earmark("lab", "reproduce", "table-99", *words)
    assert unknown.code != 0
    assert "table-99" in unknown.err


@pytest.mark.slow
def test_marks_become_a_gate_that_listens(tmp_path: Path):
    pytest.importorskip("torch", reason="PyTorch is not installed")
    rows = ["recording,start,end"]
    for number in range(4):
        film(tmp_path / "media" / f"P0{number}_1.mp4", 24, {"drill": [(5, 7), (13, 15)]})
        rows += [f"P0{number}_1,5,7", f"P0{number}_1,13,15"]
    (tmp_path / "marks.csv").write_text("\n".join(rows) + "\n")
    changed = ("steps=4", "folds=2", "width=8", "threads=1", "made=1")
    small = [word for setting in changed for word in ("--set", setting)]
    words = ("--media", tmp_path / "media", "--out", tmp_path / "mine", *small)
    outcome = earmark("lab", "train", tmp_path / "marks.csv", *words)
    assert outcome.code == 0, outcome.err
    assert (tmp_path / "mine" / "run.json").is_file()
    gate = tmp_path / "mine" / "gate.gate"
    chosen = earmark(
        "select", tmp_path / "media", "--frontline", gate, "--budget", "50%", "--format", "json"
    )
    assert chosen.code == 0, chosen.err
    assert [len(recording["picks"]) for recording in chosen.json["recordings"]] == [3, 3, 3, 3]


@pytest.mark.slow
def test_a_gate_is_adapted_from_the_answers_of_runs(
    place: Place, model: ColourModel, tmp_path: Path
):
    runs = [tmp_path / "site", tmp_path / "yard"]
    for source, run in zip((place.site, place.folder / "yard"), runs, strict=True):
        words = ("--budget", "100%", "--run", run, "--model", model.address)
        assert earmark("caption", source, *words).code == 0
    gate = tmp_path / "site.gate"
    outcome = earmark("lab", "adapt", *runs, "--out", gate, "--format", "json")
    assert outcome.code == 0, outcome.err
    fitted = outcome.json
    assert (fitted["answers"], fitted["recordings"]) == (22, 3)
    assert gate.is_file() == (fitted["log_likelihood"]["gain_at_least"] > 0)
    chosen = earmark("select", place.bench, "--frontline", gate, "--format", "json")
    assert chosen.code == 0, chosen.err


def test_too_few_answers_adapt_nothing(place: Place, tmp_path: Path):
    outcome = earmark("lab", "adapt", place.run, "--out", tmp_path / "site.gate")
    assert outcome.code != 0
    assert "20" in outcome.err
    assert not (tmp_path / "site.gate").exists()


def test_the_models_are_listed_with_licence_and_state(place: Place):
    models = {model["name"]: model for model in earmark("models", "--format", "json").json}
    assert {"yamnet", "minilm", "beats", "centerface"} <= set(models)
    for model in models.values():
        assert model["licence"]
        assert model["state"] == "absent", "this cache holds none"
    table = earmark("models")
    assert table.code == 0
    assert all(name in table.out for name in models)


def test_a_model_that_is_installed_is_listed_so(with_models: Mapping[str, str]):
    models = earmark("models", "--format", "json", env=with_models).json
    (yamnet,) = (model for model in models if model["name"] == "yamnet")
    assert yamnet["state"] != "absent"
    assert Path(yamnet["path"]).stat().st_size == yamnet["size_bytes"]


def test_a_file_that_is_not_the_model_is_not_added(tmp_path: Path):
    wrong = tmp_path / "yamnet.tflite"
    wrong.write_bytes(np.random.default_rng(0).bytes(1000))
    outcome = earmark("models", "add", "yamnet", wrong)
    assert outcome.code != 0
    assert "yamnet.tflite" in outcome.err
    unknown = earmark("models", "get", "no-such-model")
    assert unknown.code != 0
    assert "no-such-model" in unknown.err
