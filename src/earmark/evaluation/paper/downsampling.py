"""Looking now and then where a gate kept nothing: does it help, chosen on other recordings?

A gate keeps the stretches whose score reaches a threshold. In the rest a look of two seconds every
`every` seconds may still touch an action. Threshold and `every` are chosen on development
recordings as those that throw most away at a target recall, and judged on others.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from earmark.evaluation.annotations.actions import Action
from earmark.evaluation.metrics.coverage_counts import EpisodeCounts, count_kept
from earmark.evaluation.tables.table import Table
from earmark.timeline import Span, Track, merge

LOOK = 2.0
"""Seconds of one look; the paper's."""

EVERY = (4.0, 8.0, 16.0, 32.0, 64.0)
"""Seconds between two looks that are tried."""

TARGETS = (0.99, 0.97, 0.95, 0.93, 0.90, 0.87)
"""Recalls on the development recordings; the paper's."""

CLOSED_GAP = 0.6
"""Seconds of silence that are kept between two stretches; the paper's."""

SHORTEST = 0.15
"""Seconds below which a stretch is dropped; the paper's."""

Unit = Literal["time", "calls"]
"""What a setting is chosen to save: seconds that are kept, or windows that must be called."""

THRESHOLDS = 40
"""Thresholds tried: quantiles of the development scores."""


@dataclass(frozen=True, slots=True, eq=False)
class AnnotatedScores:
    """One recording's scores with its actions."""

    recording: str
    track: Track
    duration: float
    actions: Sequence[Action]


@dataclass(frozen=True, slots=True)
class DownsampleSetting:
    """A threshold and, if looks are taken, the seconds between them."""

    threshold: float
    every: float | None = None


def keep_above(track: Track, threshold: float, duration: float) -> list[Span]:
    """The stretches where the score reaches `threshold`, short gaps closed and specks dropped.

    >>> keep_above(Track(np.array([0.9, 0.1, 0.9, 0.9]), hop=1.0), 0.5, 4.0)
    [Span(start=0.0, end=1.0), Span(start=2.0, end=4.0)]
    """
    above = np.concatenate([[False], track.values >= threshold, [False]])
    edges = np.flatnonzero(above[1:] != above[:-1])
    times = np.clip(track.start + edges * track.hop, 0.0, duration)
    spans = [Span(float(a), float(b)) for a, b in zip(times[::2], times[1::2], strict=True)]
    return [span for span in merge(spans, gap=CLOSED_GAP) if span.duration >= SHORTEST]


def look_between(kept: Sequence[Span], duration: float, *, every: float) -> list[Span]:
    """Looks of `LOOK` seconds, one in the middle of each `every` seconds of a gap between `kept`.

    kept   ====..................====      every = 6 half seconds
    looks        ^^    ^^    ^^
    """
    looks = []
    edges = [0.0, *(time for span in merge(kept) for time in (span.start, span.end)), duration]
    for begin, end in zip(edges[::2], edges[1::2], strict=True):
        for place in range(int((end - begin) / every)):
            middle = begin + (place + 0.5) * every
            looks.append(Span(max(begin, middle - LOOK / 2), min(end, middle + LOOK / 2)))
    return looks


def count_setting(
    many: Iterable[AnnotatedScores],
    threshold: float,
    every: Sequence[float | None],
    *,
    window: float,
) -> list[EpisodeCounts]:
    """What a threshold keeps, reaches and costs over many recordings, for each gap of `every`."""
    totals = [EpisodeCounts() for _ in every]
    for one in many:
        kept = keep_above(one.track, threshold, one.duration)
        for place, gap in enumerate(every):
            looks = [] if gap is None else look_between(kept, one.duration, every=gap)
            totals[place] += count_kept(one.actions, kept + looks, one.duration, window=window)
    return totals


def choose_settings(
    development: Sequence[AnnotatedScores],
    targets: Sequence[float] = TARGETS,
    *,
    every: Sequence[float | None],
    window: float,
    unit: Unit = "time",
) -> dict[float, DownsampleSetting | None]:
    """For each target, the setting that saves most on `development` and still reaches it.

    None where no setting reaches the target.
    """
    pooled = np.concatenate([one.track.values for one in development])
    quantiles = np.quantile(pooled, np.linspace(0, 1, THRESHOLDS), method="higher")
    thresholds = np.unique(quantiles).tolist()
    tried: list[tuple[float, float, DownsampleSetting]] = []
    for threshold in thresholds:
        counted = count_setting(development, threshold, every, window=window)
        for kept, gap in zip(counted, every, strict=True):
            saved = kept.reduction if unit == "time" else 1 - kept.cost
            tried.append((saved, kept.recall, DownsampleSetting(threshold, gap)))
    chosen: dict[float, DownsampleSetting | None] = {}
    for target in targets:
        good = [(saved, setting) for saved, recall, setting in tried if recall >= target]
        chosen[target] = max(good, key=lambda pair: pair[0])[1] if good else None
    return chosen


def downsample_table(
    development: Sequence[AnnotatedScores],
    judged: Sequence[AnnotatedScores],
    *,
    window: float,
    targets: Sequence[float] = TARGETS,
    unit: Unit = "time",
) -> Table:
    """The gate alone and with looks, both chosen on `development` and judged on the others."""
    alone = choose_settings(development, targets, every=(None,), window=window, unit=unit)
    gaps = (None, *EVERY)
    looking = choose_settings(development, targets, every=gaps, window=window, unit=unit)
    rows = []
    for target in targets:
        found = [_judge(judged, chosen[target], window) for chosen in (alone, looking)]
        gap = "—"
        if setting := looking[target]:
            gap = f"{setting.every:g} s" if setting.every else "none"
        rows.append((f"{100 * target:g} %", *found[0], gap, *found[1]))
    judged_by = ("recall", "reduction", "calls")
    with_looks = tuple(f"{name}, looking" for name in judged_by)
    columns = ("dev recall", *judged_by, "looks every", *with_looks)
    note = (
        f"Per cent on {len(judged)} recordings; threshold and looks of {LOOK:g} s chosen on "
        f"{len(development)} others. Left, the gate alone; right, with looks where it kept none. "
        f"Reduction is of the time, calls are of the windows that what is kept touches."
    )
    title = f"Downsampling the discarded stream, chosen to save {unit}"
    return Table(title, columns, rows, note)


def _judge(
    judged: Sequence[AnnotatedScores], setting: DownsampleSetting | None, window: float
) -> tuple[float, float, float]:
    """Recall, reduction and calls in per cent; nan where there is no setting."""
    if setting is None:
        return math.nan, math.nan, math.nan
    kept = count_setting(judged, setting.threshold, [setting.every], window=window)[0]
    return 100 * kept.recall, 100 * kept.reduction, 100 * kept.cost
