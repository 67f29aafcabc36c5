"""Whole evaluations, from files to a folder: by events, and by listening to made scenes."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from earmark.errors import AnnotationError, RunError
from earmark.gate.gate import default_gate
from earmark_lab import evaluate
from earmark_lab.annotations.actions import find_media
from earmark_lab.demo import make_scene
from earmark_lab.experiments.coverage_evaluation import EvaluationPlan
from earmark_lab.experiments.score_sources import sound_fingerprint
from made_kitchen import kitchen, write_csv, write_durations

CHOICES = {"rules": ("uniform", "rank", "separated", "coverage"), "budgets": (0.1, 0.25)}


@pytest.fixture
def asked(tmp_path: Path) -> EvaluationPlan:
    actions, events = kitchen(6)
    return EvaluationPlan(
        spans=(write_csv(tmp_path / "spans.csv", actions),),
        sound_events=(write_csv(tmp_path / "events.csv", events),),
        durations=write_durations(tmp_path / "lengths.csv", actions),
    )


def test_events_stand_in_for_the_ear(asked: EvaluationPlan, tmp_path: Path):
    plan = replace(asked, recordings=("K01", "K03"), development=("K00", "K02", "K04", "K05"))
    found = evaluate(plan, **CHOICES, out=tmp_path / "out")
    assert {row.recording for row in found.rows} == {"K01", "K03"}
    assert {path.name for path in (tmp_path / "out").iterdir()} == {
        "index.html",
        "per_recording.csv",
        "plane.png",
        "run.json",
        "tables",
        "tables.json",
        "tables.md",
    }
    assert found.to_csv() == (tmp_path / "out" / "per_recording.csv").read_text()
    titles = [table.title for table in found.report.tables[-2:]]
    assert [title.rsplit(" ", 1)[1] for title in titles] == ["time", "calls"]
    assert "fitted on the 4 other annotated recordings" in found.report.notes[0]


def test_another_plan_needs_another_folder(asked: EvaluationPlan, tmp_path: Path):
    first = evaluate(asked, **CHOICES, out=tmp_path / "out")
    again = evaluate(asked, **CHOICES, out=tmp_path / "out")
    assert [row.covered for row in again.rows] == [row.covered for row in first.rows]
    other = replace(asked, window=2.0)
    with pytest.raises(RunError, match="holds a run with another window"):
        evaluate(other, **CHOICES, out=tmp_path / "out")
    evaluate(other, **CHOICES, out=tmp_path / "other")


def test_a_plan_may_be_written_in_plain_values(asked: EvaluationPlan):
    found = evaluate(
        str(asked.spans[0]),
        sound_events=str(asked.sound_events[0]),
        durations=str(asked.durations),
        rules=["rank"],
        budgets=[0.5],
    )
    assert (found.plan.spans, found.plan.rules) == (asked.spans, ("rank",))
    assert repr(found) == "<EvaluationResult: 6 rows on 6 recordings>"
    assert found.to_json()["settings"]["budgets"] == (0.5,)


def test_marks_that_lie_in_the_folder_of_results_stay(asked: EvaluationPlan, tmp_path: Path):
    before = asked.spans[0].read_bytes()
    evaluate(asked, **CHOICES, out=tmp_path)  # where spans.csv, events.csv and lengths.csv are
    assert asked.spans[0].read_bytes() == before
    assert asked.sound_events[0].exists()


def test_a_recording_without_events_is_refused_unless_allowed(
    asked: EvaluationPlan, tmp_path: Path
):
    _, events = kitchen(6)
    quiet = replace(asked, sound_events=(write_csv(tmp_path / "e.csv", events.without(["K02"])),))
    with pytest.raises(AnnotationError, match=r"no events for K02: pass --allow-missing"):
        evaluate(quiet, **CHOICES)
    allowed = evaluate(replace(quiet, allow_missing=True), **CHOICES)
    assert len({row.recording for row in allowed.rows}) == 6
    assert "1 recording without events, so heard as silent: K02" in allowed.report.notes


def test_events_of_recordings_nobody_annotated_are_named(asked: EvaluationPlan, tmp_path: Path):
    actions, _ = kitchen(6)
    few = replace(asked, spans=(write_csv(tmp_path / "s.csv", actions.without(["K05"])),))
    found = evaluate(few, **CHOICES)
    assert "1 recording with events and no annotations, not used: K05" in found.report.notes


def test_one_recording_and_no_action_are_dashes(scenes: Path, tmp_path: Path):
    (tmp_path / "spans.txt").write_text("")
    (tmp_path / "S0.txt").write_text("4\t4\tpoint\n")  # a label without length
    plan = EvaluationPlan(
        spans=(tmp_path / "S0.txt",), media=(str(scenes / "S0.mp4"),), frontlines=("energy",)
    )
    told = evaluate(plan, **CHOICES, out=tmp_path / "out").report
    assert "| 25 % | — | — | — | — |" in told.tables[0].to_markdown()
    assert "| 25 % | uniform | — | — | — | 0/0/0 | — |" in told.tables[1].to_markdown()
    assert "1 recording without action, so without coverage: S0" in told.notes


def test_all_ties_are_said_to_be_ties(tmp_path: Path):
    marks = "recording,start,end\n" + "".join(f"R{n},0,100\n" for n in range(4))
    (tmp_path / "s.csv").write_text(marks)
    (tmp_path / "e.csv").write_text(marks)
    asked = EvaluationPlan(spans=(tmp_path / "s.csv",), sound_events=(tmp_path / "e.csv",))
    told = evaluate(asked, **CHOICES).report
    assert "| 25 % | rank | +0.0 | +0.0 | +0.0 to +0.0 | 0/0/4 | 1.000 |" in (
        told.tables[1].to_markdown()
    )


def test_something_must_be_heard(asked: EvaluationPlan):
    with pytest.raises(
        ValueError, match="needs --media to listen to or --sound-events, and not both"
    ):
        evaluate(replace(asked, sound_events=()), **CHOICES)


@pytest.fixture(scope="module")
def scenes(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Three made recordings of 70 s with pictures, and their actions."""
    folder = tmp_path_factory.mktemp("scenes")
    lines = ["recording,start,end,label"]
    for seed in range(3):
        scene = make_scene(folder / f"S{seed}.mp4", seed=seed, duration=70.0, size=(96, 72), fps=5)
        lines += [f"S{seed},{a.start},{a.end},{a.label}" for a in scene.actions]
    (folder / "spans.csv").write_text("\n".join(lines))
    return folder


