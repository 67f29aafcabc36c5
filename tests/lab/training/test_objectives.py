"""Every objective against an obvious loop over its actions."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch

from earmark_lab.training.head import (
    OBJECTIVES,
    FrameObjective,
    RateObjective,
    SpanObjective,
    Targets,
    pool_spans,
)
from earmark_lab.training.optimisation import lay_out

HOP = 0.04


def marked(
    *bounds: list[tuple[int, int]], steps: int = 40, lengths: tuple[int, ...] = ()
) -> Targets:
    """Targets of crops with the given actions, in steps."""
    sizes = lengths or (steps,) * len(bounds)
    features = [np.zeros((size, 4), dtype=np.float32) for size in sizes]
    actions = [np.array(each, dtype=np.intp).reshape(-1, 2) for each in bounds]
    return lay_out(features, actions, steps=steps)[1]


def logits(rows: int, steps: int = 40, seed: int = 0) -> torch.Tensor:
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(rows, steps, generator=generator, dtype=torch.float64) * 2


TWO = ([(3, 9), (5, 20), (30, 31)], [(0, 40)])


def test_pooling_is_an_unnormalised_log_sum_exp_of_each_action() -> None:
    z, targets = logits(2), marked(*TWO)
    got = pool_spans(z, targets, 4.0).tolist()
    wanted = [
        math.log(sum(math.exp(4 * float(z[row, t])) for t in range(a, b))) / 4
        for row, actions in enumerate(TWO)
        for a, b in actions
    ]
    assert got == pytest.approx(wanted)


def test_the_span_loss_fires_once_an_action_and_nowhere_else() -> None:
    z, targets = logits(2), marked(*TWO)
    pooled = pool_spans(z, targets, 4.0).tolist()
    silent = [float(z[0, t]) for t in range(40) if not any(a <= t < b for a, b in TWO[0])]
    wanted = np.mean([math.log1p(math.exp(-g)) for g in pooled]) + np.mean(
        [math.log1p(math.exp(s)) for s in silent]
    )
    assert float(SpanObjective().loss(z, targets)) == pytest.approx(wanted)


def test_widening_a_detection_gains_nothing() -> None:
    targets = marked([(10, 30)])
    narrow, wide = (torch.full((1, 40), -6.0, dtype=torch.float64) for _ in range(2))
    narrow[0, 15] = 8.0
    wide[0, 10:30] = 8.0
    objective = SpanObjective()
    assert float(objective.loss(narrow, targets)) == pytest.approx(
        float(objective.loss(wide, targets)), abs=1e-3
    )
    frame = FrameObjective()
    assert float(frame.loss(narrow, targets)) > float(frame.loss(wide, targets)) + 1


def test_the_frame_loss_is_the_cross_entropy_of_every_step() -> None:
    z, targets = logits(2), marked(*TWO)
    losses = []
    for row, actions in enumerate(TWO):
        for t in range(40):
            inside = any(a <= t < b for a, b in actions)
            losses.append(math.log1p(math.exp(-float(z[row, t]) * (1 if inside else -1))))
    assert float(FrameObjective().loss(z, targets)) == pytest.approx(np.mean(losses))


def test_the_rate_loss_is_the_likelihood_of_a_poisson_process() -> None:
    z, targets = logits(2), marked(*TWO)
    rate = torch.nn.functional.softplus(z).numpy()
    starts = [(row, a) for row, actions in enumerate(TWO) for a, _ in actions]
    wanted = (rate.sum() * HOP - sum(math.log(rate[s]) for s in starts)) / (80 * HOP)
    assert float(OBJECTIVES["rate"].loss(z, targets)) == pytest.approx(wanted, rel=1e-4)


def test_without_counts_the_level_of_a_crop_is_free() -> None:
    targets = marked(*TWO)
    where = RateObjective(counts=0.0, jitter=0.4)
    rates = torch.nn.functional.softplus(logits(2))
    levels = torch.tensor([[3.0], [0.2]], dtype=torch.float64)
    back = [torch.log(torch.expm1(each)) for each in (rates, rates * levels)]
    losses = [float(where.loss(each, targets)) for each in back]
    assert losses[0] == pytest.approx(losses[1], rel=1e-4)


def test_jitter_forgives_a_mark_that_comes_late() -> None:
    early, late = marked([(15, 30)]), marked([(20, 30)])
    z = torch.full((1, 40), -3.0, dtype=torch.float64)
    z[0, 15] = 4.0
    strict, lenient = RateObjective(), RateObjective(jitter=0.4)
    assert float(strict.loss(z, late)) > float(strict.loss(z, early)) + 0.5
    assert float(lenient.loss(z, late)) == pytest.approx(float(lenient.loss(z, early)))


@pytest.mark.parametrize("name", OBJECTIVES)
def test_padding_has_no_part_in_the_loss(name: str) -> None:
    objective = OBJECTIVES[name]
    targets = marked([(2, 6)], [(3, 8)], lengths=(40, 25))
    z = logits(2)
    other = z.clone()
    other[1, 25:] = 9.0
    assert float(objective.loss(z, targets)) == pytest.approx(float(objective.loss(other, targets)))


@pytest.mark.parametrize("name", OBJECTIVES)
@pytest.mark.parametrize("bounds", [([],), ([(0, 40)],), ([(5, 6)] * 3,)])
@pytest.mark.parametrize("level", [-80.0, 0.0, 80.0])
def test_losses_and_gradients_are_finite(
    name: str, bounds: tuple[list[tuple[int, int]]], level: float
) -> None:
    z = torch.full((1, 40), level, requires_grad=True)
    loss = OBJECTIVES[name].loss(z, marked(*bounds))
    loss.backward()
    assert math.isfinite(float(loss.detach()))
    assert z.grad is not None and bool(torch.isfinite(z.grad).all())


@pytest.mark.parametrize("name", OBJECTIVES)
def test_scores_rise_with_the_logit_and_are_never_negative(name: str) -> None:
    scores = OBJECTIVES[name].score(torch.linspace(-8, 8, 50))
    assert bool((scores >= 0).all() and (scores.diff() > 0).all())
