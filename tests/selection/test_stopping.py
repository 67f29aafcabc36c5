"""How busy recordings are by their answers, and when it is enough."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from earmark.gate.survival import Survival
from earmark.grid import Windows
from earmark.selection.answer_evidence import ObservedActivity
from earmark.selection.rounds import Sightings, count_new_activities


def windows(count: int, rate: float) -> Windows:
    survival = Survival.lognormal(median=4.0, sigma=0.5)
    middles, rates = np.arange(count) * 4.0 + 2, np.full(count, rate)
    return Windows(4.0, count * 4.0, np.zeros(count), middles, rates, survival)


def equal(first: str, last: str) -> bool:
    return first == last


def sightings(drawing: str, rate: float = 0.2) -> Sightings:
    """A letter is an activity, `-` nothing, `?` an answer that does not say, `.` not asked."""
    said = {"-": "", "?": None}
    seen = [
        ObservedActivity(place, said.get(sign, sign))
        for place, sign in enumerate(drawing)
        if sign != "."
    ]
    return count_new_activities(windows(len(drawing), rate), seen, equal)


def test_new_is_what_the_answer_before_does_not_say():
    assert sightings("a..a..b..-..b..b").seen == 3
    assert sightings("-..-..-").seen == 0
    assert sightings("a..?..a").seen == 1
    assert sightings(".......").seen == 0


def test_empty_answers_make_a_recording_calmer_and_new_ones_busier():
    calm, busy = sightings("-..." * 10), sightings("".join(f"{one}..." for one in "abcdefghij"))
    assert calm.expected == pytest.approx(busy.expected)
    assert calm.busyness < 0.6
    assert busy.busyness > 1
    assert sightings("." * 40).busyness == 1


def test_what_is_missed_and_what_is_touched_is_all_there_is():
    one = sightings("a...b...c...")
    none = sightings("............")
    assert none.missed == pytest.approx(12 * 0.2)
    assert 0 < one.missed < none.missed


def test_sightings_add_up():
    both = sightings("a...b...") + sightings("c...-...")
    assert both.seen == 3
    assert both.missed == pytest.approx(2 * sightings("a...b...").missed)
    assert both.expected == pytest.approx(2 * sightings("-...-...").expected)
    assert (both + Sightings(seen=1, unheard=1) + Sightings(unheard=1)).unheard == 2


def test_missed_is_what_the_sound_expects_times_how_busy_it_is():
    low, about, high = Sightings(expected=6.0, seen=16, missed=5.0).missed_range()
    assert about == 10.0
    assert 0 < low < 10 < high < 20
    assert (low, about, high) == Sightings(6.0, 16, 5.0).missed_range()


def test_the_range_holds_what_is_missed():
    """Recordings as busy as they sound, some busier, some calmer: 8 ranges of 10 hold the count."""
    rng = np.random.default_rng(2)
    asked = np.arange(0, 300, 4)
    held = []
    for _ in range(150):
        factor = rng.gamma(8, 1 / 8)
        plain = windows(300, 0.08)
        busy = replace(plain, rates=plain.rates * factor)
        probability = 1 - np.exp(
            -count_new_activities(busy, [ObservedActivity(0, "")], equal).expected
        )
        assert 0 <= probability <= 1
        touched = _new_by_chance(busy, asked, rng)
        seen = [ObservedActivity(int(place), f"a{place}" if hit else "") for place, hit in touched]
        found = count_new_activities(plain, seen, equal)
        true = rng.poisson(factor * found.missed)
        low, _, high = found.missed_range()
        held.append(low <= true <= high)
    assert np.mean(held) >= 0.75


def _new_by_chance(busy: Windows, asked: np.ndarray, rng: np.random.Generator):
    from earmark.selection.pick import gains

    chances = 1 - np.exp(-gains(busy, asked))
    return zip(asked.tolist(), rng.random(len(asked)) < chances, strict=True)
