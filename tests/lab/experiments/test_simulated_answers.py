"""Answers played from annotations."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import numpy as np
import pytest

from earmark import Budget
from earmark.gate.survival import Survival
from earmark.grid import Windows
from earmark_lab.annotations.actions import Action
from earmark_lab.experiments.simulated_answers import (
    AnswerSimulator,
    simulate_rounds,
    simulate_runs,
)


def windows(count: int) -> Windows:
    rates, middles = np.full(count, 0.3), np.arange(count) * 4.0 + 2
    survival = Survival.lognormal(median=8.0, sigma=0.7)
    return Windows(4.0, count * 4.0, np.zeros(count), middles, rates, survival)


def test_a_perfect_answer_names_the_action_that_fills_most_of_the_window():
    actions = [Action(0, 5, "chop"), Action(5, 9, "wash"), Action(17, 18, "")]
    said = AnswerSimulator.parse("perfect").activities("r", actions, windows(5))
    assert said == ["chop", "wash", "wash", "", "action 2"]


def test_noise_misses_invents_and_renames_as_often_as_it_says():
    actions = [Action(place * 8.0, place * 8.0 + 4, "chop") for place in range(4000)]
    player = AnswerSimulator.parse("noisy:invented=0.1,seed=3")
    said = player.activities("r", actions, windows(8000))
    busy, idle = said[::2], said[1::2]
    assert busy.count("") / 4000 == pytest.approx(0.2, abs=0.02)
    renamed = sum(words.startswith("renamed") for words in busy)
    assert renamed / (4000 - busy.count("")) == pytest.approx(0.3, abs=0.03)
    assert sum(map(bool, idle)) / 4000 == pytest.approx(0.1, abs=0.02)
    assert max(Counter(word for word in said if word not in ("", "chop")).values()) == 1
    assert said == player.activities("r", actions, windows(8000))
    assert said != AnswerSimulator.parse("noisy:seed=4").activities("r", actions, windows(8000))


@pytest.mark.parametrize("words", ["loud", "noisy:missed=2", "noisy:x=1", "noisy:missed=a"])
def test_what_cannot_be_played_is_said_so(words):
    with pytest.raises(ValueError, match=r"answers|share"):
        AnswerSimulator.parse(words)


def test_rounds_find_what_even_spacing_steps_over():
    """One long rest and one busy stretch: answers say which is which."""
    actions = [Action(400 + place * 6.0, 404 + place * 6.0, f"a{place}") for place in range(60)]
    many = windows(200)
    said = AnswerSimulator.parse("perfect").activities("r", actions, many)
    found = {}
    for count in (1, 3):
        (picks,) = simulate_rounds([many], [said], Budget(count=40), count)
        assert len({pick.window for pick in picks}) == 40
        spans = [(pick.start, pick.end) for pick in picks]
        found[count] = sum(any(a.start < e and s < a.end for s, e in spans) for a in actions)
    assert found[3] >= found[1] + 6


def test_many_runs_played_together_are_each_as_if_alone():
    """Without sound, with sound, and too short for a second round."""
    rng = np.random.default_rng(0)
    heard = replace(windows(120), rates=rng.gamma(1, 0.3, 120), scores=rng.random(120))
    many = [windows(160), heard, windows(12)]
    actions = [Action(place * 9.0, place * 9.0 + 5, f"a{place // 6}") for place in range(40)]
    player = AnswerSimulator.parse("noisy")
    said = [player.activities(f"r{place}", actions, one) for place, one in enumerate(many)]
    calls = [40, 30, 3]
    together = simulate_runs(many, said, calls)
    for one, words, count, picks in zip(many, said, calls, together, strict=True):
        (alone,) = simulate_rounds([one], [words], Budget(count=count), "auto")
        assert [pick.start for pick in picks] == [pick.start for pick in alone]


def test_where_answers_tell_nothing_auto_is_one_round():
    """Without sound too, where `strata` lays the calls."""
    many, said = windows(160), [f"a{place}" for place in range(160)]
    once, auto = (
        simulate_rounds([many], [said], Budget(count=24), count)[0] for count in (1, "auto")
    )
    assert [pick.start for pick in auto] == [pick.start for pick in once]


def test_rounds_leave_the_ends_of_a_silent_recording_as_one_round_lays_them():
    """Nothing is known beyond the outermost answers: no call is moved there, or from there."""
    many, said = windows(160), [f"a{place // 12}" for place in range(160)]
    once, again = (simulate_rounds([many], [said], Budget(count=24), count)[0] for count in (1, 3))
    assert [pick.start for pick in again] != [pick.start for pick in once]
    assert (again[0].start, again[-1].start) == (once[0].start, once[-1].start)
