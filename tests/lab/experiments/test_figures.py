"""What is drawn is what was counted, and every line and colour has a name."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest

import drawing
from earmark import Span, Track
from earmark.media import Frame
from earmark.selection.rules.ranking import Rank
from earmark_lab.annotations.actions import Action
from earmark_lab.experiments import figures
from earmark_lab.experiments.benchmark import BenchmarkRow
from earmark_lab.experiments.coverage_tables import BenchmarkResults
from earmark_lab.experiments.figures import TimelineStrip, draw_strip
from earmark_lab.experiments.report import png

EAR, BLIND = ("ear", "coverage"), ("ear", "uniform")


def rows(rule: str, frontline: str, *covered: int) -> list[BenchmarkRow]:
    """Recordings a, b and c of 100 windows and 10, 20 and 0 actions at 10, 20 and 30 %."""
    sizes = {"a": 10, "b": 20, "c": 0}
    return [
        BenchmarkRow(
            name, frontline, rule, budget, 100, round(100 * budget), actions, hit * actions / 10, 0
        )
        for name, actions in sizes.items()
        for budget, hit in zip((0.1, 0.2, 0.3), covered, strict=True)
    ]


RESULTS = BenchmarkResults.of_rows(
    rows("coverage", "ear", 4, 6, 8) + rows("uniform", "ear", 2, 4, 6)
)


def drawn_lines(axes) -> dict[str, tuple[list[float], list[float]]]:
    """The named lines of a panel, what goes across and up."""
    return {
        line.get_label(): (list(line.get_xdata()), list(line.get_ydata()))
        for line in axes.get_lines()
        if not line.get_label().startswith("_")
    }


def test_the_four_panels_show_one_set_of_curves():
    drawn = figures.plane(RESULTS, EAR, BLIND)
    first, second, third, fourth = drawn.axes
    assert drawn_lines(second) == {
        "coverage": ([10, 20, 30], [40, 60, 80]),
        "uniform": ([10, 20, 30], pytest.approx([20, 40, 60])),
    }
    assert drawn_lines(third) == drawn_lines(second)
    assert set(drawn_lines(first)) == {"coverage"}
    # Uniform needs 20 % for 40 points and 30 % for 60: read sideways, half and a third are saved.
    saved = drawn_lines(fourth)["coverage"][1]
    assert saved[:2] == pytest.approx([50, 100 / 3])
    assert np.isnan(saved[2])
    (legend,) = drawn.legends
    assert [text.get_text() for text in legend.get_texts()] == ["coverage", "uniform"]
    assert all(axes.get_xlabel() and axes.get_ylabel() for axes in drawn.axes)


def test_the_paper_s_own_numbers_are_crosses_in_the_plane():
    crosses = {
        "coverage": {"coverage": ((25, 46.8), (50, 70.2))},
        "saved": {"coverage": ((5, 20),)},
    }
    _, second, _, fourth = figures.plane(RESULTS, EAR, BLIND, crosses=crosses).axes
    for axes, expected in ((second, ([25, 50], [46.8, 70.2])), (fourth, ([5], [20]))):
        drawn = [line for line in axes.get_lines() if line.get_marker() == "x"]
        assert [(list(each.get_xdata()), list(each.get_ydata())) for each in drawn] == [expected]
    plain = figures.plane(RESULTS, EAR, BLIND).axes[1]
    assert not [line for line in plain.get_lines() if line.get_marker() == "x"]


def test_frontlines_are_told_apart():
    several = BenchmarkResults.of_rows(
        rows("coverage", "ear", 4, 6, 8)
        + rows("strata", "ear", 2, 4, 6)
        + rows("coverage", "eye", 3, 5, 7)
    )
    first = figures.plane(several, EAR, ("ear", "strata")).axes[0]
    assert set(drawn_lines(first)) == {"ear / coverage", "strata", "eye / coverage"}
    assert first.get_title() == "(a) frontlines, spent by coverage"


def test_recordings_without_actions_draw_nothing_and_warn_of_nothing():
    silent = BenchmarkResults.of_rows(
        [replace(row, actions=0, covered=0) for row in rows("rank", "ear", 1, 2, 3)]
    )
    picture = png(figures.plane(silent, ("ear", "rank"), ("ear", "rank")))
    assert picture.startswith(b"\x89PNG")


def strip(**more: object) -> TimelineStrip:
    """The middle minute of two, with one action each quarter of a minute."""
    minute, grid = Span(20, 80), drawing.windows("1..9..2...5...1..9..2...5...")
    actions = [Action(start, start + 3.0, "wash the dishes") for start in range(12, 110, 15)]
    picks = [pick for pick in Rank()(grid, budget=7) if pick.span.overlaps(minute)]
    inside = [action for action in actions if action.overlaps(minute)]
    return TimelineStrip("a", minute, inside, picks, Track(grid.scores, hop=4.0), **more)


def test_a_strip_names_its_colours_and_rows():
    drawn = draw_strip(strip(threshold=2.0))
    assert [axes.get_ylabel() for axes in drawn.axes] == ["score", "episodes", "actions", "calls"]
    texts = [text.get_text() for text in drawn.legends[0].get_texts()]
    assert set(texts[1:]) == {
        "an episode",
        "missed",
        "touched by a call",
        "a call",
        "the instant looked at",
    }
    assert texts[0].startswith("threshold")
    written = [text.get_text() for text in drawn.axes[2].texts]
    assert written == ["wash th…"] * 4


def test_a_strip_with_media_keeps_the_shape_of_its_pictures():
    bare = strip()
    pictures = [Frame(float(n), np.zeros((60, 80, 3), np.uint8)) for n in range(10)]
    full = strip(
        frames=pictures,
        picked_frames=pictures[: len(bare.picks)],
        waveform=Track(np.zeros(600, np.float32), hop=0.1, start=20.0),
    )
    drawn = draw_strip(full)
    names = [axes.get_ylabel() for axes in drawn.axes]
    assert names == ["frames", "sound", "score", "actions", "calls", "looked at"]
    png(drawn)  # lays the rows out
    box = drawn.axes[0].get_window_extent()
    assert box.width / 10 / box.height == pytest.approx(80 / 60, rel=0.15)
    ends = [image.get_extent()[:2] for image in drawn.axes[0].images]
    assert all(right == left for (_, right), (left, _) in pairwise(ends))


def test_the_busiest_minute():
    starts = (0.0, 100.0, 104.0, 190.0)
    picks = [pick for pick in Rank()(drawing.windows("9" * 50), budget=50) if pick.start in starts]
    assert figures.busiest_minute(picks[:3], 200.0) == Span(100.0, 160.0)
    assert figures.busiest_minute([], 30.0) == Span(0.0, 30.0)
