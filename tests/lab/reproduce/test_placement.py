"""Windows and frames chosen together: greedy, checked against every choice there is."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest

from earmark.gate.survival import Survival
from earmark.grid import Windows
from earmark_lab.reproduce.placement import choose_together


def scored(rates: list[float], length: float) -> Windows:
    values = np.array(rates, dtype=float)
    instants = (np.arange(len(values)) + 0.5) * length
    lengths = Survival.lognormal(median=1.5, sigma=0.5)
    return Windows(length, length * len(values), values, instants, values, lengths)


def expected(steps: Windows, seen: list[int]) -> float:
    """The obvious loop: an action is seen if it is still going at the next instant."""
    total = 0.0
    for start, rate in enumerate(steps.rates.tolist()):
        later = [step - start for step in seen if step >= start]
        if later and min(later) < len(steps.reach):
            total += rate * steps.reach[min(later)]
    return total


@pytest.mark.parametrize("seed", range(8))
def test_no_choice_of_windows_and_frames_is_much_better(seed: int):
    rng = np.random.default_rng(seed)
    steps = scored(rng.gamma(0.5, 0.1, 20).tolist(), 0.5)  # five windows of four steps
    windows = scored([1.0] * 5, 2.0)
    looks = choose_together(windows, steps, 2, 2)
    assert len(looks) == 2
    assert all(int(time / 2.0) == window for window, own in looks.items() for time in own)
    taken = [int(time / 0.5) for own in looks.values() for time in own]
    best = max(
        expected(steps, [*first, *second])
        for one, other in combinations(range(5), 2)
        for first in combinations(range(4 * one, 4 * one + 4), 2)
        for second in combinations(range(4 * other, 4 * other + 4), 2)
    )
    assert expected(steps, taken) >= 0.9 * best


def test_every_call_is_spent_and_none_is_spent_twice():
    windows, steps = scored([1.0] * 3, 2.0), scored([0.1] * 12, 0.5)
    assert sorted(choose_together(windows, steps, 9, 1)) == [0, 1, 2]
    assert choose_together(windows, steps, 0, 1) == {}
