"""How long an evaluation takes once everything is heard: 24 recordings x 10 rules x 10 budgets.

Run it with `python benchmarks/evaluate.py`; the target is 20 s on two cores, and a cost that grows
in a straight line with the recordings. The recordings are made up, as long as the paper's.

Measured on 2026-11-15, two shared cores, Python 3.11: see experiments/archive-speed.md.
"""

from __future__ import annotations

import sys
import time

import numpy as np

from earmark.gate.survival import Survival
from earmark.grid import Windows
from earmark_lab.annotations.actions import Action
from earmark_lab.experiments.benchmark import COMPARED, Case, run_case

BUDGETS = (0.02, 0.05, 0.1, 0.15, 0.2, 0.25, 0.335, 0.5, 0.75, 0.9)
TARGET_SECONDS = 20.0
WINDOW = 4.0


def make_case(number: int, rng: np.random.Generator) -> Case:
    """A recording of 7 to 33 minutes with an action about every six seconds."""
    duration = float(rng.uniform(400, 2000))
    count = int(np.ceil(duration / WINDOW))
    starts = np.sort(rng.uniform(0, duration - 1, int(duration / 6)))
    ends = np.minimum(duration, starts + rng.lognormal(1.0, 0.9, len(starts)))
    actions = [Action(float(a), float(b)) for a, b in zip(starts, ends, strict=True)]
    heard = np.bincount((starts / WINDOW).astype(int), minlength=count)[:count]
    rates = 0.2 + 0.5 * heard + rng.gamma(2, 0.2, count)
    instants = (np.arange(count) + 0.5) * WINDOW
    lasts = Survival.from_lengths(rng.lognormal(1.0, 0.9, 5000))
    windows = Windows(WINDOW, duration, rates, instants, rates, lasts)
    return Case(f"R{number:03d}", "cached", windows, actions)


def seconds_for(cases: list[Case]) -> tuple[float, float]:
    """Wall-clock and processor seconds to judge every case by every rule at every budget."""
    rules = [rule for rule in COMPARED if rule != "random"]
    assert len(rules) == 10
    began, busy = time.perf_counter(), time.process_time()
    rows = [row for case in cases for row in run_case(case, rules, BUDGETS)]
    assert len(rows) == len(cases) * len(rules) * len(BUDGETS)
    return time.perf_counter() - began, time.process_time() - busy


def main() -> int:
    rng = np.random.default_rng(0)
    cases = [make_case(number, rng) for number in range(96)]
    seconds_for(cases[:2])  # warm up
    print("recordings  seconds  processor seconds  processor seconds a recording")
    for count in (12, 24, 48, 96):
        taken, busy = seconds_for(cases[:count])
        print(f"{count:10d}  {taken:7.2f}  {busy:17.2f}  {busy / count:29.3f}")
        if count == 24:
            measured = taken
    verdict = "within" if measured <= TARGET_SECONDS else "OVER"
    print(
        f"24 recordings x 10 rules x 10 budgets: {measured:.2f} s, {verdict} {TARGET_SECONDS:g} s"
    )
    return 0 if measured <= TARGET_SECONDS else 1


if __name__ == "__main__":
    sys.exit(main())
