from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import numpy as np

from earmark.errors import MissingExtra
from earmark.media import Frame, Recording
from earmark.selection import Pick
from earmark.timeline import Span, Track
from earmark_lab.annotations.actions import Action
from earmark_lab.experiments.benchmark import ORACLE, PHASES

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from earmark_lab.experiments.coverage_tables import BenchmarkResults, System


BLIND = {"uniform": "#8a8f98", "strata": "#5b616b", PHASES: "#b3b8c0", "random": "#c9a227"}
ACCENT = {"coverage": "#c2410c", "separated": "#1d4ed8", ORACLE: "#111827"}
OTHERS = (
    *("#047857", "#9d174d", "#7c3aed", "#0e7490", "#84cc16", "#b45309"),
    *("#38bdf8", "#f472b6", "#475569", "#facc15"),
)
MARKERS = "osD^vP*X<>h"


def figure(width: float, height: float) -> Figure:
    """Inches; needs no window system."""
    try:
        from matplotlib.figure import Figure
    except ImportError as error:
        raise MissingExtra("figures need Matplotlib: pip install earmark-lab") from error
    return Figure(figsize=(width, height), layout="constrained")


Crosses = Mapping[str, Mapping[str, Sequence[tuple[float, float]]]]
"""Numbers of another source, under `coverage` and `saved`: points by rule or frontline."""


def plane(
    results: BenchmarkResults,
    subject: System,
    baseline: System,
    *,
    crosses: Crosses = MappingProxyType({}),
) -> Figure:
    """The paper's result figure: four panels over calls, for all actions together.

    (a) the frontlines under one rule or, with one frontline, score and spread separately;
    (b) every frontline and rule; (c) the boxed part of (b); (d) calls saved against `baseline`.
    """
    drawn = figure(12.5, 10.2)
    (first, second), (third, fourth) = drawn.subplots(2, 2)
    (left, right), (bottom, top) = _box(results)
    rules = [
        "rank",
        "strata",
        *(rule for rule in results.rules if _kind(rule) in ("separated", "coverage")),
    ]
    title = "score alone, spread alone, and both"
    if len(results.frontlines) > 1:
        rules, title = [subject[1], "strata"], f"frontlines, spent by {subject[1]}"
    systems = [system for system in results.systems if system[1] in rules] or results.systems
    _curves(first, results, systems, f"(a) {title}")
    _curves(second, results, results.systems, "(b) every frontline and rule")
    outline = [left, right, right, left, left], [bottom, bottom, top, top, bottom]
    second.plot(*outline, color="#9ca3af", linewidth=0.9)
    second.text(left, top, " (c)", color="#6b7280", va="top", fontsize=9)
    _curves(third, results, results.systems, "(c) the boxed span")
    third.set_xlim(left, right)
    third.set_ylim(bottom, top)
    _saved(fourth, results, baseline)
    for axes, kind in ((second, "coverage"), (third, "coverage"), (fourth, "saved")):
        _crosses(axes, results, crosses.get(kind, {}))
    handles = second.get_legend_handles_labels()
    drawn.legend(*handles, loc="outside lower center", fontsize=9, frameon=False, ncols=6)
    return drawn


def _label(axes: Axes, title: str, across: str, up: str) -> None:
    axes.set_title(title)
    axes.set_xlabel(across)
    axes.set_ylabel(up)
    axes.grid(alpha=0.25)


def _curves(axes: Axes, results: BenchmarkResults, systems: Sequence[System], title: str) -> None:
    for system in systems:
        points = 100 * np.array(results.curve(system))
        axes.plot(*points.T, label=results.label(system), **_style(results, system))
    _label(axes, title, "calls, % of windows", "coverage, % of actions")


def _crosses(
    axes: Axes, results: BenchmarkResults, points: Mapping[str, Sequence[tuple[float, float]]]
) -> None:
    for system in results.systems:
        is_ranked = system[1] == "rank" and system[0] != results.frontlines[0]
        name = _kind(system[0]) if is_ranked else system[1]
        if name in points and (is_ranked or system[0] == results.frontlines[0]):
            colour = _style(results, system)["color"]
            axes.plot(*zip(*points[name], strict=True), "x", color=colour, markersize=9)


def _style(results: BenchmarkResults, system: System) -> dict[str, Any]:
    index, rule = results.systems.index(system), _kind(system[1])
    colour = BLIND.get(rule) or ACCENT.get(rule) or OTHERS[index % len(OTHERS)]
    if len(results.frontlines) > 1 and rule not in (*BLIND, ORACLE):
        colour = (*ACCENT.values(), *OTHERS)[index % (len(ACCENT) + len(OTHERS))]
    return {
        "color": colour,
        "marker": MARKERS[index % len(MARKERS)],
        "markersize": 5,
        "linewidth": 2.4 if rule in ("coverage", "separated") else 1.3,
        "linestyle": "--" if rule in BLIND else ":" if rule == ORACLE else "-",
    }


