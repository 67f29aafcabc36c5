"""Every rule is held to the contract written at `Rule`."""

from __future__ import annotations

import numpy as np
import pytest

from earmark import Span
from earmark.grid import Windows
from earmark.selection import RULES
from reckoning import rated

SHAPES: dict[str, Windows] = {
    "flat": rated([0.5] * 30),
    "peaky": rated([9 if window in (3, 4, 17) else 0.1 for window in range(30)]),
    "silent": rated([0.0] * 30),
    "one window": rated([0.7]),
    "no window": rated([]),
    "uneven": rated(np.random.default_rng(7).gamma(2.0, 0.5, 97)),
    "huge": rated(np.random.default_rng(8).gamma(2.0, 0.5, 20_000)),
}
MAY_LEAVE_CALLS = {"separated"}


def budgets(windows: Windows) -> list[int]:
    """None, one, some, half, all, too many; one for a recording so long that it takes a while."""
    count = len(windows)
    return [count // 4] if count > 10_000 else [0, 1, 2, 7, count // 2, count, count + 5]


@pytest.mark.parametrize("windows", SHAPES.values(), ids=SHAPES)
@pytest.mark.parametrize("name", RULES)
def test_every_rule_keeps_the_contract(name: str, windows: Windows) -> None:
    rule = RULES[name]()
    before = [values.copy() for values in (windows.scores, windows.rates, windows.instants)]
    for budget in budgets(windows):
        picks = rule(windows, budget=budget)
        chosen = [pick.window for pick in picks]
        assert chosen == sorted(set(chosen))
        assert all(0 <= window < len(windows) for window in chosen)
        allowed = min(budget, len(windows))
        assert len(picks) <= allowed if name in MAY_LEAVE_CALLS else len(picks) == allowed
        assert len(windows) > 10_000 or RULES[name]()(windows, budget=budget) == picks
        check_explanations(windows, picks)
    for kept, now in zip(before, (windows.scores, windows.rates, windows.instants), strict=True):
        np.testing.assert_array_equal(kept, now)


def check_explanations(windows: Windows, picks: list) -> None:
    for pick in picks:
        assert Span(pick.start, pick.end) == windows.span(pick.window)
        assert pick.instant == windows.instants[pick.window]
        assert (pick.score, pick.rate) == (
            windows.scores[pick.window],
            windows.rates[pick.window],
        )
        assert pick.reason
        assert "\n" not in pick.reason


@pytest.mark.parametrize("name", RULES)
def test_a_budget_below_nothing_is_refused(name: str) -> None:
    with pytest.raises(ValueError, match="0 calls or more, not -1"):
        RULES[name]()(SHAPES["uneven"], budget=-1)


@pytest.mark.parametrize("name", RULES)
def test_a_rule_prints_compares_and_hashes_as_its_options(name: str) -> None:
    rule, twin = RULES[name](), RULES[name]()
    assert rule == twin
    assert hash(rule) == hash(twin)
    assert repr(rule).startswith(type(rule).__name__)
    assert not hasattr(rule, "__dict__")
