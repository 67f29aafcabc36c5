"""Prints the gate's table again: every frontline by every rule on the held-out composites.

    python scripts/gate_table.py DATA RUNS [--out experiments/gate]

DATA holds `resound/` and `epic/`; RUNS is what `make_default_gate.py` left. Writes the table as
Markdown and as CSV (mean coverage of each frontline, seed, rule and budget), and what it came from,
recording by recording, into RUNS.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterable, Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path

import composites
import numpy as np
import torch
from make_default_gate import SYSTEMS

from earmark.evaluation.benchmark import BUDGETS, BenchmarkRow, Case, run_case, write_rows
from earmark.evaluation.metrics.coverage_counts import dash
from earmark.evaluation.metrics.significance import compare_paired
from earmark.evaluation.tables.table import p_value
from earmark.features import LogMel
from earmark.gate.frontline import EVERYDAY, Frontline
from earmark.gate.frontline_registry import frontline_named
from earmark.gate.gate import Gate, default_gate
from earmark.gate.rates import RankRates
from earmark.grid import Grid
from earmark.media.atomic_file import replacing
from earmark.timeline import Track
from earmark.training.dataset import Material, gather
from earmark.training.objectives import OBJECTIVES
from earmark.training.optimisation import make_head, score

RULES = ("rank", "separated", "aks", "bolt", "coverage")
SCORED = ("rank", "separated")
BLIND = ("uniform", "strata", "phases")
ALONE = ("frame", "span", "narrow-frame", "narrow-span")
HEADS = tuple(f"{system}-head" for system in ALONE)
WEIGHTLESS = ("energy", "flux")
SHIPPED, YAMNET = "shipped", "yamnet-all"
PAIRS = (
    ((SHIPPED, "coverage"), ("none", "phases")),
    ((SHIPPED, "coverage"), ("none", "uniform")),
    ((SHIPPED, "coverage"), ("none", "strata")),
    ((SHIPPED, "coverage"), ("span", "separated")),
    ((SHIPPED, "coverage"), ("narrow-span", "separated")),
    ((SHIPPED, "coverage"), ("flux", "coverage")),
    ((SHIPPED, "coverage"), (YAMNET, "coverage")),
    (("narrow-rate", "coverage"), ("none", "phases")),
    (("narrow-rate", "coverage"), ("narrow-span", "coverage")),
    (("narrow-rate", "separated"), ("narrow-span", "separated")),
    (("span", "rank"), ("frame", "rank")),
    (("span-head", "rank"), ("frame-head", "rank")),
    (("narrow-span", "rank"), ("narrow-frame", "rank")),
    (("narrow-span-head", "rank"), ("narrow-frame-head", "rank")),
)
"""What is compared, recording by recording."""


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("data", type=Path)
    parser.add_argument("runs", type=Path)
    parser.add_argument("--out", type=Path, default=Path("experiments/gate"))
    options = parser.parse_args()
    torch.set_num_threads(1)
    rows = judge(options.data, options.runs)
    text = write_up(rows)
    options.out.mkdir(parents=True, exist_ok=True)
    write_rows(options.runs / "per_recording.csv", BenchmarkRow, rows)
    for name, written in (("table.md", text), ("table.csv", as_csv(rows))):
        with replacing(options.out / name) as scratch:
            scratch.write_text(written, encoding="utf-8")
    print(text)


def judge(data: Path, runs: Path) -> list[BenchmarkRow]:
    """Every frontline and rule on every test recording; the blind rules once, as `none`."""
    _, test = composites.annotations(data)

    @cache
    def heard(encoder: str) -> Material:
        return gather(test, composites.media(data), encoder=encoder, cache=runs / "features")

    gates = {SHIPPED: default_gate(), YAMNET: Gate.load(runs / "yamnet" / "gate.gate")}
    for system in SYSTEMS:
        for path in sorted((runs / system).glob("seed-*.gate")):
            gates[f"{system}/{path.stem.removeprefix('seed-')}"] = Gate.load(path)
    rows: list[BenchmarkRow] = []
    for name, gate in gates.items():
        rows += run_frontline(heard(gate.card.encoder), gate.frontline(name=name), RULES)
    for system in ALONE:
        rows += run_heads(heard("log-mel"), runs, system)
    for name in WEIGHTLESS:
        rows += run_frontline(heard(name), frontline_named(name), RULES)
    blind = run_frontline(heard("log-mel"), gates[SHIPPED].frontline(), BLIND)
    return rows + [replace(row, frontline="none") for row in blind]


def run_frontline(
    material: Material, frontline: Frontline, rules: Sequence[str]
) -> list[BenchmarkRow]:
    rows: list[BenchmarkRow] = []
    for name, heard in material.items():
        tracks = list(frontline.scorer([Track(heard.features)]))
        scores = Track(np.concatenate([track.values for track in tracks]))
        windows = Grid().score(
            scores, heard.duration, rates=frontline.rates, survival=frontline.survival
        )
        rows += run_case(Case(name, frontline.name, windows, heard.actions), rules, BUDGETS).rows
    return rows


def run_heads(material: Material, runs: Path, system: str) -> list[BenchmarkRow]:
    """Every trained head of one system by itself, by score alone: no averaging, no rates."""
    settings, rows = SYSTEMS[system], []
    for path in sorted((runs / system / "checkpoints").glob("*.pt")):
        head = make_head(LogMel().channels, settings)
        head.load_state_dict(torch.load(path, weights_only=True)["head"])
        for name, heard in material.items():
            scores = Track(score(head, OBJECTIVES[settings.objective], heard.features))
            windows = Grid().score(scores, heard.duration, rates=RankRates(), survival=EVERYDAY)
            case = Case(name, f"{system}-head/{path.stem}", windows, heard.actions)
            rows += run_case(case, SCORED, BUDGETS).rows
    return rows


class Coverages:
    """Points of coverage by system and budget, a value a recording, meaned over seeds."""

    def __init__(self, rows: Iterable[BenchmarkRow]) -> None:
        self.cells: dict[tuple[str, str, float], dict[str, dict[str, float]]] = {}
        for row in rows:
            frontline, _, seed = row.frontline.partition("/")
            place = self.cells.setdefault((frontline, row.rule, row.budget), {})
            place.setdefault(seed, {})[row.recording] = 100 * row.counts.coverage

    def points(self, frontline: str, rule: str, budget: float) -> np.ndarray:
        """One value a recording, in order of name; nan where it has no action."""
        seeds = list(self.cells[frontline, rule, budget].values())
        names = sorted(seeds[0])
        return np.mean([[each[name] for name in names] for each in seeds], axis=0)

    def spread(self, frontline: str, rule: str, budget: float) -> float:
        """Standard deviation over seeds of the mean coverage; nan for a single one."""
        means = [np.nanmean(list(s.values())) for s in self.cells[frontline, rule, budget].values()]
        return float(np.std(means, ddof=1)) if len(means) > 1 else float("nan")


def write_up(rows: Sequence[BenchmarkRow]) -> str:
    """The table, and the shipped gate against each baseline."""
    found = Coverages(rows)
    phases = {budget: found.points("none", "phases", budget) for budget in BUDGETS}
    heads = " | ".join(f"{100 * budget:g} %" for budget in BUDGETS)
    recordings = len({row.recording for row in rows})
    lines = [
        f"# The gate on {recordings} held-out composites",
        "",
        "Composites, not kitchen audio. Points of coverage, mean over recordings; trained "
        "frontlines are the mean of their seeds, ± the standard deviation between them. `phases` "
        "is even spacing averaged over its phase, the baseline of every gain. `shipped` is the "
        "gate that comes with earmark: all heads of all seeds of `where` together; `yamnet-all` is "
        "the same over YAMNet's classes. `frame` and `span` have the paper's head (64 "
        "channels as they are, width 128), the `narrow-` ones and `where` the shipped gate's "
        "(four bands, width 16). A seed averages the scores of its four heads; `-head` is a "
        "single one by score alone, meaned over all of them. "
        "Remade by `scripts/gate_table.py`.",
        "",
        f"| frontline | rule | {heads} | gain, 10-50 % |",
        "|---|---|" + "---|" * (len(BUDGETS) + 1),
    ]
    systems = [("none", rule) for rule in BLIND]
    systems += [(f, r) for f in (*WEIGHTLESS, *SYSTEMS, SHIPPED, YAMNET) for r in RULES]
    systems += [(f, r) for f in HEADS for r in SCORED]
    for frontline, rule in systems:
        cells = []
        for budget in BUDGETS:
            spread = found.spread(frontline, rule, budget)
            text = f"{np.nanmean(found.points(frontline, rule, budget)):.1f}"
            cells.append(text if np.isnan(spread) else f"{text} ± {spread:.1f}")
        gains = [
            np.nanmean(found.points(frontline, rule, b) - phases[b]) for b in BUDGETS if b > 0.05
        ]
        lines.append(f"| {frontline} | {rule} | {' | '.join(cells)} | {np.mean(gains):+.2f} |")
    for ours, theirs in PAIRS:
        title = f"{' + '.join(ours)} against {' + '.join(theirs)}"
        lines += ["", f"## {title}", "", "| calls | gain | 95 % | W/L/T | p |"]
        lines += ["|---|---|---|---|---|"]
        for budget in BUDGETS:
            pair = compare_paired(found.points(*ours, budget), found.points(*theirs, budget))
            lines.append(
                f"| {100 * budget:g} % | {pair.mean:+.1f} | {dash(pair.low, '+.1f')} to "
                f"{dash(pair.high, '+.1f')} | {pair.wins}/{pair.losses}/{pair.ties} | "
                f"{p_value(pair.p)} |"
            )
    return "\n".join(lines) + "\n"


def as_csv(rows: Sequence[BenchmarkRow]) -> str:
    """Mean coverage over recordings in points, on composites, a line for each seed and budget."""
    lines = ["frontline,seed,rule,budget,coverage_composites"]
    for (frontline, rule, budget), seeds in Coverages(rows).cells.items():
        for seed, shares in seeds.items():
            mean = np.nanmean(list(shares.values()))
            lines.append(f"{frontline},{seed},{rule},{budget:g},{mean:.2f}")
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    main()
