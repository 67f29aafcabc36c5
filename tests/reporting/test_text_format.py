"""A forecast is told as a range, or with why there is none."""

from __future__ import annotations

import math

from earmark.gate.forecast_error import CoverageRange
from earmark.reporting.text_format import as_range


def test_a_forecast_is_told_with_its_range_and_confidence() -> None:
    told = CoverageRange(0.312, 0.5, 0.688, 0.8)
    assert as_range(0.5, told) == "50.0 % (31–69 % in 80 % of recordings)"


def test_what_is_not_known_is_said() -> None:
    unlike = CoverageRange(0.0, 0.5, 1.0, 0.8, is_unlike=True)
    assert as_range(0.5, unlike) == "50.0 % (0–100 %: too few recordings like this have been met)"
    assert as_range(0.5, None) == "50.0 % (how sure that is was not measured)"
    assert as_range(1.0, CoverageRange(1.0, 1.0, 1.0, 0.8)) == "100.0 %"
    assert as_range(None, None) == as_range(math.nan, None) == "–"