def test_made_scenes_are_heard_and_judged(scenes: Path, tmp_path: Path):
    plan = EvaluationPlan(
        spans=(scenes / "spans.csv",),
        media=(str(scenes),),
        frontlines=("energy", "flux"),
        recordings=("S0", "S1"),
        development=("S2",),
        cache=tmp_path / "cache",
    )
    found = evaluate(plan, **CHOICES, out=tmp_path / "out")
    assert {(row.frontline, row.recording) for row in found.rows} == {
        (line, name) for line in ("energy", "flux") for name in ("S0", "S1")
    }
    assert {row.rule for row in found.rows if row.frontline == "flux"} == {
        "rank",
        "separated:delta=2",
        "coverage",
    }
    assert found.report.tables[0].columns[1:3] == ("uniform", "energy / rank")
    assert all(row.windows == 18 for row in found.rows)  # 70 s in windows of 4 s
    points = found.report.tables[-3]
    assert [row[0] for row in points.rows] == ["energy"] * 6 + ["flux"] * 6
    assert points.note == "Chosen on 1 other recording, unchanged on these."
    assert any("listening with energy, flux" in note for note in found.report.notes)


def test_what_is_expected_is_judged_too(scenes: Path, tmp_path: Path):
    choices = {"subject": "coverage", "baseline": "uniform"}
    found = evaluate(
        scenes / "spans.csv",
        media=scenes,
        rules=("coverage", "uniform"),
        budgets=(0.25, 1.0),
        **choices,
        out=tmp_path,
    )
    counted = {(row.rule, row.budget): row.calls for row in found.rows}
    assert counted == {(rule, b): 18 if b == 1 else 4 for rule, b in counted}
    assert {rule for rule, _ in counted} == {"coverage", "uniform"}
    assert all(row.covered == row.actions for row in found.rows if row.budget == 1)
    tables = {table.title: table for table in found.report.tables}
    assert tables["Coverage by budget and rule"].columns == ("calls", "coverage", "uniform")
    (row,) = tables["Actions expected against marked"].rows
    assert row[:2] == ("auto", 3) and row[3] == sum(r.actions for r in found.rows) / 4
    assert 0 <= row[-1] <= 100 and 0 <= tables["Forecast against outcome"].rows[0][-1] <= 100


def test_media_and_annotations_must_meet(scenes: Path, tmp_path: Path):
    text = (scenes / "spans.csv").read_text().replace("S2,", "S9,")
    (tmp_path / "spans.csv").write_text(text)
    plan = EvaluationPlan(
        spans=(tmp_path / "spans.csv",), media=(str(scenes),), frontlines=("energy",)
    )
    with pytest.raises(AnnotationError, match=r"no media for S9; no annotations for S2: pass"):
        evaluate(plan, **CHOICES)
    some = evaluate(replace(plan, allow_missing=True), **CHOICES)
    assert {row.recording for row in some.rows} == {"S0", "S1"}
    assert "1 recording annotated but without media, left out: S9" in some.report.notes
    assert "1 recording not annotated, left out: S2" in some.report.notes


