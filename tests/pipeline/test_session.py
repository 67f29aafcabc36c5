"""A session makes the objects that the settings name."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import earmark
from earmark import InvalidSetting, Settings
from earmark.gate.gate import default_gate
from earmark.gate.survival import Survival
from earmark.media import Source
from earmark.pipeline.session import open_session
from earmark.selection.rules.ranking import MinimumSeparation
from making import make_video


@pytest.mark.parametrize(
    "choices",
    [
        {},
        {"budget": "price=0.4", "across": True, "frontline": "flux", "window": 2.0},
        {"rule": "separated", "budget": "120", "audio_track": 1},
        {"rule": "strata"},
        {"action_length": 12.5},
        {"model": "http://127.0.0.1:1/v1#m", "frames": 4, "max_calls": 9},
        {"engine": "ray", "model": "replay:said.jsonl"},
        {"shard": "2/3", "cache": "kept"},
    ],
    ids=lambda choices: " ".join(choices) or "defaults",
)
def test_settings_sent_to_another_process_open_the_same_session(choices):
    session = open_session(["a.mp4"], **choices)
    sent = json.dumps(session.settings.model_dump(), default=str)
    again = open_session(["a.mp4"], Settings.model_validate(json.loads(sent)))
    assert again.settings == session.settings
    assert again.run_json("m") == session.run_json("m")
    assert again.listening == session.listening and again.rule == session.rule


def test_a_gate_file_is_found_from_another_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    default_gate().save(tmp_path / "site.gate")
    monkeypatch.chdir(tmp_path)
    session = open_session(frontline="site.gate")
    assert session.selection_json()["frontline"] == "site.gate"
    monkeypatch.chdir("/")
    assert open_session((), session.settings).listening == session.listening


@pytest.mark.parametrize("one", ["a.mp4", Path("a.mp4"), Source(("a.mp4",))])
def test_one_path_is_taken_as_it_is_and_not_letter_by_letter(one):
    assert open_session(one).paths == (one,)
    assert [source.path for source in open_session(one).sources()] == ["a.mp4"]


@pytest.mark.parametrize("odd", [5, b"a.mp4", ["a.mp4", None]])
def test_what_is_no_path_is_refused(odd):
    with pytest.raises(ValueError, match="is not a path"):
        open_session(odd)


@pytest.mark.parametrize(
    ("choice", "name"),
    [
        ({"rule": "magic"}, "rule"),
        ({"frontline": "crystal"}, "frontline"),
        ({"budget": "lots"}, "budget"),
        ({"rounds": "2.5"}, "rounds"),
        ({"shard": "3"}, "shard"),
        ({"shard": "1/2", "across": True, "budget": "10"}, "shard"),
        ({"prompt": "Who is $wearer?"}, "prompt"),
        ({"action_length": 0.0}, "action_length"),
    ],
)
def test_an_error_carries_the_name_of_the_setting(choice, name):
    with pytest.raises(InvalidSetting, match=f"^{name}: ") as caught:
        open_session("a.mp4", **choice)
    assert caught.value.name == name


def test_numbers_of_numpy_are_taken():
    session = open_session("a.mp4", frames=np.int64(2), window=np.float32(4.0))
    assert session.question.frames == 2 and session.listening.grid.length == 4.0
    plain = json.loads(json.dumps(session.run_json("m")))
    assert plain == open_session(frames=2, window=4.0).run_json("m")


def test_objects_take_the_place_of_names():
    curve, rule = Survival.from_lengths([2.0, 3.0, 40.0]), MinimumSeparation(5)
    session = open_session(rule=rule, action_length=curve, frontline="flux")
    assert session.rule == rule and session.listening.lengths == curve
    assert session.settings.rule == "separated:delta=5"
    again = open_session((), session, budget="10%")
    assert again.rule == rule and again.listening.lengths == curve
    assert open_session((), session, rule="rank").settings.rule == "rank"


def test_the_paper_s_rule_has_its_delta_as_an_option():
    """2 as in the paper, a number, or on request the one that was fitted to a gate."""
    line = replace(default_gate(), separation=4).frontline()

    def opened(rule, frontline=line):
        session = open_session(rule=rule, frontline=frontline)
        assert session.selection_json()["rule"].partition(":")[0] == "separated"
        return session.rule

    assert opened("separated") == MinimumSeparation(2)
    assert opened("separated:delta=3") == MinimumSeparation(3)
    assert opened("separated:delta=gate") == MinimumSeparation(4)
    assert opened(MinimumSeparation(3)) == MinimumSeparation(3)
    named = open_session(rule="separated:delta=gate", frontline=line).selection_json()
    assert named["rule"] == "separated:delta=4"
    with pytest.raises(InvalidSetting, match="only a trained gate has a separation of its own"):
        opened("separated:delta=gate", "flux")
    with pytest.raises(InvalidSetting, match="a separation is 1 window or more, not 0"):
        opened("separated:delta=0")
    with pytest.raises(InvalidSetting, match="delta should be a valid integer, not 'near'"):
        opened("separated:delta=near")
    with pytest.raises(InvalidSetting, match="rank has no option 'delta'; it has none"):
        opened("rank:delta=2")


def test_a_session_is_changed_and_the_rest_stays():
    first = open_session(["a.mp4"], budget="10%", frames=4, concurrency=3)
    second = open_session((), first, budget="20%", tokens=99)
    assert (str(second.budget), second.question.frames, second.question.tokens) == ("20%", 4, 99)
    assert (second.settings.limits.concurrency, second.paths) == (3, ("a.mp4",))
    assert str(first.budget) == "10%"


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


def test_a_length_given_once_holds_for_another_frontline():
    first = open_session(frontline="energy", action_length=9.0)
    second = open_session((), first, frontline="flux")
    assert second.listening.lengths.median == pytest.approx(9.0)
    assert open_session((), first, action_length=None).listening.lengths is None


@pytest.mark.parametrize("verb", [earmark.plan, earmark.preview, earmark.caption])
def test_without_a_recording_nothing_is_begun(verb, tmp_path):
    folder = {} if verb is earmark.plan else {"run": tmp_path / "run"}
    with pytest.raises(ValueError, match="no recording was given"):
        verb([], **folder)
    assert not list(tmp_path.iterdir())
