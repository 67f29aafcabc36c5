"""`earmark_lab.train`: files in, a gate in a folder out, in one call."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

import earmark_lab
from earmark.gate.gate import Gate
from earmark_lab.training.gate_training import TrainingPlan, train_classes
from making import make_audio

SMALL = {"steps": 4, "folds": 2, "width": 8, "threads": 1, "made": 1}


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """Annotations and the folder of their recordings."""
    folder, rows = tmp_path_factory.mktemp("media"), ["recording,start,end,label"]
    for number in range(4):
        make_audio(folder / f"P0{number}_1.wav", duration=24.0, clicks=[3.0, 9.0, 17.0])
        rows += [f"P0{number}_1,{start},{start + 1.5},knock" for start in (3.0, 9.0, 17.0)]
    marks = folder / "marks.csv"
    marks.write_text("\n".join(rows) + "\n")
    return marks, folder


def test_one_call_trains_a_gate(files: tuple[Path, Path], tmp_path: Path) -> None:
    marks, media = files
    stages, checks = [], []
    trained = earmark_lab.train(
        marks,
        media=media,
        out=tmp_path / "mine",
        dev=["P03_1"],
        watch=lambda what, done, total: stages.append((what, done, total)),
        on_check=checks.append,
        **SMALL,
    )
    assert trained.held_out == ("P03_1",)
    assert {what for what, _, _ in stages} == {"listening", "making up recordings", "training"}
    assert stages[-1] == ("training", 4, 4) and checks[-1].done == 4
    saved = Gate.load(tmp_path / "mine" / "gate.gate")
    assert saved.scorer.digest == trained.gate.scorer.digest
    assert (saved.card.data, saved.card.licence) == ("marks.csv", "not stated")


def test_a_plan_is_made_once_and_holds_every_choice(files: tuple[Path, Path]) -> None:
    marks, media = files
    plan = TrainingPlan.of(marks, media=str(media), recipe="paper", encoder="log-mel", taus=[2, 4])
    assert (plan.settings.objective, plan.settings.width, plan.taus) == ("span", 192, (2, 4))
    assert plan == TrainingPlan.of(marks, media=media, settings=plan.settings, taus=(2, 4))
    assert TrainingPlan.of(marks, media=media, taus=4).taus == (4,)


def test_choices_that_make_no_sense_are_named(files: tuple[Path, Path], tmp_path: Path) -> None:
    marks, media = files
    with pytest.raises(ValueError, match="no choice 'stepps'"):
        earmark_lab.train(marks, media=media, stepps=4)
    with pytest.raises(ValueError, match="say where the recordings are"):
        earmark_lab.train(marks)
    plan = TrainingPlan.of(marks, media=media, dev="P03_1")
    assert plan.dev == ("P03_1",)
    with pytest.raises(ValueError, match="seeds is a part of the plan"):
        earmark_lab.train(plan, seeds=2)
    with pytest.raises(ValueError, match="seeds is a part of settings"):
        earmark_lab.train(marks, media=media, settings=plan.settings, seeds=2)
    with pytest.raises(ValueError, match="call `train_classes`"):
        earmark_lab.train(marks, media=media, out=tmp_path, objective="classes", encoder="energy")


def test_labels_train_a_segmentation_head(files: tuple[Path, Path], tmp_path: Path) -> None:
    marks, media = files
    choices = {"objective": "classes", "encoder": "energy", "dev": ["P03_1"], "batch": 2}
    head, scores = train_classes(marks, media=media, out=tmp_path, **choices, **SMALL)
    assert (head.classes, scores.events.reference) == (("knock",), 3)


WITHOUT_TORCH = """
import sys

sys.modules["torch"] = None
import earmark_lab

earmark_lab.train
"""


def test_without_pytorch_the_cure_is_named() -> None:
    done = subprocess.run(
        [sys.executable, "-c", WITHOUT_TORCH], capture_output=True, text=True, check=False
    )
    assert "MissingExtra: training needs torch: pip install 'earmark-lab[torch]'" in done.stderr
