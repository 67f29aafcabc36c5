"""Windows drawn at random: the share is unbiased, and its interval holds."""

from __future__ import annotations

import numpy as np
import pytest

from earmark.gate.survival import Survival
from earmark.grid import Windows
from earmark.selection.audit_sample import (
    chance_of_activity,
    clopper_pearson,
    draw_evenly,
    estimate_combined_share,
    estimate_share,
    forecast_width,
    variance_ratio,
)


def windows(count: int, *, rate: float = 0.5) -> Windows:
    survival = Survival.lognormal(median=4.0, sigma=0.5)
    middles, rates = np.arange(count) * 4.0 + 2, np.full(count, rate)
    return Windows(4.0, count * 4.0, np.zeros(count), middles, rates, survival)


CHANCE = np.random.default_rng(7)
MATERIAL = {
    "empty": np.zeros(2000),
    "rare": np.where(CHANCE.random(2000) < 0.02, 0.3, 0.002),
    "sparse": np.where(CHANCE.random(2000) < 0.15, 0.5, 0.02),
    "dense": CHANCE.beta(4, 2, 2000),
    "clear": np.where(CHANCE.random(2000) < 0.3, 0.95, 0.03),
}


@pytest.mark.parametrize("heard", ["right", "wrong", "nothing"])
@pytest.mark.parametrize("material", MATERIAL)
@pytest.mark.parametrize("faults", [0.0, 0.2])
def test_the_interval_holds_as_often_as_it_says(material, heard, faults):
    """On all kinds of material, with a sound that helps and one that does not, and with a model
    that errs: what is estimated is what that model would say."""
    truth = MATERIAL[material]
    rng = np.random.default_rng(11)
    active = rng.random(len(truth)) < truth
    active ^= rng.random(len(truth)) < faults
    chances = {"right": truth, "wrong": 1 - truth, "nothing": np.zeros(len(truth))}[heard]
    found = []
    for _ in range(200):
        drawn = draw_evenly(chances, 40, rng)
        found.append(estimate_share(active[drawn].tolist(), population=len(truth)))
    held = np.mean([one.low <= active.mean() <= one.high for one in found])
    assert held >= 0.92  # 200 trials of a 95 % interval are below this once in 30
    error = np.mean([one.share for one in found]) - active.mean()
    assert abs(error) < 4 * np.sqrt(0.25 / 40 / 200)


@pytest.mark.parametrize("material", MATERIAL)
def test_parts_drawn_by_themselves_say_it_of_the_whole(material):
    """A large shard and a small one, as many draws of each: unbiased, and the interval holds."""
    truth = MATERIAL[material]
    rng = np.random.default_rng(12)
    shards = [rng.random(len(part)) < part for part in np.split(truth, [1400])]
    whole = np.concatenate(shards).mean()
    found = []
    for _ in range(200):
        drawn = [one[draw_evenly(np.zeros(len(one)), 30, rng)].tolist() for one in shards]
        found.append(estimate_combined_share(drawn, population=[len(one) for one in shards]))
    assert np.mean([one.low <= whole <= one.high for one in found]) >= 0.92
    error = np.mean([one.share for one in found]) - whole
    assert abs(error) < 4 * np.sqrt(0.25 / 40 / 200)


def test_a_part_without_an_answer_leaves_the_whole_unknown():
    told = estimate_combined_share([[True], []], population=[5, 9])
    assert np.isnan(told.share)
    assert (told.low, told.high) == (0.0, 1.0)


def test_every_window_is_as_likely_to_be_drawn_as_any_other():
    rng = np.random.default_rng(3)
    chances = np.array([0.9, 0.9, 0.5, 0.1, 0.1, 0.1, 0.0])
    counts = np.zeros(7)
    for _ in range(7000):
        drawn = draw_evenly(chances, 3, rng)
        assert len(set(drawn.tolist())) == 3
        counts[drawn] += 1
    assert counts / 7000 == pytest.approx(np.full(7, 3 / 7), abs=0.03)


@pytest.mark.parametrize("seed", range(5))
def test_what_is_drawn_comes_in_order_of_its_chance(seed):
    """The scatter is judged by pairs of neighbours, which must be alike."""
    rng = np.random.default_rng(seed)
    chances = rng.random(40)
    for calls in (1, 7, 39, 40):
        places = draw_evenly(chances, calls, rng)
        assert len(set(places.tolist())) == calls
        assert (np.diff(chances[places]) >= 0).all()


def test_sound_that_tells_makes_the_interval_narrower():
    truth, rng = MATERIAL["clear"], np.random.default_rng(5)
    active = rng.random(len(truth)) < truth
    widths = {
        name: np.mean(
            [
                estimate_share(
                    active[draw_evenly(chances, 40, rng)].tolist(), population=2000
                ).width
                for _ in range(50)
            ]
        )
        for name, chances in {"told": truth, "not": np.zeros(2000)}.items()
    }
    assert widths["told"] < 0.75 * widths["not"]
    assert widths["told"] == pytest.approx(forecast_width(truth, 40), rel=0.15)


