"""How long actions last: unknown, told, or inferred."""

from __future__ import annotations

import numpy as np
import pytest

from earmark import Track
from earmark.gate.lengths import LengthModel, Lengths, describe_lengths


def level(*, seconds: float, every: float, total: float = 600.0) -> Track:
    """Sounds of so many seconds, in dB at 5 Hz."""
    times = np.arange(0, total, 0.2)
    return Track(np.where(times % every < seconds, -30.0, -60.0), hop=0.2)


def test_the_reach_of_several_medians_is_the_mean_over_their_actions() -> None:
    both = Lengths((2.0, 16.0), (0.5, 0.5), reference=2.0, exponent=1.0)
    assert both.rate_factor == pytest.approx((1 + 1 / 8) / 2)
    assert both.shares.tolist() == pytest.approx([8 / 9, 1 / 9])  # most actions are short ones
    short, long = (both.reaches(4.0)[place] for place in range(2))
    reach = both.reach(4.0)
    assert reach == pytest.approx((8 / 9 * short + 1 / 9 * long)[: len(reach)])


def test_what_is_told_is_certain() -> None:
    told = LengthModel().told(12.0)
    assert told.range() == (12.0, 12.0)
    assert describe_lengths([told, told]) == "actions of about 12 s, told"


def test_longer_sounds_make_longer_actions_likely_and_the_range_contains_the_doubt() -> None:
    model = LengthModel(weights=(3.0, 0.0, 0.0), intercept=0.0, doubt=0.5)
    quick, slow = (
        model.infer(level(seconds=seconds, every=3 * seconds)) for seconds in (0.6, 20.0)
    )
    assert quick.median < slow.median
    low, high = slow.range()
    assert low < slow.median < high
    assert "from the sound" in describe_lengths([slow])


def test_a_short_recording_has_the_usual_lengths() -> None:
    model = LengthModel(weights=(3.0, 0.0, 0.0), doubt=0.5)
    assert model.infer(level(seconds=1.0, every=4.0, total=20.0)) == model.usual
    assert describe_lengths([model.usual]).endswith("as usual")
