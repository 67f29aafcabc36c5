"""A drawing of sixty seconds of a recording: frames, sound, score, actions and picks."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from earmark.evaluation.annotations.actions import Action
from earmark.evaluation.benchmark import BenchmarkDesign, Case, choose
from earmark.evaluation.tables import figures
from earmark.evaluation.tables.table import percent
from earmark.media import Frame, Recording
from earmark.selection import Budget, Pick
from earmark.timeline import Span, Track

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

TOUCHED, MISSED, CALLED, SCORED = "#047857", "#d1d5db", "#c2410c", "#1d4ed8"
"""Colours of actions, of calls and of scores."""

SECONDS_PER_LETTER = 0.36
"""Width of a letter of a label, in seconds of the strip."""

LENGTH = 60.0
"""Seconds of a strip; the paper's."""

FRAMES = 10
"""Frames shown along the top."""

FRAME_WIDTH = 1.17
"""Width of one frame in the unit of row heights, so that frames keep their aspect ratio."""

WAVEFORM_RATE = 8_000
"""Samples a second of the drawn waveform."""


@dataclass(frozen=True, slots=True, eq=False)
class TimelineStrip:
    """The content of the drawing; empty parts are left out."""

    title: str
    span: Span
    actions: Sequence[Action]
    picks: Sequence[Pick]
    scores: Track
    threshold: float
    """The lowest score among the windows that ranking would pick at the same budget, or the
    opening threshold of the operating point."""
    waveform: Track | None = None
    frames: Sequence[Frame] = ()
    picked_frames: Sequence[Frame] = ()
    """One for each pick in the span, at the pick's instant."""
    episodes: Sequence[Span] = ()
    """The gate's episodes at its operating point."""
    is_operating_point: bool = False
    """Whether `threshold` opens episodes."""


def middle_minute(duration: float) -> Span:
    """The sixty seconds around the middle, a choice that does not depend on the content."""
    start = max(0.0, duration / 2 - LENGTH / 2)
    return Span(start, min(duration, start + LENGTH))


def make_strip(
    case: Case, design: BenchmarkDesign, *, span: Span | None = None, scores: Track | None = None
) -> TimelineStrip:
    """The strip of one case without its media; `scores` are the windows' own unless given."""
    windows = case.windows
    calls = Budget(share=design.shown, rounding=design.rounding).calls(len(windows))
    (picks,) = choose(case, design.subject, [calls], answers=design.answers)
    ranked = np.sort(windows.scores)[::-1]
    where = span or middle_minute(windows.duration)
    spent = f"{design.subject} at {percent(design.shown)} of calls"
    return TimelineStrip(
        title=f"{case.recording}: {spent}, scores from {case.frontline}",
        span=where,
        actions=[action for action in case.actions if action.overlaps(where)],
        picks=[pick for pick in picks if Span(pick.start, pick.end).overlaps(where)],
        scores=scores or Track(windows.scores, hop=windows.length),
        threshold=float(ranked[max(0, calls - 1)]) if len(ranked) else 0.0,
    )


def busiest_minute(picks: Sequence[Pick], duration: float) -> Span:
    """The sixty seconds with the most picks, the first of ties; the middle if there are none.

    >>> busiest_minute([], 200.0)
    Span(start=70.0, end=130.0)
    """
    if not picks:
        return middle_minute(duration)
    last = max(0.0, duration - LENGTH)
    starts = sorted({min(pick.start, last) for pick in picks})
    best = max(starts, key=lambda start: sum(start <= p.start < start + LENGTH for p in picks))
    return Span(best, min(duration, best + LENGTH))


def add_media(strip: TimelineStrip, recording: Recording) -> TimelineStrip:
    """The strip with the recording's sound and pictures, as far as it has them."""
    if recording.has_audio:
        strip = replace(strip, waveform=waveform(recording, strip.span))
    if not recording.has_video:
        return strip
    step = strip.span.duration / FRAMES
    times = [strip.span.start + (place + 0.5) * step for place in range(FRAMES)]
    shown = recording.frames([*times, *(pick.instant for pick in strip.picks)])
    return replace(strip, frames=shown[:FRAMES], picked_frames=shown[FRAMES:])


def waveform(recording: Recording, span: Span) -> Track:
    """The sound of `span`, one value a sample."""
    pieces = []
    for block in recording.sound(sample_rate=WAVEFORM_RATE):
        if block.start >= span.end:
            break
        first = max(0, round((span.start - block.start) * WAVEFORM_RATE))
        last = max(0, round((span.end - block.start) * WAVEFORM_RATE))
        pieces.append(block.values[first:last])
    values = np.concatenate(pieces or [np.zeros(0, np.float32)])
    return Track(values, hop=1 / WAVEFORM_RATE, start=span.start)


def draw_strip(strip: TimelineStrip) -> Figure:
    """The figure of the strip: one row for each part, and a legend below."""
    shapes = [frame.rgb.shape for frame in (*strip.frames, *strip.picked_frames)]
    picture = FRAME_WIDTH * shapes[0][0] / shapes[0][1] if shapes else 0.0
    rows = [
        ("frames", picture, _frames_row, bool(strip.frames)),
        ("sound", 0.8, _sound_row, strip.waveform is not None),
        ("score", 1.1, _score_row, True),
        ("episodes", 0.3, _episodes_row, strip.is_operating_point),
        ("actions", 0.9, _actions_row, True),
        ("calls", 0.5, _picks_row, True),
        ("looked at", picture, _picked_row, bool(strip.picked_frames)),
    ]
    shown = [row for row in rows if row[3]]
    tall = [row[1] for row in shown]
    drawn = figures.figure(13, 1.2 * sum(tall) + 0.9)
    axes = drawn.subplots(len(shown), 1, squeeze=False, sharex=True, height_ratios=tall)[:, 0]
    for each, (name, _, paint, _) in zip(axes, shown, strict=True):
        each.set_yticks([])
        paint(each, strip)
        each.set_ylabel(name, rotation=0, ha="right", va="center")
        each.set_xlim(strip.span.start, strip.span.end)
    axes[-1].set_xlabel("seconds")
    axes[0].set_title(strip.title)
    named = {
        label: handle
        for each in axes
        for handle, label in zip(*each.get_legend_handles_labels(), strict=True)
    }
    drawn.legend(named.values(), named, loc="outside lower center", ncols=6, frameon=False)
    return drawn


def _frames_row(axes: Axes, strip: TimelineStrip) -> None:
    step = strip.span.duration / max(1, len(strip.frames))
    for place, frame in enumerate(strip.frames):
        left = strip.span.start + place * step
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
    label = "threshold: the lowest score that ranking would pick"
    if strip.is_operating_point:
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
    """`words` cut to a number of letters; empty if hardly any would be left.

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
