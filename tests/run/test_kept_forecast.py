"""Forecasts come back as they were kept, and so does how far they may be off."""

from __future__ import annotations

from pathlib import Path

import pytest

from earmark.gate.forecast_error import CONFIDENCE, ForecastError, ForecastRange, Miss
from earmark.run.records import Totals
from earmark.run.run import Run
from small_runs import open_run

TOLD = ForecastRange(0.25, 0.5, 0.75, 0.9)
UNLIKE = ForecastRange(0.0, 0.5, 1.0, CONFIDENCE, is_unlike=True)
ERROR = ForecastError(0.5, 0.9, 0.1, tuple(Miss(-3.0, 0.1 * n, 0.5) for n in range(60)))


@pytest.mark.parametrize("forecast", [TOLD, UNLIKE])
def test_a_range_comes_back_as_it_was(tmp_path: Path, forecast: ForecastRange):
    with open_run(tmp_path) as ledger, Run(ledger.folder) as run:
        ledger.choose("a", [], forecast=forecast)
        assert (run.choice("a").forecast, run.choice("a").forecast_range) == (0.5, forecast)


@pytest.mark.parametrize("forecast", [0.5, None])
def test_where_nobody_measured_a_range_there_is_none(tmp_path: Path, forecast: float | None):
    with open_run(tmp_path) as ledger, Run(ledger.folder) as run:
        ledger.choose("a", [], forecast=forecast)
        assert (run.choice("a").forecast, run.choice("a").forecast_range) == (forecast, None)


def test_an_error_comes_back_as_it_was(tmp_path: Path):
    with open_run(tmp_path) as ledger, Run(ledger.folder) as run:
        assert run.forecast_error() is None
        for error in (ERROR, None):
            ledger.keep_forecast_error(error)
            assert run.forecast_error() == error


def test_the_coverage_of_a_run_is_what_its_picks_touch():
    totals = Totals(expected=8.0, touched=2.0, duration=100.0)
    assert totals.forecast(None) == ((0.25, None), (8.0, None))
    assert Totals().forecast(ERROR) == ((None, None), (None, None))
    (share, told), actions = totals.forecast(ERROR)
    assert actions == (8.0, ERROR.count(8.0, 100.0))
    assert told == ERROR.range(0.25, actions=8.0, duration=100.0)
    assert share == told.expected != 0.25
