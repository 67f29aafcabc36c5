"""Prints what frontlines reach on families of made recordings and on composites.

    python scripts/site_table.py DATA RUNS --frontlines energy gate 'runs/out-{family}/gate.gate'

DATA holds `open_sounds/`, the annotated timings and, for composites, `resound/`, `shift/` and
`epic/`; in RUNS the judged recordings are kept. `{family}` in the name of a gate file is replaced
by the family, so that each is judged by the gate that has not met it; it is `all` for composites,
idle recordings and single clips. Authors of sounds, annotated recordings and seed are those that no
training uses. Everything runs as `earmark select` does. Made recordings, not site audio.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from families import FAMILIES, Judged, judged_clips, judged_composites, judged_sites
from gate_table import cover_bouts

from earmark.gate.frontline import Frontline, frontline_named
from earmark.gate.listener import ScoreCache, listen_cached
from earmark.grid import Grid
from earmark.media.atomic_file import replacing
from earmark.selection import Budget, Coverage
from earmark.selection.budget import AUTO_PRICE
from earmark.selection.result import measured_range
from earmark_lab.experiments.benchmark import Case, run_case
from earmark_lab.metrics.counts import count_overlaps, is_covered

BUDGETS = (0.01, 0.02, 0.05, 0.10, 0.25, 0.50, 0.75)
PRICES = (0.5, 0.3)
SPARSE = 0.5
"""Share of windows with an action up to which a recording counts towards the oracle's gap."""


@dataclass(frozen=True, eq=False)
class Result:
    """What one frontline reaches on one recording, a row for each budget."""

    case: Case
    coverage: np.ndarray
    forecast: np.ndarray
    holds: np.ndarray
    """Whether the 80 % range holds what was reached; nan if there is no range."""
    expected: float
    """Actions."""

    @property
    def is_sparse(self) -> bool:
        touched = count_overlaps(self.case.actions, len(self.case.windows), window=4.0) > 0
        return bool(touched.mean() <= SPARSE)


