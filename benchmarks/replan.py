"""How long a round's re-planning takes: answers read, rates changed, the rest planned again.

    python benchmarks/replan.py --recordings 1000

Made recordings of an hour, windows of 4 s, a budget of 10 % over all of them, half of it answered.
Prints seconds of processor time; a crowded machine does not show in them.
"""

from __future__ import annotations

import argparse
import time
from dataclasses import replace

import numpy as np

from earmark.captioning.answer_schema import same_activity
from earmark.gate.survival import Survival
from earmark.grid import Windows
from earmark.selection import Budget, Coverage, allocate
from earmark.selection.answer_evidence import ObservedActivity
from earmark.selection.rounds import Turn, revise_by_answers

SAID = ("chop onion", "wash pan", "", "stir soup", "", "cut bread")


def main() -> None:
    """Plan, answer half, plan again."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--recordings", type=int, default=1000)
    parser.add_argument("--windows", type=int, default=900)
    options = parser.parse_args()
    rng = np.random.default_rng(0)
    many = [made(rng, options.windows) for _ in range(options.recordings)]
    budget = Budget(share=0.1)
    first = list(allocate(Coverage(), many, budget, across=True))
    seen = [
        [
            ObservedActivity(pick.window, SAID[int(rng.integers(len(SAID)))])
            for pick in choice.picks[::2]
        ]
        for choice in first
    ]
    known = [
        replace(windows, owned=tuple(one.window for one in some))
        for windows, some in zip(many, seen, strict=True)
    ]
    began = time.process_time()
    rated, _ = revise_by_answers(known, seen, Turn(2, 0.75), agree=same_activity)
    read = time.process_time()
    list(allocate(Coverage(), rated, budget, across=True))
    done = time.process_time()
    answers = sum(map(len, seen))
    print(f"{options.recordings} recordings, {answers} answers")
    print(f"answers {read - began:.2f} s, plan {done - read:.2f} s")


def made(rng: np.random.Generator, count: int) -> Windows:
    """A recording whose rates differ from window to window."""
    rates = rng.gamma(1, 0.3, count)
    middles, survival = np.arange(count) * 4.0 + 2, Survival.lognormal(median=2, sigma=1)
    return Windows(4.0, count * 4.0, rates, middles, rates, survival)


if __name__ == "__main__":
    main()
