"""AKS and BOLT against loops written straight from their published descriptions."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from drawing import picked, windows
from earmark_lab.rules import Aks, Bolt


def fill(chosen: set[int], scores: list[float], calls: int) -> list[int]:
    """The best windows left, ties to the earlier, until there are enough."""
    for window in sorted(range(len(scores)), key=lambda place: (-scores[place], place)):
        if len(chosen) < calls:
            chosen.add(window)
    return sorted(chosen)


def slow_aks(scores: list[float], calls: int, depth: int = 5) -> list[int]:
    """The recursion as published, with the paper's cap on the depth and its topping up."""
    low, high = min(scores), max(scores)
    unit = [(score - low) / (high - low) if high > low else 0.0 for score in scores]
    cap = min(depth, math.floor(math.log2(calls)))
    chosen: set[int] = set()

    def split(start: int, end: int, level: int) -> None:
        part = unit[start:end]
        difference = 0.0
        if len(part) >= calls:
            top = sorted(part, reverse=True)[:calls]
            difference = sum(top) / calls - sum(part) / len(part)
        if difference > 0.8 or level >= cap:
            best = sorted(range(start, end), key=lambda place: (-unit[place], place))
            chosen.update(best[: int(calls / 2**level)])
        else:
            middle = start + (end - start) // 2
            split(start, middle, level + 1)
            split(middle, end, level + 1)

    split(0, len(scores), 0)
    return fill(chosen, scores, calls)


def slow_bolt(scores: list[float], calls: int, power: float = 3.0) -> list[int]:
    """Each quantile walks along the running share until it is reached."""
    low, high = min(scores), max(scores)
    weights = [((score - low) / (high - low)) ** power if high > low else 1.0 for score in scores]
    shares = np.cumsum(np.array(weights) / sum(weights)).tolist()
    last = max(window for window, weight in enumerate(weights) if weight > 0)
    chosen = set()
    for quantile in np.linspace(1 / calls, 1 - 1 / calls, calls).tolist():
        # Where a quantile meets a share to the last digit, rounding decides: no case for a test.
        assume(high == low or all(abs(share - quantile) > 1e-12 for share in shares[:last]))
        window = 0
        while window < last and shares[window] < quantile:
            window += 1
        chosen.add(window)
    return fill(chosen, scores, calls)


drawings = st.text(".123456789", min_size=1, max_size=70)


@given(drawings, st.data())
def test_aks_is_the_published_recursion(drawing: str, data: st.DataObject) -> None:
    calls = data.draw(st.integers(1, len(drawing)))
    scored = windows(drawing)
    found = [pick.window for pick in Aks()(scored, budget=calls)]
    assert found == slow_aks(scored.scores.tolist(), calls)


@given(drawings, st.data())
def test_bolt_is_the_published_sampling(drawing: str, data: st.DataObject) -> None:
    calls = data.draw(st.integers(1, len(drawing)))
    scored = windows(drawing)
    found = [pick.window for pick in Bolt()(scored, budget=calls)]
    assert found == slow_bolt(scored.scores.tolist(), calls)


def test_aks_shares_the_calls_among_halves() -> None:
    # No half has its best scores stand out by 0.8, so each gets half of the calls.
    assert picked(Aks(), "987654321123456789", budget=2) == "^................^"


def test_aks_stops_where_a_peak_stands_out() -> None:
    assert picked(Aks(), "99................", budget=2) == "^^................"
    assert picked(Aks(peak=0.95), "99................", budget=2) == "^........^........"


def test_bolt_follows_the_mass_of_the_scores() -> None:
    assert picked(Bolt(), "...999......999...", budget=6) == "...^^^......^^^..."
    assert picked(Bolt(), "..................", budget=3) == ".....^..^..^......"


def test_bolt_with_one_call_takes_the_last_window_that_carries_weight() -> None:
    assert picked(Bolt(), "..9..9....", budget=1) == ".....^...."


@pytest.mark.parametrize("sharpness", [0.0, -3.0, float("nan")])
def test_a_sharpness_is_above_nothing(sharpness: float) -> None:
    with pytest.raises(ValueError, match="above 0"):
        Bolt(sharpness)


def test_a_depth_is_not_negative() -> None:
    with pytest.raises(ValueError, match="0 or more, not -1"):
        Aks(depth=-1)
