"""The figures of an evaluation, drawn with Matplotlib."""

from __future__ import annotations

import io
import math
from collections.abc import Mapping, Sequence
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

import numpy as np

from earmark.errors import MissingExtra
from earmark.evaluation.benchmark import ORACLE, PHASES
from earmark.evaluation.benchmark_results import BenchmarkResults, System
from earmark.evaluation.metrics.coverage_counts import or_dash
from earmark.evaluation.metrics.significance import correlate
from earmark.evaluation.tables.table import percent

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

BLIND = {"uniform": "#8a8f98", "strata": "#5b616b", PHASES: "#b3b8c0", "random": "#c9a227"}
ACCENT = {"coverage": "#c2410c", "separated": "#1d4ed8", ORACLE: "#111827"}
OTHERS = (
    *("#047857", "#9d174d", "#7c3aed", "#0e7490", "#84cc16", "#b45309"),
    *("#38bdf8", "#f472b6", "#475569", "#facc15"),
)
MARKERS = "osD^vP*X<>h"

Point = tuple[str, float, float]
"""A point of the paper: a name, calls in per cent of the windows, and the result in per cent."""


def can_draw() -> bool:
    """Whether Matplotlib is installed; without it, reports have tables only."""
    return find_spec("matplotlib") is not None


def figure(width: float, height: float) -> Figure:
    """An empty figure, sizes in inches; needs no window system."""
    try:
        from matplotlib.figure import Figure
    except ImportError as error:
        raise MissingExtra("figures need Matplotlib: pip install 'earmark[evaluate]'") from error
    return Figure(figsize=(width, height), layout="constrained")


def png(drawn: Figure | bytes) -> bytes:
    """The figure as PNG; bytes are returned unchanged."""
    if isinstance(drawn, bytes):
        return drawn
    buffer = io.BytesIO()
    drawn.savefig(buffer, format="png", dpi=130)
    return buffer.getvalue()


def plane(
    results: BenchmarkResults,
    subject: System,
    baseline: System,
    *,
    beside: Sequence[Point] = (),
    saved_beside: Sequence[Point] = (),
) -> Figure:
    """The paper's result figure: four panels over calls, for all actions together.

    `beside` are the paper's points with their coverage, `saved_beside` with the calls saved.

    (a) the frontlines under one rule or, with one frontline, score and spread separately;
    (b) every frontline and rule; (c) the boxed part of (b), enlarged; (d) the same curves as calls
    saved against `baseline` at equal coverage.
    """
    drawn = figure(12.5, 10.2)
    (first, second), (third, fourth) = drawn.subplots(2, 2)
    (left, right), (bottom, top) = _box(results)
    wanted = ["rank", "strata", "separated", "coverage"]
    title = "score alone, spread alone, and both"
    if len(results.frontlines) > 1:
        wanted, title = [subject[1], "strata"], f"frontlines, spent by {subject[1]}"
    shown = [system for system in results.systems if system[1] in wanted] or results.systems
    _curves(first, results, shown, f"(a) {title}")
    _curves(second, results, results.systems, "(b) every frontline and rule")
    _crosses(second, beside)
    outline = [left, right, right, left, left], [bottom, bottom, top, top, bottom]
    second.plot(*outline, color="#9ca3af", linewidth=0.9)
    second.text(left, top, " (c)", color="#6b7280", va="top", fontsize=9)
    _curves(third, results, results.systems, "(c) the boxed span")
    third.set_xlim(left, right)
    third.set_ylim(bottom, top)
    _crosses(third, [p for p in beside if left <= p[1] <= right and bottom <= p[2] <= top])
    _saved(fourth, results, baseline)
    _crosses(fourth, saved_beside)
    drawn.legend(*second.get_legend_handles_labels(), **_BELOW, ncols=6)
    return drawn


def _crosses(axes: Axes, points: Sequence[Point]) -> None:
    """Draw the paper's points as black crosses with their names, without overlap."""
    if points:
        across, up = zip(*(point[1:] for point in points), strict=True)
        label = "the paper's own, by name"
        axes.scatter(across, up, marker="x", s=45, color="#000000", label=label, zorder=4)
    (left, right), (bottom, top) = axes.get_xlim(), axes.get_ylim()
    free: dict[float, float] = {}
    for name, at, height in sorted(points, key=lambda point: point[2]):
        is_left = at < left + 0.8 * (right - left)
        beside = at + (0.03 if is_left else -0.03) * (right - left)
        place = max(height, free.get(at, bottom))
        free[at] = place + 0.035 * (top - bottom)
        axes.annotate(
            name, (at, height), xytext=(beside, place), fontsize=7.5, va="center", zorder=5,
            ha="left" if is_left else "right",
            arrowprops={"arrowstyle": "-", "linewidth": 0.5, "color": "#6b7280"},
            bbox={"boxstyle": "square,pad=0.1", "facecolor": "#ffffffc0", "linewidth": 0},
        )  # fmt: skip


