"""Windows and frames chosen together, which the paper leaves open, against one after the other."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from heapq import heapify, heapreplace

import numpy as np

from earmark.captioning.request import Question
from earmark.grid import Windows
from earmark_lab.experiments.benchmark import Case, choose, whole_calls
from earmark_lab.experiments.report import Cells, Table, p_value, percent
from earmark_lab.metrics.counts import CoverageCounts, holds_instant, is_covered
from earmark_lab.metrics.statistics import compare_paired
from earmark_lab.reproduce.inputs import PaperInputs
from earmark_lab.reproduce.reproduction import Comparison, Made

STEP = 0.5
"""Seconds between the instants that a frame may show."""

BUDGETS = (0.05, 0.1, 0.25, 0.5)
FRAMES = (1, 2, 4)
RULE = "coverage"
APART, TOGETHER = "window, then frames", "together"
Looks = dict[int, list[float]]
"""Times of the frames, by window."""


class _Expected:
    """Actions that a set of instants is expected to fall into.

    An action that starts in step s is seen if it is still going at the next instant:

        F(instants) = sum over s of rate[s] * reach[next instant at or after s, minus s]
    """

    def __init__(self, steps: Windows) -> None:
        self._rates, self._reach = steps.rates, steps.reach
        self.seen = np.zeros(len(steps))
        """The chance, by the step in which an action starts."""

    def _raised(self, step: int) -> tuple[slice, np.ndarray]:
        first = max(0, step + 1 - len(self._reach))
        part = slice(first, step + 1)
        chances = self._reach[: step + 1 - first][::-1]
        return part, np.maximum(self.seen[part], chances)

    def gain(self, step: int) -> float:
        part, chances = self._raised(step)
        return float(self._rates[part] @ (chances - self.seen[part]))

    def add(self, step: int) -> None:
        part, chances = self._raised(step)
        self.seen[part] = chances


def choose_together(windows: Windows, steps: Windows, calls: int, frames: int) -> Looks:
    """The windows with the `frames` instants that add most expected actions, best first.

    Greedy, so at least 63 % of the best: what a window adds only falls as others are taken.
    """
    expected, per_window = _Expected(steps), round(windows.length / steps.length)

    def best(window: int) -> tuple[float, list[int]]:
        inside = range(window * per_window, min((window + 1) * per_window, len(steps)))
        before, gain, taken = expected.seen.copy(), 0.0, list[int]()
        for _ in range(min(frames, len(inside))):
            step = max(
                (step for step in inside if step not in taken),
                key=lambda step: (expected.gain(step), -step),
            )
            gain += expected.gain(step)
            expected.add(step)
            taken.append(step)
        expected.seen = before
        return gain, sorted(taken)

    waiting = [(-best(window)[0], window) for window in range(len(windows))]
    heapify(waiting)
    looks: Looks = {}
    while waiting and len(looks) < min(calls, len(windows)):
        _, window = waiting[0]
        gain, taken = best(window)
        runner_up = min(waiting[1:3], default=(np.inf, 0))
        if (-gain, window) > runner_up:  # it adds less than it did: not the best any more
            heapreplace(waiting, (-gain, window))
            continue
        heapreplace(waiting, (np.inf, window))
        for step in taken:
            expected.add(step)
        looks[window] = [min((step + 0.5) * steps.length, steps.duration) for step in taken]
    return looks


def choose_apart(case: Case, calls: int, frames: int) -> Looks:
    """As a run does."""
    (picks,) = choose(case, RULE, [calls])
    times = Question(frames=frames).times
    return {pick.window: list(times(pick)) for pick in picks if pick.window is not None}


def count_looks(case: Case, looks: Looks) -> CoverageCounts:
    size, length = len(case.windows), case.windows.length
    loose = is_covered(case.actions, np.array([*looks], np.intp), windows=size, length=length)
    times = np.array([time for own in looks.values() for time in own])
    strict = holds_instant(case.actions, times)
    counts = (len(case.actions), float(loose.sum()), float(strict.sum()))
    return CoverageCounts(size, len(looks), *counts)


def make_placement(inputs: PaperInputs) -> Iterator[Made]:
    source, fine = inputs.scores(), inputs.scores(STEP)
    line, ran = source.frontlines[0], inputs.describe_scores()
    counted: dict[tuple[int, float, str], list[CoverageCounts]] = {}
    for name in source.evaluated.recordings:
        case, steps = source.tasks()[line, name](), fine.tasks()[line, name]().windows
        for frames in FRAMES:
            for budget in BUDGETS:
                calls = whole_calls(budget, len(case.windows), inputs.plan.rounding)
                for way, looks in (
                    (APART, choose_apart(case, calls, frames)),
                    (TOGETHER, choose_together(case.windows, steps, calls, frames)),
                ):
                    key = (frames, budget, way)
                    counted.setdefault(key, []).append(count_looks(case, looks))
    rows: list[Cells] = []
    for (frames, budget, way), counts in counted.items():
        total = sum(counts, CoverageCounts())
        shares = (100 * total.strict_coverage, 100 * total.coverage)
        rows.append((frames, percent(budget), way, *shares, total.calls))
    for frames in FRAMES:
        for budget in BUDGETS:
            ours, theirs = (counted[frames, budget, way] for way in (TOGETHER, APART))
            yield from _gain_rows(f"{frames} a call, {percent(budget)}", ours, theirs, ran)
    columns = ("frames", "calls", "chosen", "strict %", "loose %", "calls made")
    note = (
        "Strict: a frame lies inside the action. Loose: the window overlaps it. All actions "
        f"together. {APART}: the rule {RULE} and the frames that a run shows."
    )
    yield Table("Windows and frames", columns, rows, note)


def _gain_rows(
    what: str, ours: Sequence[CoverageCounts], theirs: Sequence[CoverageCounts], ran: str
) -> Iterator[Comparison]:
    for kind, name in (("strict", "strict_coverage"), ("loose", "coverage")):
        first, second = ([100 * getattr(c, name) for c in own] for own in (ours, theirs))
        pair = compare_paired(first, second)
        quantity = f"{what}: together minus apart, {kind}, points"
        ends = (pair.mean, f"{pair.recordings} recordings", pair.low, pair.high, ran)
        remarks = f"W/L/T {pair.record}, p {p_value(pair.p)}; the paper leaves it open"
        yield Comparison(quantity, None, *ends, remarks)
