"""A plan is one object that can be written down and made again."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import earmark
from earmark.captioning.captioner import TagsCaptioner
from earmark.gate.gate import default_gate
from earmark.gate.survival import Survival
from earmark.media import Source
from earmark.pipeline.run_plan import Plan, make_plan
from earmark.selection.rule_registry import RULES
from earmark.selection.rules.separated import MinimumSeparation
from making import make_video


@pytest.mark.parametrize(
    "choices",
    [
        {},
        {"budget": "price=0.4", "across": True, "frontline": "flux", "window": 2.0},
        {"rule": "separated", "budget": "120", "audio_track": 1},
        {"rule": "strata"},
        {"budget": "25%", "rounding": "floor"},
        {"action_length": 12.5},
        {"action_length": Survival.from_lengths([2.0, 3.0, 40.0])},
        {"server": "http://127.0.0.1:1/v1", "model": "m", "frames": 4, "max_calls": 9},
        {"engine": "batch", "batch": Path("requests.jsonl"), "replay": Path("said.jsonl")},
        {"shard": "2/3", "cache": "kept"},
    ],
    ids=lambda choices: " ".join(choices) or "defaults",
)
def test_a_plan_written_down_and_read_is_the_same(choices):
    plan = make_plan(["a.mp4", Source(("b.mp4", "c.mp4"), id="cam", weight=2.0)], **choices)
    plain = json.loads(json.dumps(plan.to_json()))
    again = Plan.from_json(plain)
    assert json.loads(json.dumps(again.to_json())) == plain
    assert again.selection_json() == plan.selection_json()
    assert again == plan


def test_a_gate_file_is_found_from_a_plan_that_is_read_in_another_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    default_gate().save(tmp_path / "site.gate")
    monkeypatch.chdir(tmp_path)
    plan = make_plan(frontline="site.gate")
    assert plan.selection_json()["frontline"] == "site.gate"
    monkeypatch.chdir("/")
    assert Plan.from_json(plan.to_json()) == plan


@pytest.mark.parametrize("one", ["a.mp4", Path("a.mp4"), Source(("a.mp4",))])
def test_one_path_is_taken_as_it_is_and_not_letter_by_letter(one):
    assert make_plan(one).paths == (one,)
    assert [source.path for source in make_plan(one).sources()] == ["a.mp4"]


@pytest.mark.parametrize("odd", [5, b"a.mp4", ["a.mp4", None]])
def test_what_is_no_path_is_refused(odd):
    with pytest.raises(ValueError, match="is no path"):
        make_plan(odd)


@pytest.mark.parametrize(
    ("choice", "taken"),
    [
        ({"frames": "2"}, "frames takes a whole number, not '2'"),
        ({"audio_track": 1.5}, "audio_track takes a whole number, not 1.5"),
        ({"window": "4"}, "window takes a number, not '4'"),
        ({"workers": "2"}, "workers takes a whole number or None, not '2'"),
        ({"max_spend": "5 EUR"}, "max_spend takes a number or None, not '5 EUR'"),
        ({"voices": "no"}, "voices takes True or False, not 'no'"),
        ({"sounds": "no"}, "sounds takes True or False or None, not 'no'"),
        ({"frontline": None}, "frontline takes the name of a frontline, not None"),
        ({"rule": 3}, "rule takes the name of a rule, not 3"),
        ({"server": b"http://u:secret@a"}, "server takes text or None, not b'http://a"),
        ({"gguf": 3}, "gguf takes a path or None, not 3"),
        ({"store": "models"}, r"store takes a ModelStore of earmark\.models\S*, not 'models'"),
        (
            {"prompt": "what?"},
            r"prompt takes a Prompt of earmark\.captioning\.prompt, not 'what\?'",
        ),
        (
            {"question": "what?"},
            r"question takes a Question of earmark\.captioning\.question, not 'what\?'",
        ),
        ({"plan": "20%"}, r"plan takes a Plan of earmark\.pipeline\.run_plan or None, not '20%'"),
        ({"action_length": []}, r"action_length is seconds, not '\[\]'"),
        ({"temperature": []}, r"temperature \[\] is neither a number nor `server`"),
        ({"blur": 3}, "what is blurred is faces, or none; not 3"),
        ({"rounds": 2.5}, r"'2\.5' is no number of rounds"),
        ({"shard": 3}, "'3' is not a shard: write 3/16"),
    ],
)
def test_a_choice_of_another_type_is_named_with_its_value_and_what_is_taken(choice, taken):
    with pytest.raises(ValueError, match=taken):
        make_plan("a.mp4", **choice)


def test_numbers_of_numpy_are_taken():
    made = make_plan("a.mp4", frames=np.int64(2), window=np.float32(4.0))
    assert made.question.frames == 2 and made.listening.grid.length == 4.0
    assert json.loads(json.dumps(made.run_json("m"))) == make_plan(frames=2, window=4.0).run_json(
        "m"
    )


def test_a_checkpoint_may_be_a_path_or_a_name():
    kept = [make_plan(transformers=one).to_json() for one in (Path("weights"), "weights")]
    assert kept[0] == kept[1]


def test_marks_are_no_length_of_actions():
    with pytest.raises(ValueError, match=r"not 'marks\.csv'; `read_action_length`"):
        make_plan(action_length="marks.csv")


def test_options_of_a_rule_are_kept():
    plan = make_plan(rule=RULES["separated"](separation=5))
    assert Plan.from_json(plan.to_json()).rule == plan.rule


def test_the_delta_a_gate_was_found_best_with_is_used():
    """By name the rule takes the gate's; a rule that says its own keeps it."""
    gate = replace(default_gate(), separation=4)
    line = gate.frontline()
    assert make_plan(rule="separated", frontline=line).rule == MinimumSeparation(4)
    assert make_plan(rule=MinimumSeparation(3), frontline=line).rule == MinimumSeparation(3)
    assert make_plan(rule="separated", frontline="flux").rule == MinimumSeparation(2)


