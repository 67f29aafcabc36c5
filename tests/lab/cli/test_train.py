"""`earmark lab train` as a person runs it: media and marks in, a gate that listens out."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import typer
from typer.testing import CliRunner

from earmark import open_recording
from earmark.errors import AnnotationError
from earmark.gate.frontline import frontline_named
from earmark.gate.listener import listen
from earmark.media import find
from earmark_lab.cli.train import train
from earmark_lab.training.gate_training import TrainingPlan
from earmark_lab.training.segmentation import Segmenter
from making import make_audio

app = typer.Typer()
app.command()(train)


@pytest.fixture(scope="module")
def media(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("media")
    for number in range(4):
        make_audio(folder / f"P0{number}_1.wav", duration=24.0, clicks=[3.0, 9.0, 17.0])
    return folder


@pytest.fixture
def marks(tmp_path: Path) -> Path:
    rows = [
        f"P0{number}_1,{start},{start + 1.5},knock"
        for number in range(4)
        for start in (3.0, 9.0, 17.0)
    ]
    path = tmp_path / "marks.csv"
    path.write_text("\n".join(["recording,start,end,label", *rows]) + "\n")
    return path


def run(*words: object) -> tuple[str, str]:
    outcome = CliRunner().invoke(app, [str(word) for word in words])
    if outcome.exception and not isinstance(outcome.exception, SystemExit):
        raise outcome.exception
    assert outcome.exit_code == 0, outcome.stderr
    return outcome.stdout, outcome.stderr


def settings(text: str) -> list[str]:
    return [word for setting in text.split() for word in ("--set", setting)]


SMALL = settings("steps=4 folds=2 width=8 threads=1 made=1")


def test_marks_become_a_gate_that_listens(media: Path, marks: Path, tmp_path: Path) -> None:
    out = tmp_path / "mine"
    said, told = run(marks, "--media", media, "--out", out, "--set", "seeds=2", *SMALL)
    assert "25.0% of calls: dev coverage" in said
    assert "2 heads" in said
    assert "% a seed, " in said
    assert "seed 1: loss" in told and "dev coverage" in told
    frontline = frontline_named(str(out / "gate.gate"))
    heard = listen(open_recording(find([str(media / "P00_1.wav")])[0]), frontline)
    assert len(heard.scores) == 24 * 25


def test_a_frontline_of_one_channel_needs_no_settings(
    media: Path, marks: Path, tmp_path: Path
) -> None:
    out = tmp_path / "mine"
    quick = settings("steps=4 folds=2 threads=1 made=0")
    said, _ = run(marks, "--media", media, "--out", out, "--encoder", "flux", *quick)
    assert "25.0% of calls: dev coverage" in said
    assert "±" not in said, "one seed has no spread"
    frontline = frontline_named(str(out / "gate.gate"))
    heard = listen(open_recording(find([str(media / "P00_1.wav")])[0]), frontline)
    assert frontline.encoder.channels == 1
    assert len(heard.scores) == 24 * 25


def test_labels_become_a_segmentation_head(media: Path, marks: Path, tmp_path: Path) -> None:
    out = tmp_path / "segments"
    few = (
        "--set",
        "objective=classes",
        "--encoder",
        "energy",
        "--dev",
        "P03_1",
        "--set",
        "batch=2",
    )
    said, _ = run(marks, "--media", media, "--out", out, *few, *SMALL)
    assert "1 label to tell apart, 3 dev events" in said and "dev boundary F1 at 0.5 s" in said
    head = Segmenter.load(out / "segments.pt")
    assert (head.classes, head.encoder) == (("knock",), "energy")


def test_what_a_segmentation_head_does_not_use_is_refused() -> None:
    with pytest.raises(ValueError, match=r"^the objective `classes` does not use cooling: leave"):
        TrainingPlan.of("marks.csv", media="m", objective="classes", cooling=0.2)
    TrainingPlan.of("marks.csv", media="m", objective="classes", cooling=None)
    TrainingPlan.of("marks.csv", media="m", cooling=0.2)


def test_the_paper_s_recipe_with_development_recordings_named(
    media: Path, marks: Path, tmp_path: Path
) -> None:
    out = tmp_path / "paper"
    few = ("--recipe", "paper", "--encoder", "log-mel", *settings("steps=4 batch=2 crop=8"))
    named = ("--recordings", "P00_1,P01_1,P02_1", "--dev", "P02_1")
    rates = settings("learning_rate=1e-3 tau=2,4 dropout=0.1 threads=1")
    run(marks, "--media", media, "--out", out, *few, *named, *rates)
    kept = json.loads((out / "run.json").read_text())
    assert kept["held_out"] == ["P02_1"] and kept["recordings"] == 3
    used = kept["settings"]
    assert (used["objective"], used["width"], used["batch"]) == ("span", 192, 2)
    assert (used["learning_rate"], used["dropout"], used["crop"]) == (1e-3, 0.1, 8)
    assert set(kept["taus"]) == {"2", "4"}
    with pytest.raises(AnnotationError, match="P09_1"):
        run(marks, "--media", media, "--out", out, *few, "--dev", "P09_1")


def test_what_does_not_fit_is_named(media: Path, marks: Path, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="no objective 'vibes'"):
        run(marks, "--media", media, "--set", "objective=vibes")
    extra = tmp_path / "extra.csv"
    extra.write_text(marks.read_text() + "P09_1,1,2,knock\n")
    with pytest.raises(AnnotationError, match="no media for P09_1"):
        run(extra, "--media", media, "--out", tmp_path / "x", *SMALL)
    backwards = tmp_path / "backwards.csv"
    backwards.write_text(marks.read_text() + "P00_1,8,2,knock\n")
    with pytest.raises(AnnotationError, match="before it starts"):
        run(backwards, "--media", media, "--out", tmp_path / "x", *SMALL)
    outside = tmp_path / "outside.csv"
    outside.write_text(marks.read_text() + "P00_1,80,82,knock\n")
    with pytest.raises(AnnotationError, match="lies outside the recording"):
        run(outside, "--media", media, "--out", tmp_path / "x", *SMALL)
