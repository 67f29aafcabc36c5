"""What answers are worth, with the model played from annotations: rounds, enough, audit.

Half of the recordings are for development, whatever is set is set there; the other half is judged.
People are kept together: see `is_development`.
"""

from __future__ import annotations

import math
import zlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import pairwise

import numpy as np

from earmark.grid import Windows
from earmark.selection.audit_sample import (
    chance_of_activity,
    draw_evenly,
    estimate_share,
    forecast_width,
)
from earmark.selection.budget import Budget
from earmark.selection.pick import Pick
from earmark.selection.rounds import FIRST_SHARE, calls_now, spread_evenly
from earmark.selection.rules.coverage import Coverage
from earmark_lab.experiments.benchmark import Case, average_phases, choose, count_picks
from earmark_lab.experiments.report import Cells, Table
from earmark_lab.experiments.simulated_answers import (
    AnswerSimulator,
    simulate_rounds,
    simulate_runs,
)
from earmark_lab.metrics.counts import window_range
from earmark_lab.metrics.statistics import compare_paired

ANSWERS = ("perfect", "noisy")

NOISES = 5
"""Models that err, each by chance in its own way, over which rounds and stopping are averaged."""

LADDER = 15
"""Budgets that the best in hindsight is sought among."""

AUDITED = 0.1
"""Share of the windows that are asked before a recording is audited."""

DRAWN = 40
"""Windows an audit asks."""

AUDITS = 25
"""Of each recording, with other seeds."""


Play = Callable[[list[list[str]]], Sequence[Sequence[Pick]]]
"""The picks of each recording, given what is said of each of its windows."""


@dataclass(frozen=True, slots=True, eq=False)
class BenchMaterial:
    """Recordings of one kind, all of them judged."""

    name: str
    cases: Sequence[Case]
    """Those with an action."""
    budgets: tuple[float, ...]
    """Shares of the windows."""


def is_development(recording: str) -> bool:
    """Whether a recording is one that rules may be set on: the CRC-32 of its person is even.

    The person is the part of the name before `_` where that is `P` and digits, else its whole name:
    `P01_11` and `P01_shift` are on one side.
    """
    person, _, rest = recording.partition("_")
    known = rest and person[0] == "P" and person[1:].isdigit()
    return zlib.crc32((person if known else recording).encode()) % 2 == 0


def coverages(cases: Sequence[Case], plans: Sequence[Sequence[Pick]]) -> list[float]:
    """Per cent of the actions of each case that its picks touch."""
    pairs = zip(cases, plans, strict=True)
    return [100 * count_picks(case, picks).coverage for case, picks in pairs]


def rounds_table(materials: Sequence[BenchMaterial]) -> Table:
    """`--rounds auto` against one round, recording by recording."""
    rows: list[Cells] = []
    for material in materials:
        cases = material.cases
        many = [case.windows for case in cases]
        for share in material.budgets:
            budget = Budget(share=share)
            calls = [budget.calls(len(windows)) for windows in many]
            once = coverages(cases, _plan_once(cases, calls))
            plays = (
                partial(simulate_rounds, many, budget=budget, rounds="auto"),
                partial(simulate_runs, many, calls=calls),
            )
            cells = [
                _gain(_covered(cases, words, play), once) for play in plays for words in ANSWERS
            ]
            name = f"{material.name} ({len(cases)})"
            rows.append((name, f"{100 * share:g} %", _mean(once), *cells))
    return Table(
        "Rounds: mean coverage in per cent",
        (
            "judged half (recordings)",
            "calls",
            "one round",
            *ANSWERS,
            *(f"{a}, alone" for a in ANSWERS),
        ),
        rows,
        "What `--rounds auto` adds to one round, with the 95 % interval of the paired mean: all "
        "recordings in one run, and each alone in a run of its own. Noisy: the mean of each "
        f"recording over {NOISES} models that err.",
    )


def _covered(cases: Sequence[Case], words: str, play: Play) -> list[float]:
    """The coverage of each case by what `play` asks; the mean over seeds where answers err."""
    every = [coverages(cases, play(_said(cases, player))) for player in _players(words)]
    return np.mean(every, axis=0).tolist()


def _players(words: str) -> list[str]:
    return [words] if words == "perfect" else [f"{words}:seed={seed}" for seed in range(NOISES)]


