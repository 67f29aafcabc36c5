"""Sixty seconds of one recording, drawn: frames, sound, score, actions and what survives."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from earmark.evaluate import figures
from earmark.evaluate.annotations import Action
from earmark.evaluate.bench import Case, choose
from earmark.media import Frame, Recording
from earmark.select import Budget, Pick
from earmark.timeline import Span, Track

if TYPE_CHECKING:
    from matplotlib.axes import Axes

LENGTH = 60.0
"""Seconds of a strip; the paper's."""

FRAMES = 10
"""Frames shown along the top."""

WAVEFORM_RATE = 8_000
"""Samples a second of the drawn waveform."""


@dataclass(frozen=True, slots=True, eq=False)
class Strip:
    """What is drawn; what there is none of is left out of the drawing."""

    title: str
    span: Span
    actions: Sequence[Action]
    picks: Sequence[Pick]
    scores: Track
    threshold: float
    """The lowest score among the windows that ranking would pick at the same budget."""
    waveform: Track | None = None
    frames: Sequence[Frame] = ()
    picked_frames: Sequence[Frame] = ()
    """One for each pick in the span, at the pick's instant."""


def middle_minute(duration: float) -> Span:
    """The sixty seconds around the middle: chosen before anything is seen."""
    start = max(0.0, duration / 2 - LENGTH / 2)
    return Span(start, min(duration, start + LENGTH))


def strip_of(
    case: Case, *, rule: str, budget: float, span: Span | None = None, scores: Track | None = None
) -> Strip:
    """The strip of one case without its media; `scores` are the windows' own unless given."""
    windows = case.windows
    calls = Budget(share=budget).calls(len(windows))
    picks = choose(case, rule, [calls])[0]
    ranked = np.sort(windows.scores)[::-1]
    where = span or middle_minute(windows.duration)
    spent = f"{rule} at {100 * budget:g} % of calls"
    return Strip(
        title=f"{case.recording}, {spent}, scores from {case.frontline}",
        span=where,
        actions=[action for action in case.actions if action.span.overlaps(where)],
        picks=[pick for pick in picks if Span(pick.start, pick.end).overlaps(where)],
        scores=scores or Track(windows.scores, hop=windows.length),
        threshold=float(ranked[max(0, calls - 1)]) if len(ranked) else 0.0,
    )


def with_media(strip: Strip, recording: Recording) -> Strip:
    """The strip with the recording's sound and pictures, as far as it has them."""
    sound = waveform(recording, strip.span) if recording.has_audio else None
    if not recording.has_video:
        return replace(strip, waveform=sound)
    step = strip.span.duration / FRAMES
    times = [strip.span.start + (place + 0.5) * step for place in range(FRAMES)]
    instants = [pick.instant for pick in strip.picks]
    shown = recording.frames(times + instants) if times + instants else []
    return replace(
        strip, waveform=sound, frames=shown[: len(times)], picked_frames=shown[len(times) :]
    )


def waveform(recording: Recording, span: Span) -> Track:
    """The sound of `span`, one value a sample."""
    pieces = []
    for block in recording.sound(sample_rate=WAVEFORM_RATE):
        if block.start >= span.end:
            break
        first = max(0, round((span.start - block.start) * WAVEFORM_RATE))
        last = max(0, round((span.end - block.start) * WAVEFORM_RATE))
        pieces.append(block.values[first:last])
    return Track(
        np.concatenate(pieces or [np.zeros(0, np.float32)]), hop=1 / WAVEFORM_RATE, start=span.start
    )


def draw(strip: Strip) -> bytes:
    """The strip as a PNG, one row for each thing there is."""
    rows = [
        ("frames", 1.5, _frames_row, bool(strip.frames)),
        ("sound", 0.8, _sound_row, strip.waveform is not None),
        ("score", 1.1, _score_row, True),
        ("actions", 0.9, _actions_row, True),
        ("calls", 0.5, _picks_row, True),
        ("looked at", 1.5, _picked_row, bool(strip.picked_frames)),
    ]
    shown = [row for row in rows if row[3]]
    drawn = figures.figure(13, 1.2 * sum(row[1] for row in shown) + 0.6)
    axes = drawn.subplots(
        len(shown), 1, squeeze=False, sharex=True, height_ratios=[row[1] for row in shown]
    )[:, 0]
    for each, (name, _, paint, _) in zip(axes, shown, strict=True):
        paint(each, strip)
        each.set_ylabel(name, rotation=0, ha="right", va="center")
        each.set_yticks([])
        each.set_xlim(strip.span.start, strip.span.end)
    axes[-1].set_xlabel("seconds")
    axes[0].set_title(strip.title)
    return figures.png(drawn)


def _frames_row(axes: Axes, strip: Strip) -> None:
    step = strip.span.duration / max(1, len(strip.frames))
    for place, frame in enumerate(strip.frames):
        left = strip.span.start + place * step
        axes.imshow(frame.rgb, extent=(left, left + step, 0, 1), aspect="auto")


def _picked_row(axes: Axes, strip: Strip) -> None:
    width = strip.span.duration / max(FRAMES, len(strip.picks))
    for pick, frame in zip(strip.picks, strip.picked_frames, strict=True):
        middle = (pick.start + pick.end) / 2
        left = min(max(middle - width / 2, strip.span.start), strip.span.end - width)
        axes.imshow(frame.rgb, extent=(left, left + width, 0, 1), aspect="auto")
    axes.set_ylim(0, 1)


def _sound_row(axes: Axes, strip: Strip) -> None:
    assert strip.waveform is not None
    cells = np.array_split(strip.waveform.values, min(2000, max(1, len(strip.waveform))))
    peaks = np.array([np.abs(cell).max(initial=0) for cell in cells])
    times = np.linspace(strip.span.start, strip.span.end, len(peaks))
    axes.fill_between(times, -peaks, peaks, color="#6b7280", linewidth=0)


def _score_row(axes: Axes, strip: Strip) -> None:
    track = strip.scores
    first = max(0, int((strip.span.start - track.start) / track.hop))
    last = min(len(track), int(np.ceil((strip.span.end - track.start) / track.hop)))
    edges = track.start + np.arange(first, last + 1) * track.hop
    values = track.values[first:last]
    axes.stairs(values, edges, color="#1d4ed8", fill=True, alpha=0.25)
    axes.stairs(values, edges, color="#1d4ed8", linewidth=1)
    axes.axhline(strip.threshold, color="#c2410c", linestyle="--", linewidth=1)


def _actions_row(axes: Axes, strip: Strip) -> None:
    ends: list[float] = []
    for action in sorted(strip.actions):
        lane = next((n for n, end in enumerate(ends) if end <= action.start), len(ends))
        ends[lane : lane + 1] = [action.end]
        touched = any(pick.start < action.end and action.start < pick.end for pick in strip.picks)
        colour = "#047857" if touched else "#d1d5db"
        axes.broken_barh([(action.start, action.duration)], (lane, 0.8), color=colour)
    axes.set_ylim(len(ends) or 1, 0)


def _picks_row(axes: Axes, strip: Strip) -> None:
    bars = [(pick.start, pick.end - pick.start) for pick in strip.picks]
    axes.broken_barh(bars, (0, 1), color="#c2410c", alpha=0.7, edgecolor="white")
    axes.set_ylim(0, 1)