def _kind(rule: str) -> str:
    """A rule or frontline without its options."""
    return rule.partition(":")[0]


def _box(results: BenchmarkResults) -> tuple[tuple[float, float], tuple[float, float]]:
    inside = [budget for budget in results.budgets if 0.1 <= budget <= 0.35] or results.budgets
    systems = [system for system in results.systems if system[1] != ORACLE] or results.systems
    reached = [100 * results.pooled(s, budget).coverage for s in systems for budget in inside]
    defined = [value for value in reached if not math.isnan(value)] or [0.0, 100.0]
    pad = 2.0
    across = (100 * inside[0] - pad, 100 * inside[-1] + pad)
    return across, (min(defined) - pad, max(defined) + pad)


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


def seed_curves(reached: Mapping[str, Sequence[Mapping[float, float]]]) -> Figure:
    """Coverage in per cent by budget, of each seed of each system: the mean and the range."""
    drawn = figure(6.5, 5.0)
    axes = drawn.subplots()
    for name, colour in zip(reached, (*ACCENT.values(), *OTHERS), strict=False):
        budgets = list(reached[name][0])
        values = np.array([[seed[budget] for budget in budgets] for seed in reached[name]])
        calls, style = [100 * budget for budget in budgets], "--" if name in BLIND else "-"
        axes.plot(calls, values.mean(axis=0), style, marker="o", color=colour, label=name)
        axes.fill_between(calls, values.min(axis=0), values.max(axis=0), color=colour, alpha=0.15)
    axes.legend(frameon=False)
    _label(axes, "(a) training objective", "calls, % of windows", "coverage, % of actions")
    return drawn


TOUCHED, MISSED, CALLED, SCORED = "#047857", "#d1d5db", "#c2410c", "#1d4ed8"
SECONDS_PER_LETTER = 0.36
LENGTH = 60.0
"""Seconds of a strip; the paper's."""

FRAMES = 10
FRAME_WIDTH = 1.17
"""In row heights, so that frames keep their aspect ratio."""

WAVEFORM_RATE = 8_000


@dataclass(frozen=True, slots=True, eq=False)
class TimelineStrip:
    title: str
    span: Span
    actions: Sequence[Action]
    picks: Sequence[Pick]
    scores: Track
    threshold: float | None = None
    """The score that opens an episode; None if there are no episodes to draw."""
    episodes: Sequence[Span] = ()
    waveform: Track | None = None
    frames: Sequence[Frame] = ()
    picked_frames: Sequence[Frame] = ()


def busiest_minute(picks: Sequence[Pick], duration: float) -> Span:
    """The first of ties; the middle if there are no picks.

    >>> busiest_minute([], 200.0)
    Span(start=70.0, end=130.0)
    """
    last = max(0.0, duration - LENGTH)
    starts = sorted({min(pick.start, last) for pick in picks}) or [last / 2]
    best = max(starts, key=lambda start: sum(start <= p.start < start + LENGTH for p in picks))
    return Span(best, min(duration, best + LENGTH))


def add_media(strip: TimelineStrip, recording: Recording) -> TimelineStrip:
    if recording.has_audio:
        strip = replace(strip, waveform=waveform(recording, strip.span))
    if not recording.has_video:
        return strip
    step = strip.span.duration / FRAMES
    times = [strip.span.start + (number + 0.5) * step for number in range(FRAMES)]
    frames = recording.frames([*times, *(pick.instant for pick in strip.picks)])
    return replace(strip, frames=frames[:FRAMES], picked_frames=frames[FRAMES:])


def waveform(recording: Recording, span: Span) -> Track:
    pieces = [np.zeros(0, np.float32)]
    for block in recording.sound(sample_rate=WAVEFORM_RATE):
        if block.start >= span.end:
            break
        first, last = (
            max(0, round((time - block.start) * WAVEFORM_RATE)) for time in (span.start, span.end)
        )
        pieces.append(block.values[first:last])
    return Track(np.concatenate(pieces), hop=1 / WAVEFORM_RATE, start=span.start)


def draw_strip(strip: TimelineStrip) -> Figure:
    shapes = [frame.rgb.shape for frame in (*strip.frames, *strip.picked_frames)]
    picture = FRAME_WIDTH * shapes[0][0] / shapes[0][1] if shapes else 0.0
    rows = [
        ("frames", picture, _frames_row, bool(strip.frames)),
        ("sound", 0.8, _sound_row, strip.waveform is not None),
        ("score", 1.1, _score_row, True),
        ("episodes", 0.3, _episodes_row, strip.threshold is not None),
        ("actions", 0.9, _actions_row, True),
        ("calls", 0.5, _picks_row, True),
        ("looked at", picture, _picked_row, bool(strip.picked_frames)),
    ]
    visible = [row for row in rows if row[3]]
    tall = [row[1] for row in visible]
    drawn = figure(13, 1.2 * sum(tall) + 0.9)
    axes = drawn.subplots(len(visible), 1, squeeze=False, sharex=True, height_ratios=tall)[:, 0]
    for row_axes, (name, _, paint, _) in zip(axes, visible, strict=True):
        row_axes.set_yticks([])
        paint(row_axes, strip)
        row_axes.set_ylabel(name, rotation=0, ha="right", va="center")
        row_axes.set_xlim(strip.span.start, strip.span.end)
    axes[-1].set_xlabel("seconds")
    axes[0].set_title(strip.title)
    named = {
        label: handle
        for row_axes in axes
        for handle, label in zip(*row_axes.get_legend_handles_labels(), strict=True)
    }
    drawn.legend(named.values(), named, loc="outside lower center", ncols=6, frameon=False)
    return drawn


