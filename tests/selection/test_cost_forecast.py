"""What calls and listening cost, and where triage pays."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest

from drawing import windows
from earmark import CallCost, Forecast
from earmark.selection.result import Rung, Screening, forecast_rungs


@pytest.mark.parametrize(
    ("seconds", "share", "break_even"),
    [(0.0, 0.0, 1.0), (25.0, 0.25, 0.75), (100.0, 1.0, 0.0), (250.0, 2.5, 0.0)],
)
def test_triage_pays_up_to_what_listening_leaves(seconds, share, break_even):
    screening = Screening(seconds, full_scan_seconds=100.0, measured_now=1)
    assert (screening.share, screening.break_even) == (share, break_even)


def test_nothing_to_scan_has_no_share():
    screening = Screening(3.0, full_scan_seconds=0.0, measured_now=1)
    assert math.isnan(screening.share) and math.isnan(screening.break_even)


def test_a_rung_costs_its_calls_and_pays_below_the_break_even():
    many = [windows("9181"), windows("1119")]
    screening = Screening(4.0, full_scan_seconds=8.0, measured_now=2)
    cost = CallCost(gpu_seconds=1800.0, money=0.25)
    rungs = forecast_rungs(many, [2, 4, 8], cost, screening)
    assert [(rung.share, rung.calls) for rung in rungs] == [(0.25, 2), (0.5, 4), (1.0, 8)]
    assert [(rung.gpu_hours, rung.money) for rung in rungs] == [(1.0, 0.5), (2.0, 1.0), (4.0, 2.0)]
    assert [rung.pays for rung in rungs] == [True, False, False], "at the break-even it does not"
    assert rungs[0].coverage < rungs[1].coverage < rungs[2].coverage == pytest.approx(1.0)
    assert all(rung.range is None for rung in rungs), "nobody has measured the error"


@pytest.mark.parametrize("drawn", ["9181", "333", "7717171"])
def test_no_more_than_all_actions_are_forecast(drawn):
    one = windows(drawn)
    every = [
        replace(one, rates=one.rates * factor) for factor in np.linspace(0.1, 3.0, 100).tolist()
    ]
    for each in every:
        (rung,) = forecast_rungs([each], [len(each)], CallCost(), Screening(0.0, 1.0, 0))
        assert 1.0 - 1e-9 < rung.coverage <= 1.0


def test_a_call_costs_time_and_perhaps_no_money():
    assert CallCost(gpu_seconds=0.5, money=0.0).money == 0
    for wrong in ({"gpu_seconds": 0.0}, {"money": -0.1}, {"gpu_seconds": math.nan}):
        with pytest.raises(ValueError, match="a call costs more than 0"):
            CallCost(**wrong)


def test_no_window_has_no_share_and_no_action_no_coverage():
    (rung,) = forecast_rungs([windows("")], [0], CallCost(), Screening(0.0, 0.0, 0))
    assert math.isnan(rung.share) and rung.coverage is None and not rung.pays


def ladder_of(*rungs: Rung, goal: Rung | None = None, scan: float = 8.0) -> Forecast:
    return Forecast(1, 40.0, 10, 4.0, "flux", CallCost(), Screening(2.0, scan, 1), rungs, goal)


def test_a_forecast_prints_itself():
    half = Rung(0.5, 5, 0.75, 1.0, 2.0, pays=True)
    assert repr(ladder_of(half)) == "Forecast(recordings=1, windows=10, budgets=1, failures=0)"
    assert ", goal=5, " in repr(ladder_of(half, goal=half))


def test_plain_values_hold_no_nan():
    assert ladder_of().to_json()["screening"] == {
        "seconds": 2.0, "full_scan_seconds": 8.0, "measured_now": 1, "share": 0.25,
        "break_even": 0.75,
    }  # fmt: skip
    none = ladder_of(scan=0.0).to_json()["screening"]
    assert (none["share"], none["break_even"]) == (None, None)