def test_no_hit_gives_the_exact_bound():
    share = estimate_share([False] * 40, population=100_000)
    assert (share.share, share.low) == (0.0, 0.0)
    assert share.high == pytest.approx(1 - 0.025 ** (1 / 40), abs=1e-6)


def test_a_whole_look_leaves_no_doubt():
    share = estimate_share([True, False, False, False], population=4)
    assert (share.low, share.share, share.high) == (0.25, 0.25, 0.25)
    assert sorted(draw_evenly(np.zeros(4), 9, np.random.default_rng(0)).tolist()) == [0, 1, 2, 3]
    assert forecast_width(np.zeros(4), 9) == 0
    assert np.isnan(estimate_share([], population=4).share)


def test_the_bounds_are_those_of_the_tables():
    """Clopper and Pearson's, for 5 of 20 and 95 %: 8.66 and 49.10 %."""
    low, high = clopper_pearson(5, 20, 0.95)
    assert (low, high) == (pytest.approx(0.0866, abs=1e-4), pytest.approx(0.4910, abs=1e-4))
    assert clopper_pearson(1, 2, 0.95) == pytest.approx((0.0126, 0.9874), abs=1e-4)
    assert clopper_pearson(0, 20, 0.95) == (0.0, pytest.approx(1 - 0.025 ** (1 / 20)))
    assert clopper_pearson(20, 20, 0.9) == (pytest.approx(0.05 ** (1 / 20)), 1.0)


def test_pairs_that_are_alike_scatter_less():
    assert variance_ratio([False] * 20 + [True] * 20) == pytest.approx(0.4)
    assert variance_ratio([False, True] * 20) == 1.0
    # Nine of eleven neighbours are alike: 2 / 11 / 2 beside 3 / 12 * 9 / 12.
    assert variance_ratio([False] * 4 + [True] * 3 + [False] * 5) == pytest.approx(16 / 33)


SOME = [False] * 20 + [True] * 8 + [False] * 12
"""Of 40 draws 8 are active, side by side: 2 / 39 / 2 beside 0.16 is less than is believed."""


def test_the_interval_is_that_of_as_many_plain_draws_as_scatter_alike():
    """Fewer than there are to be drawn from scatter less, and so do draws that are like their
    neighbours; eight of a kind are needed to judge by."""
    plain = 40 / 0.4 / (1 - 39 / 999)
    found = estimate_share(SOME, population=1000, confidence=0.9)
    assert found.confidence == 0.9
    assert (found.share, found.low, found.high) == (0.2, *clopper_pearson(0.2 * plain, plain, 0.9))
    assert found.width == found.high - found.low
    idle = [not one for one in SOME]
    assert estimate_share(idle, population=1000).high == pytest.approx(
        clopper_pearson(0.8 * plain, plain, 0.95)[1]
    )
    few = [False, *SOME[:27], *SOME[28:]]
    for seen in (few, [not one for one in few]):
        assert sum(seen) in (7, 33)
        found = estimate_share(seen, population=1000)
        assert (found.low, found.high) == clopper_pearson(sum(seen), 40, 0.95)


def test_what_was_seen_is_there_whatever_chance_says():
    found = estimate_share([True] * 3 + [False] * 3, population=7)
    assert (found.low, found.high) == (3 / 7, 4 / 7)


def test_the_width_foretold_is_that_of_draws_the_sound_is_right_about():
    """A tenth of 400 windows is drawn; half are likely, half are not: 0.09 beside 0.25, and no less
    than 0.4 is believed."""
    chances = np.repeat([0.9, 0.1], 200)
    plain = 40 / 0.4 / (1 - 39 / 399)
    low, high = clopper_pearson(0.5 * plain, plain, 0.8)
    assert forecast_width(chances, 40, confidence=0.8) == pytest.approx(high - low)
    assert forecast_width(chances, 400) == forecast_width(chances[:0], 3) == 0
    rather = np.repeat([0.8, 0.2], 200)
    plain = 16 / (0.16 / 0.25) / (1 - 15 / 399)
    low, high = clopper_pearson(0.5 * plain, plain, 0.95)
    assert forecast_width(rather, 16) == pytest.approx(high - low)
    low, high = clopper_pearson(7.5, 15, 0.95)  # too few of either kind to judge by
    assert forecast_width(rather, 15) == pytest.approx(high - low)


def test_a_busy_window_and_the_one_after_it_are_likely():
    chances = chance_of_activity(windows(5, rate=0.0))
    assert (chances == 0).all()
    assert chance_of_activity(windows(5)) == pytest.approx(
        1 - np.exp(-np.convolve(np.full(5, 0.5), windows(5).reach)[:5])
    )