def bounds_table(materials: Sequence[BenchMaterial]) -> Table:
    """What bounds rounds: the second half of the calls by one who knows more than any answer."""
    rows: list[Cells] = []
    for material in materials:
        cases = material.cases
        for share in material.budgets:
            calls = [Budget(share=share).calls(len(case.windows)) for case in cases]
            plans = _plan_once(cases, calls)
            once = coverages(cases, plans)
            asked = [spread_evenly(picks, calls_now(len(picks), 0, FIRST_SHARE)) for picks in plans]
            known = [_owning(*pair) for pair in zip(cases, asked, strict=True)]
            counted = [_counted(*pair) for pair in zip(cases, known, strict=True)]
            told = coverages(cases, Coverage().each(counted, budgets=calls))
            best = [_oracle(*each) for each in zip(cases, known, calls, strict=True)]
            name = f"{material.name} ({len(cases)})"
            cells = (_gain(told, once), _gain(best, once))
            rows.append((name, f"{100 * share:g} %", _mean(once), *cells))
    return Table(
        "What bounds rounds: the second half of the calls placed by an oracle",
        ("judged half (recordings)", "calls", "one round", "counts known", "annotations known"),
        rows,
        "Points over one round. Counts known: the number of actions wholly between two answers, "
        "and the rest planned with the exact rule. Annotations known: windows taken greedily.",
    )


def _owning(case: Case, picks: Sequence[Pick]) -> Windows:
    places = sorted(case.windows.window_at(pick.start) for pick in picks)
    return replace(case.windows, owned=tuple(places))


def _counted(case: Case, windows: Windows) -> Windows:
    """The rates with as many actions between two answers as lie wholly there."""
    first, after = window_range(case.actions, len(windows), windows.length)
    edges = (-1, *windows.owned, len(windows))
    rates = np.zeros(len(windows))
    for left, right in pairwise(edges):
        inside = int(((first > left) & (after <= right)).sum())
        own = windows.rates[left + 1 : right]
        rates[left + 1 : right] = own * inside / own.sum() if own.sum() > 0 else 0.0
    return replace(windows, rates=rates)


def _oracle(case: Case, windows: Windows, calls: int) -> float:
    """Per cent covered where each further call takes the window that adds most."""
    first, after = window_range(case.actions, len(windows), windows.length)
    touched = np.zeros((len(windows), len(first)), dtype=bool)
    for action, (begin, stop) in enumerate(zip(first.tolist(), after.tolist(), strict=True)):
        touched[begin:stop, action] = True
    covered = touched[list(windows.owned)].any(axis=0)
    for _ in range(calls - len(windows.owned)):
        covered |= touched[(touched & ~covered).sum(axis=1).argmax()]
    return 100 * float(covered.mean())


def _plan_once(cases: Sequence[Case], calls: Sequence[int]) -> list[list[Pick]]:
    """The plans of one round; those that have sound made together."""
    heard = [place for place, case in enumerate(cases) if case.windows.has_evidence]
    many = [cases[place].windows for place in heard]
    found = dict(zip(heard, Coverage().each(many, budgets=[calls[p] for p in heard]), strict=True))
    return [
        found[place] if place in found else choose(case, "coverage", [calls[place]])[0]
        for place, case in enumerate(cases)
    ]


def _said(cases: Sequence[Case], words: str) -> list[list[str]]:
    player = AnswerSimulator.parse(words)
    return [player.activities(case.recording, case.actions, case.windows) for case in cases]


def _gain(ours: Sequence[float], theirs: Sequence[float]) -> str:
    paired = compare_paired(ours, theirs)
    low, high = paired.low, paired.high
    return f"{paired.mean:+.1f} ({low:+.1f} to {high:+.1f})"


def _mean(values: Sequence[float]) -> float:
    return float(np.mean(values))


def enough_table(materials: Sequence[BenchMaterial], *, price: str = "auto") -> Table:
    """What stopping by the answers leaves, beside the best budget in hindsight.

    The best of `LADDER` budgets of one round, for each recording its own.
    """
    budget = Budget.parse(price)
    assert budget.price is not None
    rows: list[Cells] = []
    for material in materials:
        cases = material.cases
        many = [case.windows for case in cases]
        best = _best(cases, budget.price)
        shares = []
        for rounds, words in ((1, "perfect"), *(("auto", each) for each in ANSWERS)):
            plans = (
                simulate_rounds(many, _said(cases, player), budget, rounds)
                for player in _players(words)
            )
            shares.append(_mean([_total(cases, each, budget.price) for each in plans]))
        numbers = [_with_number(case) for case in cases]
        told = simulate_rounds(numbers, _said(cases, "perfect"), budget, 1)
        shares += [_total(cases, told, budget.price), _unlucky(cases, budget.price)]
        cells = (
            f"{100 * x / best:.0f} %" if best > 0 and math.isfinite(x) else "-" for x in shares
        )
        rows.append((f"{material.name} ({len(cases)})", *cells))
    return Table(
        f"Stopping: covered actions less {budget.price:g} per call, of the best in hindsight",
        (
            "judged half (recordings)",
            "one round",
            *(f"rounds, {each}" for each in ANSWERS),
            "number known",
            "best without luck",
        ),
        rows,
        "All recordings of a kind are one run. Number known: one round that knows how many actions "
        "each recording has. Best without luck: without sound, the best budget by the mean over "
        "where evenly spaced windows may begin, as no planner knows which phase is lucky. "
        f"Noisy: the mean over {NOISES} models that err.",
    )


