"""Prints the gate's tables again: coverage, forecasts, prices, episodes and instants by regime.

    python scripts/gate_table.py DATA RUNS [--out experiments/gate]

DATA holds `resound/`, `shift/` and `epic/`; RUNS is what `make_default_gate.py` left. Every
recording is judged by the gate of the split that holds it out, with rates, lengths, forecast error
and thresholds fitted on the other participants of that part: scorer and calibration are those of
the gate as it ships, and have met nobody they are judged on. Composites, not kitchen audio.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import composites
import numpy as np
from make_default_gate import gather_all, held_out

from earmark.gate.episodes import OperatingPoints
from earmark.gate.forecast_error import ForecastError
from earmark.gate.gate import Gate
from earmark.grid import Grid
from earmark.media.atomic_file import replacing
from earmark.selection import Budget, Coverage
from earmark.selection.budget import AUTO_PRICE
from earmark.timeline import Span, Track
from earmark_lab.annotations.actions import Action
from earmark_lab.experiments.benchmark import Case, run_case
from earmark_lab.metrics.counts import (
    EpisodeCounts,
    count_covered,
    count_kept,
    count_overlaps,
    holds_instant,
    is_covered,
)
from earmark_lab.training.calibration import (
    cases,
    count_rows,
    crossed_cases,
    fit_error,
    forecast_rows,
    highest,
    mean_coverage,
    measure_misses,
    recall_weights,
)
from earmark_lab.training.dataset import Material, TrainingRecording, group, participant
from earmark_lab.training.rate_fit import fit_all, hedged
from earmark_lab.training.settings import Settings
from earmark_lab.training.synthetic_recordings import gather_lone

SPARSE = (0.01, 0.02, 0.05, 0.10, 0.25, 0.50)
DENSE = (0.05, 0.10, 0.15, 0.25, 0.335, 0.50)
PRICES = (0.5, 0.3)
TARGETS = (0.99, 0.95, 0.90, 0.87)
RULES = ("coverage", "phases", "oracle")
IDLE = 16.0
"""Seconds to the nearest action from which on a stretch of a sparse recording counts as empty."""
RARE = 1800
"""Seconds of the recordings in which actions stand by themselves."""
BOUT = 4.0
"""Seconds around each action that count as its bout of work."""


@dataclass(frozen=True, eq=False)
class Judged:
    """One recording, rated by others' calibration."""

    case: Case
    error: ForecastError
    points: OperatingPoints
    scores: np.ndarray

    @property
    def is_sparse(self) -> bool:
        """Whether most of it is idle."""
        return self.case.recording.endswith(composites.SPARSE)


