"""Sparse footage, which public data does not contain: every frontline and every rule."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from earmark_lab.experiments import paper as published
from earmark_lab.experiments.benchmark import COMPARED, PHASES, RANDOM, BenchmarkDesign
from earmark_lab.experiments.coverage_tables import (
    BenchmarkResults,
    coverage_table,
    paired_table,
    pooled_table,
)
from earmark_lab.experiments.paper import RULE
from earmark_lab.experiments.report import p_value, percent
from earmark_lab.metrics.counts import OccupancyCounts, count_each
from earmark_lab.reproduce.coverage import paired_rows, run_rules
from earmark_lab.reproduce.inputs import PAPER_HEAD, PaperInputs
from earmark_lab.reproduce.reproduction import Comparison, Made

BUDGETS = (0.01, 0.02, 0.05, 0.1, 0.25, 0.5)
RULES = (*(rule for rule in COMPARED if rule != "separated"), RULE, RANDOM)
SUBJECT = "coverage"


def make_sparse(inputs: PaperInputs) -> Iterator[Made]:
    """All recordings are judged, unless a head is trained on some of them."""
    is_split = PAPER_HEAD in inputs.plan.frontlines or inputs.plan.judged
    source = inputs.media_scores(inputs.split.judged if is_split else sorted(inputs.media))
    rules = tuple(dict.fromkeys(RULES))
    design = BenchmarkDesign(
        rules=rules, budgets=BUDGETS, subject=SUBJECT, baseline=PHASES,
        rounding=inputs.plan.rounding,
    )  # fmt: skip
    names = list(source.evaluated.recordings)
    rows = run_rules(
        inputs, source, design, "sparse", rules=rules, recordings=names, rounding=design.rounding
    )
    results, ran = BenchmarkResults.of_rows(rows), inputs.describe_scores()
    counts = count_each(source.evaluated, window=inputs.plan.window)
    total, n = sum(counts, OccupancyCounts()), f"{len(names)} recordings"
    occupied, windows = [c.occupied for c in counts], [c.windows for c in counts]
    paper = published.OCCUPANCY["EPIC-KITCHENS-100"][2]
    yield Comparison.pooled("occupied windows, %", paper, occupied, windows, n=n, ran=ran)
    fullest = max((c.occupancy for c in counts), default=None)
    quantity = "fullest recording, %"
    yield Comparison(quantity, 99.2, 100 * fullest if fullest else None, n, ran=ran)
    yield Comparison("actions per window", 1.41, total.actions_per_window, n, ran=ran)
    shown = {budget: pairs for budget, pairs in published.PAIRED.items() if budget in BUDGETS}
    for row in paired_rows(results, shown, ran=ran):
        yield replace(row, remarks=f"the paper's are of dense recordings; {row.remarks}")
    for budget in BUDGETS:
        for line in results.frontlines:
            pair = results.pair((line, SUBJECT), results.system(PHASES), budget)
            quantity = f"{percent(budget)}: {SUBJECT} of {line} minus even spacing, points"
            ends = (pair.mean, n, pair.low, pair.high, inputs.describe_scores(line))
            remarks = f"W/L/T {pair.record}, p {p_value(pair.p)}; even spacing over its phases"
            yield Comparison(quantity, None, *ends, remarks)
    yield coverage_table(results)
    yield pooled_table(results)
    yield paired_table(results, results.system(SUBJECT))