def test_a_share_may_be_cut_to_whole_calls():
    assert make_plan(budget="25%", rounding="floor").budget.calls(6) == 1
    with pytest.raises(ValueError, match="rounding is round or floor, not up"):
        make_plan(rounding="up")


def test_an_object_that_cannot_be_written_down_is_refused_with_the_way_out():
    with pytest.raises(ValueError, match="choose a model by server"):
        make_plan(captioner=TagsCaptioner()).to_json()


def test_a_plan_begun_is_changed_and_the_rest_stays():
    first = make_plan(["a.mp4"], budget="10%", frames=4, concurrency=3)
    second = make_plan(plan=first, budget="20%", tokens=99)
    assert (str(second.budget), second.question.frames, second.question.tokens) == ("20%", 4, 99)
    assert (second.limits.concurrency, second.paths) == (3, ("a.mp4",))


def test_an_unknown_choice_is_named():
    with pytest.raises(ValueError, match="a plan has no 'colour'"):
        make_plan(colour="red")


def test_how_long_actions_last_is_part_of_what_is_chosen(tmp_path):
    path = make_video(tmp_path / "a.mp4", duration=60.0, clicks=[9.0, 17.0, 41.0])
    brief, usual, lasting = (
        earmark.select([path], budget="20%", frontline="energy", action_length=length)
        for length in (0.1, None, 30.0)
    )
    shares = [each.recordings[0].forecast for each in (brief, usual, lasting)]
    assert shares == sorted(shares)
    assert shares[0] < shares[1] < shares[2]
    assert "action_length" not in usual.plan
    assert brief.plan != lasting.plan
    for wrong in (0.0, -1.0, float("nan")):
        with pytest.raises(ValueError, match="actions last more than 0 seconds"):
            make_plan(action_length=wrong)


def test_a_length_told_once_holds_for_another_frontline():
    first = make_plan(frontline="energy", action_length=9.0)
    second = make_plan(plan=first, frontline="flux")
    assert second.listening.survival.median == pytest.approx(9.0)
    assert make_plan(plan=first, action_length=None).listening.survival.median < 3.0


def test_what_is_planned_is_what_caption_executes(tmp_path):
    video = make_video(tmp_path / "a.mp4", duration=24.0, clicks=[9.0, 17.0])
    plan = earmark.plan([video], budget="2", frontline="flux", coverage=0.5)
    assert plan.forecast is not None
    assert plan.forecast.goal is not None
    done = earmark.caption(plan=plan, run=tmp_path / "run")
    assert done.totals.picks == 2


@pytest.mark.parametrize("verb", [earmark.plan, earmark.preview, earmark.caption])
def test_without_a_recording_nothing_is_begun(verb, tmp_path):
    folder = {} if verb is earmark.plan else {"run": tmp_path / "run"}
    with pytest.raises(ValueError, match="no recording was given"):
        verb([], **folder)
    assert not list(tmp_path.iterdir())