def test_media_that_cannot_be_read_are_named_and_left_out_if_allowed(scenes: Path, tmp_path: Path):
    folder = tmp_path / "media"
    folder.mkdir()
    for name in ("S0", "S1"):
        (folder / f"{name}.mp4").write_bytes((scenes / f"{name}.mp4").read_bytes())
    (folder / "S2.mp4").write_bytes(b"no film")
    plan = EvaluationPlan(
        spans=(scenes / "spans.csv",), media=(str(folder),), frontlines=("energy",)
    )
    with pytest.raises(AnnotationError, match=r"S2.mp4 .*: pass --allow-missing to evaluate the"):
        evaluate(plan, **CHOICES)
    some = evaluate(replace(plan, allow_missing=True), **CHOICES)
    assert {row.recording for row in some.rows} == {"S0", "S1"}
    assert any("1 recording whose media cannot be read" in note for note in some.report.notes)


def test_other_sound_under_the_same_name_is_another_run(scenes: Path, tmp_path: Path):
    folder = tmp_path / "media"
    folder.mkdir()
    (folder / "S0.mp4").write_bytes((scenes / "S0.mp4").read_bytes())
    spans = [line for line in (scenes / "spans.csv").read_text().splitlines() if "S0" in line]
    (tmp_path / "spans.csv").write_text("\n".join(["recording,start,end,label", *spans]))
    plan = EvaluationPlan(
        spans=(tmp_path / "spans.csv",), media=(str(folder),), frontlines=("energy",)
    )
    evaluate(plan, **CHOICES, out=tmp_path / "out")
    (folder / "S0.mp4").write_bytes((scenes / "S1.mp4").read_bytes())
    with pytest.raises(RunError, match="holds a run with another sound"):
        evaluate(plan, **CHOICES, out=tmp_path / "out")


def test_a_gate_with_other_rates_is_another_run(tmp_path: Path):
    """Its scores are the same, and what the rule `coverage` makes of them is not."""
    gate, told = default_gate(), set()
    for more in (0.0, 0.5):
        fits = tuple(replace(fit, intercept=fit.intercept + more) for fit in gate.rates.fits)
        replace(gate, rates=replace(gate.rates, fits=fits)).save(tmp_path / "own.gate")
        told.add(sound_fingerprint({}, [str(tmp_path / "own.gate")]))
    assert len(told) == 2


def test_recordings_to_choose_on_must_be_there(scenes: Path):
    plan = EvaluationPlan(spans=(scenes / "spans.csv",), media=(str(scenes),), recordings=("S0",))
    with pytest.raises(AnnotationError, match="--dev names S8: no media, or no annotations"):
        evaluate(replace(plan, development=("S1", "S8")), **CHOICES)
    with pytest.raises(AnnotationError, match="S0 is both evaluated and chosen on"):
        evaluate(replace(plan, development=("S0", "S1")), **CHOICES)


def test_two_files_of_a_name_that_is_not_annotated_are_left_out(scenes: Path, tmp_path: Path):
    for name in ("x", "y"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "stray.mp4").write_bytes(b"")
    plan = EvaluationPlan(
        spans=(scenes / "spans.csv",), media=(str(scenes), str(tmp_path)), allow_missing=True
    )
    told = evaluate(plan, **CHOICES)
    assert "1 recording not annotated, left out: stray" in told.report.notes


def test_two_files_of_one_name_cannot_be_told_apart(tmp_path: Path):
    for folder in ("x", "y"):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "a.wav").write_bytes(b"")
    with pytest.raises(AnnotationError, match="two media files are called a"):
        find_media([tmp_path])
    with pytest.raises(AnnotationError, match="two media files are called a"):
        find_media([tmp_path], wanted=["a"])
    assert list(find_media([tmp_path], wanted=["b"])) == ["a"]
    with pytest.raises(AnnotationError, match=r"there are no media at .*nowhere"):
        find_media([tmp_path / "nowhere"])


def test_a_folder_without_media_has_none_and_a_dead_link_is_none(tmp_path: Path):
    with pytest.raises(AnnotationError, match="there are no media at"):
        find_media([tmp_path])
    (tmp_path / "a.wav").write_bytes(b"")
    (tmp_path / "b.wav").symlink_to("gone.wav")
    assert list(find_media([tmp_path])) == ["a"]