def _total(cases: Sequence[Case], plans: Sequence[Sequence[Pick]], price: float) -> float:
    return math.fsum(_worth(*pair, price) for pair in zip(cases, plans, strict=True))


def _with_number(case: Case) -> Windows:
    """The windows with rates that expect as many actions as there are."""
    rates = case.windows.rates
    return replace(case.windows, rates=rates * len(case.actions) / rates.sum())


def _unlucky(cases: Sequence[Case], price: float) -> float:
    """The most that evenly laid calls leave in the mean over where they begin; nan with sound."""
    if any(case.windows.has_evidence for case in cases):
        return math.nan
    found = 0.0
    for case in cases:
        calls = np.unique(np.rint(np.geomspace(1, len(case.windows), LADDER - 1))).astype(int)
        worth = (average_phases(case, each).covered - price * each for each in calls.tolist())
        found += max(0.0, *worth)
    return found


def _worth(case: Case, picks: Sequence[Pick], price: float) -> float:
    return count_picks(case, picks).covered - price * len(picks)


def _best(cases: Sequence[Case], price: float) -> float:
    """The most that one round leaves, each recording at its own best budget."""
    ladders = [np.rint(np.geomspace(1, len(case.windows), LADDER - 1)) for case in cases]
    calls = np.stack(ladders, axis=1).astype(int)  # (budgets, recordings)
    plans = _plan_once([*cases] * len(calls), calls.flatten().tolist())
    worth = [_worth(*pair, price) for pair in zip([*cases] * len(calls), plans, strict=True)]
    return float(np.maximum(np.reshape(worth, calls.shape).max(axis=0), 0.0).sum())


def audit_table(materials: Sequence[BenchMaterial]) -> Table:
    """How often the interval of an audit holds what the model would say of all windows."""
    rows: list[Cells] = []
    for material in materials:
        for words in ANSWERS:
            found = [
                each
                for case, said in zip(material.cases, _said(material.cases, words), strict=True)
                for each in _audits(case, said)
            ]
            held, width, foretold, share = (
                np.mean(found, axis=0).tolist() if found else [math.nan] * 4
            )
            name = f"{material.name} ({len(material.cases)})"
            rows.append((name, words, 100 * share, 100 * held, 100 * width, 100 * foretold))
    return Table(
        f"Audit: {DRAWN} draws, {AUDITS} times per recording, after {AUDITED:.0%} of the windows",
        (
            "judged half (recordings)",
            "answers",
            "active, %",
            "interval holds, %",
            "width",
            "forecast width",
        ),
        rows,
        "Active: share of the windows not asked that the answers call active. Widths in points; "
        "the interval should hold 95 % of the time.",
    )


def _audits(case: Case, said: Sequence[str]) -> list[tuple[bool, float, float, float]]:
    """Whether each audit's interval holds, how wide it is, how wide it was to be, and the truth."""
    asked = Budget(share=AUDITED).calls(len(case.windows))
    picks = _plan_once([case], [asked])[0]
    touched = {case.windows.window_at(pick.start) for pick in picks}
    rest = np.array([place for place in range(len(said)) if place not in touched], dtype=np.intp)
    if len(rest) <= DRAWN:
        return []
    active = np.array([bool(said[place]) for place in rest.tolist()])
    chances = chance_of_activity(replace(case.windows, owned=tuple(sorted(touched))))[rest]
    foretold, truth = forecast_width(chances, DRAWN), float(active.mean())
    found = []
    for seed in range(AUDITS):
        drawn = draw_evenly(chances, DRAWN, np.random.default_rng(seed))
        told = estimate_share(active[drawn].tolist(), population=len(rest))
        found.append((told.low <= truth <= told.high, told.width, foretold, truth))
    return found
