"""A head fitted to answers: bags of seconds, rates beside it, and a gate that carries both."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

import numpy as np
import pytest
import torch

from earmark import Track, open_recording
from earmark.gate.gate import Gate, default_gate
from earmark.gate.rates import FittedRates, nearest
from earmark.grid import Grid
from earmark.media import Source
from earmark.timeline import FloatArray
from earmark_lab.training.answered_windows import (
    AnsweredRecording,
    AnsweredWindow,
    TeachingMaterial,
)
from earmark_lab.training.head import SpanObjective, Targets, pool_spans
from earmark_lab.training.site_adaptation import (
    NEUTRAL,
    Reheard,
    Scored,
    as_before,
    cross_fit,
    fit_weights,
    hear_again,
    learn,
)
from earmark_lab.training.site_head import (
    POOLINGS,
    bags,
    fit_context,
    pool_as_paper,
    pool_by_mean,
    with_head,
)
from making import make_video

WINDOWS = 60


def bouts(seed: int) -> FloatArray:
    """Whether anything is done in each window: four at a time, half of the time."""
    rng = np.random.default_rng(seed)
    return np.repeat(rng.permutation(WINDOWS // 4) % 2, 4).astype(bool)


def made(seed: int, *, every: int = 2) -> Reheard:
    """A recording whose first two channels hum in bouts, which the base gate does not hear."""
    rng, active = np.random.default_rng(seed), bouts(seed)
    features = rng.normal(size=(WINDOWS * 100, 16))
    features[:, :2] += 2.0 * np.repeat(active, 100)[:, None]
    scores = rng.uniform(0.1, 0.3, WINDOWS * 100).astype(np.float32)
    gate = default_gate()
    lengths = gate.lengths.usual
    windows = Grid().score(Track(scores), WINDOWS * 4.0, rates=gate.rates, lengths=lengths)
    answers = tuple(
        AnsweredWindow(place, bool(active[place]), f"work {place}" if active[place] else "")
        for place in range(0, WINDOWS, every)
    )
    part = AnsweredRecording(f"r{seed}", windows, answers)
    return Reheard(part, features.astype(np.float16), scores)


def made_brief(seed: int) -> Reheard:
    """A recording whose active windows hum for a second, and idle ones a quarter as loud in all."""
    one, rng = made(seed, every=1), np.random.default_rng(seed + 50)
    hum = np.full((WINDOWS, 4), 0.25)
    hum[bouts(seed)] = 0.0
    hum[np.arange(WINDOWS), rng.integers(0, 4, WINDOWS)] += bouts(seed)
    features = rng.normal(size=(WINDOWS * 100, 16))
    features[:, :2] += np.repeat(hum.ravel(), 25)[:, None]
    return replace(one, features=features.astype(np.float16))


@pytest.fixture(scope="module")
def heard() -> list[Reheard]:
    return [made(seed) for seed in range(3)]


def test_a_bag_holds_the_seconds_of_its_window():
    part = replace(made(0).part, answers=(AnsweredWindow(1, True, "work"),))
    seconds = torch.arange(WINDOWS * 4.0)[None]
    assert bags(seconds, part).tolist() == [[[4.0], [5.0], [6.0], [7.0]]]
    last = replace(part, answers=(AnsweredWindow(WINDOWS - 1, False, ""),))
    (cut,) = bags(seconds[:, :-2], last).tolist()
    assert cut == [[236.0], [237.0], [237.0], [237.0]]  # a cut one lasts as it ends


def test_the_papers_pooling_is_the_one_that_a_gate_is_trained_with():
    """Two bags, as two actions of four steps each."""
    logits = torch.tensor([[0.3, -1.0, 2.0, 0.1], [0.4, -0.3, 1.0, -1.0]])
    everywhere = torch.ones(1, 8, dtype=torch.bool)
    places = torch.arange(8)
    actions = Targets(everywhere, everywhere, places, places // 4, torch.tensor([0, 4]))
    wanted = pool_spans(logits.reshape(1, 8), actions, SpanObjective().tau)
    assert pool_as_paper(logits).tolist() == pytest.approx(wanted.tolist())


def test_one_second_makes_a_window_active_by_the_papers_pooling_and_not_by_the_mean():
    one = torch.tensor([[4.0, -4.0, -4.0, -4.0]])
    assert float(pool_as_paper(one)) == pytest.approx(4.0, abs=1e-3)
    assert float(pool_by_mean(one)) == -2.0


@pytest.mark.parametrize("pooling", POOLINGS.values())
def test_what_people_say_counts_as_so_many_answers(heard, pooling):
    def chance(weight: float) -> float:
        one = heard[0]
        answers = tuple(
            replace(a, weight=weight) if not a.is_active else a for a in one.part.answers
        )
        head = fit_context([replace(one, part=replace(one.part, answers=answers))], 8, pooling)
        return float(head(replace(made(9), scores=np.ones(WINDOWS * 100))).mean())

    assert chance(4.0) < chance(1.0) - 0.05


@pytest.mark.parametrize("pooling", POOLINGS.values())
def test_a_head_hears_what_answers_were_about_in_a_recording_it_has_not_met(heard, pooling):
    head, other = fit_context(heard, 8, pooling), made(9)
    means = head(other).reshape(WINDOWS, -1).mean(axis=1)
    active = bouts(9)
    assert means[active].min() > means[~active].mean()
    assert means[active].mean() > 3 * means[~active].mean()


def test_the_exported_head_is_the_fitted_one_and_may_be_extended_again(heard):
    head, gate, other = fit_context(heard[:1], 8, pool_as_paper), default_gate(), made(9)
    site = with_head(with_head(gate, head), head)
    rows = [Track(other.features.astype(np.float32))]
    first, last = (
        np.concatenate([track.values for track in each.scorer(rows)]) for each in (gate, site)
    )
    chance = head(replace(other, scores=np.ones_like(first)))
    assert last == pytest.approx(first * chance**2, abs=1e-4)
    assert site.scorer != gate.scorer


def test_rates_fitted_to_answers_say_how_likely_activity_is():
    """Scores that tell, and a base gate that expects ten times too much of all."""
    gate, rows = default_gate(), []
    for seed in range(4):
        one = made(seed, every=1)
        level = np.repeat(np.where(bouts(seed), 0.3, 0.01), 100).astype(np.float32)
        rows.append(Scored(one, level))
    loud = FittedRates(
        tuple(replace(fit, intercept=fit.intercept + 2.3) for fit in gate.rates.fits),
        gate.rates.half,
    )
    fitted = fit_weights(rows, loud, gate.lengths.curve)
    part = rows[0].recording.part
    told, active = part.chances(fitted(rows[0].pooled), gate.lengths.curve), part.active > 0
    assert told[active].mean() > 0.7
    assert told[~active].mean() < 0.4
    assert len(fitted.fits) == len(loud.fits)


def test_answers_never_teach_that_a_higher_score_means_less():
    """Scores that are high where nothing is done."""
    gate, rows = default_gate(), []
    for seed in range(4):
        level = np.repeat(np.where(bouts(seed), 0.01, 0.3), 100).astype(np.float32)
        rows.append(Scored(made(seed, every=1), level))
    fitted = fit_weights(rows, gate.rates, gate.lengths.curve)
    fit = nearest(fitted.fits, 4.0)
    assert all(fit.weights[column] >= -1e-9 for column in (0, 2, 3))


def test_few_answers_leave_rates_in_proportion_to_the_score():
    """Weights of a base that were fitted to chance are forgotten, not kept."""
    gate, one = default_gate(), made(0, every=30)
    wild = FittedRates(
        tuple(replace(fit, weights=(9.0, 9.0, 0.0, 0.0, 9.0, -9.0)) for fit in gate.rates.fits),
        gate.rates.half,
    )
    fitted = fit_weights([Scored(one, one.scores)], wild, gate.lengths.curve)
    weights = np.array(nearest(fitted.fits, 4.0).weights)
    assert weights[:3] == pytest.approx(NEUTRAL[:3], abs=0.1)


def test_what_is_judged_was_met_by_nothing(heard):
    """Every fit that scores a kept recording, or a row its rates learn from, has not met it."""
    met: list[frozenset[str]] = []

    def fitting(some):
        met.append(frozenset(one.part.recording for one in some))
        return as_before(some)

    gate = default_gate()
    taught = cross_fit(heard, gate, fitting)
    assert taught.gain.new != taught.gain.old
    sizes = sorted(map(len, met))
    assert sizes == [1] * 3 + [2] * 3 + [3]
    assert len(set(met)) == len(met)


def test_many_answers_teach_a_head_and_the_card_says_so(heard, tmp_path):
    material = TeachingMaterial(tuple(one.part for one in heard))
    found = learn(material, default_gate(), heard=heard)
    assert found.learnt in {
        f"head (windows pooled by {name}) and rates fitted anew" for name in POOLINGS
    }
    assert (found.gain.low > 0, found.headless) == (True, "")
    assert found.gate is not None
    found.gate.save(tmp_path / "site.gate")
    site = Gate.load(tmp_path / "site.gate")
    assert f"{found.learnt} by 90 answers and 0 corrections in 3" in site.card.data
    assert site.card.settings["adapted"][0]["learnt"] == found.learnt
    assert site.points.at_recall(0.9).on <= site.points.at_recall(0.87).on
    other = made(9)
    scores = np.concatenate(
        [track.values for track in site.scorer([Track(other.features.astype(np.float32))])]
    )
    lengths = site.lengths.usual
    windows = Grid().score(Track(scores), WINDOWS * 4.0, rates=site.rates, lengths=lengths)
    active = bouts(9)
    assert windows.rates[active].sum() > 2 * windows.rates[~active].sum()


@pytest.mark.parametrize(
    ("make", "pooling"),
    [(partial(made, every=1), "the mean"), (made_brief, "the paper's log-sum-exp")],
)
def test_the_pooling_that_makes_answers_kept_aside_likelier_is_taken(make, pooling):
    """Work that fills its windows, or a second of each."""
    some = [make(seed) for seed in range(4)]
    found = learn(TeachingMaterial(tuple(one.part for one in some)), default_gate(), heard=some)
    assert found.learnt == f"head (windows pooled by {pooling}) and rates fitted anew"


def test_without_pytorch_rates_are_fitted_and_what_is_missing_is_said(heard, monkeypatch):
    monkeypatch.setattr("earmark_lab.training.site_adaptation.find_spec", lambda *_: None)
    found = learn(TeachingMaterial(tuple(one.part for one in heard)), default_gate(), heard=heard)
    assert found.headless == "`pip install 'earmark-lab[torch]'`"
    assert "head" not in found.learnt


def test_recordings_are_heard_again_where_they_are_still_what_they_were(tmp_path):
    path, gate = tmp_path / "a.mp4", default_gate()
    make_video(path, duration=12.0, clicks=[2.0, 7.0], fps=5, group=20)
    key, part = open_recording(path).key, made(0).part
    here = replace(part, recording=key, source=Source((str(path),)))
    gone = replace(part, recording=key, source=Source((str(tmp_path / "b.mp4"),)))
    other = replace(part, source=Source((str(path),)))
    (found,) = hear_again([here, gone, other, part], gate)
    assert found.part.recording == key
    assert found.features.shape == (len(found.scores), 16)
    assert abs(len(found.scores) - 300) <= 2
