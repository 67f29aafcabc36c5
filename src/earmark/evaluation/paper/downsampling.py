"""Looking now and then where a gate kept nothing: does it help, chosen on other recordings?

A gate keeps its episodes. In the rest a look of two seconds every `every` seconds may still touch
an action. Threshold and `every` are chosen on development recordings as those that throw most away
at a target recall, and judged on others; episodes are those of the gate, see `operating_points`.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from earmark.evaluation.metrics.coverage_counts import EpisodeCounts, count_kept
from earmark.evaluation.paper.operating_points import (
    TARGETS,
    AnnotatedScores,
    EpisodeShape,
    Unit,
    candidates,
    choose_shape,
    find_episodes,
    saved,
)
from earmark.evaluation.tables.table import Table
from earmark.gate.episodes import Episodes
from earmark.timeline import Span, merge

LOOK = 2.0
"""Seconds of one look; the paper's."""

EVERY = (4.0, 8.0, 16.0, 32.0, 64.0)
"""Seconds between two looks that are tried."""


@dataclass(frozen=True, slots=True)
class DownsampleSetting:
    """The rule for episodes and, if looks are taken, the seconds between them."""

    rule: Episodes
    every: float | None = None


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
    rule: Episodes,
    every: Sequence[float | None],
    *,
    window: float,
) -> list[EpisodeCounts]:
    """What a rule keeps, reaches and costs over many recordings, for each gap of `every`."""
    totals = [EpisodeCounts() for _ in every]
    for one in many:
        kept = find_episodes(one, rule)
        for place, gap in enumerate(every):
            looks = [] if gap is None else look_between(kept, one.duration, every=gap)
            totals[place] += count_kept(one.actions, kept + looks, one.duration, window=window)
    return totals


def choose_settings(
    development: Sequence[AnnotatedScores],
    shape: EpisodeShape,
    targets: Sequence[float] = TARGETS,
    *,
    every: Sequence[float | None],
    window: float,
    unit: Unit = "time",
) -> dict[float, DownsampleSetting | None]:
    """For each target, the setting that saves most on `development` and still reaches it.

    None where no setting reaches the target.
    """
    tried: list[tuple[float, float, DownsampleSetting]] = []
    for rule in map(shape.rule, candidates(development)):
        counted = count_setting(development, rule, every, window=window)
        for kept, gap in zip(counted, every, strict=True):
            tried.append((saved(kept, unit), kept.recall, DownsampleSetting(rule, gap)))
    chosen: dict[float, DownsampleSetting | None] = {}
    for target in targets:
        good = [(spared, setting) for spared, recall, setting in tried if recall >= target]
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
    shape = choose_shape(development, window=window, unit=unit)
    alone, looking = (
        choose_settings(development, shape, targets, every=gaps, window=window, unit=unit)
        for gaps in ((None,), (None, *EVERY))
    )
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
        f"Per cent on {len(judged)} recordings; episodes and looks of {LOOK:g} s chosen on "
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
    kept = count_setting(judged, setting.rule, [setting.every], window=window)[0]
    return 100 * kept.recall, 100 * kept.reduction, 100 * kept.cost
