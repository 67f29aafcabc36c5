"""Prints what placing windows freely and showing more frames come to, against the grid.

    python scripts/placement_table.py DATA CACHE

DATA holds `resound/`, `shift/` and `epic/`; CACHE is where what was heard is kept. The default
gate listens to the composites of the participants it was not trained on. Composites, not kitchen
audio.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path

import composites
import numpy as np

from earmark.captioning.question import Question
from earmark.evaluation.annotations.actions import Action
from earmark.evaluation.metrics.coverage_counts import holding
from earmark.gate.frontline import Frontline
from earmark.gate.frontline_registry import GATE, frontline_named
from earmark.gate.listener import Heard
from earmark.gate.score_cache import ScoreCache, listen_cached
from earmark.grid import Grid
from earmark.media import find
from earmark.selection import Coverage, Pick

BUDGETS = {
    "sparse": (0.01, 0.02, 0.05, 0.10, 0.25, 0.50),
    "dense": (0.05, 0.10, 0.15, 0.25, 0.335, 0.50),
}
FRAMES = (1, 2, 3, 4)


def main() -> None:
    """Listen, choose and print."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("data", type=Path)
    parser.add_argument("cache", type=Path)
    options = parser.parse_args()
    marked = composites.annotations(options.data).recordings
    paths = {path.stem: path for folder in composites.media(options.data)
             for path in sorted(folder.glob("*.opus"))}  # fmt: skip
    line, cache = frontline_named(GATE), ScoreCache(options.cache)
    judged: dict[str, list[list[list[float]]]] = {"sparse": [], "dense": []}
    for name in composites.old_test(sorted(paths)):
        if marked[name]:
            regime = "sparse" if name.endswith(composites.SPARSE) else "dense"
            (source,) = find([paths[name]])
            heard = listen_cached(source, line, cache)
            judged[regime].append(judge(heard, line, marked[name], BUDGETS[regime]))
    for regime, rows in judged.items():
        show(regime, np.array(rows))


def judge(
    heard: Heard, line: Frontline, actions: Sequence[Action], budgets: Sequence[float]
) -> list[list[float]]:
    """Of each row of the table the shares of `actions` at each of `budgets`."""
    rows: list[list[float]] = []
    for placement in ("grid", "free"):
        windows = Grid(placement=placement).lay(heard, line).windows
        calls = [round(budget * windows.calls) for budget in budgets]
        picked = Coverage().each([windows] * len(calls), budgets=calls)
        rows.append([touched(actions, picks) for picks in picked])
        rows += [[seen(actions, picks, frames) for picks in picked] for frames in FRAMES]
    return rows


def touched(actions: Sequence[Action], picks: Sequence[Pick]) -> float:
    """The share of `actions` that one of `picks` overlaps."""
    return float(np.mean([any(pick.span.overlaps(action) for pick in picks) for action in actions]))


def seen(actions: Sequence[Action], picks: Sequence[Pick], frames: int) -> float:
    """The share of `actions` in which one of the moments shown of `picks` lies."""
    question = Question(frames=frames)
    times = np.array([time for pick in picks for time in question.times(pick)])
    return float(holding(actions, times).mean())


def show(regime: str, values: np.ndarray) -> None:
    """The table of one regime; `values` is (recordings, rows, budgets)."""
    budgets = " | ".join(f"{100 * budget:g} %" for budget in BUDGETS[regime])
    print(f"\n{regime}, {len(values)} recordings\n\n| | {budgets} |\n|{'---|' * 7}")
    names = ["touched", *(f"in an action, --frames {count}" for count in FRAMES)]
    means = 100 * values.mean(axis=0)
    half = len(names)
    errors = 100 * (values[:, half:] - values[:, :half]).std(axis=0) / np.sqrt(len(values))
    for place, name in enumerate(names):
        for placement, row in (("grid", place), ("free", place + half)):
            cells = " | ".join(f"{value:.1f}" for value in means[row])
            print(f"| {name}, {placement} | {cells} |")
        pairs = zip(means[place + half] - means[place], errors[place], strict=True)
        cells = " | ".join(f"{gain:+.1f} ± {error:.1f}" for gain, error in pairs)
        print(f"| free less grid | {cells} |")


if __name__ == "__main__":
    main()