_BELOW: dict[str, Any] = {"loc": "outside lower center", "fontsize": 9, "frameon": False}


def _label(axes: Axes, title: str, across: str, up: str) -> None:
    axes.set_title(title)
    axes.set_xlabel(across)
    axes.set_ylabel(up)
    axes.grid(alpha=0.25)


def _curves(axes: Axes, results: BenchmarkResults, systems: Sequence[System], title: str) -> None:
    """Coverage of all actions together against cost, one line per system."""
    for system in systems:
        points = 100 * np.array(results.curve(system))
        axes.plot(*points.T, label=results.label(system), **_style(results, system))
    _label(axes, title, "calls, % of windows", "coverage, % of actions")


def _style(results: BenchmarkResults, system: System) -> dict[str, Any]:
    """Colour, marker and line width of a system, the same in every panel."""
    place, rule = results.systems.index(system), system[1]
    colour = BLIND.get(rule) or ACCENT.get(rule) or OTHERS[place % len(OTHERS)]
    if len(results.frontlines) > 1 and rule not in (*BLIND, ORACLE):
        colour = (*ACCENT.values(), *OTHERS)[place % (len(ACCENT) + len(OTHERS))]
    return {
        "color": colour,
        "marker": MARKERS[place % len(MARKERS)],
        "markersize": 5,
        "linewidth": 2.4 if rule in ("coverage", "separated") else 1.3,
        "linestyle": "--" if rule in BLIND else ":" if rule == ORACLE else "-",
    }


def _box(results: BenchmarkResults) -> tuple[tuple[float, float], tuple[float, float]]:
    """The limits of panel (c): budgets from 10 to 35 %, and the coverage of the rules there."""
    inside = [budget for budget in results.budgets if 0.1 <= budget <= 0.35] or results.budgets
    systems = [system for system in results.systems if system[1] != ORACLE] or results.systems
    reached = [100 * results.pooled(s, budget).coverage for s in systems for budget in inside]
    known = [value for value in reached if not math.isnan(value)] or [0.0, 100.0]
    pad = 2.0
    across = (100 * inside[0] - pad, 100 * inside[-1] + pad)
    return across, (min(known) - pad, max(known) + pad)


def _saved(axes: Axes, results: BenchmarkResults, baseline: System) -> None:
    for system in results.systems:
        if system == baseline or system[1] in (ORACLE, "random"):
            continue
        saved = [100 * results.saved(system, b, baseline=baseline) for b in results.budgets]
        cost = [100 * results.pooled(system, b).cost for b in results.budgets]
        axes.plot(cost, saved, label=results.label(system), **_style(results, system))
    axes.axhline(0, color="#8a8f98", linewidth=1)
    title = f"(d) calls saved against {results.label(baseline)}"
    _label(axes, title, "calls, % of windows", "calls saved at equal coverage, %")


def gain_scatter(
    results: BenchmarkResults, occupancy: Sequence[float], subject: System, baseline: System
) -> Figure:
    """Gain in points against occupancy in per cent, at the smallest and the largest budget."""
    drawn = figure(7.5, 5.4)
    axes = drawn.subplots()
    for place, budget in enumerate(sorted({results.budgets[0], results.budgets[-1]})):
        gains = results.gains(subject, budget, baseline=baseline)
        pearson = correlate(gains, occupancy).pearson
        label = f"{percent(budget)} of calls (Pearson {or_dash(pearson, '+.2f')})"
        mark, colour = MARKERS[place], OTHERS[place]
        axes.scatter(occupancy, gains, s=30, label=label, marker=mark, color=colour)
    axes.axhline(0, color="#8a8f98", linewidth=1)
    title = f"{results.label(subject)} minus {results.label(baseline)}, a dot a recording"
    across = "occupancy: windows that touch an action, %"
    _label(axes, title, across, "gain, points of coverage")
    drawn.legend(**_BELOW, ncols=2)
    return drawn


def lines(
    series: Mapping[str, Sequence[tuple[float, float]]], *, title: str, across: str, up: str,
    ticks: Sequence[float] = (), marked: bool = True,
) -> Figure:  # fmt: skip
    """Curves by name; with `ticks`, a logarithmic axis with only these ticks."""
    drawn = figure(7.5, 5.4)
    axes = drawn.subplots()
    for place, (name, points) in enumerate(series.items()):
        marker = MARKERS[place % len(MARKERS)] if marked else ""
        colour = OTHERS[place % len(OTHERS)]
        axes.plot(*np.array(points).T, label=name, marker=marker, color=colour)
    if ticks:
        axes.set_xscale("log")
        axes.set_xticks(ticks, [f"{tick:g}" for tick in ticks])
        axes.set_xticks([], minor=True)
    _label(axes, title, across, up)
    drawn.legend(**_BELOW, ncols=3)
    return drawn
