"""A gate that learns a site from made runs, and is held to answers it has not learnt from."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from earmark import Track
from earmark.cli.app import app
from earmark.errors import RunError
from earmark.gate.gate import Gate, default_gate
from earmark.gate.listener import INSTEAD
from earmark.gate.survival import Survival
from earmark.grid import Grid, Windows
from earmark.run.corrections import Correction, correct
from earmark.run.records import RecordingRow
from earmark.run.run import Run
from earmark.selection.audit_sample import chance_of_activity
from earmark.timeline import FloatArray
from earmark_lab.training.answered_windows import (
    BY_PEOPLE,
    AnswerPairs,
    RateScale,
    TeachingMaterial,
    read_answers,
)
from earmark_lab.training.site_adaptation import adapt, learn
from making import make_video
from small_runs import PLAN, CallRow, answer

Says = Callable[[FloatArray, np.random.Generator], list[str]]


def heard(seed: int, *, windows: int = 60) -> Windows:
    """A recording of the default gate's, in bouts that score high and low."""
    rng = np.random.default_rng(seed)
    level = np.repeat(rng.choice([0.01, 0.1, 0.4], windows // 5), 125 * 4)
    scores = Track(level * rng.uniform(0.5, 1.5, len(level)))
    gate = default_gate()
    return Grid().score(scores, windows * 4.0, rates=gate.rates, lengths=gate.lengths.usual)


def make_run(
    folder: Path, says: Says, *, recordings: int = 6, every: int = 2, length: int = 60
) -> Path:
    """A run in which every second window has an answer; `says` gives the activities."""
    key = Grid().key(default_gate().frontline())
    with Run(folder, PLAN) as ledger:
        for number in range(recordings):
            name, windows = f"r{number}", heard(number, windows=length)
            rng = np.random.default_rng(1000 + number)
            ledger.add(RecordingRow(name, f"{name}.mp4", windows.duration, 1_000_000))
            ledger.hear(name, windows, key=key)
            said = says(chance_of_activity(windows), rng)
            for place in range(0, len(windows), every):
                asked = CallRow(f"{name}/{place}", name, windows.span(place), "m1")
                ledger.unanswered([asked])
                ledger.begin(asked)
                ledger.keep(asked, answered(said[place]))
    return folder


def answered(activity: str):
    data = {"caption": "seen", "activity": activity, "active": bool(activity)}
    return answer(json.dumps(data), data=data)


def rarer(chances: FloatArray, rng: np.random.Generator) -> list[str]:
    """A site where a fifth of what the gate expects goes on."""
    return [
        f"work {place}" if luck < chance / 5 else ""
        for place, (luck, chance) in enumerate(zip(rng.random(len(chances)), chances, strict=True))
    ]


def as_expected(chances: FloatArray, rng: np.random.Generator) -> list[str]:
    """A site that is what the gate says it is: nothing can be learnt."""
    return [
        f"work {place}" if luck < chance else ""
        for place, (luck, chance) in enumerate(zip(rng.random(len(chances)), chances, strict=True))
    ]


@pytest.fixture(scope="module")
def rare_run(tmp_path_factory) -> Path:
    return make_run(tmp_path_factory.mktemp("rare"), rarer)


@pytest.fixture(scope="module")
def usual_run(tmp_path_factory) -> Path:
    return make_run(tmp_path_factory.mktemp("usual"), as_expected)


def test_answers_of_a_calmer_site_lower_the_rates(rare_run, tmp_path):
    made = adapt([rare_run], out=tmp_path / "site.gate")
    assert (made.answers, made.corrections, made.recordings) == (180, 0, 6)
    assert made.gain.low > 0
    assert made.gain.mean > 0.05
    assert made.active < made.expected / 3
    written = Gate.load(tmp_path / "site.gate")
    scores = Track(np.random.default_rng(99).uniform(0.05, 0.4, 25 * 400))
    old, new = (
        Grid().score(scores, 400.0, rates=gate.rates, lengths=gate.lengths.usual)
        for gate in (default_gate(), written)
    )
    assert new.rates.sum() < old.rates.sum() / 2
    assert written.scorer == default_gate().scorer


def test_the_card_says_what_was_learnt_from_and_no_path(rare_run, tmp_path):
    adapt([rare_run], out=tmp_path / "site.gate")
    card = Gate.load(tmp_path / "site.gate").card
    assert card.data.startswith(default_gate().card.data)
    assert "180 answers and 0 corrections in 6 recordings" in card.data
    (learnt,) = card.settings["adapted"]
    assert (learnt["answers"], learnt["recordings"]) == (180, 6)
    assert "/" not in json.dumps(learnt)
    assert card.licence == default_gate().card.licence


def test_forecasts_of_a_new_gate_say_that_they_were_not_measured(rare_run, tmp_path):
    video, site = tmp_path / "shift.mp4", tmp_path / "site.gate"
    adapt([rare_run], out=site)
    make_video(video, duration=60.0, clicks=[9.0, 25.0, 41.3], fps=5, group=20)
    words = ["select", str(video), "-f", str(site), "-b", "20%", "--no-cache"]
    told = " ".join(CliRunner().invoke(app, words).output.split())
    assert told.count("its uncertainty was not measured") == 2, "coverage, and actions"
    assert "too few recordings" not in told


def test_where_the_gate_is_right_nothing_is_written(usual_run, tmp_path):
    made = adapt([usual_run], out=tmp_path / "site.gate")
    assert made.gate is None
    assert not (tmp_path / "site.gate").exists()


def test_a_single_recording_is_judged_on_stretches_of_it(tmp_path):
    run = make_run(tmp_path / "run", rarer, recordings=1, every=1, length=200)
    assert adapt([run]).gate is not None


def test_the_scaled_regression_gives_the_scaled_rates():
    scale, gate = RateScale(-0.7, 0.6), default_gate()
    again = Grid().pool(Track(np.random.default_rng(0).uniform(0, 0.4, 6000)), 240.0)[0]
    wanted = 4.0 * np.exp(-0.7 + 0.6 * np.log(gate.rates(again) / 4.0))
    assert scale.applied(gate.rates)(again) == pytest.approx(wanted)


def test_too_few_answers_are_one_clear_line(tmp_path):
    run = make_run(tmp_path / "run", rarer, recordings=1, every=10)
    with pytest.raises(RunError, match=r"6 windows have an answer .* takes 20"):
        adapt([run])


def test_runs_of_another_frontline_are_left_out_and_said(rare_run, tmp_path):
    other = replace(default_gate(), rates=RateScale(0.5).applied(default_gate().rates))
    with pytest.raises(RunError, match="none of the 6 recordings was listened to with this"):
        adapt([rare_run], gate=other)


def test_a_silent_recording_that_was_looked_at_instead_teaches_nothing(tmp_path):
    run = make_run(tmp_path / "run", rarer, recordings=2)
    key = Grid().key(default_gate().frontline())
    with Run(run, PLAN) as ledger:
        ledger.hear("r1", heard(1), key=key, warnings=(INSTEAD,))
    found = read_answers([run], default_gate())
    assert [one.recording for one in found.recordings] == ["r0"]
    assert found.unlike == 1


def test_rates_at_the_highest_there_is_cannot_be_scaled(rare_run):
    (first, *_) = read_answers([rare_run], default_gate()).recordings
    high = replace(first.windows, rates=np.full(len(first.windows), 4.0))
    with pytest.raises(RunError, match="of 100% of these windows"):
        learn(TeachingMaterial((replace(first, windows=high),)), default_gate())


def test_what_people_say_replaces_what_a_model_said_and_counts_more(tmp_path):
    run = make_run(tmp_path / "run", lambda chances, _: ["chop"] * len(chances), recordings=1)
    span = heard(0).span
    for place, verdict, words in (
        (0, "right", ""),
        (2, "wrong", ""),
        (4, "reworded", "wash a pan"),
        (6, "reworded", "nothing is being done"),
        (7, "missed", "pour tea"),
    ):
        correct(run, Correction("r0", span(place), verdict, "ann", words))
    (recording,) = read_answers([run], default_gate()).recordings
    known = {one.window: one for one in recording.answers}
    assert [known[place].activity for place in (0, 2, 4, 6, 7, 8)] == [
        "chop", "", "wash a pan", "", "pour tea", "chop",
    ]  # fmt: skip
    assert [known[place].is_active for place in (0, 2, 6, 7)] == [True, False, False, True]
    assert {known[place].weight for place in (0, 2, 4, 6, 7)} == {BY_PEOPLE}
    assert known[8].weight == 1
    assert (adapt([run]).answers, adapt([run]).corrections) == (26, 5)


def test_a_caption_without_fields_is_read_and_a_schema_of_ones_own_says_nothing(tmp_path):
    run = make_run(tmp_path / "run", rarer, recordings=1, every=60)
    with Run(run, PLAN) as ledger:
        for place, told in (
            (1, answer("Nothing is happening.")),
            (2, answer("A hand chops onions.")),
            (3, answer('{"tool": "saw"}', data={"tool": "saw"})),
        ):
            asked = CallRow(f"plain/{place}", "r0", heard(0).span(place), "m1")
            ledger.unanswered([asked])
            ledger.begin(asked)
            ledger.keep(asked, told)
    (recording,) = read_answers([run], default_gate()).recordings
    known = {one.window: one.is_active for one in recording.answers}
    assert (known[1], known[2], 3 in known) == (False, True, False)


def test_long_runs_of_agreeing_answers_lengthen_actions(tmp_path):
    def steps(chances: FloatArray, rng: np.random.Generator) -> list[str]:
        words = ("saw", "drill", "paint", "sweep", "carry", "measure")
        return [words[place // 10 % len(words)] for place in range(len(chances))]

    run = make_run(tmp_path / "run", steps)
    base = default_gate()
    recordings = list(read_answers([run], base).recordings)
    assert AnswerPairs.of(recordings).fit(base.lengths.curve).median > 4 * base.lengths.usual.median
    assert adapt([run]).median > 4 * base.lengths.usual.median


def test_what_is_done_again_and_again_is_no_long_action(tmp_path):
    """A cook who washes, puts away and washes: names agree far apart, and no action lasts."""

    def turns(chances: FloatArray, rng: np.random.Generator) -> list[str]:
        return [("wash", "put away", "wipe")[each] for each in rng.integers(0, 3, len(chances))]

    run = make_run(tmp_path / "run", turns)
    base = default_gate()
    recordings = list(read_answers([run], base).recordings)
    fitted = AnswerPairs.of(recordings).fit(base.lengths.curve)
    assert fitted.median < 1.5 * base.lengths.usual.median
    assert adapt([run]).median == pytest.approx(base.lengths.usual.median, rel=1e-3)


def test_what_is_under_way_lasts_longer_than_what_begins():
    lasts = Survival.from_lengths([2.0, 2.0, 6.0])
    assert lasts.remaining(np.array([0.0, 2.0, 4.0, 9.0])) == pytest.approx(
        [1.0, 0.4, 0.2, 0.0], abs=1e-5
    )


def test_the_command_writes_a_gate_that_expects_fewer_actions(rare_run, tmp_path):
    video, site = tmp_path / "shift.mp4", tmp_path / "site.gate"
    make_video(video, duration=60.0, clicks=[9.0, 25.0, 41.3], fps=5, group=20)
    told = CliRunner().invoke(app, ["lab", "adapt", str(rare_run), "--out", str(site)])
    assert told.exit_code == 0, told.output
    assert "180 answers and 0 corrections in 6 recordings" in told.output
    assert "better by" in told.output
    needs = "no head was tried: that takes 20 active and 20 idle windows in 3 recordings that are"
    assert needs in " ".join(told.output.split()), "these recordings are made up"
    lines = told.stderr.splitlines()
    assert lines == ["reading answers", "listening again: 0 of 6"], "where no bar is drawn, too"
    card = Gate.load(site).card
    assert card.data.endswith("by 180 answers and 0 corrections in 6 recordings")
    found = []
    for frontline in ("gate", str(site)):
        words = [
            "select",
            str(video),
            "-f",
            frontline,
            "-b",
            "100%",
            "--no-cache",
            "--format",
            "json",
        ]
        result = CliRunner().invoke(app, words)
        assert result.exit_code == 0, result.output
        picks = json.loads(result.stdout)["recordings"][0]["picks"]
        found.append(sum(pick["expected"] for pick in picks))
    assert found[1] < 0.7 * found[0]


def test_the_command_says_so_when_it_is_no_better(usual_run, tmp_path):
    run = usual_run
    told = CliRunner().invoke(app, ["lab", "adapt", str(run), "--out", str(tmp_path / "site.gate")])
    assert told.exit_code == 0, told.output
    assert "nothing written" in told.output
    assert not (tmp_path / "site.gate").exists()
    plain = CliRunner().invoke(
        app, ["lab", "adapt", str(run), "--out", str(tmp_path / "site.gate"), "--format", "json"]
    )
    assert json.loads(plain.stdout)["written"] is None


def test_a_gate_file_has_its_ending(rare_run):
    result = CliRunner().invoke(app, ["lab", "adapt", str(rare_run), "--out", "site.onnx"])
    assert result.exit_code != 0
    assert "site.gate" in str(result.exception) + result.output
