"""A whole training leaves gates, a record of itself and a picture, and can be resumed."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from earmark.errors import AnnotationError
from earmark.gate.gate import Gate
from earmark.timeline import Track
from earmark.training.objectives import OBJECTIVES
from earmark.training.optimisation import score
from earmark.training.recipe import Origin, Step, fit_heads, train, unheard_scores
from earmark.training.settings import PAPER, Settings
from earmark.training.split import fold
from gate_making import SMALL, kitchen

TWO = replace(SMALL, seeds=2)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("run")
    train(kitchen(), TWO, folder=folder, origin=Origin("made up", "none", "c0ffee"))
    return folder


def test_the_folder_of_a_run(folder: Path) -> None:
    names = {path.name for path in folder.iterdir()}
    assert names == {
        "checkpoints", "curves.png", "gate.gate", "run.json", "seed-0.gate", "seed-1.gate"
    }  # fmt: skip
    assert (folder / "curves.png").read_bytes().startswith(b"\x89PNG")
    run = json.loads((folder / "run.json").read_text())
    assert run["settings"] == TWO.to_json()
    assert (run["commit"], run["seeds"], run["recordings"]) == ("c0ffee", [0, 1], 6)
    assert set(run["coverage"]) == {"seed 0", "seed 1", "all"}
    assert len(run["curves"]) == 4
    heard = sorted(name for part in run["folds"] for name in part)
    assert heard == sorted(kitchen())


def test_the_gate_holds_all_heads_and_says_so(folder: Path) -> None:
    gate, one = Gate.load(folder / "gate.gate"), Gate.load(folder / "seed-1.gate")
    assert (gate.card.heads, one.card.heads) == (4, 2)
    assert (gate.card.seeds, one.card.seeds) == ((0, 1), (1,))
    assert gate.card.data_hash == json.loads((folder / "run.json").read_text())["data_hash"]
    assert [row.budget for row in gate.card.honesty] == [0.05, 0.1, 0.15, 0.25, 0.335, 0.5]


def test_the_gate_scores_as_its_heads_do(folder: Path) -> None:
    material, places = kitchen(), fold(sorted(kitchen()), folds=2)
    fitted = fit_heads(material, TWO, places, folder=folder, watch=lambda _: None)
    rows = next(iter(material.values())).features
    objective = OBJECTIVES["rate"]
    wanted = np.mean([score(each.head, objective, rows) for each in fitted.values()], axis=0)
    tracks = Gate.load(folder / "gate.gate").scorer([Track(rows)])
    np.testing.assert_allclose(np.concatenate([t.values for t in tracks]), wanted, atol=1e-4)


def test_dev_scores_come_from_heads_that_have_not_heard_the_recording(folder: Path) -> None:
    material, places = kitchen(), fold(sorted(kitchen()), folds=2)
    fitted = fit_heads(material, TWO, places, folder=folder, watch=lambda _: None)
    heads = {place: each.head for place, each in fitted.items()}
    scores = unheard_scores(material, TWO, places, heads, [0])
    name = places[1][0]
    wanted = score(heads[0, 1], OBJECTIVES["rate"], material[name].features)
    np.testing.assert_array_equal(scores[name], wanted)
    assert sorted(scores) == sorted(material)


def test_a_finished_run_is_not_trained_again(folder: Path) -> None:
    steps: list[Step] = []
    before = (folder / "gate.gate").read_bytes()
    origin = Origin("made up", "none", "c0ffee")
    train(kitchen(), TWO, folder=folder, origin=origin, watch=steps.append)
    assert steps == []
    assert (folder / "gate.gate").read_bytes() == before


def test_a_fold_without_actions_has_no_dev_coverage(tmp_path: Path) -> None:
    material = kitchen()
    still = fold(sorted(material), folds=3)[0]
    material |= {name: replace(material[name], actions=()) for name in still}
    train(material, replace(SMALL, folds=3), folder=tmp_path, origin=Origin("x", "y"))
    curves = json.loads((tmp_path / "run.json").read_text())["curves"]
    assert {check["dev"] for check in curves["seed 0, fold 0"]} == {None}
    assert None not in {check["dev"] for check in curves["seed 0, fold 1"]}


def test_too_few_people_cannot_be_split(tmp_path: Path) -> None:
    with pytest.raises(AnnotationError, match="3 participants cannot be split into 4 folds"):
        train(kitchen(), replace(SMALL, folds=4), folder=tmp_path, origin=Origin("x", "y"))


def test_settings_are_checked() -> None:
    for wrong, message in (
        ({"objective": "vibes"}, "no objective 'vibes'; there are span, frame, rate"),
        ({"steps": 0}, "steps is more than 0"),
        ({"folds": 1}, "at least 2 folds"),
        ({"dropout": 1.0}, r"dropout lies in \[0, 1\)"),
    ):
        with pytest.raises(ValueError, match=message):
            Settings(**wrong)  # type: ignore[arg-type]
    assert (PAPER.width, PAPER.steps, PAPER.batch, PAPER.learning_rate) == (192, 3000, 16, 3e-4)
