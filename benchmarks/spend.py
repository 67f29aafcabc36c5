"""How long it takes to spend a budget by expected coverage, over many recordings.

    python benchmarks/spend.py             # 1,000 recordings of an hour, then 10,000
    python benchmarks/spend.py --small    # 1,000 only

Rates are drawn from a gamma distribution, uneven as a busy kitchen's; windows last 4 s.
"""

from __future__ import annotations

import argparse
import resource
import time
from collections.abc import Callable
from typing import TypeVar

import numpy as np

from earmark.gate.survival import Survival
from earmark.grid import Windows
from earmark.selection import Budget, Coverage, allocate, rule_named
from earmark.selection.price_search import calls_for, coverage_of_budgets

T = TypeVar("T")

LASTS = Survival.lognormal(median=2.0, sigma=1.0)
LENGTH = 4.0


def recordings(count: int, *, windows: int = 900, seed: int = 0) -> list[Windows]:
    rng = np.random.default_rng(seed)
    middles = (np.arange(windows) + 0.5) * LENGTH
    made = []
    for _ in range(count):
        rates = rng.gamma(2.0, 0.5, windows) * rng.gamma(4.0, 0.25)
        made.append(Windows(LENGTH, windows * LENGTH, rates, middles.copy(), rates.copy(), LASTS))
    return made


def peak_megabytes() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def timed(name: str, work: Callable[[], T]) -> T:
    start = time.perf_counter()
    result = work()
    print(f"  {name:<42}{time.perf_counter() - start:8.2f} s   peak {peak_megabytes():6.0f} MB")
    return result


def count_calls(name: str, many: list[Windows], budget: Budget, *, across: bool = False) -> int:
    choices = allocate(rule_named(name), many, budget, across=across)
    return sum(len(choice.picks) for choice in choices)


def thousand() -> None:
    many = recordings(1_000)
    each, shared = Budget(count=225), Budget(count=225 * len(many))
    print("1,000 recordings of 1 h, 900 windows each, a quarter of the calls")
    timed("each, one budget a recording", lambda: count_calls("coverage", many, each))
    timed("across, one budget for all", lambda: count_calls("coverage", many, shared, across=True))
    some, quarter = many[:100], Budget(share=0.25)
    timed("rank, 100 of them, across", lambda: count_calls("rank", some, quarter, across=True))
    shares = (0.01, 0.02, 0.05, 0.1, 0.15, 0.2, 0.25, 0.335, 0.5, 0.75)
    budgets = [round(share * 900_000) for share in shares]
    reached = timed("ladder of ten budgets", lambda: coverage_of_budgets(many, budgets))
    calls = timed("calls for 90 % coverage", lambda: calls_for(many, 0.9))
    print("  forecast:", ", ".join(f"{share:.1%} {value:.1%}" for share, value in
                                   zip(shares, reached, strict=True)))  # fmt: skip
    print(f"  90 % takes {calls:,} of 900,000 calls")


def single() -> None:
    (long,) = recordings(1, windows=20_000)
    print("One recording of 22 h, 20,000 windows")
    timed("coverage at a quarter of the calls", lambda: Coverage()(long, budget=5_000))


def ten_thousand() -> None:
    many = recordings(10_000)
    print(
        f"10,000 recordings of 1 h, 9 million windows; input in memory, {peak_megabytes():.0f} MB"
    )
    budget = Budget(count=2_250_000)
    calls = timed("across, with every pick explained",
                  lambda: count_calls("coverage", many, budget, across=True))  # fmt: skip
    print(f"  {calls:,} picks")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--small", action="store_true", help="leave out the 10,000 recordings")
    small = parser.parse_args().small
    single()
    thousand()
    if not small:
        ten_thousand()


if __name__ == "__main__":
    main()