def main() -> None:
    """Judge, print, and write the tables."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("data", type=Path)
    parser.add_argument("runs", type=Path)
    parser.add_argument("--frontlines", nargs="+", default=["energy", "gate"])
    parser.add_argument("--hours", type=float, default=1.5, help="of each family")
    parser.add_argument("--out", type=Path, default=Path("experiments/sites"))
    options = parser.parse_args()
    groups = {
        family: judged_sites(options.data, options.runs, family, hours=options.hours)
        for family in FAMILIES
    }
    lines = ["# Families never met, and composites", "", *__doc__.split("\n\n")[2].split("\n"), ""]
    cache = ScoreCache(options.runs / "scores")
    tables: dict[str, dict[str, list[Result]]] = {}
    known = judged_composites(options.data)
    for family, judged in (groups | known).items():
        name = "all" if family in known else family
        tables[family] = {
            frontline: judge(judged, frontline.replace("{family}", name), cache)
            for frontline in options.frontlines
        }
        lines += [f"## {family}: {len(judged)} recordings", "", *family_rows(tables[family]), ""]
    lines += ["## all families", "", *pooled_rows({f: tables[f] for f in groups}), ""]
    idle = judged_sites(options.data, options.runs, "idle", hours=0.75)
    single = judged_clips(options.data, options.runs)
    lines += ["## nothing happens, and 25 clips in two hours of quiet", ""]
    for frontline in options.frontlines:
        lines += [*auto_rows(idle, single, frontline.replace("{family}", "all"), cache)]
    options.out.mkdir(parents=True, exist_ok=True)
    with replacing(options.out / "table.md") as scratch:
        scratch.write_text("\n".join(lines) + "\n", encoding="utf-8")
    print("\n".join(lines))


def make_case(judged: Judged, frontline: Frontline, cache: ScoreCache) -> Case:
    """Listened to and rated as in a run."""
    heard = listen_cached(judged.source, frontline, cache)
    windows = Grid().score_recording(heard, frontline)
    return Case(judged.source.name, frontline.name, windows, judged.actions)


def judge(judged: Sequence[Judged], name: str, cache: ScoreCache) -> list[Result]:
    """Every recording with at least one action."""
    frontline = frontline_named(name)
    results = []
    for each in judged:
        if not each.actions:
            continue
        case = make_case(each, frontline, cache)
        rows = run_case(case, ["coverage"], BUDGETS)
        reached = np.array([row.counts.coverage for row in rows])
        expected = float(case.windows.rates.sum())
        told, holds = [], []
        for row, actual in zip(rows, reached.tolist(), strict=True):
            limits = measured_range(
                row.forecast.forecast,
                frontline.error,
                actions=expected,
                duration=case.windows.duration,
            )
            told.append(limits.expected if limits else row.forecast.forecast)
            holds.append(limits.low - 1e-9 <= actual <= limits.high + 1e-9 if limits else np.nan)
        results.append(
            Result(case, reached, np.array(told), np.array(holds, dtype=float), expected)
        )
    return results


def family_rows(results: Mapping[str, Sequence[Result]]) -> Iterable[str]:
    """Coverage of every frontline, its forecast error, and what else it promises."""
    yield "| mean coverage, % | " + " | ".join(f"{100 * b:g} %" for b in BUDGETS) + " |"
    yield "|---" * (len(BUDGETS) + 1) + "|"
    cases = [result.case for result in next(iter(results.values()))]
    yield row("evenly spaced", even_spacing(cases))
    yield row("oracle: evenly spaced within the annotated work", oracle_bouts(cases))
    for name, judged in results.items():
        yield row(f"`{label(name)}`", np.mean([result.coverage for result in judged], axis=0))
        bias = np.mean([result.forecast - result.coverage for result in judged], axis=0)
        yield row(f"`{label(name)}`: forecast minus truth", bias, "+.1f")
    yield ""
    for name, judged in results.items():
        yield f"- `{label(name)}`: {promises(judged)}"


def label(name: str) -> str:
    """The name of a frontline without its folders."""
    return "/".join(Path(name).parts[-2:])


def row(name: str, values: np.ndarray, form: str = ".1f") -> str:
    """A row of a table, in per cent."""
    return f"| {name} | " + " | ".join(format(100 * value, form) for value in values) + " |"


def even_spacing(cases: Sequence[Case]) -> np.ndarray:
    """Mean coverage at each budget, over the phases of even spacing."""
    rows = [[r.counts.coverage for r in run_case(case, ["phases"], BUDGETS)] for case in cases]
    return np.mean(rows, axis=0)


def oracle_bouts(cases: Sequence[Case]) -> np.ndarray:
    """Mean coverage at each budget of even spacing within the annotated work."""
    return np.array([np.mean([cover_bouts(case, budget) for case in cases]) for budget in BUDGETS])


def promises(judged: Sequence[Result]) -> str:
    """How true its ranges, prices and counts are."""
    holds = np.concatenate([result.holds for result in judged])
    held = f"{100 * np.nanmean(holds):.0f} %" if np.isfinite(holds).any() else "–"
    calls, touched = zip(*(buy([result.case for result in judged], p) for p in PRICES), strict=True)
    ratio = np.array([result.expected / len(result.case.actions) for result in judged])
    near = np.mean((ratio > 0.5) & (ratio < 2))
    return (
        f"80 % ranges hold {held}; from price 0.5 to 0.3 {calls[1] - calls[0]} calls bring "
        f"{(touched[1] - touched[0]) / max(1, calls[1] - calls[0]):.2f} actions each; expected "
        f"actions {np.median(ratio):.2f} times the true number, within a factor of 2 for {near:.0%}"
    )


def buy(cases: Sequence[Case], price: float) -> tuple[int, int]:
    """Calls worth their price, and the actions they touch."""
    windows = [case.windows for case in cases]
    bought = Coverage().solve_many(windows, budget=Budget(price=price))
    touched = sum(
        int(is_covered(case.actions, chosen, windows=len(case.windows), length=4.0).sum())
        for case, chosen in zip(cases, bought, strict=True)
        if case.actions
    )
    return sum(map(len, bought)), touched


def pooled_rows(tables: Mapping[str, Mapping[str, Sequence[Result]]]) -> Iterable[str]:
    """The targets, over all families."""
    for name in next(iter(tables.values())):
        results = [result for family in tables.values() for result in family[name]]
        sparse = [result for result in results if result.is_sparse]
        cases = [result.case for result in sparse]
        even, oracle = even_spacing(cases), oracle_bouts(cases)
        reached = np.mean([result.coverage for result in sparse], axis=0)
        gap = np.mean(reached - even) / np.mean(oracle - even)
        worst = max(
            float(np.abs(np.mean([r.forecast - r.coverage for r in family[name]], axis=0)).max())
            for family in tables.values()
        )
        yield (
            f"- `{label(name)}`: {100 * gap:.0f} % of the way from even spacing to the oracle "
            f"({len(sparse)} recordings with at most half of their windows occupied); largest "
            f"mean forecast error of a family {100 * worst:.1f} points; {promises(results)}"
        )


def auto_rows(
    idle: Sequence[Judged], single: Sequence[Judged], name: str, cache: ScoreCache
) -> Iterable[str]:
    """What `--budget auto` asks where nothing happens, and where little does."""
    frontline = frontline_named(name)
    cases = [make_case(each, frontline, cache) for each in idle]
    shares = [buy([case], AUTO_PRICE)[0] / len(case.windows) for case in cases]
    (clips,) = [make_case(each, frontline, cache) for each in single]
    calls, touched = buy([clips], AUTO_PRICE)
    yield (
        f"- `{label(name)}`, `--budget auto`: idle recordings {100 * np.mean(shares):.1f} % of the "
        f"windows, at most {100 * max(shares):.1f} %; {touched} of {len(clips.actions)} clips "
        f"touched with {calls} calls, {clips.windows.rates.sum():.1f} actions expected"
    )


if __name__ == "__main__":
    main()
