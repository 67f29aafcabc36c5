"""The paper's own figures, from the real annotations where they are at hand."""

from __future__ import annotations

import csv
from pathlib import Path

import numpy as np
import pytest

from earmark import Budget, Span
from earmark.grid import Grid, Windows
from earmark.selection import Rule
from earmark.selection.rules.spacing import Uniform
from earmark_lab.experiments.benchmark import Oracle
from reckoning import CURVES

UNIFORM = {
    "P01_14": 43.5, "P02_12": 42.0, "P03_24": 39.0, "P04_31": 50.4, "P05_07": 49.5, "P08_09": 42.2,
    "P11_20": 35.4, "P18_05": 47.4, "P20_05": 42.9, "P22_02": 34.1, "P28_25": 36.1, "P30_09": 34.1,
}  # fmt: skip
"""Coverage of the primary recordings at a quarter of the calls, in per cent, as printed."""


def seconds(clock: str) -> float:
    hours, minutes, rest = clock.split(":")
    return int(hours) * 3600 + int(minutes) * 60 + float(rest)


@pytest.fixture(scope="module")
def primary(shared_data: Path) -> dict[str, tuple[float, tuple[Span, ...]]]:
    """Duration and actions of each primary recording."""
    with (shared_data / "epic" / "EPIC_100_video_info.csv").open() as file:
        durations = {row["video_id"]: float(row["duration"]) for row in csv.DictReader(file)}
    actions: dict[str, list[Span]] = {name: [] for name in UNIFORM}
    with (shared_data / "epic" / "EPIC_100_validation.csv").open() as file:
        for row in csv.DictReader(file):
            span = Span(seconds(row["start_timestamp"]), seconds(row["stop_timestamp"]))
            actions.get(row["video_id"], []).append(span)
    return {name: (durations[name], tuple(actions[name])) for name in UNIFORM}


def touched(rule: Rule, duration: float, actions: tuple[Span, ...]) -> int:
    count = Grid(4.0).count(duration)
    blank = np.zeros(count)
    scored = Windows(4.0, duration, blank, blank, blank, CURVES["usual"])
    picks = rule(scored, budget=Budget.parse("25%").calls(count))
    spans = [Span(pick.window * 4.0, pick.window * 4.0 + 4.0) for pick in picks]
    return sum(any(span.overlaps(action) for span in spans) for action in actions)


Primary = dict[str, tuple[float, tuple[Span, ...]]]


def test_uniform_is_the_papers(primary: Primary) -> None:
    found = {
        name: 100 * touched(Uniform(), duration, actions) / len(actions)
        for name, (duration, actions) in primary.items()
    }
    assert found == pytest.approx(UNIFORM, abs=0.051)


def test_the_ceiling_is_greedy_set_cover(primary: Primary) -> None:
    total = sum(len(actions) for _, actions in primary.values())
    found = sum(
        touched(Oracle(actions), duration, actions) for duration, actions in primary.values()
    )
    assert total == 2208
    assert 100 * found / total == pytest.approx(69.1, abs=0.06)