def _frames_row(axes: Axes, strip: TimelineStrip) -> None:
    step = strip.span.duration / max(1, len(strip.frames))
    for index, frame in enumerate(strip.frames):
        left = strip.span.start + index * step
        axes.imshow(frame.rgb, extent=(left, left + step, 0, 1), aspect="auto")


def _picked_row(axes: Axes, strip: TimelineStrip) -> None:
    full = strip.span.duration / FRAMES
    width = min(full, strip.span.duration / max(1, len(strip.picks)))
    low, high = 0.5 - width / full / 2, 0.5 + width / full / 2
    for pick, frame in zip(strip.picks, strip.picked_frames, strict=True):
        middle = (pick.start + pick.end) / 2
        left = min(max(middle - width / 2, strip.span.start), strip.span.end - width)
        axes.imshow(frame.rgb, extent=(left, left + width, low, high), aspect="auto")
    axes.set_ylim(0, 1)


def _sound_row(axes: Axes, strip: TimelineStrip) -> None:
    assert strip.waveform is not None
    cells = np.array_split(strip.waveform.values, min(2000, max(1, len(strip.waveform))))
    peaks = np.array([np.abs(cell).max(initial=0) for cell in cells])
    times = np.linspace(strip.span.start, strip.span.end, len(peaks))
    axes.fill_between(times, -peaks, peaks, color="#6b7280", linewidth=0)


def _score_row(axes: Axes, strip: TimelineStrip) -> None:
    track = strip.scores
    first = max(0, int((strip.span.start - track.start) / track.hop))
    last = min(len(track), int(np.ceil((strip.span.end - track.start) / track.hop)))
    edges = track.start + np.arange(first, last + 1) * track.hop
    values = track.values[first:last]
    axes.stairs(values, edges, color=SCORED, fill=True, alpha=0.25)
    axes.stairs(values, edges, color=SCORED, linewidth=1)
    if strip.threshold is not None:
        label = f"threshold that opens an episode, {strip.threshold:.2f}"
        axes.axhline(strip.threshold, color=CALLED, linestyle="--", linewidth=1, label=label)
    axes.set_yticks([float(np.min(values, initial=0)), float(np.max(values, initial=0))])
    axes.yaxis.tick_right()
    axes.yaxis.set_major_formatter("{x:.2g}")


def _episodes_row(axes: Axes, strip: TimelineStrip) -> None:
    bars = [(span.start, span.duration) for span in strip.episodes]
    axes.broken_barh(bars, (0, 1), color=SCORED, alpha=0.6, label="an episode")
    axes.set_ylim(0, 1)


def _actions_row(axes: Axes, strip: TimelineStrip) -> None:
    ends: list[float] = []
    for action in sorted(strip.actions):
        lane = next((n for n, end in enumerate(ends) if end <= action.start), len(ends))
        ends[lane : lane + 1] = [action.end]
        touched = any(action.overlaps(Span(pick.start, pick.end)) for pick in strip.picks)
        look = (TOUCHED, "white", "touched by a call") if touched else (MISSED, "black", "missed")
        bar = [(action.start, action.duration)]
        axes.broken_barh(bar, (lane, 0.8), color=look[0], edgecolor="white", label=look[2])
        start, end = max(action.start, strip.span.start), min(action.end, strip.span.end)
        words = _shortened(action.label, int((end - start) / SECONDS_PER_LETTER))
        axes.text(start + 0.1, lane + 0.4, words, color=look[1], va="center", fontsize=7)
    axes.set_ylim(len(ends) or 1, 0)


def _shortened(words: str, letters: int) -> str:
    """Empty if hardly any would be left.

    >>> _shortened("pour salt", 9), _shortened("pour salt", 7), _shortened("pour salt", 3)
    ('pour salt', 'pour s…', '')
    """
    if len(words) <= letters:
        return words
    return words[: letters - 1] + "…" if letters > 4 else ""


def _picks_row(axes: Axes, strip: TimelineStrip) -> None:
    bars = [(pick.start, pick.end - pick.start) for pick in strip.picks]
    axes.broken_barh(bars, (0, 1), color=CALLED, alpha=0.7, edgecolor="white", label="a call")
    instants = [pick.instant for pick in strip.picks]
    axes.plot(instants, [0.5] * len(instants), "|k", markersize=14, label="the instant looked at")
    axes.set_ylim(0, 1)
