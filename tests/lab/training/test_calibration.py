"""Calibration finds what was put in, and keeps its promises on what it was given."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from earmark import Track
from earmark.errors import AnnotationError
from earmark.gate.gate import default_gate
from earmark.gate.lengths import LengthModel
from earmark.gate.rates import HedgedRates
from earmark.grid import Grid
from earmark_lab.annotations.actions import Action
from earmark_lab.metrics.counts import count_starts
from earmark_lab.training.calibration import (
    calibrate,
    cases,
    choose_points,
    choose_separation,
    mean_coverage,
    measure_honesty,
    recall_weights,
)
from earmark_lab.training.dataset import Material, TrainingRecording
from earmark_lab.training.rate_fit import exposures, fit_all, fit_lengths, fit_rates, median_factor


def world(recordings: int = 12, *, seed: int = 0) -> tuple[Material, dict[str, np.ndarray]]:
    """Recordings whose actions really start at four times the score a second."""
    rng = np.random.default_rng(seed)
    material, scores = {}, {}
    for number in range(recordings):
        name = f"P{number % 4:02d}_{number}"
        calm = rng.gamma(1.0, 0.08, size=75).repeat(50)  # a level every 2 s, for 150 s
        starts = np.flatnonzero(rng.random(len(calm)) < 4 * calm * 0.04) * 0.04
        lengths = rng.lognormal(0.4, 0.8, size=len(starts))
        actions = [
            Action(a, min(150.0, a + n)) for a, n in zip(starts, lengths, strict=True) if a < 149.9
        ]
        material[name] = TrainingRecording(
            name, 150.0, (np.zeros((3750, 1), np.float16),), tuple(actions)
        )
        scores[name] = calm.astype(np.float32)
    return material, scores


def test_no_start_is_nothing_to_fit() -> None:
    silent = TrainingRecording("a", 8.0, (np.zeros((200, 1)),), ())
    with pytest.raises(AnnotationError, match="no action starts"):
        fit_rates({"a": np.ones(200)}, {"a": silent}, ["a"], LengthModel().usual)


def test_rates_of_busy_recordings_do_not_turn_a_calm_one_upside_down() -> None:
    """Where all is work, how much like work a window is varies by chance alone."""
    material, scores = world(24)
    busy = {name: 5.0 - values for name, values in scores.items()}  # the fewer starts the higher
    rates = fit_all(busy, material, sorted(material)).rates
    assert all(fit.weights[column] >= 0 for fit in rates.fits for column in (0, 2, 3))
    calm = np.full(7500, 0.001, np.float32)
    calm[3600:3800] = 0.3  # two windows of work in the middle
    told = rates(Grid(4.0).pool(Track(calm), 300.0)[0])
    assert told[36:38].min() > 0.99 * told[10:30].max()


def test_starts_are_counted_where_they_are_and_exposure_ends_with_the_recording() -> None:
    heard = TrainingRecording(
        "a", 9.0, (np.zeros((225, 1)),), (Action(0, 1), Action(3.9, 9), Action(8.99, 9))
    )
    assert count_starts(heard.actions, 3, window=4.0).tolist() == [2, 0, 1]
    assert exposures(9.0, 4.0).tolist() == [4, 4, 1]


def test_rates_follow_the_true_ones_at_every_length() -> None:
    material, scores = world(24)
    rates = fit_all(scores, material, sorted(material)).rates
    for length in (2.0, 4.0, 8.0):
        told, real = [], []
        for name, heard in material.items():
            pooled, _ = Grid(length).pool(Track(scores[name]), heard.duration)
            told.append(rates(pooled))
            real.append(4 * pooled.mean * exposures(heard.duration, length))
        total, truth = np.concatenate(told), np.concatenate(real)
        assert total.sum() == pytest.approx(truth.sum(), rel=0.1)
        assert np.corrcoef(total, truth)[0, 1] > 0.8


def test_the_forecast_is_honest_on_recordings_that_were_not_fitted() -> None:
    material, scores = world(24)
    fitted = fit_all(scores, material, sorted(material))
    fresh, heard = world(40, seed=5)
    for row in measure_honesty(cases(heard, fresh, sorted(fresh), fitted.rates, fitted.lengths)):
        assert row.forecast == pytest.approx(row.actual, abs=0.04)


def test_calibrated_coverage_beats_even_spacing() -> None:
    material, scores = world(24)
    found, _ = calibrate(scores, material, default_gate().card, b"")
    judged = cases(scores, material, sorted(material), found.rates, found.lengths)
    ours, even = mean_coverage(judged), mean_coverage(judged, rule="phases")
    assert all(ours[budget] > even[budget] for budget in ours)
    assert found.separation in range(1, 5)
    assert found.misses.shares.shape == (24, len(found.misses.thresholds))


def test_operating_points_reach_their_recall_and_no_less() -> None:
    material, scores = world(8)
    points, misses = choose_points(scores, material)
    assert [target for target, _ in points.on] == [0.99, 0.97, 0.95, 0.93, 0.90, 0.87]
    for target, threshold in points.on:
        rule = points.episodes(threshold)
        touched = total = 0
        for name, heard in material.items():
            spans = rule(Track(scores[name]))
            total += len(heard.actions)
            touched += sum(any(a.overlaps(s) for s in spans) for a in heard.actions)
        assert touched / total >= target
    lowest = misses.shares.mean(axis=0)
    assert lowest[0] == 0


def test_a_recording_without_actions_has_no_say_in_recall() -> None:
    material, scores = world(6)
    name = sorted(material)[0]
    material[name] = replace(material[name], actions=())
    _, misses = choose_points(scores, material)
    assert misses.shares.shape[0] == 5


def test_an_action_among_many_counts_less_in_recall_than_a_rare_one() -> None:
    heard = world(1)[0]["P00_0"]
    rare = replace(heard, duration=16 * heard.duration)
    longer = replace(heard, duration=2 * heard.duration, actions=heard.actions * 2)
    plain, twice, more = recall_weights([heard, rare, longer])
    assert twice == pytest.approx(2 * plain)
    assert more == pytest.approx(2 * plain)


def test_separation_is_wide_where_the_score_lingers() -> None:
    """Long loud stretches with one long action each: neighbours add nothing."""
    material, scores = {}, {}
    for number in range(4):
        values = np.full(25 * 200, 0.1)
        actions = []
        for start in range(10, 190, 40):
            values[25 * start : 25 * (start + 12)] = 1.0 + start / 100
            actions.append(Action(float(start), start + 12.0))
        name = f"P{number}_0"
        material[name] = TrainingRecording(name, 200.0, (np.zeros((5000, 1)),), tuple(actions))
        scores[name] = values
    fitted = fit_all(scores, material, sorted(material))
    judged = cases(scores, material, sorted(material), fitted.rates, fitted.lengths)
    assert choose_separation(judged, budget=0.1) >= 2


def test_the_only_busy_participant_is_calibrated_on_itself() -> None:
    """Whoever else there is does nothing, so nothing can be fitted on them."""
    material, scores = world(4)
    idle = {name: replace(heard, actions=()) for name, heard in material.items()}
    name = sorted(material)[0]
    gate, coverage = calibrate(scores, idle | {name: material[name]}, default_gate().card, b"")
    assert gate.rates.fits and all(0 < share <= 1 for share in coverage.values())


def sites(families: dict[str, float], *, seed: int = 0) -> Material:
    """Sites whose actions sound throughout: `families` are median lengths."""
    rng, material = np.random.default_rng(seed), {}
    for family, median in families.items():
        for number in range(6):
            level, time, actions = np.full(3000, -60.0), 5.0, []
            while True:
                length = median * rng.lognormal(0, 0.3)
                if time + length > 590:
                    break
                actions.append(Action(time, time + length))
                level[int(5 * time) : int(5 * (time + length))] = -30 + 3 * rng.standard_normal()
                time += length * (1 + rng.exponential(1.5))
            name = f"{family}-{number}"
            material[name] = TrainingRecording(
                name, 600.0, (np.zeros((15_000, 1), np.float16),), tuple(actions),
                level=Track(level, hop=0.2), family=family,
            )  # fmt: skip
    return material


def test_lengths_are_inferred_from_how_long_sounds_last() -> None:
    material = sites({"a": 1.0, "b": 2.0, "c": 4.0, "d": 8.0, "e": 16.0})
    model = fit_lengths(material, sorted(material))
    fresh = sites({"short": 1.5, "long": 12.0}, seed=1)
    short, long = (model.infer(fresh[f"{name}-0"].level) for name in ("short", "long"))
    assert short.median < 4 < long.median
    assert model.doubt < 0.8
    assert str(long).endswith("from the sound")


def test_the_same_sound_holds_fewer_actions_where_they_are_longer() -> None:
    material = sites({"short": 1.0, "long": 8.0})
    scores = {name: np.repeat(10 ** (r.level.values / 20), 5) for name, r in material.items()}
    fitted = fit_all(scores, material, sorted(material))
    assert 0.5 < fitted.lengths.usual.exponent <= 1
    for name, recording in material.items():
        told = fitted.lengths.told(fitted.lengths.usual.reference)
        told = replace(told, medians=(told.reference * np.exp(median_factor(recording, told)),))
        windows = Grid().score(
            Track(scores[name]), 600.0, rates=fitted.rates, lengths=told, level=recording.level
        )
        assert windows.rates.sum() == pytest.approx(len(recording.actions), rel=0.4)


def test_the_level_has_a_vote_where_there_is_sound() -> None:
    material = sites({"a": 2.0, "b": 4.0})
    scores = {name: np.full(15_000, 0.1) for name in material}  # the head hears nothing
    gate, _ = calibrate(scores, material, default_gate().card, b"")
    assert gate.hedge
    (case,) = cases(scores, material, ["a-0"], HedgedRates(gate.rates, gate.hedge), gate.lengths)
    is_loud = Grid().pool_level(material["a-0"].level, 600.0).peak > 0.01
    assert case.windows.rates[is_loud].mean() > 1.1 * case.windows.rates[~is_loud].mean()
