"""A fit is the same every time, also when it was interrupted."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from earmark.errors import ModelMismatch
from earmark.training.head import Head
from earmark.training.objectives import OBJECTIVES
from earmark.training.optimisation import Check, fit, score
from gate_making import SMALL, kitchen


def weights(head: Head) -> torch.Tensor:
    return torch.cat([each.flatten() for each in head.parameters()])


def no_measure(_: Head) -> float:
    return 0.5


def fitted(**changes: object) -> torch.Tensor:
    settings = replace(SMALL, **changes)  # type: ignore[arg-type]
    return weights(fit(list(kitchen(3).values()), settings, seed=1, measure=no_measure).head)


@pytest.mark.parametrize("objective", OBJECTIVES)
def test_the_same_seed_gives_the_same_head(objective: str) -> None:
    first = fitted(objective=objective)
    assert torch.equal(first, fitted(objective=objective))
    assert bool(torch.isfinite(first).all())


def test_objectives_differ_in_nothing_but_the_objective() -> None:
    """Before the first step the heads are equal, and they see the same crops."""
    heads = [fitted(objective=name, steps=1, learning_rate=1e-12) for name in OBJECTIVES]
    for head in heads[1:]:
        torch.testing.assert_close(head, heads[0], atol=1e-9, rtol=0)


def test_an_interrupted_fit_ends_as_an_unbroken_one(tmp_path: Path) -> None:
    recordings, settings = list(kitchen(3).values()), replace(SMALL, steps=8)
    whole = fit(recordings, settings, seed=3, measure=no_measure)

    class Stopped(Exception):
        pass

    def stop(check: Check) -> None:
        if check.step == 6:
            raise Stopped

    kept = tmp_path / "state.pt"
    with pytest.raises(Stopped):
        fit(recordings, settings, seed=3, measure=no_measure, checkpoint=kept, progress=stop)
    torch.manual_seed(99)
    resumed = fit(recordings, settings, seed=3, measure=no_measure, checkpoint=kept)
    assert torch.equal(weights(resumed.head), weights(whole.head))
    assert [check.step for check in resumed.checks] == [2, 4, 6, 8]
    assert resumed.checks == whole.checks
    again = fit(recordings, settings, seed=3, measure=no_measure, checkpoint=kept)
    assert torch.equal(weights(again.head), weights(whole.head))


def test_a_checkpoint_of_other_settings_or_recordings_is_refused(tmp_path: Path) -> None:
    recordings, kept = list(kitchen(2).values()), tmp_path / "state.pt"
    fit(recordings, SMALL, seed=0, measure=no_measure, checkpoint=kept)
    with pytest.raises(ModelMismatch, match="other settings; give another folder"):
        fit(
            recordings,
            replace(SMALL, objective="span"),
            seed=0,
            measure=no_measure,
            checkpoint=kept,
        )
    moved = [replace(heard, actions=heard.actions[1:]) for heard in recordings]
    with pytest.raises(ModelMismatch, match="other recordings; give another folder"):
        fit(moved, SMALL, seed=0, measure=no_measure, checkpoint=kept)
    more_seeds = replace(SMALL, seeds=7)
    fit(recordings, more_seeds, seed=0, measure=no_measure, checkpoint=kept)


@pytest.mark.parametrize("objective", ["span", "rate"])
def test_a_head_learns_where_actions_start(objective: str) -> None:
    settings = replace(SMALL, objective=objective, steps=40, check_every=40, learning_rate=1e-2)
    material = kitchen(4)
    head = fit(list(material.values()), settings, seed=0, measure=no_measure).head
    heard = next(iter(kitchen(1, seed=9).values()))
    scores = score(head, OBJECTIVES[objective], heard.features)
    near = np.zeros(len(scores), dtype=bool)
    for start in heard.starts:
        near[round(start * 25) : round(start * 25) + 15] = True
    assert scores[near].mean() > 1.5 * scores[~near].mean()


def test_a_loss_that_is_no_number_stops_the_fit() -> None:
    recordings = list(kitchen(2).values())
    broken = recordings[0].takes[0].copy()
    broken[:] = np.nan
    ruined = [replace(heard, takes=(broken,)) for heard in recordings]
    with pytest.raises(ModelMismatch, match="no longer a number"):
        fit(ruined, SMALL, seed=0, measure=no_measure)
