"""What calls and listening cost, and where triage pays."""

from __future__ import annotations

import math

import pytest

from drawing import windows
from earmark.selection.cost_forecast import CallCost, Screening, rungs_for


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
    rungs = rungs_for(many, [2, 4, 8], cost, screening)
    assert [(rung.share, rung.calls) for rung in rungs] == [(0.25, 2), (0.5, 4), (1.0, 8)]
    assert [(rung.gpu_hours, rung.money) for rung in rungs] == [(1.0, 0.5), (2.0, 1.0), (4.0, 2.0)]
    assert [rung.pays for rung in rungs] == [True, False, False], "at the break-even it does not"
    assert rungs[0].coverage < rungs[1].coverage < rungs[2].coverage == pytest.approx(1.0)
    assert all(rung.range is None for rung in rungs), "nobody has measured the error"