def main() -> None:
    """Judge every split there is, and print."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("data", type=Path)
    parser.add_argument("runs", type=Path)
    parser.add_argument("--out", type=Path, default=Path("experiments/gate"))
    options = parser.parse_args()
    material = gather_all(options.data, options.runs)
    rare = gather_lone(
        composites.annotations(options.data),
        composites.media(options.data),
        Settings(),
        cache=options.runs / "features",
        length=RARE,
        talks=0,
    )
    judged: list[Judged] = []
    shares: list[float] = []
    lone: list[Case] = []
    seeds: dict[str, list[Case]] = {}
    for split, names in enumerate(held_out(sorted(material))):
        folder, part = options.runs / f"split-{split}", {name: material[name] for name in names}
        if (folder / "gate.gate").is_file():
            found, empty = judge(Gate.load(folder / "gate.gate"), part)
            judged += found
            shares += empty
            lone += judge_lone(Gate.load(folder / "gate.gate"), part, rare)
        for path in sorted(folder.glob("seed-*.gate")):
            seeds.setdefault(path.stem, []).extend(judge_seed(Gate.load(path), part))
    text = write_up(judged, shares, seeds) + "\n".join(["", *lone_rows(lone), ""])
    options.out.mkdir(parents=True, exist_ok=True)
    with replacing(options.out / "table.md") as scratch:
        scratch.write_text(text, encoding="utf-8")
    print(f"\n{text}")


def judge(gate: Gate, material: Material) -> tuple[list[Judged], list[float]]:
    """Every recording of one part, each with what the part's other participants calibrate.

    Also the share of windows that `--budget auto` buys on the idle stretches of each.
    """
    scores = {name: gate.scorer.score_whole(heard.features) for name, heard in material.items()}
    found: list[Judged] = []
    shares: list[float] = []
    crossed = {case.recording: [case] for case in crossed_cases(scores, material, gate.hedge)}
    rows = {name: forecast_rows(case) for name, case in crossed.items()}
    counts = {name: count_rows(case) for name, case in crossed.items()}
    stored = gate.points
    missed = measure_misses(scores, material, stored, gate.misses.thresholds)
    lost = dict(zip(sorted(material), missed.shares, strict=True))
    for names in group(material).values():
        others = sorted(set(material) - set(names))
        fitted = fit_all(scores, material, others, windows=[4.0])
        rates = hedged(fitted.rates, gate.hedge)
        error = fit_error(
            [row for name in others for row in rows[name]],
            [row for name in others for row in counts[name]],
        )
        weights = recall_weights([material[name] for name in others])
        recalls = 1 - weights @ np.array([lost[name] for name in others]) / weights.sum()
        on = tuple((t, highest(missed.thresholds, recalls, t)) for t in TARGETS)
        points = replace(stored, on=on)
        found += [
            Judged(case, error, points, scores[case.recording])
            for case in cases(scores, material, names, rates, fitted.lengths)
        ]
        for name in names:
            if name.endswith(composites.SPARSE):
                idle, left = empty_part(material[name], scores[name])
                windows = cases({name: left}, {name: idle}, [name], rates, fitted.lengths)[
                    0
                ].windows
                bought = Coverage().solve_many([windows], budget=Budget(price=AUTO_PRICE))[0]
                shares.append(len(bought) / max(1, len(windows)))
    return found, shares


def judge_lone(gate: Gate, material: Material, rare: Material) -> list[Case]:
    """What is made of the actions of one part's people, each alone in a quiet half hour.

    Rates are the gate's own: they were fitted on bouts of work, and have met no such recording.
    """
    people = set(group(material))
    found = []
    for name, heard in rare.items():
        if participant(name) in people:
            scores = {name: gate.scorer.score_whole(heard.features)}
            found += cases(
                scores, {name: heard}, [name], hedged(gate.rates, gate.hedge), gate.lengths
            )
    return found


def lone_rows(lone: Sequence[Case]) -> Iterable[str]:
    """How much of what happens once in a while is found, expected and bought."""
    if not lone:
        return
    actions = sum(len(case.actions) for case in lone)
    yield f"## single actions in quiet: {len(lone)} synthetic recordings of {RARE // 60} minutes"
    yield ""
    yield from rule_rows(lone, SPARSE)
    expected = [float(case.windows.rates.sum()) for case in lone]
    near = [1 / 1.5 < e / len(case.actions) < 1.5 for e, case in zip(expected, lone, strict=True)]
    windows = [case.windows for case in lone]
    bought = Coverage().solve_many(windows, budget=Budget(price=AUTO_PRICE))
    touched = 0
    for case, chosen in zip(lone, bought, strict=True):
        found = is_covered(case.actions, chosen, windows=len(case.windows), length=4.0)
        touched += int(found.sum())
    calls = sum(len(chosen) for chosen in bought)
    yield ""
    yield (
        f"{sum(expected):.0f} actions expected where there are {actions}, within a factor of 1.5 "
        f"in {np.mean(near):.0%} of the recordings; `--budget auto` touches {touched} of them with "
        f"{calls} calls of {sum(map(len, windows))}."
    )


def judge_seed(gate: Gate, material: Material) -> list[Case]:
    """The recordings of one part by the heads of one seed, rated by the part's others."""
    scores = {name: gate.scorer.score_whole(heard.features) for name, heard in material.items()}
    return crossed_cases(scores, material, gate.hedge)


def empty_part(
    heard: TrainingRecording, scores: np.ndarray
) -> tuple[TrainingRecording, np.ndarray]:
    """The recording without its bouts: the scores of all that lies far from any action."""
    keep = np.ones(len(scores), dtype=bool)
    for action in heard.actions:
        keep[max(0, round((action.start - IDLE) * 25)) : round((action.end + IDLE) * 25)] = False
    left = scores[keep]
    level = heard.level
    if level is not None:
        times = np.minimum((np.arange(len(level)) + 0.5) * level.hop * 25, len(keep) - 1)
        level = replace(level, values=level.values[keep[times.astype(int)]])
    return replace(heard, duration=len(left) / 25, actions=(), level=level), left


