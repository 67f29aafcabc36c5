"""Actions that a window touches are seen only if a frame is taken while they go on."""

from __future__ import annotations

import numpy as np
import pytest

from drawing import windows
from earmark.gate.lengths import Lengths
from earmark.gate.survival import Survival
from earmark.selection.outlook import count_framed, coverage_of_shares, share_for


@pytest.mark.parametrize("lasting", [Survival.lognormal(median=3.0, sigma=0.9), Lengths.told(6.0)])
def test_framed_actions_are_counted_as_in_a_simulation(lasting):
    from dataclasses import replace

    drawn = replace(windows("9181119"), lengths=lasting)
    frames, generator, framed = [2.0, 9.5, 20.0], np.random.default_rng(0), 0
    rounds = 40_000
    chosen = generator.choice(len(drawn), rounds, p=drawn.rates / drawn.rates.sum())
    starts = (chosen + generator.random(rounds)) * drawn.length
    table = np.linspace(0.0, 600.0, 60_001)
    longer = lasting(table)
    lengths = table[np.searchsorted(-longer, -generator.random(rounds))]
    for frame in frames:
        framed = framed | ((starts <= frame) & (frame < starts + lengths))
    share = count_framed(drawn, frames) / drawn.rates.sum()
    assert share == pytest.approx(framed.mean(), abs=0.02)


def test_no_frame_shows_nothing():
    assert count_framed(windows("91"), []) == 0.0


def test_a_share_of_every_recording_and_the_least_that_reaches_a_coverage():
    many = [windows("9181"), windows("11191119")]
    low, half, every = coverage_of_shares(many, [0.25, 0.5, 1.0])
    assert low < half < every == pytest.approx(1.0)
    share = share_for(many, half)
    assert coverage_of_shares(many, [share])[0] >= half - 1e-9
    assert share <= 0.5