def write_up(
    judged: Sequence[Judged], shares: Sequence[float], seeds: Mapping[str, Sequence[Case]]
) -> str:
    """All tables."""
    regimes = {
        "sparse": ([each for each in judged if each.is_sparse], SPARSE),
        "dense": ([each for each in judged if not each.is_sparse], DENSE),
    }
    old = set(composites.old_test([each.case.recording for each in judged]))
    lines = [
        "# The gate on composites",
        "",
        "Written by `scripts/gate_table.py`; its docstring says how.",
        "",
    ]
    for regime, (those, budgets) in regimes.items():
        lines += [f"## {regime}: {len(those)} recordings", ""]
        lines += [*coverage_rows(those, budgets, old), ""]
        lines += [*seed_rows(seeds, budgets, is_sparse=regime == "sparse"), ""]
        lines += [
            *price_rows([each.case for each in those]),
            *episode_rows(those),
            *instant_rows(those),
            "",
        ]
    if shares:
        lines.append(
            f"Idle stretches alone, `--budget auto`: {100 * np.mean(shares):.1f} % of the windows "
            f"asked on average, at most {100 * max(shares):.1f} %; at most 2 % in "
            f"{np.mean(np.array(shares) <= 0.02):.0%} of the recordings."
        )
    return "\n".join(lines) + "\n"


def coverage_rows(
    judged: Sequence[Judged], budgets: Sequence[float], old: set[str]
) -> Iterable[str]:
    """Mean coverage by rule, and the forecast beside it."""
    yield from header(budgets)
    table: dict[str, list[list[float]]] = {rule: [[] for _ in budgets] for rule in RULES}
    strict: list[list[float]] = [[] for _ in budgets]
    bouts = [[100 * cover_bouts(each.case, budget) for each in judged] for budget in budgets]
    told: list[list[float]] = [[] for _ in budgets]
    inside: list[list[bool]] = [[] for _ in budgets]
    widths: list[list[float]] = [[] for _ in budgets]
    for each in judged:
        rows = run_case(each.case, RULES, budgets)
        for row in rows:
            table[row.rule][budgets.index(row.budget)].append(100 * row.counts.coverage)
            if row.rule == "coverage":
                strict[budgets.index(row.budget)].append(100 * row.counts.strict_coverage)
        expected = float(each.case.windows.rates.sum())
        for row in rows:
            if row.rule != "coverage":
                continue
            counts, place = row.forecast, budgets.index(row.budget)
            actual = counts.forecast - counts.bias
            span = each.error.range(
                counts.forecast, actions=expected, duration=each.case.windows.duration
            )
            told[place].append(100 * span.expected)
            widths[place].append(100 * (span.high - span.low))
            inside[place].append(span.low - 1e-9 <= actual <= span.high + 1e-9)
    for rule in RULES:
        yield mean_row(rule, table[rule])
    yield mean_row("even spacing in the annotated bouts", bouts)
    yield mean_row("instant inside the action", strict)
    yield mean_row("forecast of `coverage`", told)
    yield mean_row("within its 80 % range", inside, ".0%")
    yield mean_row("width of the range", widths, ".0f")
    yield ""
    chosen = [n for n, each in enumerate(judged) if each.case.recording in old]
    means = [np.nanmean(np.array(row)[chosen]) for row in table["coverage"]]
    yield f"People of split 0 ({len(chosen)} recordings): " + " / ".join(
        f"{mean:.1f}" for mean in means
    )
    yield f"{count_row([each.case for each in judged])}; {count_ranges(judged)}."


def header(budgets: Sequence[float]) -> Iterable[str]:
    """The head of a table of coverages."""
    yield "| mean coverage, % | " + " | ".join(f"{100 * budget:g} %" for budget in budgets) + " |"
    yield "|---" * (len(budgets) + 1) + "|"


def rule_rows(judged: Sequence[Case], budgets: Sequence[float]) -> Iterable[str]:
    """The head of such a table and a row for each rule."""
    yield from header(budgets)
    for rule in RULES:
        shares = mean_coverage(judged, rule=rule, budgets=budgets).values()
        yield mean_row(rule, [[100 * share] for share in shares])


def mean_row(name: str, found: Sequence[Sequence[float]], form: str = ".1f") -> str:
    """A row of such a table: the means of what was found at each budget."""
    return f"| {name} | " + " | ".join(format(np.nanmean(each), form) for each in found) + " |"


def count_row(cases: Sequence[Case]) -> str:
    """How near the number of actions expected is to that there are."""
    ratio = np.array([each.windows.rates.sum() / max(1, len(each.actions)) for each in cases])
    near = np.mean((ratio < 1.5) & (ratio > 1 / 1.5))
    return (
        f"Expected actions within a factor of 1.5: {near:.0%} of recordings; median "
        f"{np.median(ratio):.2f} times the true number"
    )


def count_ranges(judged: Sequence[Judged]) -> str:
    """How many recordings hold as many actions as their 80 % range says, and how wide it is."""
    inside, factors = [], []
    for each in judged:
        windows = each.case.windows
        told = each.error.count(float(windows.rates.sum()), windows.duration)
        assert told is not None, "it was measured"
        inside.append(told.low <= len(each.case.actions) <= told.high)
        factors.append((1 + told.high) / (1 + told.expected))
    return f"{np.mean(inside):.0%} within their 80 % range, a factor of {np.median(factors):.1f}"


def cover_bouts(case: Case, budget: float) -> float:
    """What even spacing within the bouts of work covers, over its phases: nobody hears as much."""
    size, length = len(case.windows), case.windows.length
    bouts = [Action(max(0.0, each.start - BOUT), each.end + BOUT) for each in case.actions]
    busy = np.flatnonzero(count_overlaps(bouts, size, window=length))
    calls = min(round(budget * size), len(busy))
    if not calls:
        return 0.0
    step = len(busy) / calls
    phases = [
        busy[(offset + np.floor(np.arange(calls) * step).astype(np.intp)) % len(busy)]
        for offset in range(int(np.ceil(step)))
    ]
    found = [is_covered(case.actions, each, windows=size, length=length).mean() for each in phases]
    return float(np.mean(found))


def seed_rows(
    seeds: Mapping[str, Sequence[Case]], budgets: Sequence[float], *, is_sparse: bool
) -> Iterable[str]:
    """Mean coverage of the heads of single seeds: its mean and deviation over the seeds."""
    rows = []
    for found in seeds.values():
        those = [case for case in found if case.recording.endswith(composites.SPARSE) == is_sparse]
        rows.append(list(mean_coverage(those, budgets=budgets).values()))
    if len(rows) > 1:
        pairs = zip(np.mean(rows, axis=0), np.std(rows, axis=0, ddof=1), strict=True)
        cells = " / ".join(f"{100 * mean:.1f} ± {100 * spread:.1f}" for mean, spread in pairs)
        yield f"Single seeds ({len(rows)}): {cells}"


def price_rows(judged: Sequence[Case]) -> Iterable[str]:
    """What the calls between two prices bring."""
    calls, touched = [], []
    windows = [each.windows for each in judged]
    for price in PRICES:
        bought = Coverage().solve_many(windows, budget=Budget(price=price))
        chosen = [Coverage().explain(*each) for each in zip(windows, bought, strict=True)]
        calls.append(sum(len(picks) for picks in chosen))
        touched.append(
            sum(
                count_covered(
                    each.actions,
                    picks,
                    windows=len(each.windows),
                    length=each.windows.length,
                ).covered
                for each, picks in zip(judged, chosen, strict=True)
            )
        )
    total = sum(len(each) for each in windows)
    yield (
        f"Price {PRICES[0]}: {100 * calls[0] / total:.1f} % of the windows, {PRICES[1]}: "
        f"{100 * calls[1] / total:.1f} %; the calls between bring "
        f"{(touched[1] - touched[0]) / max(1, calls[1] - calls[0]):.2f} new actions each."
    )


def episode_rows(judged: Sequence[Judged]) -> Iterable[str]:
    """Recall reached and time discarded at each target."""
    found = []
    for target in TARGETS:
        total = EpisodeCounts()
        for each in judged:
            spans = each.points.at_recall(target)(Track(each.scores))
            duration = each.case.windows.duration
            total += count_kept(each.case.actions, spans, duration, window=Grid().length)
        found.append(f"{target:.0%}: {total.recall:.1%}, {total.reduction:.0%} discarded")
    yield "Episodes, recall asked and reached: " + "; ".join(found) + "."


def instant_rows(judged: Sequence[Judged]) -> Iterable[str]:
    """Of picks whose window touches an action, how many show an instant inside one."""
    counts: Mapping[float, list[int]] = {0.1: [0, 0], 0.25: [0, 0]}
    for each in judged:
        windows = each.case.windows
        for budget, total in counts.items():
            for pick in Coverage()(windows, budget=round(budget * len(windows))):
                span = Span(pick.start, pick.end)
                near = [action for action in each.case.actions if action.overlaps(span)]
                if near:
                    total[0] += 1
                    total[1] += bool(holds_instant(near, np.array([pick.instant])).any())
    yield "Instants in an action, where the window touches one: " + ", ".join(
        f"{100 * held / max(1, near):.0f} % at {budget:.0%} of calls"
        for budget, (near, held) in counts.items()
    )


if __name__ == "__main__":
    main()
